"""The least mean that evidence does not refute, and the least evidence at a mean.

Both are convex programmes.  Each point that a search visits gives a bound that holds
by the tangent there, so a search that ends early costs width and no truth.
"""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..arguments import Floats, total_of

# Sums of up to 4096 terms, each off by some units in the last place, are off by less
# than this part of the sum of their absolute values.
_ROUNDING = 1e-12

# Terms that are so many nats below the largest, after so many steps, are dropped, which
# only loses evidence.
_NEGLIGIBLE = {1: 60.0, 4: 25.0, 8: 25.0}

_MOST_STEPS, _MOST_HALVINGS, _LEAST_LEFT = 40, 6, 0.125
# Above, the Hessian costs more than the steps that it saves.
_MOST_CLASSES = 64
_CLOSE_EVIDENCE, _CLOSE_MEAN, _CLOSE_VALUE = 0.02, 1e-5, 1e-7
_FLATTEST = 1e-9
_NEAR = 10.0

# Of the fields of a value, how many have a row for each row; the others, for each side.
_BY_ROW = 3


class Bets(NamedTuple):
    """Evidence as a function of one chance in each class.

    It is Σ_m exp(log_weights) Π_j Σ_g exp(scores) / (1 + p_j growth)**labelled, by
    row, M terms, K classes and G nodes: *scores* (R, M, K, G), *growth* the same or 1
    for R and K, *labelled* (R, K), *log_weights* (R, M).  The mean of the chances has
    *costs* (R, K); each chance is between *floor* and 1.

    With two *sides* the evidence of a row is the product of two such sums, each of K
    classes of its own: *scores*, *growth* and *log_weights* hold the sides as rows,
    2R or 1, and *labelled* and *costs* hold their classes side by side, (R, 2K).
    """

    scores: Floats
    growth: Floats
    labelled: Floats
    log_weights: Floats
    costs: Floats
    floor: float
    sides: int = 1

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        """Return the bets of some of the rows."""
        sides = _sides_of(rows, self.sides)
        return self._replace(
            scores=self.scores[sides],
            growth=self.growth if len(self.growth) == 1 else self.growth[sides],
            labelled=self.labelled[rows],
            log_weights=self.log_weights[sides],
            costs=self.costs[rows],
        )

    def prune(self, is_needed: npt.NDArray[np.bool_]) -> Self:
        """Return the bets without the terms that no side of a row needs."""
        kept = np.flatnonzero(is_needed.any(axis=0))
        return self._replace(
            scores=self.scores[:, kept],
            growth=self.growth[:, kept],
            log_weights=np.where(is_needed, self.log_weights, -np.inf)[:, kept],
        )

    def lowered(self) -> Self:
        """Return bets whose logarithms are lower by more than rounding may add."""
        sizes = np.abs(np.where(np.isfinite(self.scores), self.scores, 0.0))
        furthest = np.maximum(
            np.log1p(self.growth), -np.log1p(self.floor * self.growth)
        ).max(axis=-1)
        labelled = self.by_side(self.labelled)[:, None, :]
        terms = sizes.max(axis=-1) + furthest * labelled + 1.0
        doubt = _ROUNDING * (2.0 + total_of(terms))
        return self._replace(log_weights=self.log_weights - doubt)

    def by_side(self, array: Floats) -> Floats:
        """Return an array of the classes of rows, (R, sides K), with a row a side."""
        return array.reshape(len(array) * self.sides, -1)


def _sides_of(rows: npt.NDArray[np.intp], sides: int) -> npt.NDArray[np.intp]:
    return (rows[:, None] * sides + np.arange(sides)).ravel()


