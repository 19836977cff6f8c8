"""Exact intervals: Clopper-Pearson, of a window, and their tails."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, betainc

from .arguments import (
    Floats,
    checked_class_counts,
    checked_count_pair,
    checked_counts,
    checked_fraction,
    shared_level,
    tail_share,
)
from .laws import beta_quantile, binom

# Quantiles are off by up to 4e-11 of their value where they work at all, and the
# distribution function is by up to 3e-11.  A bound is moved by more than the first,
# and believed only if its own tail leaves room for the second.
_OUTWARD = 1e-10
_FORWARD_MARGIN = 1.0 - 5e-11

# Logarithm, quotient and exponential may each be off by a few units in the last
# place; this is eight of them.
_FEW_UNITS = 2.0**-50


class Interval(NamedTuple):
    """Two bounds, arrays of one shape, with low <= high."""

    low: Floats
    high: Floats


def class_accuracy(k: int, n: int) -> float | None:
    """Return the share of *k* correct among *n* labelled, None without labels.

    Raises ValueError unless *k* and *n* are integers with 0 <= k <= n.
    """
    k, n = checked_count_pair(k, n)
    return k / n if n else None


def lower_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return the one-sided lower Clopper-Pearson bound at level 1 - *error*.

    *k* correct among *n* labelled broadcast; the bound has the broadcast shape, in
    [0, 1].  Whatever the true accuracy, it is above it with a probability of at most
    *error*, floating point included.  Without labels it is 0.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < error < 1.
    """
    correct, labelled = checked_counts(k, n)
    return _lower(correct, labelled, checked_fraction("error", error))


def upper_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return the one-sided upper Clopper-Pearson bound at level 1 - *error*.

    It is to *k* wrong labels what `lower_bound` is to right ones, and 1 without labels.
    """
    correct, labelled = checked_counts(k, n)
    return _upper(correct, labelled, checked_fraction("error", error))


def clopper_pearson(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the exact central interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].
    Coverage is at least *confidence_level* for every true accuracy, floating
    point included.  Without labels nothing is known, and the interval is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934), 404-413.
    """
    correct, labelled = checked_counts(k, n)
    share = tail_share(confidence_level, 2)
    return Interval(_lower(correct, labelled, share), _upper(correct, labelled, share))


def _lower(correct: Floats, labelled: Floats, share: float) -> Floats:
    k, n = correct.ravel(), labelled.ravel()
    # Where nothing is correct the bound is 0, and the inverse is not asked for it.
    a, b = np.maximum(k, 1.0), n - k + 1.0
    low = beta_quantile(a, b, share)
    low *= 1.0 - _OUTWARD
    np.nextafter(low, 0.0, out=low)
    wrong = np.flatnonzero(~_is_proven(a, b, low, share))
    if wrong.size:
        low[wrong] = _crossing(
            lambda x: _is_proven(a[wrong], b[wrong], x, share), wrong.size
        )[0]
    perfect = np.flatnonzero(k == n)
    # One relative error in the bound would cost a share of its distance to 1
    # that grows with n, so the perfect count has its closed form.
    exponent = _log_share_per_label(share, n[perfect])
    low[perfect] = np.nextafter(np.exp(exponent) * (1.0 - _FEW_UNITS), 0.0)
    low[k == 0] = 0.0
    return low.reshape(correct.shape)


def _upper(correct: Floats, labelled: Floats, share: float) -> Floats:
    k, n = correct.ravel(), labelled.ravel()
    a, b = np.maximum(n - k, 1.0), k + 1.0
    high = 1.0 - beta_quantile(a, b, share)
    high *= 1.0 + _OUTWARD
    # The difference carries an absolute error too, which is all that matters for
    # a bound near 0.
    high += 2.0**-52
    np.minimum(high, 1.0, out=high)
    # The complement, betaincc, would take the bound itself and five times as long.
    wrong = np.flatnonzero(~_is_proven(a, b, distance_to_one(high), share))
    if wrong.size:
        high[wrong] = _crossing(
            lambda x: ~_is_proven(a[wrong], b[wrong], distance_to_one(x), share),
            wrong.size,
        )[1]
    hopeless = np.flatnonzero(k == 0)
    exponent = _log_share_per_label(share, n[hopeless])
    raised = -np.expm1(exponent) * (1.0 + _FEW_UNITS)
    high[hopeless] = np.minimum(np.nextafter(raised, 1.0), 1.0)
    high[k == n] = 1.0
    return high.reshape(correct.shape)


def _is_proven(a: Floats, b: Floats, x: Floats, share: float) -> npt.NDArray[np.bool_]:
    # NaN compares as false, so what cannot be computed is not believed.
    return np.asarray(betainc(a, b, x) <= share * _FORWARD_MARGIN)


