"""What a user can ask for, inside the caller's transaction."""
