"""Search of the least favourable accuracies, inside an ellipse."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from tracker.stats.arguments import Floats

_NODE_COUNTS = np.arange(6, 63, 2)

# Half of an ellipse of each size, and the polygon of 32 corners around it.  The
# other half is its mirror image.
_CORNERS = 32
_GROWTHS = np.geomspace(1.15, 60.0, 15)[:, np.newaxis]
_TURNS = np.arange(_CORNERS // 2 + 1) * (2.0 * np.pi / _CORNERS)
_ACROSS = (_GROWTHS + 1.0 / _GROWTHS) / 2.0 * np.cos(_TURNS) / np.cos(np.pi / _CORNERS)
_ALONG = (_GROWTHS - 1.0 / _GROWTHS) / 2.0 * np.sin(_TURNS) / np.cos(np.pi / _CORNERS)
_ALONG_SQUARED = _ALONG**2
_LOG_REMAINDERS = np.log(4.0 / (_GROWTHS[:, 0] - 1.0)) - (
    _NODE_COUNTS[:, np.newaxis] - 1.0
) * np.log(_GROWTHS[:, 0])
# Far more than the rounding of those logarithms.
_LOG_SLACK = 1e-6

Path = tuple[tuple[int, float, float], ...]
"""Of each class its labels, and its accuracy in the middle and how far it goes."""


class Nodes(NamedTuple):
    """A number of nodes, and what the interpolant in them may miss."""

    number: int
    remainder: float


def nodes_needed(paths: tuple[Path, ...], tolerance: float) -> Nodes | None:
    """Return how many nodes keep the remainder under *tolerance*, None if none do.

    Along each path all accuracies change in proportion, so the chance of a set of
    outcomes is a polynomial.  Its interpolant in Chebyshev nodes is off by no more
    than its size on an ellipse around the path says (L. N. Trefethen, Approximation
    Theory and Approximation Practice, theorem 8.2, whose proof holds for nodes of
    the first kind as well).  Where accuracies p are complex, the chance is at most
    the product of (|p| + |1 - p|)**n.  The exponent of that is at most the sum of
    the convex n (|p| + |1 - p| - 1), so the corners of a polygon around the
    ellipse bound it.
    """
    labels = np.array([n for n, _, _ in paths[0]], dtype=float)
    middles, halves = (
        np.array([[one[part] for one in path] for path in paths])[..., None, None]
        for part in (1, 2)
    )
    # Axes: paths, classes, ellipses, corners.
    focal = _focal_sum(middles + halves * _ACROSS, halves * halves * _ALONG_SQUARED)
    exponents = np.einsum("c,pcgt->pgt", labels, focal - 1.0).max(axis=(0, -1))
    logs = np.einsum("c,cg->g", labels, np.log(focal.max(axis=(0, -1))))
    log_most = np.minimum(exponents, logs)
    # What stands still on all of these paths does so between them.
    degree = labels[(halves != 0.0).any(axis=0)[:, 0, 0]].sum()
    sizes = log_most * (1.0 + _LOG_SLACK) + _LOG_REMAINDERS
    remainders = np.exp(np.minimum(sizes.min(axis=-1) + _LOG_SLACK, 0.0))
    # A polynomial of a degree below the number of nodes is its own interpolant.
    remainders[degree < _NODE_COUNTS] = 0.0
    enough = np.flatnonzero(remainders <= tolerance)
    if not enough.size:
        return None
    return Nodes(int(_NODE_COUNTS[enough[0]]), float(remainders[enough[0]]))


def _focal_sum(real: Floats, imaginary_squared: Floats) -> Floats:
    """Return |p| + |1 - p| of complex p."""
    rest = 1.0 - real
    near = np.sqrt(real * real + imaginary_squared)
    total: Floats = near + np.sqrt(rest * rest + imaginary_squared)
    return total


@cache
def nodes_of(number: int) -> Floats:
    """Return the nodes, from 1 down to -1."""
    nodes: Floats = np.cos((np.arange(number) + 0.5) * np.pi / number)
    return nodes


@cache
def to_coefficients(count: int) -> Floats:
    """Return the matrix from values at the nodes to Chebyshev coefficients."""
    orders = np.arange(count)
    angles = (orders + 0.5) * np.pi / count
    matrix: Floats = 2.0 / count * np.cos(orders[:, np.newaxis] * angles)
    matrix[0] /= 2.0
    return matrix


def amplification(count: int) -> float:
    """Return how much errors at the nodes may grow between them at most."""
    return 2.0 / math.pi * math.log(count) + 1.0


_CLOSE_ENOUGH = 1e-10
_MOST_STEPS = 60
_POINTS_OF_A_PARABOLA = 3


class Search:
    """Where the chance is known, and where it should be looked at next.

    Normal deviates of the chance are almost a line in the arcsine of the mean's
    root, so secants and inverse parabolas there meet the limit in a few steps.
    """

    def __init__(
        self, *, floor: float, estimate: float, classes: int, tolerance: float
    ) -> None:
        """Begin with a *floor* that needs no proof, and an *estimate* above it.

        The search ends within *tolerance*, a part of the allowed chance, below it.
        """
        self.best = floor
        self._tolerance = tolerance
        self._classes = classes
        self._beyond = estimate
        self._is_done = False
        self._left = (floor, 0.0)
        self._right = (estimate, 0.5)
        self._seen = [(0.0, self._arcsine(estimate))]
        self._narrowings = 0

    def run(
        self, largest_chance: Callable[[float], float], allowed: float, guess: float
    ) -> float:
        """Return a sum where *largest_chance* was at most *allowed*, or the floor.

        It is never above the estimate.  *largest_chance* must bound the chance at
        all accuracies with the sum it is given; how the search runs matters for
        nothing but time, since what is returned has been proved.
        """
        total = guess
        aim = allowed * (1.0 - self._tolerance / 2.0)
        for _ in range(_MOST_STEPS):
            if not self.best < total < self._beyond:
                total = self._narrowed(aim)
            if self._has_ended(total):
                break
            self._record(total, largest_chance(total), allowed)
            total = self.place_of(aim)
        return self.best

    def place_of(self, chance: float) -> float:
        """Return the sum at which the *chance* seems to be, NaN if there is none."""
        arcsine = self._interpolated(float(ndtri(chance)))
        return self._classes * math.sin(arcsine) ** 2

    def _has_ended(self, total: float) -> bool:
        return (
            self._is_done
            or self._beyond - self.best <= _CLOSE_ENOUGH * self._beyond
            or not self.best < total < self._beyond
        )

    def _record(self, total: float, chance: float, allowed: float) -> None:
        # What cannot be compared is not small enough.
        if chance <= allowed:
            self.best, self._left = total, (total, chance)
            self._is_done = chance >= allowed * (1.0 - self._tolerance)
        else:
            self._beyond, self._right = total, (total, chance)
        deviate = float(ndtri(min(max(chance, 1e-300), 1.0 - 1e-16)))
        self._seen.append((deviate, self._arcsine(total)))

    def _narrowed(self, aim: float) -> float:
        # Where a class has nothing correct, the chance itself is a line in the sum.
        self._narrowings += 1
        (left, low), (right, high) = self._left, self._right
        if self._narrowings % 3 and low < aim < high:
            total = left + (right - left) * (aim - low) / (high - low)
            if left < total < right:
                return total
        return (self.best + self._beyond) / 2.0

    def _arcsine(self, total: float) -> float:
        return math.asin(math.sqrt(min(max(total / self._classes, 0.0), 1.0)))

    def _interpolated(self, aim: float) -> float:
        """Return the arcsine at which a parabola meets a deviate, NaN if none does."""
        points = self._seen[-_POINTS_OF_A_PARABOLA:]
        total = 0.0
        for index, (deviate, arcsine) in enumerate(points):
            weight = arcsine
            for position, (other, _) in enumerate(points):
                if position != index:
                    if other == deviate:
                        return math.nan
                    weight *= (aim - other) / (deviate - other)
            total += weight
        return total
