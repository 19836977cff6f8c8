"""Precision, overall accuracy and F1, with their intervals.

All of them rest on a simple random sample: each label was drawn from what the
detector sees without regard to class, prediction or truth.  Unlike the accuracy of a
class they depend on how frequent the classes are, so labels that were drawn class by
class, or picked on purpose, say nothing about them.

The *method* is any of the methods of a class, or `WINDOW_METHOD`, the exact one for a
span of labels within which the accuracy may have changed.

Counts are those of classes: *correct* holds how many queries of a class were
predicted as it, *labelled* how many have it as their label, and *predicted* how many
labelled queries have it as their prediction.
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

    *correct* and *predicted* broadcast; both bounds have that shape, in [0, 1].
    Given how many labelled queries were predicted as a class, the right ones among
    them are binomial, so the interval promises what *method* does for the accuracy
    of a class: with `exact` and `anytime` a guaranteed coverage.  Without a
    prediction of the class it is [0, 1].

    Raises ValueError as `class_intervals` does.
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

    The last axis of *correct* and *predicted* runs over the K classes; both bounds
    have the shape that remains, in [0, 1].  Each class has its interval at a K-th of
    the error, and the bounds are averaged, so the union bound keeps the promise of
    *method* for all of them.  The order of the classes makes no difference, to the
    last bit.

    Raises ValueError unless there are 2 to 4096 classes, and as `class_intervals`
    does.
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
    of the labels; both bounds have the shape that remains.  The right ones of all
    labelled queries are binomial, so the interval promises what *method* does for one
    class.  It is also that of the micro-averaged precision, recall and F1, which are
    the same number.

    Raises ValueError as `class_intervals` does.
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

    The arguments broadcast.  The score is 2 tp / (2 tp + fp + fn), the harmonic mean
    of precision and recall.

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

    The arguments broadcast; both bounds have that shape, in [0, 1].  Of the queries
    that have a class as label or as prediction, those that have it as both are
    binomial with some share J, and F1 = 2J / (1 + J) grows with it.  So the interval
    of J by *method*, mapped and rounded outward, keeps its promise: with `exact` and
    `anytime` a guaranteed coverage.  Where a class never occurred it is [0, 1].

    Raises ValueError as `f1_scores` and `class_intervals` do.
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

    The last axis of the arguments runs over the K classes; both bounds have the
    shape that remains, in [0, 1].  Each class has its interval at a K-th of the
    error, and the bounds are averaged: a mistake counts in two classes, and the
    union bound holds however classes depend on each other.  The order of the classes
    makes no difference, to the last bit.

    Raises ValueError unless there are 2 to 4096 classes, and as `f1_intervals` does.
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
