"""Tracker measures how accurate a detector is in production, and how surely."""
