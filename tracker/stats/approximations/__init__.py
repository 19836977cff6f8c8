"""Intervals that are nearly right, and called approximations wherever shown."""
