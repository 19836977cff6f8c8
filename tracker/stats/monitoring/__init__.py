"""Judging a stream of labels: drops, slices, thresholds, windows, labelers."""
