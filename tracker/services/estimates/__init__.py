"""How accurate a detector is, how sure that is, and what follows from it."""
