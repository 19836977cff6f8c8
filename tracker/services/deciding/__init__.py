"""Which version is better, how many labels it takes, whether to release."""
