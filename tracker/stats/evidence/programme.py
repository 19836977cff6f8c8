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
# At the start, and after the last terms were dropped.
_LOOKS_AT_FLOOR = 0, 9

_MOST_STEPS, _MOST_HALVINGS, _LEAST_LEFT = 40, 6, 0.125
# Above, the Hessian costs more than the steps that it saves.
_MOST_CLASSES = 64
_CLOSE_EVIDENCE, _CLOSE_MEAN, _CLOSE_VALUE = 0.02, 1e-5, 1e-7
_FLATTEST = 1e-9
_NEAR = 10.0


class Bets(NamedTuple):
    """Evidence as a function of one chance in each class.

    It is Π_s Σ_m exp(log_weights) Π_j Σ_g exp(scores) / (1 + p_j growth)**labelled, by
    row, S sides, M terms, K classes of each side and G nodes: *scores* (G, M, S, K, R),
    *growth* the same or 1 for S, K and R, *log_weights* (M, S, R).  *labelled* holds
    the classes of the sides one after the other, (R, SK).  Each chance is between
    *floor* and 1, and all count the same in their mean.
    """

    scores: Floats
    growth: Floats
    labelled: Floats
    log_weights: Floats
    floor: float

    @property
    def cost(self) -> float:
        """The part of each chance in the mean of all."""
        return 1.0 / float(self.labelled.shape[1])

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        """Return the bets of some of the rows."""
        return self._replace(
            scores=self.scores[..., rows],
            growth=self.growth[..., rows if self.growth.shape[-1] > 1 else slice(1)],
            labelled=self.labelled[rows],
            log_weights=self.log_weights[..., rows],
        )

    def prune(self, is_needed: npt.NDArray[np.bool_]) -> Self:
        """Return the bets without the terms that no side of a row needs."""
        kept = np.flatnonzero(is_needed.any(axis=(1, 2)))
        return self._replace(
            scores=self.scores[:, kept],
            growth=self.growth[:, kept],
            log_weights=np.where(is_needed, self.log_weights, -np.inf)[kept],
        )

    def lowered(self) -> Self:
        """Return bets whose logarithms are lower by more than rounding may add."""
        sizes = np.abs(np.where(np.isfinite(self.scores), self.scores, 0.0))
        furthest = np.maximum(
            np.log1p(self.growth), -np.log1p(self.floor * self.growth)
        ).max(axis=0)
        terms = sizes.max(axis=0) + furthest * self.by_side(self.labelled) + 1.0
        doubt = _ROUNDING * (2.0 + total_of(terms, 2))
        return self._replace(log_weights=self.log_weights - doubt)

    def by_side(self, array: Floats) -> Floats:
        """Return an array of the classes of rows, (R, SK), as (S, K, R)."""
        return np.ascontiguousarray(array.T).reshape(self.scores.shape[2:])


class _Value(NamedTuple):
    """The logarithm of the evidence, (R,), how it falls, (R, SK), and by which terms.

    The last four are (M, S, K, R) and (M, S, R).
    """

    logarithm: Floats
    steepness: Floats
    curvature: Floats
    by_term: Floats
    second: Floats
    parts: Floats
    totals: Floats

    @classmethod
    def of(cls, totals: Floats, by_term: Floats, second: Floats) -> Self:
        """Return what terms with these logarithms and derivatives add up to."""
        rows = totals.shape[-1]
        most = totals.max(axis=0)
        parts = np.exp(totals - most)
        whole = total_of(parts, 0)
        parts /= whole
        weights = parts[:, :, None]
        steepness, curvature = (
            np.ascontiguousarray(total_of(weights * one, 0).reshape(-1, rows).T)
            for one in (by_term, second - by_term * by_term)
        )
        logarithm = total_of(most + np.log(whole), 0)
        return cls(logarithm, steepness, curvature, by_term, second, parts, totals)

    def prune(self, is_needed: npt.NDArray[np.bool_]) -> Self:
        """Return the value without the terms that no side of a row needs."""
        kept = np.flatnonzero(is_needed.any(axis=(1, 2)))
        totals = np.where(is_needed, self.totals, -np.inf)[kept]
        return self.of(totals, self.by_term[kept], self.second[kept])

    def take(self, rows: npt.NDArray[np.intp]) -> "_Value":
        return _Value(
            *(array[rows] for array in self[:3]),
            *(array[..., rows] for array in self[3:]),
        )

    def put(self, rows: npt.NDArray[np.intp], other: Self) -> None:
        """Set what is known of some of the rows to that of *other*."""
        for array, new in zip(self[:3], other[:3], strict=True):
            array[rows] = new
        for array, new in zip(self[3:], other[3:], strict=True):
            array[..., rows] = new


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
    # Allocated once for all sums.
    room = np.empty((3, bets.scores.size))
    value = _value(bets, p, room)
    for step in range(_MOST_STEPS):
        found = np.maximum(best[rows], _certified(bets, p, value, aim))
        best[rows] = found
        # The first step is taken in any case: the start is a guess.
        is_open = _is_open(bets, p, value, aim, found) | (step == 0)
        if aim.mean is None and step in _LOOKS_AT_FLOOR:
            # Where the terms that are left do not refute the floor, nothing is refuted.
            floor = np.full_like(p, bets.floor)
            is_open &= _value(bets, floor, room).logarithm >= aim.needed
        keep = np.flatnonzero(is_open)
        if not keep.size:
            break
        if len(keep) < len(rows):
            rows, p, bets = rows[keep], p[keep], bets.take(keep)
            value = value.take(keep)
            if aim.mean is not None:
                aim = aim._replace(mean=aim.mean[keep])
        if step in _NEGLIGIBLE:
            least = value.totals.max(axis=0) - _NEGLIGIBLE[step]
            if aim.mean is not None:
                # Far from the least evidence other terms may be the largest there.
                least[:, value.logarithm - found[keep] > _NEAR] = -np.inf
            is_needed = value.totals >= least
            bets, value = bets.prune(is_needed), value.prune(is_needed)
        p, value = _step(bets, p, value, aim, room)
    return best


