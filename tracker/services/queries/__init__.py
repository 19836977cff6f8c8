"""Queries: logged, found, tagged and erased."""
