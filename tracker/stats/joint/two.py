"""Buehler's limit for the balanced accuracy of two classes."""

import math

import numpy as np

from tracker.stats.arguments import Floats
from tracker.stats.joint.line import Line, supremum_on_line
from tracker.stats.joint.outcomes import RELATIVE_ROUNDING, Outcomes
from tracker.stats.joint.search import Search

# How much of the error an interpolant's remainder may be, and how much of it may
# be left unused.
_REMAINDER_PART = 1e-7
_TOLERANCE = 1e-6


def two_class_limit(k: tuple[int, int], n: tuple[int, int], error: float) -> float:
    """Return what the mean accuracy exceeds, but for a chance of at most *error*.

    All outcomes are ordered by a score T that grows with either count.  The limit
    L is the largest mean at which the outcomes that score at least as high as the
    observed ones have a chance F of at most a, for all accuracies with that mean in
    a box of exact class intervals; a is *error* less what pays for the box.

    Why it holds: F grows with either accuracy, since T grows with either count.
    Suppose L is above the mean of the true accuracies p.  Either the box misses p,
    which has at most the chance paid for it, or some p' >= p in the box has the
    mean L, and F(p) <= F(p') <= a.  That the chance, under p, of what scores at
    least as high as the outcome is at most a has itself a chance of at most a.  All
    this stays true for any set that contains the outcomes of a higher score, and
    for any wider box.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; R. L. Berger and D. D. Boos, same journal 89 (1994), 1012-1016.
    """
    if not any(k):
        return 0.0
    # The sum runs over the outcomes of the smaller class.
    if (n[0], k[0]) > (n[1], k[1]):
        k, n = k[::-1], n[::-1]
    outcomes = Outcomes.above(k, n, error)
    first, second = outcomes.windows

    def chances(one: Floats, other: Floats) -> Floats:
        reached = np.take(second.tails(other), outcomes.begins, axis=-1)
        summed: Floats = np.einsum("ij,ij->i", first.chances(one), reached)
        return summed

    def largest_chance(total: float) -> float:
        left = max(first.low, total - second.high)
        right = max(left, min(first.high, total - second.low))
        return supremum_on_line(
            chances,
            Line(n, total, left, right),
            tolerance=outcomes.allowed * _REMAINDER_PART,
            relative_error=RELATIVE_ROUNDING,
            absolute_error=outcomes.absolute_error,
        )

    # Below the box's lowest corner there is nothing left to refute.
    floor = math.nextafter(first.low + second.low, 0.0)
    search = Search(
        floor=floor, estimate=outcomes.estimate, classes=2, tolerance=_TOLERANCE
    )
    return search.run(largest_chance, outcomes.allowed, outcomes.score) / 2.0
