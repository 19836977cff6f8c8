"""Which outcomes speak against a low balanced accuracy, and the least favourable."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from ..arguments import Floats
from ..exact import lower_bound, upper_bound

MOST_LABELS_SUMMED = 10**6
"""Labels per class up to which the rounding of the chances has been accounted for."""

LEAST_ERROR_SUMMED = 1e-9
"""Error of one limit down to which that rounding has been accounted for."""

# A chance is a product of quotients of sums of positive terms.  Each term is the
# exponential of a running sum of at most 17,000 logarithms, which stays below 150
# where there are many, so it is off by at most 5e-10 of its value, and the chance
# by twice as much for each class.
RELATIVE_ROUNDING = 1e-8

# An accuracy may be off by a few units in the last place, and the chance of a set
# changes at most n times as fast as the accuracy.
ACCURACY_ROUNDING = 2e-15
_LEAST_DISTANCE = 2.0**-53

# What part of the error pays for the box of class intervals, and what part of it
# may be left out at each end of a sum over so many classes.  A limit of two uses up
# all but a millionth of the error, one of three all but a few thousandths.
_BOX_PART = 0.01
_OMITTED_PARTS = {2: 1e-10, 3: 1e-7}

# Outcomes whose score falls short of the observed one by no more than this belong
# to the set as well.  It is far more than the rounding of a score.
_SCORE_SLACK = 1e-12


def most_counts(n: int, classes: int, error: float) -> float:
    """Return how many counts of a class a window holds at most, whatever is correct.

    By W. Hoeffding's inequality for the box, and S. N. Bernstein's for the rest.
    """
    box = math.sqrt(-2.0 * n * math.log(error * _BOX_PART / (2 * classes)))
    reach = _reach(n / 4.0, error * (1.0 - _BOX_PART) * _OMITTED_PARTS[classes])
    return min(n + 1.0, box + 2.0 * reach + 4.0)


def _reach(variance: float, omitted: float) -> float:
    """Return how far a count strays but for a chance of *omitted* on each side."""
    log = -math.log(omitted)
    return log / 3.0 + math.sqrt(log * log / 9.0 + 2.0 * variance * log)


class Window(NamedTuple):
    """The counts of one class that matter while its accuracy is in an interval."""

    low: float
    high: float
    counts: Floats
    offsets: Floats
    log_chances: Floats
    logit: float

    @classmethod
    def between(cls, low: float, high: float, n: int, omitted: float) -> "Window":
        """Return all counts but those with a chance of at most *omitted* each side.

        S. N. Bernstein's inequality says how far a count strays from its mean.
        """
        wildest = min(max(low, 0.5), high)
        reach = _reach(n * wildest * (1.0 - wildest), omitted)
        first = max(0, math.floor(n * low - reach) - 1)
        last = min(n, math.ceil(n * high + reach) + 1)
        counts = np.arange(first, last + 1.0)
        middle = (low + high) / 2.0
        centre = min(max(round(n * middle), first), last)
        logit = math.log(middle) - math.log1p(-middle)
        steps = np.log((n + 1.0 - counts) / np.maximum(counts, 1.0)) + logit
        steps[0] = 0.0
        log_chances = np.cumsum(steps)
        log_chances -= log_chances[centre - first]
        return cls(low, high, counts, counts - centre, log_chances, logit)

    def chances(self, accuracies: Floats) -> Floats:
        """Return, a row for each accuracy, the chances of the counts, adding to 1."""
        p = np.clip(accuracies, _LEAST_DISTANCE, 1.0 - _LEAST_DISTANCE)
        tilt = np.log(p) - np.log1p(-p) - self.logit
        # In place: room for as much again costs more than the sums.
        rows = tilt[:, np.newaxis] * self.offsets
        rows += self.log_chances
        np.exp(rows, out=rows)
        # The counts left out make the chances too large, never too small.
        rows /= rows.sum(axis=-1, keepdims=True)
        return rows

    def tails(self, accuracies: Floats) -> Floats:
        """Return, a row for each accuracy, the chances of each count or a higher.

        The last column is for counts beyond the last, which are left out.
        """
        rows = self.chances(accuracies)
        tails = np.zeros((rows.shape[0], rows.shape[1] + 1))
        # Summed from the highest count down: small chances come first.
        np.cumsum(rows[:, ::-1], axis=-1, out=tails[:, -2::-1])
        return tails


class Outcomes(NamedTuple):
    """The outcomes that score as high as the observed one, and a box of accuracies.

    The score is MOVER's lower limit from Wilson's limits of the classes, times K:
    the sum of all shares correct, less the root of the summed squares of how far
    Wilson's limits are below them.  It grows with every count: when a share grows
    by h, Wilson's limit grows too, so the root grows by at most h.

    All but the last class are summed over, count by count; *begins* says, for each
    combination of their counts, at which index of the last class's the set begins.
    *allowed* is the error left after the box's part of it, and the chances are off
    by at most *absolute_error* and RELATIVE_ROUNDING.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890.
    """

    n: tuple[int, ...]
    allowed: float
    absolute_error: float
    estimate: float
    score: float
    windows: tuple[Window, ...]
    begins: npt.NDArray[np.intp]

    @classmethod
    def above(cls, k: tuple[int, ...], n: tuple[int, ...], error: float) -> "Outcomes":
        """Return the set for *k* of *n* in each class, all of them labelled."""
        classes = len(n)
        box_error = error * _BOX_PART
        low = lower_bound(k, n, box_error / (2 * classes)).tolist()
        high = upper_bound(k, n, box_error / (2 * classes)).tolist()
        # Rounding must not let the parts add up to more than the error.
        allowed = (error - box_error) * (1.0 - 1e-15)
        omitted = allowed * _OMITTED_PARTS[classes]
        windows = tuple(
            Window.between(left, right, labels, omitted)
            for left, right, labels in zip(low, high, n, strict=True)
        )
        z = max(-float(ndtri(error)), 0.0)
        seen = _Scores.of([np.array([float(one)]) for one in k], n, z)
        score = seen.reaching(np.intp(0)).item()
        scores = _Scores.of([window.counts for window in windows], n, z)
        return cls(
            n,
            allowed,
            2.0 * classes * omitted + ACCURACY_ROUNDING * sum(n),
            math.fsum(one / of for one, of in zip(k, n, strict=True)),
            score,
            windows,
            scores.staircase(score - _SCORE_SLACK),
        )


def shortfalls(share: Floats, ratio: Floats | float) -> Floats:
    """Return by how much Wilson's lower limits are below shares correct.

    *ratio* is the squared deviate over the labels.
    """
    root = np.sqrt(share * (1.0 - share) * ratio + ratio * ratio / 4.0)
    return np.asarray(share - (share + ratio / 2.0 - root) / (1.0 + ratio))


class _Scores(NamedTuple):
    """What the scores are made of: of the classes summed over, and of the last."""

    shares: Floats
    squares: Floats
    last_share: Floats
    last_square: Floats

    @classmethod
    def of(cls, counts: list[Floats], n: tuple[int, ...], z: float) -> "_Scores":
        *parts, last = [
            (k / of, shortfalls(k / of, z * z / of) ** 2)
            for k, of in zip(counts, n, strict=True)
        ]
        shares, squares = np.zeros(()), np.zeros(())
        for share, square in parts:
            shares = shares[..., np.newaxis] + share
            squares = squares[..., np.newaxis] + square
        return cls(shares, squares, *last)

    def reaching(self, index: npt.NDArray[np.intp] | np.intp) -> Floats:
        """Return the scores with the last class's count at *index*."""
        below = np.sqrt(self.squares + self.last_square[index])
        return np.asarray(self.shares + self.last_share[index] - below)

    def staircase(self, least: float) -> npt.NDArray[np.intp]:
        """Return the lowest index of the last class's count that scores *least*."""
        size = self.last_share.size
        # Mostly either all of its counts score that much or none does.
        begins = np.where(self.reaching(np.intp(0)) < least, size, 0)
        is_open = (begins > 0) & (self.reaching(np.intp(size - 1)) >= least)
        some = self._replace(shares=self.shares[is_open], squares=self.squares[is_open])
        # How many of the lowest counts are known to fall short.
        below = np.zeros(some.shares.shape, dtype=np.intp)
        for power in reversed(range(size.bit_length())):
            tried = np.minimum(below + 2**power, size)
            below = np.where(some.reaching(tried - 1) < least, tried, below)
        begins[is_open] = below
        # What rounding might make uneven is filled up, which is always safe.
        for axis in range(begins.ndim):
            begins = np.minimum.accumulate(begins, axis=axis)
        return begins


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
    real, square = middles + halves * _ACROSS, halves * halves * _ALONG_SQUARED
    focal = np.sqrt(real * real + square) + np.sqrt((1.0 - real) ** 2 + square)
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


