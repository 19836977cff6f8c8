"""The recompute and its scheduler."""
