"""What a label may count for: its population, its unit, and whose word is scored."""
