"""Buehler's limit for the balanced accuracy of three classes."""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from ..arguments import Floats
from .outcomes import (
    RELATIVE_ROUNDING,
    Nodes,
    Outcomes,
    Path,
    Search,
    amplification,
    most_counts,
    nodes_needed,
    nodes_of,
    to_coefficients,
)

# How much of the error the interpolants' remainders may be, and how much of it may
# be left unused.
_REMAINDER_PART = 2e-4
_TOLERANCE = 2e-3
_MOST_PIECES = 64
_MOST_AT_ONCE = 2**18

# An interpolant is looked at on a grid of so many angles each way, or of every
# second, fourth or eighth of them where it bends so little that the bound is larger
# by no more than this part of it.
_ANGLES = 256
_COARSEST_STEP = 8
_BEND_PART = 3e-4

# Enough nodes and angles to see how large the chance is, to about a thousandth of
# it; each piece of a polygon has its share of the nodes across.
_ALONG_TO_SEE = 12
_FEWEST_TO_SEE = 4
_MORE_TO_SEE = 8
_STEP_TO_SEE = 4

# A proof is begun once what is seen is as near to the error as this.  It finds more
# than is seen, by about this part of it.
_NEAR = 2e-2
_USUAL_EXCESS = 1.5e-3

# So many counts of the first class are summed together.
_ROWS_OF_A_BAND = 16

MOST_WORK = 10**8
"""Terms up to which three classes are summed: mostly under 10 ms a limit."""

# More nodes than most limits take, for each unit of the logarithm of the error.
_NODES = 1_000
# An exponential takes as long as so many terms.
_TERMS_OF_A_CHANCE = 15

_Patch = tuple[tuple[float, float, float], tuple[float, float, float]]
"""At both ends of an interval of one accuracy: it, and from where to where the next."""


def three_class_limit(k: tuple[int, ...], n: tuple[int, ...], error: float) -> float:
    """Return what the mean accuracy exceeds, but for a chance of at most *error*.

    It is Buehler's limit for the same score and the same kind of box as for two
    classes, and holds for the same reasons.  Accuracies in the box with a given sum
    form a polygon, which is cut into trapezoids, and on each the chance of the set
    is interpolated in two directions.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; R. L. Berger and D. D. Boos, same journal 89 (1994), 1012-1016.
    """
    if not any(k):
        return 0.0
    # The sums run over the outcomes of the smaller classes.
    ranked = sorted(zip(n, k, strict=True))
    outcomes = Outcomes.above(
        tuple(one for _, one in ranked), tuple(of for of, _ in ranked), error
    )
    tolerance = outcomes.allowed * _REMAINDER_PART
    left = 2.0 * MOST_WORK

    def largest_chance(total: float) -> float:
        nonlocal left
        pieces, highest, tried = _trapezoids(outcomes, total), 0.0, 0
        while pieces:
            patch = pieces.pop()
            tried += 1
            if tried > _MOST_PIECES:
                return 1.0
            across, along = _paths(outcomes.n[::-1], total, patch)
            nodes = nodes_needed(across, tolerance), nodes_needed(along, tolerance)
            if nodes[0] is None or nodes[1] is None:
                pieces += _halves(patch, is_across=nodes[0] is None)
                continue
            left -= nodes[0].number * nodes[1].number * outcomes.begins.size
            if left < 0:
                # What is not proved by now is not claimed.
                return 1.0
            bound = _supremum(outcomes, total, patch, (nodes[0], nodes[1]))
            highest = max(highest, bound)
        return highest

    # Below the box's lowest corner there is nothing left to refute.
    floor = math.nextafter(math.fsum(window.low for window in outcomes.windows), 0.0)
    # A proof takes long, and is begun where it will most likely do.
    glances = Search(floor, outcomes.estimate, classes=3, tolerance=_NEAR)
    proofs = Search(floor, outcomes.estimate, classes=3, tolerance=_TOLERANCE)
    glances.run(partial(_seen, outcomes), outcomes.allowed, outcomes.score)
    guess = glances.place_of(outcomes.allowed * (1.0 - _USUAL_EXCESS))
    total = proofs.run(largest_chance, outcomes.allowed, guess)
    return math.nextafter(total / 3.0, 0.0)