def distance_to_one(bound: Floats) -> Floats:
    """Return 1 - *bound*, which is exact above one half, and below it rounded up."""
    return np.where(bound < 0.5, np.nextafter(1.0 - bound, 1.0), 1.0 - bound)


def _log_share_per_label(share: float, n: Floats) -> Floats:
    return math.log(share) / np.maximum(n, 1.0) * (1.0 + _FEW_UNITS)


def _crossing(
    is_left: Callable[[Floats], npt.NDArray[np.bool_]], size: int
) -> tuple[Floats, Floats]:
    # Doubles in [0, 1] are ordered as their bit patterns are, so halving the
    # patterns ends at two neighbours, as exact near 0 as it is near 1.
    left = np.zeros(size, dtype=np.int64)
    right = np.ones(size, dtype=np.float64).view(np.int64)
    for _ in range(62):
        middle = left + (right - left) // 2
        on_left = is_left(middle.view(np.float64))
        left = np.where(on_left, middle, left)
        right = np.where(on_left, right, middle)
    return left.view(np.float64), right.view(np.float64)


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
    (1 - confidence_level) / (2K), so coverage is at least *confidence_level* for all
    true accuracies, floating point included.  The bounds depend neither on the order of
    the classes nor on how many rows are computed at once, to the last bit.

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


def window_intervals(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    shown: int = 1,
) -> Interval:
    """Return the interval of the average accuracy in a window.

    *correct* and *labelled* broadcast; both bounds have that shape.  Coverage is at
    least *confidence_level* even where the chance of being right changes from label
    to label, for a window that was fixed before its labels were seen, and for all of
    *shown* windows together.

    It is the interval of Clopper and Pearson, but the lower bound is at most
    (k - 1) / n and the upper one at least (k + 1) / n.  Up to there unequal chances
    make a high count no likelier than equal ones.

    Raises ValueError as `clopper_pearson` and `shared_level` do.

    W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721.
    """
    level = shared_level(confidence_level, shown)
    low, high = clopper_pearson(correct, labelled, level)
    k, n = checked_counts(correct, labelled)
    one_less = np.nextafter((k - 1.0) / np.maximum(n, 1.0), 0.0)
    one_more = np.nextafter((k + 1.0) / np.maximum(n, 1.0), 2.0)
    return Interval(
        np.asarray(np.clip(low, 0.0, np.maximum(one_less, 0.0))),
        np.asarray(np.clip(high, np.minimum(one_more, 1.0), 1.0)),
    )


TailSide = Literal["fewer", "more"]

# What lies further out is too low to be seen.
_UNSEEN = 1e-4


class Tail(NamedTuple):
    """Columns from left to right, and what the marked ones hold.

    Each column is for the counts from *first* to *last*, and *chance* is their
    probability; *is_marked* says whether they belong to the tail.  *probability* is
    that of the whole tail, drawn or not.
    """

    first: Floats
    last: Floats
    chance: Floats
    is_marked: np.ndarray[tuple[int], np.dtype[np.bool_]]
    probability: float


def binomial_tail(
    k: int, n: int, accuracy: float, side: TailSide, *, most: int = 100
) -> Tail:
    """Return how likely each number of correct ones among *n* is, as columns.

    The tail marked is *k* or "fewer", or *k* or "more".  There are about *most*
    columns at most, and no column holds counts of both kinds.

    Raises ValueError unless 0 <= k <= n <= 10**9, 0 < n and 0 <= accuracy <= 1.
    """
    k, n = checked_count_pair(k, n)
    if not n or not 0 <= accuracy <= 1:
        raise ValueError(
            f"n must be 1 or more and accuracy from 0 to 1, not {n} and {accuracy!r}"
        )
    start = min(k, int(binom.ppf(_UNSEEN, n, accuracy)))
    stop = max(k, int(binom.ppf(1.0 - _UNSEEN, n, accuracy)))
    step = -(-(stop - start + 1) // most)
    # Columns are laid out from the edge of the tail in both directions.
    edge = k + 1 if side == "fewer" else k
    left = np.arange(edge, start - step, -step, dtype=np.float64)[::-1]
    right = np.arange(edge + step, stop + 1 + step, step, dtype=np.float64)
    edges = np.unique(np.clip(np.concatenate([left, right]), 0, n + 1))
    below = np.where(edges > 0, bdtr(np.maximum(edges - 1, 0), n, accuracy), 0.0)
    first, last = edges[:-1], edges[1:] - 1
    is_marked, probability = last <= k, float(bdtr(k, n, accuracy))
    if side == "more":
        is_marked = first >= k
        probability = float(bdtrc(k - 1, n, accuracy)) if k else 1.0
    chance = np.asarray(np.diff(below))
    return Tail(first, last, chance, np.asarray(is_marked), probability)
