"""What a file says: its format, its columns, its values."""