class _Value(NamedTuple):
    """The logarithm of the evidence, (R,), how it falls, (R, K), and by which terms.

    The last four have a row for each side.
    """

    logarithm: Floats
    steepness: Floats
    curvature: Floats
    by_term: Floats
    second: Floats
    parts: Floats
    totals: Floats

    @classmethod
    def of(cls, totals: Floats, by_term: Floats, second: Floats, sides: int) -> Self:
        """Return what terms with these logarithms and derivatives add up to."""
        rows = len(totals) // sides
        most = totals.max(axis=1)
        parts = np.exp(totals - most[:, None])
        whole = _sum_of_terms(parts)
        parts /= whole[:, None]
        weights = parts[:, :, None]
        return cls(
            total_of((most + np.log(whole)).reshape(rows, sides)),
            _sum_of_terms(weights * by_term).reshape(rows, -1),
            _sum_of_terms(weights * (second - by_term * by_term)).reshape(rows, -1),
            by_term,
            second,
            parts,
            totals,
        )

    def prune(self, is_needed: npt.NDArray[np.bool_], sides: int) -> Self:
        """Return the value without the terms that no side of a row needs."""
        kept = np.flatnonzero(is_needed.any(axis=0))
        totals = np.where(is_needed, self.totals, -np.inf)[:, kept]
        return self.of(totals, self.by_term[:, kept], self.second[:, kept], sides)

    def take(self, rows: npt.NDArray[np.intp], sides: int) -> "_Value":
        by_side = _sides_of(rows, sides)
        return _Value(
            *(array[rows] for array in self[:_BY_ROW]),
            *(array[by_side] for array in self[_BY_ROW:]),
        )

    def put(self, rows: npt.NDArray[np.intp], other: Self, sides: int) -> None:
        """Set what is known of some of the rows to that of *other*."""
        by_side = _sides_of(rows, sides)
        for place, (array, new) in enumerate(zip(self, other, strict=True)):
            array[rows if place < _BY_ROW else by_side] = new


class _Aim(NamedTuple):
    """The least mean with less than *needed*, or the least evidence at each *mean*."""

    needed: float = 0.0
    mean: Floats | None = None
    close: float = _CLOSE_VALUE


def least_mean(bets: Bets, needed: float, start: Floats) -> Floats:
    """Return a lower bound of the least mean with less than *needed* log evidence."""
    return _search(bets, start, _Aim(needed))


def least_evidence(
    bets: Bets, mean: Floats, start: Floats, *, close: float = _CLOSE_VALUE
) -> Floats:
    """Return a lower bound of the least log evidence at chances with a *mean*.

    A bound that is *close* to the least found is near enough.
    """
    return _search(bets, start, _Aim(mean=mean, close=close))


def _search(bets: Bets, start: Floats, aim: _Aim) -> Floats:
    bets = bets.lowered()
    best = np.full(len(start), bets.floor if aim.mean is None else -np.inf)
    p, rows = np.where(bets.labelled > 0, start, bets.floor), np.arange(len(start))
    value = _value(bets, p)
    for step in range(_MOST_STEPS):
        found = np.maximum(best[rows], _certified(bets, p, value, aim))
        best[rows] = found
        # The first step is taken in any case: the start is a guess.
        is_open = _is_open(bets, p, value, aim, found) | (step == 0)
        keep = np.flatnonzero(is_open)
        if not keep.size:
            break
        if len(keep) < len(rows):
            rows, p, bets = rows[keep], p[keep], bets.take(keep)
            value = value.take(keep, bets.sides)
            if aim.mean is not None:
                aim = aim._replace(mean=aim.mean[keep])
        if step in _NEGLIGIBLE:
            least = value.totals.max(axis=1, keepdims=True) - _NEGLIGIBLE[step]
            if aim.mean is not None:
                # Far from the least evidence other terms may be the largest there.
                far = value.logarithm - found[keep] > _NEAR
                least[_sides_of(np.flatnonzero(far), bets.sides)] = -np.inf
            is_needed = value.totals >= least
            bets, value = bets.prune(is_needed), value.prune(is_needed, bets.sides)
        p, value = _step(bets, p, value, aim)
    return best


