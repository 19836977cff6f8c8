"""Who labels what next, the labels, audits."""
