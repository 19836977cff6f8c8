"""Audits: what they draw, what they say of it, and how they begin and end."""
