"""Queries over HTTP: logged, found and tagged."""
