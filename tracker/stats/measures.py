"""Precision, overall accuracy and F1, with their intervals.

All of them rest on a simple random sample: each label was drawn from what the
detector sees without regard to class, prediction or truth.  Unlike the accuracy of a
class they depend on how frequent the classes are, so labels that were drawn class by
class, or picked on purpose, say nothing about them.

The *method* is any of the methods of a class, or `WINDOW_METHOD`, the exact one for a
span of labels within which the accuracy may have changed.  What it promises for the
accuracy of a class the interval promises: with `exact` and `anytime` a guaranteed
coverage.

Counts are those of classes: *correct* holds how many queries of a class were
predicted as it, *labelled* how many have it as their label, and *predicted* how many
labelled queries have it as their prediction.  They broadcast, and both bounds have that
shape, or for means over the classes, 2 to 4096 on the last axis, the one that remains;
they lie in [0, 1].  The order of the classes makes no difference, to the last bit.

All raise ValueError as `class_intervals` does.
"""

import numpy as np
import numpy.typing as npt

from .arguments import (
    Floats,
    checked_class_counts,
    checked_counts,
    shared_level,
)
from .exact import Interval, mean_of_bounds, window_intervals
from .methods import class_intervals

WINDOW_METHOD = "window"

# Twice the share is exact, one more than it and the quotient are rounded; this is
# four times as much as both.
_FEW_UNITS = 2.0**-50


def precision_intervals(
    correct: npt.ArrayLike,
    predicted: npt.ArrayLike,
    confidence_level: float,
    *,
    method: str = "exact",
) -> Interval:
    """Return the interval of how often a prediction of a class is right.

    Given how many labelled queries were predicted as a class, the right ones among
    them are binomial.  Without a prediction of the class it is [0, 1].
    """
    return _intervals(method, correct, predicted, confidence_level)


def macro_precision_interval(
    correct: npt.ArrayLike,
    predicted: npt.ArrayLike,
    confidence_level: float,
    *,
    method: str = "exact",
) -> Interval:
    """Return the interval of the mean of the precisions of all classes.

    Each class has its interval at a K-th of the error, and the bounds are averaged.
    """
    classes = checked_class_counts(correct, predicted)[0].shape[-1]
    level = shared_level(confidence_level, classes)
    return mean_of_bounds(precision_intervals(correct, predicted, level, method=method))


def overall_interval(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    method: str = "exact",
) -> Interval:
    """Return the interval of how often the detector is right, whatever the class.

    The last axis of *correct* and *labelled* runs over the classes, or over any parts
    of the labels, whose right ones in all are binomial.  It is also the interval of the
    micro-averaged precision, recall and F1, which are the same number.
    """
    ks, ns = checked_counts(correct, labelled)
    right, total = ks.sum(axis=-1), ns.sum(axis=-1)
    return _intervals(
        method, right.astype(np.int64), total.astype(np.int64), confidence_level
    )


def f1_scores(
    correct: npt.ArrayLike, labelled: npt.ArrayLike, predicted: npt.ArrayLike
) -> Floats:
    """Return the F1 score of each class, NaN where a class never occurred.

    It is 2 tp / (2 tp + fp + fn), the harmonic mean of precision and recall.

    Raises ValueError unless 0 <= correct <= labelled and correct <= predicted.
    """
    tp, either = _hits(correct, labelled, predicted)
    with np.errstate(invalid="ignore"):
        return np.asarray(2.0 * tp / (tp + either))


def f1_intervals(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    predicted: npt.ArrayLike,
    confidence_level: float,
    *,
    method: str = "exact",
) -> Interval:
    """Return the interval of the F1 score of each class.

    Of the queries that have a class as label or as prediction, those that have it as
    both are binomial with some share J, and F1 = 2J / (1 + J) grows with it: the
    interval of J is mapped and rounded outward.  Where a class never occurred it is
    [0, 1].

    Raises ValueError as `f1_scores` does, too.
    """
    tp, either = _hits(correct, labelled, predicted)
    low, high = _intervals(
        method, tp.astype(np.int64), either.astype(np.int64), confidence_level
    )
    low = np.nextafter(2.0 * low / (1.0 + low) * (1.0 - _FEW_UNITS), 0.0)
    high = np.nextafter(2.0 * high / (1.0 + high) * (1.0 + _FEW_UNITS), 2.0)
    return Interval(np.asarray(low), np.asarray(np.minimum(high, 1.0)))


def macro_f1_interval(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    predicted: npt.ArrayLike,
    confidence_level: float,
    *,
    method: str = "exact",
) -> Interval:
    """Return the interval of the mean of the F1 scores of all classes.

    Each class has its interval at a K-th of the error, and the bounds are averaged: a
    mistake counts in two classes, and the union bound holds however classes depend on
    each other.

    Raises ValueError as `f1_intervals` does.
    """
    classes = checked_class_counts(correct, labelled)[0].shape[-1]
    level = shared_level(confidence_level, classes)
    return mean_of_bounds(
        f1_intervals(correct, labelled, predicted, level, method=method)
    )


def _intervals(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    if method == WINDOW_METHOD:
        return window_intervals(k, n, confidence_level)
    return class_intervals(method, k, n, confidence_level)


def _hits(
    correct: npt.ArrayLike, labelled: npt.ArrayLike, predicted: npt.ArrayLike
) -> tuple[Floats, Floats]:
    tp, truly = checked_counts(correct, labelled)
    _, said = checked_counts(correct, predicted)
    tp, either = np.broadcast_arrays(tp, truly + said - tp)
    return tp, either