def _is_open(
    bets: Bets, p: Floats, value: _Value, aim: _Aim, found: Floats
) -> npt.NDArray[np.bool_]:
    if aim.mean is not None:
        return np.asarray(value.logarithm - found > aim.close)
    is_near = np.abs(value.logarithm - aim.needed) < _CLOSE_EVIDENCE
    is_near &= total_of(bets.costs * p) - found < _CLOSE_MEAN
    return np.asarray(~is_near)


def _value(bets: Bets, p: Floats) -> _Value:
    labelled = bets.by_side(bets.labelled)[:, None, :, None]
    tilted = bets.by_side(p)[:, None, :, None] * bets.growth
    logs = np.log1p(tilted)
    logs *= labelled
    np.subtract(bets.scores, logs, out=logs)
    highest = logs[..., 0].copy()
    for node in range(1, logs.shape[-1]):
        highest = np.maximum(highest, logs[..., node])
    logs -= highest[..., None]
    nodes = np.exp(logs, out=logs)
    sums = total_of(nodes)
    tilted += 1.0
    falls = np.divide(bets.growth, tilted, out=tilted)
    nodes *= labelled * falls
    by_term = total_of(nodes) / sums
    falls *= labelled + 1.0
    nodes *= falls
    second = total_of(nodes) / sums
    totals = bets.log_weights + total_of(highest + np.log(sums))
    return _Value.of(totals, by_term, second, bets.sides)


def _sum_of_terms(array: Floats) -> Floats:
    total: Floats = np.add.accumulate(array, axis=1)[:, -1]
    return total


def _certified(bets: Bets, p: Floats, value: _Value, aim: _Aim) -> Floats:
    """Return what the tangent at *p* proves: a bound of the mean, or of evidence.

    The logarithm lies above its tangent, and that of a weighted sum above the mean of
    the logarithms, whatever the weights: so errors of the weights cost nothing else.
    """
    room = 1.0 - bets.floor
    order = np.argsort(-value.steepness / bets.costs, axis=-1, kind="stable")
    steep, costs, at = (
        np.take_along_axis(array, order, axis=-1)
        for array in (value.steepness, bets.costs, p - bets.floor)
    )
    doubt = _ROUNDING * total_of(steep)
    if aim.mean is None:
        # Classes are raised from the floor in the order in which that is cheapest.
        wanted = total_of(steep * at) - (aim.needed - value.logarithm) - doubt
        filled = np.add.accumulate(steep * room, axis=-1) - steep * room
        raised = (wanted[:, None] - filled) / np.where(steep > 0, steep, np.inf)
        raised = np.clip(raised, 0.0, room)
        return bets.floor + total_of(costs * raised) - _ROUNDING * room
    spent = np.add.accumulate(costs * room, axis=-1) - costs * room
    raised = ((aim.mean - bets.floor + _ROUNDING)[:, None] - spent) / costs
    most = total_of(steep * (np.clip(raised, 0.0, room) - at))
    return np.asarray(value.logarithm - most - 2.0 * doubt)


def _step(bets: Bets, p: Floats, value: _Value, aim: _Aim) -> tuple[Floats, _Value]:
    """Return the next point, half-way or less if all of the way makes it worse."""
    moved, price = _optimum(bets, p, value, aim)
    found = _value(bets, moved)

    def merit(at: Floats, logarithm: Floats) -> Floats:
        mean = total_of(bets.costs * at)
        if aim.mean is not None:
            return logarithm + 1.5 * np.abs(price) * np.abs(mean - aim.mean)
        excess = np.maximum(logarithm - aim.needed, 0.0)
        return mean + 1.5 * excess / np.maximum(price, 1e-3)

    before = merit(p, value.logarithm) + 1e-9
    for _ in range(_MOST_HALVINGS):
        worse = np.flatnonzero(merit(moved, found.logarithm) > before)
        if not worse.size:
            break
        moved[worse] = (moved[worse] + p[worse]) / 2.0
        found.put(worse, _value(bets.take(worse), moved[worse]), bets.sides)
    return moved, found


