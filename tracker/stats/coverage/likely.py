"""The outcomes that matter to a sum over all of them."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracker.stats.binomial import Interval
from tracker.stats.coverage.outcomes import IntervalFunction
from tracker.stats.laws import binom

NEGLIGIBLE = 1e-12
"""More than the chance of all outcomes together that are left out."""

_TAIL = 1e-13


def likely_counts(n: int, accuracy: float) -> range:
    """Return the numbers of correct labels among *n* that are at all likely.

    The others have a chance of less than 3e-13 together.

    Raises ValueError unless 0 <= n <= 10**9 and accuracy lies in [0, 1].
    """
    if not 0 <= n <= 10**9 or not 0 <= accuracy <= 1:
        raise ValueError(f"there are no {n!r} labels with an accuracy of {accuracy!r}")
    first, last = (int(binom.ppf(q, n, accuracy)) for q in (_TAIL, 1.0 - _TAIL))
    return range(max(first, 0), min(last, n) + 1)


def count_likely(ns: Sequence[int], accuracies: Sequence[float]) -> int:
    """Return how many outcomes of classes with *ns* labels are at all likely."""
    ranges = (likely_counts(n, p) for n, p in zip(ns, accuracies, strict=True))
    return math.prod(len(counts) for counts in ranges)


def only_likely(
    interval: IntervalFunction, ns: Sequence[int], accuracies: Sequence[float]
) -> IntervalFunction:
    """Return *interval*, but computed for the likely outcomes alone.

    It takes what `class_coverage` hands to it, for one class, or `balanced_coverage`
    for two, with these *ns* and *accuracies*.  For all other outcomes it is [0, 1],
    which changes no figure by more than `NEGLIGIBLE`.
    """
    ranges = [likely_counts(n, p) for n, p in zip(ns, accuracies, strict=True)]
    inside = tuple(slice(counts.start, counts.stop) for counts in ranges)

    def limited(
        k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
    ) -> Interval:
        outcomes = np.asarray(k)
        low = np.zeros(outcomes.shape[: len(inside)])
        high = np.ones_like(low)
        low[inside], high[inside] = interval(outcomes[inside], n, confidence_level)
        return Interval(low, high)

    return limited
