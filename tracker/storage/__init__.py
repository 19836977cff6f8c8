"""The only room with SQL, and the storage of images."""
