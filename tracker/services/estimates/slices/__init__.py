"""How accurate a detector is on parts of its queries, and what that is counted from."""
