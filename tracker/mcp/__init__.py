"""The Model Context Protocol: what models may ask, read-only, under a key."""