def _optimum(bets: Bets, p: Floats, value: _Value, aim: _Aim) -> tuple[Floats, Floats]:
    """Return where the quadratic model has its optimum, and the price of the mean.

    Classes that would leave their range stay at its end, and the others are solved
    for again.
    """
    hessian, identity = _hessian(value), np.eye(p.shape[1])
    # Near the floor evidence changes by orders of magnitude, and no model reaches far.
    least = bets.floor + (p - bets.floor) * _LEAST_LEFT
    d, price = np.zeros_like(p), np.ones(len(p))
    is_free, rows = bets.labelled > 0, np.arange(len(p))
    for _ in range(p.shape[1] + 1):
        free, h, fixed = is_free[rows], hessian[rows], np.where(is_free, 0.0, d)[rows]
        costs, steep = np.where(free, bets.costs[rows], 0.0), value.steepness[rows]
        pull = h * fixed if h.ndim == 2 else total_of(h * fixed[:, None, :])
        slope = np.where(free, steep - pull, 0.0)
        if h.ndim == 2:
            toward, along = slope / h, costs / h
        else:
            matrix = np.where(free[:, :, None] & free[:, None, :], h, identity)
            sides = np.linalg.solve(matrix, np.stack([slope, costs], axis=-1))
            toward, along = sides[..., 0], sides[..., 1]
        size = np.maximum(total_of(costs * along), 1e-300)
        if aim.mean is None:
            reached = value.logarithm[rows] + total_of(fixed * (pull / 2.0 - steep))
            square = total_of(slope * toward) - 2.0 * (reached - aim.needed)
            x = np.sqrt(np.maximum(square, 0.0) / size)
        else:
            over = total_of(bets.costs[rows] * (p[rows] + fixed)) - aim.mean[rows]
            x = (total_of(costs * toward) + over) / size
        moved = p[rows] + np.where(free, toward - x[:, None] * along, fixed)
        d[rows] = clipped = np.clip(moved, least[rows], 1.0) - p[rows]
        price[rows] = x
        if aim.mean is None:
            pull = h * clipped if h.ndim == 2 else total_of(h * clipped[:, None, :])
            reached = value.logarithm[rows] + total_of(clipped * (pull / 2.0 - steep))
            is_over = reached <= aim.needed
        else:
            is_over = total_of(bets.costs[rows] * (p[rows] + clipped)) >= aim.mean[rows]
        # Those beyond one end come back when the others are solved for again; those
        # beyond the other end would not.
        is_low, is_high = free & (moved < least[rows]), free & (moved > 1.0)
        is_over &= is_low.any(axis=1) | ~is_high.any(axis=1)
        is_over |= ~is_high.any(axis=1)
        is_out = np.where(is_over[:, None], is_low, is_high)
        is_free[rows] = free & ~is_out
        rows = rows[is_out.any(axis=1)]
        if not rows.size:
            break
    return np.clip(p + d, bets.floor, 1.0), price


def _hessian(value: _Value) -> Floats:
    """Return the second derivatives, (R, K, K), or of many classes the diagonal."""
    sides, _, classes = value.by_term.shape
    rows, every = value.steepness.shape
    off = value.by_term - value.steepness.reshape(sides, 1, classes)
    off = np.sqrt(value.parts)[:, :, None] * off
    diagonal = np.maximum(value.curvature, _FLATTEST)
    if classes > _MOST_CLASSES:
        return diagonal + _sum_of_terms(off * off).reshape(rows, every)
    blocks = np.zeros((sides, classes, classes))
    # Term by term, as sums of all terms at once would need K times the memory.
    for term in range(off.shape[1]):
        blocks += off[:, term, :, None] * off[:, term, None, :]
    of_rows = blocks.reshape(rows, -1, classes, classes)
    # The sides have no terms in common, so their mixed derivatives are 0.
    hessian = np.zeros((rows, every, every))
    for side in range(every // classes):
        own = slice(side * classes, (side + 1) * classes)
        hessian[:, own, own] = of_rows[:, side]
    at = np.arange(every)
    hessian[:, at, at] += diagonal
    return hessian
