"""Proved suprema of a chance of two classes, on a line of their accuracies."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats
from tracker.stats.joint.ellipse import (
    amplification,
    nodes_needed,
    nodes_of,
    to_coefficients,
)

_FEWEST_ANGLES = 256
_MOST_PIECES = 64


class Line(NamedTuple):
    """Accuracies p of one class and total - p of the other, first <= p <= last."""

    labels: tuple[int, int]
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
    expansion: Floats = np.einsum(
        "km,mj->kj", np.concatenate(waves), to_coefficients(count)
    )
    return expansion
