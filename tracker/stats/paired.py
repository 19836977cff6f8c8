"""Intervals of differences of accuracies: paired, and of two samples."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtri

from .arguments import Floats, checked_counts, checked_pairs, tail_share
from .coverage import IntervalFunction
from .exact import Interval, balanced_union, lower_bound, upper_bound
from .laws import binom

# What part of a tail pays for the box within which the nuisance is searched, and
# what part of it may be omitted at the ends of a sum.
_BOX_PART = 0.01
_OMITTED_PART = 1e-7
_ROUNDING = 1.0 + 1e-8

# The limit is first found, then moved outward by this part of its distance to the
# difference that was seen, and by twice as much each time it cannot be certified.
_RETREAT = 2e-3
_LEAST_RETREAT = 1e-7
_POINTS = 17
_FIRST_CELLS = 64
_PARTS_OF_A_CELL = 4
_MOST_LEVELS = 8
_MOST_CELLS = 20_000
_MOST_AT_ONCE = 2**19


def paired_difference(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the exact interval for how much more accurate the new version is.

    Of *n* labelled queries that were put to both versions, only the new one was
    right *b* times and only the old one *c* times; the three broadcast, and both
    bounds have the broadcast shape, in [-1, 1].  Coverage is at least
    *confidence_level* for all chances of the four outcomes, floating point included.
    Without queries the interval is [-1, 1].  One of them takes some hundredths of a
    second for hundreds of pairs, and seconds for 10**5.

    The bounds are Buehler's for the order that Tango's score limits give to the
    outcomes, with the nuisance searched in a box of exact intervals.

    Raises ValueError unless 0 <= b and c, b + c <= n <= 10**5 and
    0 < confidence_level < 1.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; T. Tango, Statistics in Medicine 17 (1998), 891-908; R. L. Berger and
    D. D. Boos, Journal of the American Statistical Association 89 (1994),
    1012-1016.
    """
    gained, lost, pairs = checked_pairs(b, c, n)
    if (pairs > 10**5).any():
        raise ValueError(f"n must not exceed 10**5, not {n!r:.80}")
    share = tail_share(confidence_level, 2)
    low, high = np.full(pairs.shape, -1.0), np.full(pairs.shape, 1.0)
    for at in np.ndindex(pairs.shape):
        more, fewer, of = int(gained[at]), int(lost[at]), int(pairs[at])
        if of:
            low[at] = _lower(more, fewer, of, share)
            high[at] = -_lower(fewer, more, of, share)
    return Interval(low, high)


def _is_beyond(
    b: Floats, c: Floats, n: Floats, difference: Floats, z: float
) -> npt.NDArray[np.bool_]:
    # Whether the score statistic of this difference is at least z > 0.  In that
    # region it falls with the difference and with c, and it grows with b, because
    # the profile likelihood is concave; so limits and regions are found by halving.
    linear = (2.0 * n - b + c) * difference - b - c
    constant = -c * difference * (1.0 - difference)
    root = np.sqrt(np.maximum(linear * linear - 8.0 * n * constant, 0.0))
    # The chance of c under this difference, without a difference of equal numbers.
    chance = np.where(
        linear > 0,
        -2.0 * constant / np.where(linear > 0, root + linear, 1.0),
        (root - linear) / (4.0 * np.maximum(n, 1.0)),
    )
    variance = n * np.maximum(2.0 * chance + difference * (1.0 - difference), 0.0)
    excess = b - c - n * difference
    return np.asarray((excess > 0) & (excess * excess >= z * z * variance))


