"""Exact bounds for the accuracy of one class."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from tracker.stats.arguments import (
    Floats,
    checked_count_pair,
    checked_counts,
    checked_fraction,
    tail_share,
)
from tracker.stats.quantiles import beta_quantile

# Quantiles are off by up to 4e-11 of their value where they work at all, and the
# distribution function is by up to 3e-11.  A bound is moved by more than the first,
# and believed only if its own tail leaves room for the second.
_OUTWARD = 1e-10
_FORWARD_MARGIN = 1.0 - 5e-11

# Logarithm, quotient and exponential may each be off by a few units in the last
# place; this is eight of them.
_FEW_UNITS = 2.0**-50


class Interval(NamedTuple):
    """Two bounds, arrays of one shape, with 0 <= low <= high <= 1."""

    low: Floats
    high: Floats


def class_accuracy(k: int, n: int) -> float | None:
    """Return the share of *k* correct among *n* labelled, None without labels.

    Raises ValueError unless *k* and *n* are integers with 0 <= k <= n.
    """
    k, n = checked_count_pair(k, n)
    return k / n if n else None


def lower_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the accuracy exceeds, but for a chance of at most *error*.

    *k* correct among *n* labelled broadcast; the bound has the broadcast shape,
    in [0, 1].  It is the one-sided Clopper-Pearson bound, rounded down: whatever
    the true accuracy, the bound is above it with a probability of at most
    *error*, floating point included.  Without labels it is 0.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < error < 1.
    """
    correct, labelled = checked_counts(k, n)
    return _lower(correct, labelled, checked_fraction("error", error))


def upper_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the accuracy stays below, but for a chance of at most *error*.

    *k* correct among *n* labelled broadcast; the bound has the broadcast shape,
    in [0, 1].  It is the one-sided Clopper-Pearson bound, rounded up: whatever
    the true accuracy, the bound is below it with a probability of at most
    *error*, floating point included.  Without labels it is 1.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < error < 1.
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
    wrong = np.flatnonzero(~_is_proven(a, b, _distance_to_one(high), share))
    if wrong.size:
        high[wrong] = _crossing(
            lambda x: ~_is_proven(a[wrong], b[wrong], _distance_to_one(x), share),
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
    proven: npt.NDArray[np.bool_] = betainc(a, b, x) <= share * _FORWARD_MARGIN
    return proven


def _distance_to_one(high: Floats) -> Floats:
    # The complement, betaincc, would take the bound itself and five times as long.
    # The distance is exact above one half; below, one unit up overstates the tail.
    distance: Floats = np.where(high < 0.5, np.nextafter(1.0 - high, 1.0), 1.0 - high)
    return distance


def _log_share_per_label(share: float, n: Floats) -> Floats:
    exponent: Floats = math.log(share) / np.maximum(n, 1.0) * (1.0 + _FEW_UNITS)
    return exponent


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
