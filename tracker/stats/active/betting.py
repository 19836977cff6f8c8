"""Bet against an accuracy by the rows of an audit, and find what is refuted."""

import math
from collections.abc import Callable

import numpy as np

from tracker.stats.active.ledger import Rows
from tracker.stats.arguments import Floats

GRID = 2**17
"""Bounds are whole multiples of 1/GRID: exact, and the same on every machine."""

DISTANCES = 0.8 * 0.5 ** np.arange(7.0)
_AIMED = np.array([1.25, 0.8])
# Half of the wealth is for bets on the distance at which the goal is reached.
LOG_PRIOR = np.log(np.array([2.0, 4, 8, 8, 4, 2, 1, 14.5, 14.5]) / 58)

_EDGES = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
_EDGES += [0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 1]
EDGES = np.rint(np.array(_EDGES) * GRID).astype(np.int64)

# A row is off by fewer than ten roundings of its size, and its bet by a few more.
_ROUNDING = 1e-14
# By this part a bet stays below the largest with which no draw can ruin it.
_RESERVE = 1e-9
_SMALLEST_FACTOR, _LARGEST_FACTOR = 2.0**-52, 2.0**100


def factors_of(bets: Floats, gains: Floats, size: Floats) -> Floats:
    """Return 1 + bets x gains for each bettor and draw, never above the true ones.

    *gains* are known up to `_ROUNDING` x *size*.  The true factors are at least
    `_RESERVE`, so that what rounding has put below that may be raised up to it.
    """
    factors = bets * (gains - _ROUNDING * size)
    factors += 1.0 - 2.0**-51
    return np.clip(factors, _SMALLEST_FACTOR, _LARGEST_FACTOR, out=factors)