def work_of_three(n: Sequence[int], error: float) -> float:
    """Return how many terms are added for a limit of three classes, roughly.

    The labels and the *error* alone decide.  The larger the box is, the more nodes
    it takes, and it grows with the logarithm of the error.
    """
    first, second, last = (most_counts(of, 3, error) for of in sorted(n))
    each = first * second + _TERMS_OF_A_CHANCE * (first + second) + last
    return -_NODES * math.log(error) * each


def _trapezoids(outcomes: Outcomes, total: float) -> list[_Patch]:
    """Return the pieces of the polygon: accuracies in the box with this sum."""
    # The last class comes first, since its chances are looked up in tables that all
    # nodes with the same accuracy of it share.
    three, two, one = outcomes.windows
    left = max(one.low, total - two.high - three.high)
    right = max(left, min(one.high, total - two.low - three.low))
    # There the next accuracy begins to be stopped by the other of two limits.
    corners = total - three.high - two.low, total - three.low - two.high
    cuts = [left, *sorted(x for x in corners if left < x < right), right]
    ends = []
    for x in cuts:
        bottom = max(two.low, total - x - three.high)
        ends.append((x, bottom, max(bottom, min(two.high, total - x - three.low))))
    return list(itertools.pairwise(ends))


def _halves(patch: _Patch, *, is_across: bool) -> list[_Patch]:
    (x, bottom, top), (end, end_bottom, end_top) = patch
    if is_across:
        middle = ((x + end) / 2, (bottom + end_bottom) / 2, (top + end_top) / 2)
        return [(patch[0], middle), (middle, patch[1])]
    half, end_half = (bottom + top) / 2, (end_bottom + end_top) / 2
    return [
        ((x, bottom, half), (end, end_bottom, end_half)),
        ((x, half, top), (end, end_half, end_top)),
    ]


def _paths(
    n: tuple[int, ...], total: float, patch: _Patch
) -> tuple[tuple[Path, Path], tuple[Path, Path]]:
    """Return the two slanted sides of a trapezoid, and its two upright ones.

    In one direction with the other held, all accuracies change in proportion.  What
    bounds the chance off that line is convex in the other direction, and so largest
    at one of the sides.
    """
    (x, bottom, top), (end, end_bottom, end_top) = patch

    def path(start: tuple[float, float], stop: tuple[float, float]) -> Path:
        half = (stop[0] - start[0]) / 2.0, (stop[1] - start[1]) / 2.0
        middle = (start[0] + stop[0]) / 2.0, (start[1] + stop[1]) / 2.0
        return (
            (n[0], middle[0], half[0]),
            (n[1], middle[1], half[1]),
            (n[2], total - middle[0] - middle[1], -half[0] - half[1]),
        )

    across = path((x, bottom), (end, end_bottom)), path((x, top), (end, end_top))
    along = path((x, bottom), (x, top)), path((end, end_bottom), (end, end_top))
    return across, along


def _seen(outcomes: Outcomes, total: float) -> float:
    """Return about how large the set's chance is where it is largest."""
    pieces = _trapezoids(outcomes, total)
    left, right = pieces[0][0][0], pieces[-1][1][0]
    heights = []
    for piece in pieces:
        share = (piece[1][0] - piece[0][0]) / (right - left) if left < right else 0.0
        across = _FEWEST_TO_SEE + round(share * _MORE_TO_SEE)
        values = _values(outcomes, total, piece, (across, _ALONG_TO_SEE))
        heights.append(_highest(_coefficients(values), _STEP_TO_SEE))
    return max(heights)


def _supremum(
    outcomes: Outcomes, total: float, patch: _Patch, nodes: tuple[Nodes, Nodes]
) -> float:
    """Return an upper bound of the set's chance on a trapezoid, close to it."""
    across, along = nodes
    values = _values(outcomes, total, patch, (across.number, along.number))
    error = RELATIVE_ROUNDING * float(values.max()) + outcomes.absolute_error
    # First in one direction exactly, then in the other through the interpolant.
    missed = across.remainder + amplification(across.number) * (
        along.remainder + amplification(along.number) * error
    )
    return _greatest(values) + missed


def _values(
    outcomes: Outcomes, total: float, patch: _Patch, numbers: tuple[int, int]
) -> Floats:
    """Return the chances of the set at so many nodes of a trapezoid each way."""
    start, end = np.array(patch[0]), np.array(patch[1])
    shares, levels = ((nodes_of(number) + 1.0) / 2.0 for number in numbers)
    one, bottom, top = (start + shares[:, np.newaxis] * (end - start)).T
    two = bottom[:, np.newaxis] + levels * (top - bottom)[:, np.newaxis]
    return _chances(outcomes, total, one, two)


