"""What an interval of one class does on average over all numbers of correct labels."""

import numpy as np
from scipy.stats import binom

from tracker.stats import tail_share
from tracker.stats.coverage import Coverage
from tracker.stats.planning import NODES, mean_width


def class_coverage(interval, n, accuracy, confidence_level):
    """Return how often an *interval* holds each *accuracy* after *n* labels."""
    truth = np.asarray(accuracy, dtype=np.float64)
    k = np.arange(n + 1)
    low, high = interval(k, n, confidence_level)
    chances = binom.pmf(k, n, truth[..., np.newaxis])
    above = low > truth[..., np.newaxis]
    below = high < truth[..., np.newaxis]
    return Coverage(
        (chances * ~(above | below)).sum(axis=-1),
        (chances * above).sum(axis=-1),
        (chances * below).sum(axis=-1),
        (chances * (high - low)).sum(axis=-1),
    )


def expected_width(n, accuracy, confidence_level):
    """Return the mean width of the exact interval as the planner computes it."""
    labels, truth = np.broadcast_arrays(
        np.asarray(n, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    )
    return mean_width(labels, truth, tail_share(confidence_level, 2), NODES)
