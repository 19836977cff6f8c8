"""Audits of a fixed set of queries, whose labels are asked for where they tell most."""
