"""Bet against an accuracy or a balanced one by the rows of an audit."""

import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np

from ..arguments import Floats
from .ledger import Ledger, Rows
from .rounds import UNIT, label_chances
from .strata import Ints

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
        self.sign = sign
        self._right, self._of = rows.right[:, measure], rows.of[:, measure]
        self._off = rows.right_off[:, measure], rows.of_off[:, measure]
        self._size, self._reach = rows.size[:, measure], rows.reach
        self._spreads, self._wanted = rows.spreads[:, measure], rows.wanted
        self._ends = rows.ends[int(sign < 0), :, measure][rows.which]
        self._is_overall = measure == rows.right.shape[1] - 1
        self._bets: dict[int, Floats] = {}
        self._known: dict[tuple[int, int], Floats] = {}

    def bets_in(self, cell: int) -> Floats:
        """Return the bets for all r of one cell of EDGES (bettors, draws)."""

        def reach_at(r: float) -> Floats:
            below, above = (1.0 - r) * self._ends[:, 0], r * self._ends[:, 1]
            # Overall the bound is convex in r, so it lies below the chord.
            most = below + above if self._is_overall else np.maximum(below, above)
            off = self._off[0] - r * self._off[1]
            # Only of what was known before the draw, never of the draw itself.
            return self._reach * most - self.sign * off + _ROUNDING * sum(self._off)

        if cell not in self._bets:
            # What a draw can take is convex in r, so it is largest at an end.
            reach = np.maximum(*map(reach_at, EDGES[cell : cell + 2] / GRID))
            self._bets[cell] = bets_for(self._spreads, reach, self._wanted)
        return self._bets[cell]

    def factors(self, cell: int, point: int) -> Floats:
        """Return all bettors' factors at r = point / GRID (bettors, draws)."""
        gains = self.sign * (self._right - point / GRID * self._of)
        return factors_of(self.bets_in(cell), gains, self._size)

    def log_wealth(self, cell: int, point: int) -> Floats:
        """Return the logarithm of each bettor's wealth at r = point / GRID."""
        if (cell, point) not in self._known:
            self._known[cell, point] = log_products(self.factors(cell, point))
        return self._known[cell, point]


def refuted_to(bets: ClassBets, start: int, error: float) -> int:
    """Return the end of what is refuted without a gap from *start* on.

    It goes up for bets that the accuracy is above r, down for those that it is below.
    While r is the truth, its wealth ever reaches 1/error with a chance of at most
    *error* (Ville).  Within a cell every bettor's log-wealth is concave in r, so that
    between two points it is at least the smaller of both.
    """
    needed = -math.log(error) + 1e-9
    at, sign = start, bets.sign
    while at != (GRID if sign > 0 else 0):
        side: Literal["left", "right"] = "right" if sign > 0 else "left"
        cell = int(np.searchsorted(EDGES, at, side=side)) - 1
        here = bets.log_wealth(cell, at)

        def margin(step: int, cell: int = cell, here: Floats = here) -> float:
            worst = np.minimum(here, bets.log_wealth(cell, sign * step))
            return log_mean(worst) - needed

        end = int(EDGES[cell + 1 if sign > 0 else cell])
        if log_mean(here) < needed:
            break
        at = sign * largest(margin, sign * at, sign * end)
        if at != end:
            break
    return at


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


# Sums over classes take more roundings than a single class does.
_MORE_ROUNDING = 100.0


def balanced_ends(ledger: Ledger, which: int, box: Ints) -> Floats:
    """Bound what a draw of a round can be against each side, per unit of reach.

    Over all queries left, all labels and all accuracies in *box* (classes, 2).
    """
    strata, frozen = ledger.strata, ledger.rounds[which]
    there = ledger.left_before(frozen.start, which) > 0
    if not there.any():
        return np.zeros(2)
    q = label_chances(strata, frozen.wrong, frozen.rows)[there] / UNIT
    u = frozen.directions
    low, high = box[:, 0] / GRID, box[:, 1] / GRID
    said = strata.predicted[there][:, None] == np.arange(strata.classes)
    # One class adds u (1 - r) if said and -u r if not, each at its ends in the box.
    least = np.where(said, u * (1.0 - high), -u * high)
    most = np.where(said, u * (1.0 - low), -u * low)

    def extreme(big: Floats, small: Floats) -> float:
        # The label is unclear, or one class of which then 1 - q are a surprise.
        none = (q * big).sum(axis=1)
        swapped = none[:, None] - q * big - (1.0 - q) * small
        worst = np.maximum(none, swapped.max(axis=1)) / frozen.weights[there]
        return max(0.0, float(worst.max()))

    return np.array([extreme(most, least), extreme(-least, -most)])


