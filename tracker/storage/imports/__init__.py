"""Files in, carried out in a request or in the background."""
