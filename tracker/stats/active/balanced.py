"""Bet against a balanced accuracy, whatever the class accuracies behind it are."""

import math
from collections.abc import Callable

import numpy as np

from tracker.stats.active.betting import (
    GRID,
    LOG_PRIOR,
    bets_for,
    factors_of,
    largest,
    log_mean,
    log_products,
)
from tracker.stats.active.ledger import Ledger, Rows
from tracker.stats.active.rounds import UNIT, label_chances
from tracker.stats.active.strata import Ints
from tracker.stats.arguments import Floats

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
        side = 0 if sign > 0 else 1
        # Only of what was known before the draw, never of the draw itself.
        rounding = 1e-12 * (u * (rows.right_off + rows.of_off)[:, :-1]).sum(axis=1)
        reach = rows.reach * ends[:, side] - sign * off + rounding
        self.bets = bets_for(rows.spreads[:, -1], reach, rows.wanted)

    def factors(self, at: Floats) -> Floats:
        """Return all bettors' factors at the accuracies *at* (bettors, draws)."""
        gains = self._sign * (self._right - self._of @ at)
        return factors_of(self.bets, gains, self._size)

    def log_wealth(self, at: Floats) -> Floats:
        """Return the logarithm of each bettor's wealth at the accuracies *at*."""
        return log_products(self.factors(at))

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
            worst = least(self._sign * total)
            return log_mean(worst) - needed

        if margin(start) < 0:
            return self._sign * start
        return self._sign * largest(margin, start, stop)

    def least_of_two(self, box: Ints) -> Callable[[int], Floats]:
        """Return the least log-wealth over a corner of a rectangle, exactly.

        The log-wealth is concave in both accuracies, so it is least at a corner.
        """
        known: dict[tuple[int, int], Floats] = {}

        def at(one: int, other: int) -> Floats:
            if (one, other) not in known:
                point = np.array([one, other]) / GRID
                known[one, other] = self.log_wealth(point)
            return known[one, other]

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
