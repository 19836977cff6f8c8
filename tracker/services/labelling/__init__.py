"""What is labelled next, the labels, and whether labelers agree."""
