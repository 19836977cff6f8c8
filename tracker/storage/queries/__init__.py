"""Queries: what was logged, found page by page, one by one or by thousands."""
