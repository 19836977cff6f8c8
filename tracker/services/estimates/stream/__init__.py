"""The stream of changes: its projections, the fold and the recount."""