def log_products(factors: Floats) -> Floats:
    """Return the logarithm of each bettor's product, never above the true one.

    Eight factors are multiplied before a logarithm is taken, which is far faster and
    within the range of doubles; the rounding of all is within what is deducted.
    """
    bettors, draws = factors.shape
    whole = draws // 8 * 8
    blocks = factors[:, :whole].reshape(bettors, 8, whole // 8)
    rest = np.log(np.multiply.reduce(factors[:, whole:], axis=1))
    logs = np.log(np.multiply.reduce(blocks, axis=1)).sum(axis=1) + rest
    return np.asarray(logs - (1e-9 + 1e-11 * draws))


def log_mean(logs: Floats) -> float:
    """Return the logarithm of the bettors' wealth together."""
    weighted = LOG_PRIOR + logs
    top = float(weighted.max())
    if math.isinf(top):
        return top
    return top + math.log(float(np.exp(weighted - top).sum()))


def bets_for(spreads: Floats, reach: Floats, wanted: Floats) -> Floats:
    """Return the bet of every bettor (bettors, draws).

    Each believes that the truth is one of DISTANCES away, or about the one *wanted*,
    and bets what is best for a gain of two values then; *reach* is what a draw can
    take at most per unit bet.
    """
    fixed = np.broadcast_to(DISTANCES[:, None], (len(DISTANCES), len(wanted)))
    distances = np.concatenate([fixed, _AIMED[:, None] * wanted])
    safe = np.maximum(reach, 0.0) * (1.0 + _RESERVE) + _RESERVE * spreads
    return np.asarray(1.0 / (spreads / distances + safe))


class ClassBets:
    """Bets that the accuracy of one measure is above (sign 1) or below (-1) *r*."""

    def __init__(self, rows: Rows, measure: int, sign: int) -> None:
        """Take up the rows of one *measure*; the last one is the overall accuracy."""
        self._sign = sign
        self._right, self._of = rows.right[:, measure], rows.of[:, measure]
        self._off = rows.right_off[:, measure], rows.of_off[:, measure]
        self._size = rows.size[:, measure]
        self._reach = rows.reach
        self._spreads, self._wanted = rows.spreads[:, measure], rows.wanted
        side = 0 if sign > 0 else 1
        self._ends = rows.ends[side, :, measure][rows.which]
        self._is_overall = measure == rows.right.shape[1] - 1
        self._bets: dict[int, Floats] = {}
        self._known: dict[tuple[int, int], Floats] = {}

    def _reach_at(self, r: float) -> Floats:
        below, above = (1.0 - r) * self._ends[:, 0], r * self._ends[:, 1]
        # Overall the bound is convex in r, so it lies below the chord.
        most = below + above if self._is_overall else np.maximum(below, above)
        off = self._off[0] - r * self._off[1]
        # Only of what was known before the draw, never of the draw itself.
        return self._reach * most - self._sign * off + _ROUNDING * sum(self._off)

    def bets_in(self, cell: int) -> Floats:
        """Return the bets for all r of one cell of EDGES (bettors, draws)."""
        if cell not in self._bets:
            ends = EDGES[cell] / GRID, EDGES[cell + 1] / GRID
            # What a draw can take is convex in r, so it is largest at an end.
            reach = np.maximum(*(self._reach_at(r) for r in ends))
            self._bets[cell] = bets_for(self._spreads, reach, self._wanted)
        return self._bets[cell]

    def factors(self, cell: int, point: int) -> Floats:
        """Return all bettors' factors at r = point / GRID (bettors, draws)."""
        gains = self._sign * (self._right - point / GRID * self._of)
        return factors_of(self.bets_in(cell), gains, self._size)

    def log_wealth(self, cell: int, point: int) -> Floats:
        """Return the logarithm of each bettor's wealth at r = point / GRID."""
        if (cell, point) not in self._known:
            self._known[cell, point] = log_products(self.factors(cell, point))
        return self._known[cell, point]


def refuted_up_to(bets: ClassBets, start: int, error: float) -> int:
    """Return the end of what is refuted without a gap from *start* on.

    While r is the truth, its wealth ever reaches 1/error with a chance of at most
    *error* (Ville).  Within a cell every bettor's log-wealth is concave in r, so that
    between two points it is at least the smaller of both.
    """
    needed = -math.log(error) + 1e-9
    low = start
    while low < GRID:
        cell = int(np.searchsorted(EDGES, low, side="right")) - 1
        at_low = bets.log_wealth(cell, low)

        def margin(point: int, cell: int = cell, at_low: Floats = at_low) -> float:
            worst = np.minimum(at_low, bets.log_wealth(cell, point))
            return log_mean(worst) - needed

        if log_mean(at_low) < needed:
            return low
        end = int(EDGES[cell + 1])
        low = largest(margin, low, end)
        if low < end:
            return low
    return GRID


def refuted_down_to(bets: ClassBets, start: int, error: float) -> int:
    """Return the same for a bet on the other side, coming down from *start*."""
    needed = -math.log(error) + 1e-9
    high = start
    while high > 0:
        cell = int(np.searchsorted(EDGES, high, side="left")) - 1
        at_high = bets.log_wealth(cell, high)

        def margin(step: int, cell: int = cell, at_high: Floats = at_high) -> float:
            worst = np.minimum(at_high, bets.log_wealth(cell, -step))
            return log_mean(worst) - needed

        if log_mean(at_high) < needed:
            return high
        end = int(EDGES[cell])
        high = -largest(margin, -high, -end)
        if high > end:
            return high
    return 0


def largest(margin: Callable[[int], float], start: int, stop: int) -> int:
    """Return the largest whole number up to *stop* with a margin of at least 0.

    *margin* falls and is at least 0 at *start*.  Falsi steps, kept off the ends,
    take turns with halving; only what was computed is believed.
    """
    at_stop = margin(stop)
    if at_stop >= 0:
        return stop
    at_start = margin(start)
    step = 0
    while stop - start > 1:
        middle = (start + stop) // 2
        step += 1
        if step % 3 and math.isfinite(at_stop) and math.isfinite(at_start):
            share = at_start / (at_start - at_stop)
            middle = start + round(share * (stop - start))
            # A step to one side of the guess brings the other end in as well.
            middle += 1 if step % 3 == 1 else -1
            middle = min(max(middle, start + 1), stop - 1)
        at_middle = margin(middle)
        if at_middle >= 0:
            start, at_start = middle, at_middle
        else:
            stop, at_stop = middle, at_middle
    return start
