"""The demonstration: real digits, and what real classifiers said of them."""
