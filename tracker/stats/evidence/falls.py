"""Evidence that an average is lower since a day than it was before."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, xlogy

from ..arguments import Floats, total_of
from .intervals import LARGEST_TILT, USUAL_TILT, build_mixture
from .programme import Bets, least_evidence

_MOST_AT_ONCE = 2**19
_CLOSE = 4e-3
_LEAST_CHANCE = 1e-9
_UNBET = 0.02
_STEPS, _EVEN = 20, 1e-6


class Split(NamedTuple):
    """Labels before and since a day, by row and class, all (R, K)."""

    right_before: Floats
    before: Floats
    right_since: Floats
    since: Floats

    @classmethod
    def of(cls, right: Floats, counted: Floats) -> "Split":
        """Return the split before each day but the first, of counts by day (D, K)."""
        right, counted = np.cumsum(right, axis=0), np.cumsum(counted, axis=0)
        return cls(
            right[:-1], counted[:-1], right[-1] - right[:-1], counted[-1] - counted[:-1]
        )

    def take(self, rows: npt.NDArray[np.intp] | slice) -> "Split":
        """Return some of the rows."""
        return Split(*(array[rows] for array in self))

    def mirrored(self) -> "Split":
        """Return the same with right and wrong exchanged."""
        return self._replace(
            right_before=self.before - self.right_before,
            right_since=self.since - self.right_since,
        )

    def has_fallen(self) -> npt.NDArray[np.bool_]:
        """Return where the mean over classes is lower since than before, as seen."""
        if self.before.shape[1] == 1:
            fell = self.right_before * self.since > self.right_since * self.before
            return np.asarray(fell[:, 0])
        before = smoothed(self.right_before, self.before)
        since = smoothed(self.right_since, self.since)
        return np.asarray(total_of(before - since) > 0)

    def log_likelihood(self) -> Floats:
        """Return the largest log likelihood of one accuracy before and one since."""
        before = _log_likelihood(self.right_before, self.before)
        return total_of(before + _log_likelihood(self.right_since, self.since))

    def log_marginal(self) -> Floats:
        """Return the log likelihood averaged over accuracies by Beta(1/2, 1/2)."""
        before = _log_marginal(self.right_before, self.before)
        return total_of(before + _log_marginal(self.right_since, self.since))

    def log_steady(self) -> Floats:
        """Return the largest log likelihood if no class changed.

        The log evidence of a change cannot exceed `log_likelihood` less this: each bet
        is a likelihood ratio against accuracies that did not change that way.
        """
        right, counted = self.right_before + self.right_since, self.before + self.since
        return total_of(_log_likelihood(right, counted))

    def log_most(self, likelihood: Floats, most: Floats) -> Floats:
        """Return what the log evidence of a fall cannot exceed, and is often near.

        With several classes it is the ratio of the *likelihood* to that of accuracies
        whose mean did not fall, near those seen, and no more than *most*.
        """
        before, since = self.steadiest(0.01)
        steady = _log_chance(self.right_before, self.before, before)
        steady += _log_chance(self.right_since, self.since, since)
        is_null = total_of(before - since) <= 0
        found = np.minimum(most, likelihood - total_of(steady))
        return np.asarray(np.where(is_null, found, most))

    def steadiest(self, prior: float) -> tuple[Floats, Floats]:
        """Return about the likeliest accuracies whose mean did not fall.

        Each solves n (seen - p) = λ p (1 - p), with one λ for all classes before and
        its negative since, which is searched until the means are about equal.  A
        *prior* of so many right and wrong labels keeps them from the ends.
        """
        size, later = self.before + 2.0 * prior, self.since + 2.0 * prior
        before, since = (self.right_before + prior) / size, self.right_since + prior
        since = since / later
        first, second, price = before.copy(), since.copy(), np.zeros((len(before), 1))
        least, most = np.zeros_like(price), np.full_like(price, np.inf)
        rows = np.arange(len(before))
        for _ in range(_STEPS):
            over = total_of(first[rows] - second[rows])[:, None]
            is_uneven = np.abs(over[:, 0]) >= _EVEN
            rows, over = rows[is_uneven], over[is_uneven]
            if not rows.size:
                break
            p, q, n, m, near = (
                one[rows] for one in (first, second, size, later, price)
            )
            low = least[rows] = np.where(over > 0, near, least[rows])
            high = most[rows] = np.where(over < 0, near, most[rows])
            slope = total_of(
                p * (1.0 - p) / (n + near * (1.0 - 2.0 * p))
                + q * (1.0 - q) / (m - near * (1.0 - 2.0 * q))
            )
            near = near + over / np.maximum(slope, 1e-300)[:, None]
            # Of sides of very different size the slope at one end leads far astray.
            is_astray = (near <= low) | (near >= high)
            near = np.where(is_astray & (high < np.inf), (low + high) / 2.0, near)
            near = price[rows] = np.maximum(near, 0.0)
            first[rows] = _pulled(before[rows], n, near)
            second[rows] = 1.0 - _pulled(1.0 - since[rows], m, near)
        # What is still missing is given to all classes alike.
        missing = np.maximum(total_of(first - second) / before.shape[1], 0.0)
        return _within(first), _within(second + missing[:, None] + 1e-12)


def _pulled(seen: Floats, counted: Floats, price: Floats) -> Floats:
    """Return the root p of counted (seen - p) = price p (1 - p) that is in [0, 1]."""
    half = (counted + price) / 2.0
    root = np.sqrt(np.maximum(half * half - price * counted * seen, 0.0))
    return np.asarray(counted * seen / (half + root))


def log_evidence_of_fall(split: Split, shares: Floats | None = None) -> Floats:
    """Return the log evidence that the mean over classes fell, by row.

    It is the least over θ of the evidence that the average before was above θ, times
    that since it was below θ.  Each class counts by its average at the labels of its
    side.  While the average before is not above that since, the evidence never
    exceeds a martingale that starts at 1, whatever else changes from day to day and
    whatever decides which label comes next.  *shares*, (1, K), are those of
    `balanced_anytime`.  The logarithm is rounded down.
    """
    rows, classes = split.before.shape
    block = max(1, _MOST_AT_ONCE // (600 * classes))
    parts = [
        _least(split.take(slice(at, at + block)), shares)
        for at in range(0, rows, block)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _least(split: Split, shares: Floats | None) -> Floats:
    # With wrong for right, "below θ" is "above 1 - θ".  So both sides together are
    # one programme: twice as many classes, the mean of whose chances is 1/2.
    rows, classes = split.before.shape
    tilts, log_nodes, log_weights = build_mixture(
        shares,
        classes,
        usual_tilt=USUAL_TILT,
        largest_tilt=LARGEST_TILT,
    )
    # A part is not bet: many labels of one side, for which every tilt is too steep,
    # take no more than it from what the other side proves.
    tilts = np.concatenate([tilts, np.zeros_like(tilts[:, :1])], axis=1)
    log_nodes = np.concatenate([log_nodes, log_nodes[:, :1]], axis=1)
    log_weights = np.append(log_weights + math.log1p(-_UNBET), math.log(_UNBET))
    right = np.stack([split.right_before.T, (split.since - split.right_since).T])
    bets = Bets(
        scores=log_nodes + tilts * right,
        growth=np.expm1(tilts),
        labelled=np.concatenate([split.before, split.since], axis=1),
        log_weights=log_weights[:, None, None],
        floor=0.0,
    )
    before, since = split.steadiest(0.5)
    start = np.concatenate([before, 1.0 - since], axis=1)
    return least_evidence(bets, np.full(rows, 0.5), start, close=_CLOSE)


def log_most_below(right: Floats, counted: Floats, mean: float) -> Floats:
    """Return what the log evidence for a mean below *mean* cannot exceed, by row."""
    seen = smoothed(right, counted)
    doubt = seen * (1.0 - seen) / (counted + 1.0)
    step = (mean * seen.shape[1] - total_of(seen)) / total_of(doubt)
    near = np.clip(seen + step[:, None] * doubt, 0.0, 1.0)
    # What a class has no room for is given to all.
    found = total_of(near)[:, None] / seen.shape[1]
    near += np.maximum(mean - found, 0.0) / (1.0 - np.minimum(found, mean)) * (1 - near)
    near = _within(near)
    most = total_of(_log_likelihood(right, counted))
    found = most - total_of(_log_chance(right, counted, near))
    return np.asarray(np.where(step > 0, found, -np.inf))


def smoothed(right: Floats, counted: Floats) -> Floats:
    return np.asarray((right + 0.5) / (counted + 1.0))


def _within(chance: Floats) -> Floats:
    return np.clip(chance, _LEAST_CHANCE, 1.0 - _LEAST_CHANCE)


def _log_chance(right: Floats, counted: Floats, chance: Floats) -> Floats:
    return np.asarray(xlogy(right, chance) + xlogy(counted - right, 1.0 - chance))


def _log_marginal(right: Floats, counted: Floats) -> Floats:
    return np.asarray(betaln(right + 0.5, counted - right + 0.5) - betaln(0.5, 0.5))


def _log_likelihood(right: Floats, counted: Floats) -> Floats:
    return _log_chance(right, counted, right / np.maximum(counted, 1.0))
