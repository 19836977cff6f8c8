"""Counts, intervals, history."""