class BalancedBets:
    """Bets that the balanced accuracy is above (sign 1) or below (-1) a value."""

    def __init__(self, rows: Rows, boxes: Ints, ends: Floats, sign: int) -> None:
        """Take up all rows, each with its round's box (classes, 2) and ends (2)."""
        self._sign = sign
        u = rows.directions
        self._of = u * rows.of[:, :-1]
        self._right = (u * rows.right[:, :-1]).sum(axis=1)
        self._size = _MORE_ROUNDING * (u * rows.size[:, :-1]).sum(axis=1)
        box = boxes / GRID
        off = (u * rows.right_off[:, :-1]).sum(axis=1)
        # Nothing of `of_off` is negative: against a high accuracy its upper ends
        # count, against a low one its lower ones.
        corner = box[..., 1] if sign > 0 else box[..., 0]
        off = off - (u * rows.of_off[:, :-1] * corner).sum(axis=1)
        # Only of what was known before the draw, never of the draw itself.
        rounding = 1e-12 * (u * (rows.right_off + rows.of_off)[:, :-1]).sum(axis=1)
        reach = rows.reach * ends[:, int(sign < 0)] - sign * off + rounding
        self.bets = bets_for(rows.spreads[:, -1], reach, rows.wanted)

    def factors(self, at: Floats) -> Floats:
        """Return all bettors' factors at the accuracies *at* (bettors, draws)."""
        gains = self._sign * (self._right - self._of @ at)
        return factors_of(self.bets, gains, self._size)

    def refuted(self, box: Ints, start: int, error: float) -> int:
        """Return how far from *start* on no accuracies in the *box* can explain it.

        The value is K times the balanced accuracy in units of 1/GRID, below which
        (above, for the other sign) all is refuted; the larger the region, the
        smaller the least wealth in it, so that halving is exact.
        """
        needed = -math.log(error) + 1e-9
        sums = box.sum(axis=0)
        if self._sign > 0:
            start, stop = max(start, int(sums[0])), int(sums[1])
        else:
            start, stop = -min(start, int(sums[1])), -int(sums[0])
        if start >= stop:
            return self._sign * start
        least = self.least_of_two(box) if len(box) == 2 else self.minorant(box, start)

        def margin(total: int) -> float:
            return log_mean(least(self._sign * total)) - needed

        if margin(start) < 0:
            return self._sign * start
        return self._sign * largest(margin, start, stop)

    def least_of_two(self, box: Ints) -> Callable[[int], Floats]:
        """Return the least log-wealth over a corner of a rectangle, exactly.

        The log-wealth is concave in both accuracies, so it is least at a corner.
        """

        @cache
        def at(one: int, other: int) -> Floats:
            return log_products(self.factors(np.array([one, other]) / GRID))

        def least(total: int) -> Floats:
            near, far = (0, 1) if self._sign > 0 else (1, 0)
            corners = {(int(box[0, near]), int(box[1, near]))}
            clip = min if self._sign > 0 else max
            for mine, end in ((near, far), (far, far)):
                # Along each side of the rectangle as far as the sum allows.
                other = int(box[1, mine])
                if self._sign * (total - other - int(box[0, near])) >= 0:
                    corners.add((clip(int(box[0, end]), total - other), other))
                one = int(box[0, mine])
                if self._sign * (total - one - int(box[1, near])) >= 0:
                    corners.add((one, clip(int(box[1, end]), total - one)))
            return np.asarray(np.min([at(*corner) for corner in corners], axis=0))

        return least

    def minorant(self, box: Ints, start: int) -> Callable[[int], Floats]:
        """Return a bound below the log-wealth, from second-order expansions.

        Around r*: log K(r) >= log K(r*) - G.d - kappa h'|H|h with d = r - r*, where
        (-log(1 - z) - z) / z**2, increasing in z, is at most kappa.
        """
        low, high = (box[:, 0] / GRID, box[:, 1] / GRID)
        pieces = []
        for share in (0.0, 0.5, 1.0):
            total = start / GRID * self._sign
            # A point of the region: at the near ends, in the middle, at its edge.
            near, far = (low, high) if self._sign > 0 else (high, low)
            width = (far - near).sum()
            full = (total - near.sum()) / width if width else 0.0
            centre = near + share * min(max(full, 0.0), 1.0) * (far - near)
            pieces.append(self._expansion(centre, low, high))

        def least(total: int) -> Floats:
            best = np.full(len(LOG_PRIOR), -np.inf)
            for centre, base, slopes in pieces:
                reached = _greedy(slopes, low, high, total / GRID, self._sign)
                drop = reached - slopes @ centre
                size = np.abs(slopes).sum(axis=1)
                best = np.maximum(best, base - drop - 1e-12 * size)
            return best

        return least

    def _expansion(
        self, centre: Floats, low: Floats, high: Floats
    ) -> tuple[Floats, Floats, Floats]:
        factors = self.factors(centre)
        base = log_products(factors)
        change = self._sign * self._of
        width = np.maximum(high - centre, centre - low)
        slopes, lost = [], []
        for bets, one in zip(self.bets, factors, strict=True):
            per_bet = bets / one
            e = per_bet[:, None] * change
            # What rounding of the gains can have changed the slopes by.
            noise = 2e-14 * (per_bet * self._size) @ (np.abs(e) @ width)
            worst = np.maximum(e * (high - centre), e * (low - centre)).sum(axis=1)
            z = float(worst.max(initial=0.0)) * (1.0 + 1e-6)
            curve = np.abs(e.T @ e)
            lost.append(noise + _curvature(z) * float(width @ curve @ width))
            slopes.append(e.sum(axis=0))
        return centre, base - np.array(lost), np.array(slopes)


def _curvature(z: float) -> float:
    """Return at least (-log(1 - z) - z) / z**2, infinity from z = 1 on."""
    if z >= 1.0:
        return math.inf
    if z < 1e-4:
        return 0.5 + z
    return (-math.log1p(-z) - z) / z**2 * (1.0 + 1e-6)


def _greedy(
    slopes: Floats, low: Floats, high: Floats, total: float, sign: int
) -> Floats:
    """Return the largest slopes.r over the box with sign * (sum of r) <= its limit."""
    near, far = (low, high) if sign > 0 else (high, low)
    reached = slopes @ near
    room = np.maximum(sign * (total - near.sum()), 0.0) + 1e-12
    gain = sign * slopes
    order = np.argsort(-gain, axis=1)
    steps = np.abs(far - near)[order]
    before = np.cumsum(steps, axis=1) - steps
    taken = np.clip(room - before, 0.0, steps)
    best = np.maximum(np.take_along_axis(gain, order, axis=1), 0.0)
    return np.asarray(reached + (best * taken).sum(axis=1), dtype=np.float64)