@cache
def nodes_of(number: int) -> Floats:
    """Return the nodes, from 1 down to -1."""
    return np.asarray(np.cos((np.arange(number) + 0.5) * np.pi / number))


@cache
def to_coefficients(count: int) -> Floats:
    """Return the matrix from values at the nodes to Chebyshev coefficients."""
    orders = np.arange(count)
    angles = (orders + 0.5) * np.pi / count
    matrix = 2.0 / count * np.cos(orders[:, np.newaxis] * angles)
    matrix[0] /= 2.0
    return np.asarray(matrix)


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
        self, floor: float, estimate: float, *, classes: int, tolerance: float
    ) -> None:
        """Begin with a *floor* that needs no proof, and an *estimate* above it.

        The search ends within *tolerance*, a part of the allowed chance, below it.
        """
        self._tolerance, self._classes = tolerance, classes
        # The highest sum that is proved and the lowest that is not, with their chances.
        self._left, self._right = (floor, 0.0), (estimate, 0.5)
        self._seen = [(0.0, self._arcsine(estimate))]

    def run(
        self, largest_chance: Callable[[float], float], allowed: float, guess: float
    ) -> float:
        """Return a sum where *largest_chance* was at most *allowed*, or the floor.

        It is never above the estimate.  *largest_chance* must bound the chance at
        all accuracies with the sum it is given; how the search runs matters for
        nothing but time, since what is returned has been proved.
        """
        (left, low), (right, high) = self._left, self._right
        total, narrowings = guess, 0
        aim = allowed * (1.0 - self._tolerance / 2.0)
        for _ in range(_MOST_STEPS):
            if not left < total < right:
                total = (left + right) / 2.0
                narrowings += 1
                if narrowings % 3 and low < aim < high:
                    # With nothing correct in a class the chance is a line in the sum.
                    on_line = left + (right - left) * (aim - low) / (high - low)
                    total = on_line if left < on_line < right else total
            if right - left <= _CLOSE_ENOUGH * right or not left < total < right:
                break
            chance = largest_chance(total)
            deviate = float(ndtri(min(max(chance, 1e-300), 1.0 - 1e-16)))
            self._seen.append((deviate, self._arcsine(total)))
            # What cannot be compared is not small enough.
            if chance <= allowed:
                left, low = total, chance
                if chance >= allowed * (1.0 - self._tolerance):
                    break
            else:
                right, high = total, chance
            total = self.place_of(aim)
        return left

    def place_of(self, chance: float) -> float:
        """Return the sum at which the *chance* seems to be, NaN if there is none.

        That is where a parabola of arcsines by deviates meets that of the chance.
        """
        aim, points = float(ndtri(chance)), self._seen[-_POINTS_OF_A_PARABOLA:]
        found = 0.0
        for index, (deviate, arcsine) in enumerate(points):
            weight = arcsine
            for position, (other, _) in enumerate(points):
                if position != index:
                    if other == deviate:
                        return math.nan
                    weight *= (aim - other) / (deviate - other)
            found += weight
        return self._classes * math.sin(found) ** 2

    def _arcsine(self, total: float) -> float:
        return math.asin(math.sqrt(min(max(total / self._classes, 0.0), 1.0)))
