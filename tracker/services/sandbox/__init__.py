"""Files from outside, read in processes of their own."""
