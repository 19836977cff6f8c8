"""The balanced accuracy: the mean of the class accuracies."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import checked_class_counts, tail_share
from tracker.stats.binomial import Interval, lower_bound, upper_bound

# 4096 bounds of 2**50 units each fit into 63 bits.
_UNITS = 2.0**50


def balanced_accuracy(ks: Sequence[int], ns: Sequence[int]) -> float | None:
    """Return the mean of the class accuracies, None while a class has no labels.

    The order of the classes makes no difference, to the last bit.

    Raises ValueError unless *ks* and *ns* are equally long, for two classes or
    more, with 0 <= k <= n in each.
    """
    correct, labelled = checked_class_counts(ks, ns)
    if correct.ndim != 1:
        raise ValueError(f"k and n must be one list each, not of shape {correct.shape}")
    if not labelled.all():
        return None
    return math.fsum((correct / labelled).tolist()) / correct.size


def balanced_union(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the average of the class intervals, with the error split among them.

    The last axis of *k* and *n* runs over the K classes; both bounds have the shape
    that remains, in [0, 1].  Each class bound may fail with probability
    (1 - confidence_level) / (2K), so by the union bound the averages fail with
    at most 1 - confidence_level: coverage is at least *confidence_level* for all
    true accuracies, floating point included.

    The bounds depend neither on the order of the classes nor on how many rows
    are computed at once, to the last bit.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.
    """
    correct, _ = checked_class_counts(k, n)
    classes = correct.shape[-1]
    share = tail_share(confidence_level, 2 * classes)
    return mean_of_bounds(Interval(lower_bound(k, n, share), upper_bound(k, n, share)))


def mean_of_bounds(bounds: Interval) -> Interval:
    """Return the mean of *bounds* over their last axis, rounded outward.

    It depends neither on the order of the bounds nor on how many rows are computed
    at once, to the last bit.
    """
    # Whole units are summed and divided exactly, in any order.  A floating sum
    # would depend on the order, and NumPy's on the shape of the array as well.
    low = np.floor(bounds.low * _UNITS).astype(np.int64).sum(axis=-1)
    high = np.ceil(bounds.high * _UNITS).astype(np.int64).sum(axis=-1)
    count = bounds.low.shape[-1]
    return Interval(
        np.asarray((low // count) / _UNITS), np.asarray(-(-high // count) / _UNITS)
    )
