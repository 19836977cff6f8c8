"""The pages of queries: lists with their filters, one query, its tags."""
