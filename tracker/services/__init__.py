"""The services: requests of users, inside the caller's transaction."""
