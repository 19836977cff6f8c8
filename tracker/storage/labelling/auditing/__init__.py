"""What audits have drawn, and what they are."""
