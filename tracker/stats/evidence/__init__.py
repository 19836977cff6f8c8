"""Intervals that hold after every label at once."""
