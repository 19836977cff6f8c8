"""Intervals for the balanced accuracy that bound all classes together."""