def _score_limit(b: Floats, c: Floats, n: Floats, z: float) -> Floats:
    low = np.full(n.shape, -1.0)
    high = (b - c) / np.maximum(n, 1.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        beyond = _is_beyond(b, c, n, middle, z)
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.where(n == 0, -1.0, low)


class _Problem(NamedTuple):
    """One tail of one outcome: in which region, and where its chance is searched."""

    n: int
    first: Floats
    allowed: float
    omitted: float
    gained_box: tuple[float, float]
    lost_box: tuple[float, float]


def _lower(b: int, c: int, n: int, share: float) -> float:
    seen = (b - c) / n
    each = share * _BOX_PART / 4.0
    gained_box = float(lower_bound(b, n, each)), float(upper_bound(b, n, each))
    lost_box = float(lower_bound(c, n, each)), float(upper_bound(c, n, each))
    least = max(-1.0, math.nextafter(gained_box[0] - lost_box[1], -2.0))
    problem = _Problem(
        n,
        _region(b, c, n, share),
        share * (1.0 - _BOX_PART) * (1.0 - 1e-15),
        share * _OMITTED_PART,
        gained_box,
        lost_box,
    )
    found = _search(problem, least, seen)
    retreat = max(_RETREAT * (seen - found), _LEAST_RETREAT)
    while found - retreat > least:
        if _is_certified(problem, found - retreat):
            return found - retreat
        retreat *= 2.0
    return least


def _region(b: int, c: int, n: int, share: float) -> Floats:
    """Return, for each number lost, the least gained at which the limit is no lower."""
    z = -float(ndtri(share))
    one, other, pairs = (np.array([float(count)]) for count in (b, c, n))
    limit = _score_limit(one, other, pairs, z)[0]
    lost = np.arange(n + 1.0)
    # A larger region is always safe, so rounding must not make it smaller.
    z *= 1.0 - 1e-9
    outside, inside = np.full(n + 1, -1.0), n - lost + 1.0
    while (inside - outside > 1).any():
        middle = np.maximum(np.floor((outside + inside) / 2.0), 0.0)
        beyond = _is_beyond(middle, lost, pairs, limit, z)
        inside = np.where(beyond, middle, inside)
        outside = np.where(beyond, outside, middle)
    inside[inside > n - lost] = np.inf
    if limit <= -1.0:
        inside[:] = 0.0
    if b + c:
        inside[c] = min(inside[c], b)
    # A region that is not a staircase is filled up to one, which is always safe.
    return np.asarray(np.minimum.accumulate(inside[::-1])[::-1])


def _span(problem: _Problem, difference: float) -> tuple[float, float]:
    """Return between which chances of c the difference meets the box."""
    left = max(problem.lost_box[0], problem.gained_box[0] - difference, 0.0)
    right = min(
        problem.lost_box[1], problem.gained_box[1] - difference, (1.0 - difference) / 2
    )
    return left * (1.0 - 1e-15), right * (1.0 + 1e-15) + 1e-300


def _chances(problem: _Problem, gained: Floats, lost: Floats) -> Floats:
    """Return upper bounds for the chance of the region, which are close to it."""
    n, omitted = problem.n, problem.omitted
    least = float(binom.ppf(omitted, n, max(lost.min(), 0.0)))
    most = float(binom.isf(omitted, n, min(lost.max(), 1.0)))
    c = np.arange(max(least, 0.0), most + 1.0)
    first = problem.first[c.astype(np.int64)]
    c, first = c[np.isfinite(first)], first[np.isfinite(first)]
    total = np.zeros(gained.shape)
    block = max(1, _MOST_AT_ONCE // max(c.size, 1))
    for start in range(0, gained.size, block):
        part = slice(start, start + block)
        x, y = gained[part, np.newaxis], lost[part, np.newaxis]
        among_rest = np.clip(x / np.maximum(1.0 - y, 1e-300), 0.0, 1.0)
        reached = betainc(
            np.maximum(first, 1.0), np.maximum(n - c - first + 1.0, 1.0), among_rest
        )
        reached = np.where(first == 0, 1.0, reached)
        total[part] = (binom.pmf(c, n, np.clip(y, 0.0, 1.0)) * reached).sum(axis=-1)
    return total * _ROUNDING + 2.0 * omitted


def _search(problem: _Problem, least: float, seen: float) -> float:
    """Return about the largest difference under which the outcome is a surprise."""

    def excess(difference: float) -> float:
        left, right = _span(problem, difference)
        if right < left:
            return -10.0
        lost = np.linspace(left, right, _POINTS)
        chance = float(_chances(problem, lost + difference, lost).max())
        return float(ndtri(min(chance, 1.0 - 1e-16)) - ndtri(problem.allowed))

    if excess(seen) <= 0:
        return seen
    if excess(least) >= 0:
        return least
    # Nothing else needs it, and it takes long to import.
    from scipy.optimize import brentq  # noqa: PLC0415

    return float(brentq(excess, least, seen, xtol=1e-9, rtol=1e-9))


def _is_certified(problem: _Problem, difference: float) -> bool:
    left, right = _span(problem, difference)
    if right < left:
        return True
    edges = np.linspace(left, right, _FIRST_CELLS + 1)
    start, stop = edges[:-1], edges[1:]
    for _ in range(_MOST_LEVELS):
        # The chance of the region grows with that of b and falls with that of c, so
        # in a cell it is no higher than with the largest one and the smallest.
        bound = _chances(problem, stop + difference, start)
        # What cannot be compared is not certified.
        is_open = ~(bound <= problem.allowed)
        if not is_open.any():
            return True
        if is_open.sum() * _PARTS_OF_A_CELL > _MOST_CELLS:
            return False
        start, stop = start[is_open], stop[is_open]
        parts = np.linspace(start, stop, _PARTS_OF_A_CELL + 1)
        start, stop = parts[:-1].ravel(), parts[1:].ravel()
    return False


def mcnemar(b: npt.ArrayLike, c: npt.ArrayLike) -> Floats:
    """Return the exact two-sided P value of two versions being equally accurate.

    On the same queries, only the new version was right *b* times and only the old
    one *c* times; the two broadcast.  It need not agree with `paired_difference`,
    which asks about the size of the difference: at b = 16 and c = 6 of 161 this is
    0.0525, and the interval at 95 % does not hold 0.

    Raises ValueError unless 0 <= b, c <= 10**9.

    Q. McNemar, Psychometrika 12 (1947), 153-157.
    """
    gained, _ = checked_counts(b, b)
    lost, _ = checked_counts(c, c)
    fewer, more = np.minimum(gained, lost), np.maximum(gained, lost)
    # Twice the chance of so few heads, or fewer, in as many tosses of a coin.
    doubled = 2.0 * betainc(np.maximum(more, 1.0), fewer + 1.0, 0.5)
    return np.where(more == fewer, 1.0, np.minimum(doubled, 1.0))


def boxed_paired_difference(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return how much the balanced accuracy changed, on however many same queries.

    The last axis of *b*, *c* and *n* runs over the K classes, of which there may be
    one; their meaning is that of `paired_difference`, and the bounds have the shape
    that remains.  They come from an exact interval for each of the 2K chances of
    gaining and of losing, at a 2K-th of the error; so coverage is at least
    *confidence_level*.  It takes no time, and is about half again as wide.

    Raises ValueError unless 0 <= b and c, b + c <= n <= 10**9 and
    0 < confidence_level < 1, and for more than 2048 classes.
    """
    checked_pairs(b, c, n)
    # The chance of gaining less that of losing, for whose intervals it makes no
    # difference that the two are counted on the same queries.
    return unpaired_difference((b, n), (c, n), confidence_level)


def unpaired_difference(
    new: tuple[npt.ArrayLike, npt.ArrayLike],
    old: tuple[npt.ArrayLike, npt.ArrayLike],
    confidence_level: float,
    *,
    interval: IntervalFunction = balanced_union,
) -> Interval:
    """Return how much the balanced accuracy changed, from different queries.

    *new* and *old* each hold the correct and the labelled, whose last axes run over
    the K classes, of which there may be one; the bounds have the shape that
    remains.  The difference is twice the balanced accuracy of 2K classes, where
    those of the old version are counted by what it got wrong, less one.  So
    *interval* is one for the balanced accuracy, and the bounds are guaranteed if it
    is, as the default is.

    Raises ValueError unless both have the same number of classes, and as *interval*
    does.
    """
    k_new, n_new = checked_counts(*new)
    k_old, n_old = checked_counts(*old)
    if not n_new.ndim or n_new.shape != n_old.shape:
        raise ValueError(
            f"new and old must have the same shape, with a last axis for the classes, "
            f"not {n_new.shape} and {n_old.shape}"
        )
    k = np.concatenate([k_new, n_old - k_old], axis=-1).astype(np.int64)
    n = np.concatenate([n_new, n_old], axis=-1).astype(np.int64)
    low, high = interval(k, n, confidence_level)
    return Interval(
        np.asarray(np.maximum(np.nextafter(2.0 * low - 1.0, -2.0), -1.0)),
        np.asarray(np.minimum(np.nextafter(2.0 * high - 1.0, 2.0), 1.0)),
    )