def _is_open(
    bets: Bets, p: Floats, value: _Value, aim: _Aim, found: Floats
) -> npt.NDArray[np.bool_]:
    if aim.mean is not None:
        return np.asarray(value.logarithm - found > aim.close)
    is_near = np.abs(value.logarithm - aim.needed) < _CLOSE_EVIDENCE
    is_near &= total_of(bets.cost * p) - found < _CLOSE_MEAN
    return np.asarray(~is_near)


def _value(bets: Bets, p: Floats, room: Floats) -> _Value:
    labelled = bets.by_side(bets.labelled)
    tilted, nodes, falls = (
        one[: bets.scores.size].reshape(bets.scores.shape) for one in room
    )
    np.multiply(bets.by_side(p), bets.growth, out=tilted)
    np.log1p(tilted, out=nodes)
    nodes *= labelled
    np.subtract(bets.scores, nodes, out=nodes)
    highest = nodes.max(axis=0)
    nodes -= highest
    np.exp(nodes, out=nodes)
    sums = total_of(nodes, 0)
    tilted += 1.0
    np.divide(bets.growth, tilted, out=tilted)
    nodes *= np.multiply(labelled, tilted, out=falls)
    by_term = total_of(nodes, 0) / sums
    tilted *= labelled + 1.0
    nodes *= tilted
    second = total_of(nodes, 0) / sums
    totals = bets.log_weights + total_of(highest + np.log(sums), 2)
    return _Value.of(totals, by_term, second)


def _certified(bets: Bets, p: Floats, value: _Value, aim: _Aim) -> Floats:
    """Return what the tangent at *p* proves: a bound of the mean, or of evidence.

    The logarithm lies above its tangent, and that of a weighted sum above the mean of
    the logarithms, whatever the weights: so errors of the weights cost nothing else.
    """
    room, cost = 1.0 - bets.floor, bets.cost
    order = np.argsort(-value.steepness, axis=-1, kind="stable")
    steep, at = (
        np.take_along_axis(array, order, axis=-1)
        for array in (value.steepness, p - bets.floor)
    )
    doubt = _ROUNDING * total_of(steep)
    if aim.mean is None:
        # Classes are raised from the floor in the order in which that is cheapest.
        wanted = total_of(steep * at) - (aim.needed - value.logarithm) - doubt
        filled = np.add.accumulate(steep * room, axis=-1) - steep * room
        raised = (wanted[:, None] - filled) / np.where(steep > 0, steep, np.inf)
        raised = np.clip(raised, 0.0, room)
        return bets.floor + total_of(cost * raised) - _ROUNDING * room
    spent = cost * room * np.arange(steep.shape[1])
    raised = ((aim.mean - bets.floor + _ROUNDING)[:, None] - spent) / cost
    most = total_of(steep * (np.clip(raised, 0.0, room) - at))
    return np.asarray(value.logarithm - most - 2.0 * doubt)


def _step(
    bets: Bets, p: Floats, value: _Value, aim: _Aim, room: Floats
) -> tuple[Floats, _Value]:
    """Return the next point, half-way or less if all of the way makes it worse."""
    moved, price = _optimum(bets, p, value, aim)
    found = _value(bets, moved, room)

    def merit(at: Floats, logarithm: Floats) -> Floats:
        mean = total_of(bets.cost * at)
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
        found.put(worse, _value(bets.take(worse), moved[worse], room))
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
        costs, steep = np.where(free, bets.cost, 0.0), value.steepness[rows]
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
            over = total_of(bets.cost * (p[rows] + fixed)) - aim.mean[rows]
            x = (total_of(costs * toward) + over) / size
        moved = p[rows] + np.where(free, toward - x[:, None] * along, fixed)
        d[rows] = clipped = np.clip(moved, least[rows], 1.0) - p[rows]
        price[rows] = x
        if aim.mean is None:
            pull = h * clipped if h.ndim == 2 else total_of(h * clipped[:, None, :])
            reached = value.logarithm[rows] + total_of(clipped * (pull / 2.0 - steep))
            is_over = reached <= aim.needed
        else:
            is_over = total_of(bets.cost * (p[rows] + clipped)) >= aim.mean[rows]
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
    _, sides, classes, rows = value.by_term.shape
    steepness = value.steepness.T.reshape(sides, classes, rows)
    off = np.sqrt(value.parts)[:, :, None] * (value.by_term - steepness)
    diagonal = np.maximum(value.curvature, _FLATTEST)
    if classes > _MOST_CLASSES:
        return diagonal + total_of(off * off, 0).reshape(-1, rows).T
    blocks = np.zeros((sides, classes, classes, rows))
    # Term by term, as sums of all terms at once would need K times the memory.
    for term in off:
        blocks += term[:, :, None] * term[:, None]
    # The sides have no terms in common, so their mixed derivatives are 0.
    hessian = np.zeros((rows, sides * classes, sides * classes))
    for side, block in enumerate(blocks):
        own = slice(side * classes, (side + 1) * classes)
        hessian[:, own, own] = np.moveaxis(block, -1, 0)
    at = np.arange(sides * classes)
    hessian[:, at, at] += diagonal
    return hessian