def _chances(outcomes: Outcomes, total: float, one: Floats, two: Floats) -> Floats:
    """Return the chances of the set, a row for each accuracy of the last class."""
    first, second, last = outcomes.windows
    chances = np.zeros(two.shape)
    tails, bands = last.tails(np.clip(one, 0.0, 1.0)), list(_bands(outcomes))
    sizes = outcomes.begins.shape
    largest = max((begins.size for *_, begins in bands), default=0)
    block = max(1, _MOST_AT_ONCE // (largest + two.shape[1] * sum(sizes)))
    for start in range(0, one.size, block):
        part = slice(start, start + block)
        p = two[part]
        q = total - one[part, np.newaxis] - p
        rows, columns = (
            window.chances(np.clip(at.ravel(), 0.0, 1.0)).reshape(*p.shape, -1)
            for window, at in ((first, q), (second, p))
        )
        beyond, stop = np.zeros(p.shape), columns.shape[-1]
        for of_first, of_second, begins in bands:
            # The later the band, the fewer counts of the second class are enough.
            beyond += columns[..., of_second.stop : stop].sum(axis=-1)
            stop = of_second.stop
            reached = np.take(tails[part], begins, axis=-1)
            # Not a matrix product, whose last bits may depend on how many threads
            # there are.
            inner = np.einsum("axy,aby->abx", reached, columns[..., of_second])
            inner += beyond[..., np.newaxis]
            chances[part] += np.einsum("abx,abx->ab", inner, rows[..., of_first])
    return chances


def _bands(
    outcomes: Outcomes,
) -> Iterator[tuple[slice, slice, npt.NDArray[np.intp]]]:
    """Yield counts of the first class, those of the second that matter, and where.

    With lower ones of the second no count of the last class belongs to the set, and
    with higher ones all do; in between the last part says where the set begins.
    """
    begins, end = outcomes.begins, outcomes.windows[-1].counts.size
    # With a higher count the set begins no later.
    left, right = (begins == end).sum(axis=-1), (begins > 0).sum(axis=-1)
    for first in range(0, len(begins), _ROWS_OF_A_BAND):
        rows = slice(first, first + _ROWS_OF_A_BAND)
        columns = slice(int(left[rows][-1]), int(right[first]))
        if columns.start < begins.shape[1]:
            yield rows, columns, begins[rows, columns]


def _greatest(values: Floats) -> float:
    """Return a bound of the largest value of the interpolant, close to it.

    In two angles it is a trigonometric polynomial.  Where it is largest its slope
    vanishes, so the nearest point of a grid is lower by no more than half the second
    derivatives times the squared distance; and the coefficients bound those.
    """
    coefficients = _coefficients(values)
    orders = [np.arange(size) for size in values.shape]
    reach = np.add.outer(orders[0], orders[1]) * np.pi / (2 * _ANGLES)
    bend = float((np.abs(coefficients) * reach**2).sum()) / 2.0
    spare, step = _BEND_PART * float(values.max()), 1
    while step < _COARSEST_STEP and bend * (2 * step) ** 2 <= spare:
        step *= 2
    return _highest(coefficients, step) + bend * step**2


def _coefficients(values: Floats) -> Floats:
    """Return the coefficients of the interpolant, orders of the first angle first."""
    across, along = (to_coefficients(size) for size in values.shape)
    inner = np.einsum("jk,nk->jn", values, along)
    return np.asarray(np.einsum("mj,jk->mk", across, inner))


def _highest(coefficients: Floats, step: int) -> float:
    """Return the largest value of the interpolant at every so many angles each way."""
    # The sum runs over the fewer orders.
    if coefficients.shape[0] < coefficients.shape[1]:
        coefficients = coefficients.T
    orders, fewer = coefficients.shape
    grid = _grid(orders)[::step]
    half = np.einsum("am,mk->ak", grid, coefficients)
    return float(np.einsum("ak,bk->ab", half, grid[:, :fewer]).max())


@cache
def _grid(orders: int) -> Floats:
    """Return cosines, a row for each angle from 0 to pi, of its multiples."""
    angles = np.arange(_ANGLES + 1) * np.pi / _ANGLES
    return np.asarray(np.cos(np.arange(orders) * angles[:, np.newaxis]))
