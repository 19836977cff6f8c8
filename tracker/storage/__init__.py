"""The only room where SQL is written, and where the bytes of images are kept."""
