"""The limit of two classes: the largest chance on a line of accuracies."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from ..arguments import Floats
from .outcomes import (
    RELATIVE_ROUNDING,
    Outcomes,
    Search,
    amplification,
    nodes_needed,
    nodes_of,
    to_coefficients,
)

# How much of the error an interpolant's remainder may be, and how much of it may
# be left unused.
_REMAINDER_PART = 1e-7
_TOLERANCE = 1e-6


def two_class_limit(k: tuple[int, ...], n: tuple[int, ...], error: float) -> float:
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
        return np.asarray(np.einsum("ij,ij->i", first.chances(one), reached))

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
    search = Search(floor, outcomes.estimate, classes=2, tolerance=_TOLERANCE)
    return search.run(largest_chance, outcomes.allowed, outcomes.score) / 2.0


_FEWEST_ANGLES = 256
_MOST_PIECES = 64


class Line(NamedTuple):
    """Accuracies p of one class and total - p of the other, first <= p <= last."""

    labels: tuple[int, ...]
    total: float
    first: float
    last: float


def supremum_on_line(
    chances: Callable[[Floats, Floats], Floats],
    line: Line,
    *,
    tolerance: float,
    relative_error: float,
    absolute_error: float,
) -> float:
    """Return an upper bound, close to it, of a chance on a whole *line*.

    *chances* gives, for accuracies of both classes, the chance of a set of outcomes,
    with at most *relative_error* of the largest and *absolute_error*.

    The chance is interpolated in as many nodes as keep the remainder under
    *tolerance*; where the most are too few, the line is halved.
    """
    n, m = line.labels
    pieces, highest, tried = [(line.first, line.last)], 0.0, 0
    while pieces:
        first, last = pieces.pop()
        tried += 1
        if tried > _MOST_PIECES:
            return 1.0
        middle, half = (first + last) / 2.0, (last - first) / 2.0
        path = (n, middle, half), (m, line.total - middle, -half)
        nodes = nodes_needed((path,), tolerance)
        if nodes is None:
            pieces += [(first, middle), (middle, last)]
            continue
        one = np.clip(middle + half * nodes_of(nodes.number), first, last)
        values = chances(one, np.clip(line.total - one, 0.0, 1.0))
        error = relative_error * float(values.max()) + absolute_error
        missed = nodes.remainder + amplification(nodes.number) * error
        highest = max(highest, _greatest(values) + missed)
    return highest


def _greatest(values: Floats) -> float:
    """Return a bound of the largest value of the interpolant of values at nodes.

    In the angle whose cosine is the place on the line, the interpolant is a
    trigonometric polynomial.  Around each of a fine grid of angles it is bounded by
    its Taylor polynomial, and so that grid leaves no gap.  What the third derivative
    can be anywhere follows from what it is on the grid (H. Ehlich and K. Zeller,
    Mathematische Zeitschrift 86 (1964), 41-44).
    """
    expanded = np.einsum("kj,j->k", _expansion(values.size), values)
    level, slope, bend, twist = expanded.reshape(4, -1)
    steep = np.abs(slope)
    rise = steep + bend
    # The parabola has its top between the ends only where it bends down enough.
    is_inside = steep < -2.0 * bend
    rise[is_inside] = steep[is_inside] ** 2 / (-4.0 * bend[is_inside])
    return float((level + rise).max() + np.abs(twist).max())


@cache
def _expansion(count: int) -> Floats:
    """Return the matrix from values at nodes to Taylor terms of half a grid step."""
    angles = max(8 * count, _FEWEST_ANGLES)
    step = np.pi / (2 * angles)
    orders = np.arange(count)
    turns = orders * ((np.arange(angles) + 0.5) * 2.0 * step)[:, np.newaxis]
    scaled = orders * step
    waves = (
        np.cos(turns),
        -scaled * np.sin(turns),
        -(scaled**2) / 2.0 * np.cos(turns),
        scaled**3 / 6.0 * np.sin(turns) / math.cos((count - 1) * step),
    )
    # Not a matrix product, whose last bits may depend on the number of threads.
    found = np.einsum("km,mj->kj", np.concatenate(waves), to_coefficients(count))
    return np.asarray(found)
