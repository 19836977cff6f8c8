"""Files in: read, checked and written, in a request or in the background."""
