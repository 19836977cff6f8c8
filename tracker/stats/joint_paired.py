"""Joint intervals of a difference of balanced accuracies, by paired labels."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from .arguments import Floats, checked_pairs, tail_share
from .exact import Interval, lower_bound, upper_bound
from .joint.balanced import joint_upper_bound
from .joint.modulus import FALL, coefficients

# Far more than the rounding of a squared modulus, in parts of its largest terms, and
# of a sum over classes, in parts of the sum of what is added.
_FEW_UNITS = 2.0**-46


class Box(NamedTuple):
    """Bounds of the chances of gaining and of losing, one of each for each class."""

    gained_low: Floats
    gained_high: Floats
    lost_low: Floats
    lost_high: Floats


class Classes(NamedTuple):
    """Classes with equal counts are one entry, with the number of *times* it counts.

    A gain of a class has the weight *gain* / *labelled*, a loss -*loss* / *labelled*.
    """

    labelled: Floats
    times: Floats
    gain: Floats
    loss: Floats
    box: Box

    def variance(self, gained: Floats, lost: Floats) -> Floats:
        """Return that of gains less losses, at chances whose last axis is classes."""
        mean = self.gain * gained - self.loss * lost
        square = self.gain**2 * gained + self.loss**2 * lost
        return np.asarray(((square - mean * mean) / self.labelled) @ self.times)


class Moments:
    """Bounds of log |E exp((t + iu) x)| over a box of chances, x gains less losses.

    For n queries of a class, of which g are gained and q lost on average, the
    expectation is (1 + g A + q B)**n, where A and B are exp((t + iu) weight) - 1 for
    the weights of a gain and of a loss.
    """

    def __init__(self, classes: Classes, tilt: float, frequencies: int) -> None:
        """Prepare bounds at a *tilt* t, for so many frequencies u from 0 on."""
        box, n = classes.box, classes.labelled
        turned = tilt * (1.0 + (2j * math.pi / FALL) * np.arange(frequencies))
        gain = np.expm1(turned[:, np.newaxis] * (classes.gain / n))
        loss = np.expm1(turned[:, np.newaxis] * (-classes.loss / n))
        self._n, self._times = n[:, np.newaxis], classes.times
        # The four edges of each class's box: two along which g is free, and two q.
        self._low = np.stack([box.gained_low] * 2 + [box.lost_low] * 2, axis=-1)
        self._high = np.stack([box.gained_high] * 2 + [box.lost_high] * 2, axis=-1)
        self._held = np.stack(
            [box.lost_low, box.lost_high, box.gained_low, box.gained_high], axis=-1
        )
        free = np.stack([gain, gain, loss, loss], axis=-1)
        start = 1.0 + self._held * np.stack([loss, loss, gain, gain], axis=-1)
        # Along an edge the squared modulus is square + 2 mixed p + own p**2.
        self._square = start.real**2 + start.imag**2
        self._mixed = start.real * free.real + start.imag * free.imag
        self._own = free.real**2 + free.imag**2
        largest = (1.0 + np.abs(gain) + np.abs(loss))[..., np.newaxis]
        self._doubt = _FEW_UNITS * largest * largest
        # And its four corners.
        self._gained = np.repeat(self._held[:, 2:], 2, axis=-1)
        self._lost = np.tile(self._held[:, :2], 2)
        ends = self._logs(self._low)[..., :2], self._logs(self._high)[..., :2]
        self._corners = np.concatenate(ends, axis=-1)

    def largest(
        self, prices: Floats, lost_prices: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return bounds for the sums over classes of log|...| - price (g-q) - lost q.

        *prices* and *lost_prices* are at least 0; their rows are points, with a price
        for each frequency.  With the bounds come the chances of gaining and of losing
        of each class at which the sum without turns is largest.

        In the plane of 1 + g A + q B its logarithm is harmonic; or A and B are in
        line, and it changes in one direction only.  Less a linear function it is
        largest on the boundary of the box either way.  Along an edge that is at an
        end, or at the outer root of n (mixed + own p) = m (square + 2 mixed p +
        own p**2), where rounding of p costs nothing but its square.
        """
        price = prices[..., np.newaxis, np.newaxis]
        lost_price = lost_prices[..., np.newaxis, np.newaxis]
        along = np.concatenate([price, price] + [lost_price - price] * 2, axis=-1)
        across = np.concatenate([lost_price - price] * 2 + [price, price], axis=-1)
        middle = self._mixed / self._own
        spread = self._square / self._own - middle * middle
        with np.errstate(divide="ignore"):
            half = self._n / (2.0 * np.abs(along))
        root = half + np.sqrt(np.maximum(half * half - spread, 0.0))
        p = np.clip(np.copysign(root, along) - middle, self._low, self._high)
        edges = self._logs(p) - along * p - across * self._held
        corners = (
            self._corners
            - price * (self._gained - self._lost)
            - lost_price * self._lost
        )
        values = np.concatenate([edges, corners], axis=-1)
        most = values.max(axis=-1)
        sizes = np.abs(most) + 2.0 * (prices + lost_prices)[..., np.newaxis]
        slack = _FEW_UNITS * (self._times.size + 8.0) * (sizes @ self._times)
        at = values[:, 0].argmax(axis=-1)[..., np.newaxis]
        held = np.broadcast_to(self._held, p[:, 0].shape)
        gained = [p[:, 0, :, :2], held[..., 2:], held[..., 2:].repeat(2, axis=-1)]
        lost = [held[..., :2], p[:, 0, :, 2:], *[held[..., :2]] * 2]
        return (
            most @ self._times + slack,
            *(
                np.take_along_axis(np.concatenate(part, axis=-1), at, -1)[..., 0]
                for part in (gained, lost)
            ),
        )

    def _logs(self, p: Floats) -> Floats:
        square = self._square + p * (2.0 * self._mixed + p * self._own)
        logs = self._n / 2.0 * np.log(np.maximum(square, 0.0) + self._doubt)
        return np.asarray(logs)


_MOST_CLASSES = 4096


def joint_paired_difference(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return how much the balanced accuracy changed, for all classes at once.

    The last axis of *b*, *c* and *n* runs over the K classes, of which there may be
    one.  Of *n* queries of a class that were put to both versions, only the new one
    was right *b* times and only the old one *c* times.  The bounds have the shape
    that remains, in [-1, 1].  Each is on the wrong side of the difference of the
    balanced accuracies with a probability of at most (1 - confidence_level) / 2,
    for all chances of the outcomes in each class, floating point included.  A class
    without queries may have changed in any way.

    With the versions exchanged the bounds are mirrored, and the order of the classes
    does not matter, both to the last bit.  Rows are computed one by one, each in a
    tenth of a second for ten classes, however many queries they have.

    Raises ValueError unless 0 <= b and c, b + c <= n <= 10**9, there are 1 to 4096
    classes and 0 < confidence_level < 1.
    """
    gained, lost, pairs = checked_pairs(b, c, n)
    classes = pairs.shape[-1] if pairs.ndim else 0
    if not 1 <= classes <= _MOST_CLASSES:
        raise ValueError(
            f"b, c and n must have between 1 and {_MOST_CLASSES} classes on their "
            f"last axis, not {classes}"
        )
    share = tail_share(confidence_level, 2)
    low, high = np.empty(pairs.shape[:-1]), np.empty(pairs.shape[:-1])
    for row in np.ndindex(low.shape):
        one, other, of = gained[row], lost[row], pairs[row]
        low[row] = _lower(one, other, of, share)
        high[row] = -_lower(other, one, of, share)
    return Interval(low, high)


def _lower(b: Floats, c: Floats, n: Floats, error: float) -> float:
    known = n > 0
    if not known.any():
        return -1.0
    total = modulus_difference(b[known], c[known], n[known], error)
    least = (total - float(n.size - known.sum())) / n.size
    # One division and one difference, each off by half a unit.
    return max(-1.0, least - 2.0**-51 * (1.0 + abs(least)))


# What part of the error pays for what is known of the chances one by one.
_NUISANCE_PART = 0.1

# The weights are best where the versions disagree at about this rate; it is a guess
# made before any label is seen, and costs width where it is wrong.
_EXPECTED_DISCORDANT = 0.1
_MOST_UNEVEN = 0.8
_MOST_TILT_PER_LABEL = 3.0

# Up to so many classes a period is cut into so many steps.
_STEPS = ((24, (16, 32)), (64, (8, 16)), (256, (8,)), (4096, (1,)))
_PLAIN = (1,)
_PLAIN_ROUNDS = 3
_ROUNDS = 2
_HALVINGS = 6
_FIRST_STEP = 0.6
_BISECTIONS = 40

_STENCIL = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]), -1).reshape(-1, 2)


def modulus_difference(b: Floats, c: Floats, n: Floats, error: float) -> float:
    """Return what the sum of the differences exceeds, but for a chance of *error*.

    Of *n* >= 1 queries of each class the new version alone was right *b* times, the
    old one alone *c* times.  The outcomes are ordered by a weighted sum S of gains
    less losses, the weights fixed by *n* alone.  The limit is the largest total T of
    differences at which a bound for the chance of a sum as high as the observed one
    is at most *error* less what pays for the nuisance: exact intervals for all
    chances, and a bound Q for the sum of the chances of losing.

    The bound: as for the balanced accuracy (`joint`), the chance of S >= s is at
    most exp(-t s) times the sum over frequencies u of |q| |E exp((t + iu) S)|, for
    any tilt t.  By Lagrange the logarithm of the largest |E ...|, at chances in the
    box whose differences sum to at most T and whose losses to at most Q, is at most
    mu T + nu Q plus the sum over classes of the largest log - mu (g - q) - nu q in
    the box, whatever mu, nu >= 0.  So every pair that was tried is a line in T, and
    the search for good ones has no say in the guarantee.

    Should the limit be above the true total, then the nuisance was missed, or the
    chance of a sum as high as the observed one is as small as the bound: together
    at most *error*.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; R. L. Berger and D. D. Boos, same journal 89 (1994), 1012-1016;
    S. W. Graham and J. D. Vaaler, Transactions of the American Mathematical Society
    265 (1981), 283-302.
    """
    z = max(-float(ndtri(error)), 0.1)
    nuisance = error * _NUISANCE_PART
    each = nuisance / (8 * n.size)
    gains, losses, pairs = (count.astype(np.int64) for count in (b, c, n))
    box = Box(
        lower_bound(gains, pairs, each),
        upper_bound(gains, pairs, each),
        lower_bound(losses, pairs, each),
        upper_bound(losses, pairs, each),
    )
    shift = z / (2.0 * n * math.sqrt(math.fsum(_EXPECTED_DISCORDANT / n)))
    shift = np.minimum(shift, _MOST_UNEVEN)
    most_lost = _most_lost(c, n, box, nuisance / 2.0)
    seen = _Seen.of((b, c, n), (1.0 - shift, 1.0 + shift), box, most_lost)
    # Rounding must not let the parts add up to more than the error.
    return _limit(seen, (error - nuisance) * (1.0 - 1e-15), z)


def _most_lost(c: Floats, n: Floats, box: Box, error: float) -> float:
    """Return what the sum of the chances of losing stays below, but for *error*.

    For one class, two, or equally many queries of each, the limit of the balanced
    accuracy takes little time; else it is the problem itself, without gains.
    """
    losses, pairs = c.astype(np.int64), n.astype(np.int64)
    if n.size == 1:
        return float(upper_bound(losses, pairs, error)[0])
    if n.size == 2 or n.min() == n.max():
        bound = float(joint_upper_bound(losses, pairs, error))
        return math.nextafter(bound * n.size, math.inf)
    none, flat = np.zeros_like(n), np.ones_like(n)
    alone = Box(none, none, box.lost_low, box.lost_high)
    # The box itself bounds the sum, so this condition adds none.
    loose = math.nextafter(math.fsum(box.lost_high), math.inf)
    seen = _Seen.of((none, c, n), (flat, flat), alone, loose)
    return -_limit(seen, error, -float(ndtri(error)))


class _Seen(NamedTuple):
    """What was counted, and what is known of the chances."""

    classes: Classes
    total: float
    estimate: float
    floor: float
    most_lost: float
    spread: float

    @classmethod
    def of(
        cls,
        counts: tuple[Floats, Floats, Floats],
        weights: tuple[Floats, Floats],
        box: Box,
        most_lost: float,
    ) -> "_Seen":
        # Equal classes are computed once, and in the same order whatever the order
        # of the classes was.
        columns = np.stack(counts, axis=-1)
        _, first, times = np.unique(
            columns, axis=0, return_index=True, return_counts=True
        )
        b, c, n = columns[first].T
        box = Box(*(bound[first] for bound in box))
        gain, loss = (weight[first] for weight in weights)
        classes = Classes(n, times.astype(np.float64), gain, loss, box)
        lows = math.fsum(times * box.gained_low)
        least = lows - min(most_lost, math.fsum(times * box.lost_high))
        gained, lost = (b + 0.5) / (n + 1.0), (c + 0.5) / (n + 1.0)
        return cls(
            classes,
            math.fsum(times * (gain * b - loss * c) / n),
            math.fsum(times * (b - c) / n),
            # A few units in the last place, for sums of up to 4096 terms below 1.
            least - 2.0**-40,
            most_lost,
            math.sqrt(float(classes.variance(gained, lost))),
        )


def _limit(seen: _Seen, allowed: float, z: float) -> float:
    """Return the largest total at which the chance is proved to be *allowed*."""
    # Without turns the bound is Chernoff's, which is quick and finds the worst case.
    plain_z = math.sqrt(-2.0 * math.log(allowed))
    best, spread, prices = seen.floor, seen.spread, np.array([1.0, 0.3])
    total = max(seen.floor, seen.estimate - plain_z * spread)
    steps = next(steps for most, steps in _STEPS if seen.classes.times.sum() <= most)
    rounds = _ROUNDS if steps != _PLAIN else 0
    for turn in range(_PLAIN_ROUNDS + rounds):
        is_plain = turn < _PLAIN_ROUNDS
        # For a normal sum these tilts are the best.
        wanted = plain_z if is_plain else (z + math.sqrt(z * z + 4.0)) / 2.0
        bound = _Bound(seen, wanted / spread, _PLAIN if is_plain else steps)
        prices = bound.search(total, prices)
        total = bound.limit(allowed)
        best = max(best, total)
        spread = bound.spread(total, prices)
        if turn == _PLAIN_ROUNDS - 1:
            distance = (seen.estimate - total) * z / plain_z
            total = max(seen.floor, seen.estimate - distance)
    return best


class _Bound:
    """What bounds the chance of a sum as high as the observed one, for one tilt."""

    def __init__(self, seen: _Seen, tilt: float, steps: tuple[int, ...]) -> None:
        classes = seen.classes
        most = _MOST_TILT_PER_LABEL * float((classes.labelled / classes.gain).min())
        self._seen, self._steps = seen, steps
        self._tilt = min(tilt, most)
        self._moments = Moments(classes, self._tilt, max(steps))
        doubt = 2.0**-46 * self._tilt * (2.0 * float(classes.times.sum()) + 1.0)
        self._offset = doubt - self._tilt * seen.total
        # The lines that were tried, by point and frequency.
        self._slopes = self._heights = np.zeros((0, max(steps)))
        self._worst: list[list[Floats]] = []

    def search(self, total: float, prices: Floats) -> Floats:
        """Try multipliers around *prices*, and return the best without turns.

        They are in units of the tilt.
        """
        frequencies = np.arange(max(self._steps))
        at = np.broadcast_to(prices * self._tilt, (frequencies.size, 2))
        step = _FIRST_STEP * self._tilt
        for _ in range(_HALVINGS):
            points = np.maximum(at + step * _STENCIL[:, np.newaxis], 0.0)
            slopes, lost_prices = points[..., 0], points[..., 1]
            values, *worst = self._moments.largest(slopes, lost_prices)
            heights = values + lost_prices * self._seen.most_lost
            self._slopes = np.concatenate([self._slopes, slopes])
            self._heights = np.concatenate([self._heights, heights])
            self._worst.append(worst)
            best = (slopes * total + heights).argmin(axis=0)
            at, step = points[best, frequencies], step / 2.0
        return np.asarray(at[0] / self._tilt)

    def chance(self, total: float) -> float:
        """Return a bound for the chance, at all chances with at most this total."""
        logs = (self._slopes * total + self._heights).min(axis=0) + self._offset
        # A chance above 1 says nothing, however far above.
        sizes = np.exp(np.minimum(logs, 10.0))
        sums = [math.fsum(coefficients(one) * sizes[:one]) for one in self._steps]
        return min(sums) * (1.0 + 1e-12)

    def limit(self, allowed: float) -> float:
        """Return the largest total at which the bound is at most *allowed*."""
        low, high = self._seen.floor, self._seen.estimate
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            # What cannot be compared is not small enough.
            is_proven = self.chance(middle) <= allowed
            low, high = (middle, high) if is_proven else (low, middle)
        return low

    def spread(self, total: float, prices: Floats) -> float:
        """Return about how far the sum strays at the worst chances with this total.

        Where equal classes turn over together the worst chances jump, and the sums
        that are wanted lie between; so the variance is fitted to those of all points
        by the sums of the differences and of the losses.
        """
        times = self._seen.classes.times
        gained, lost = (np.concatenate(part) for part in zip(*self._worst, strict=True))
        variances = self._seen.classes.variance(gained, lost)
        losses = lost @ times
        known = np.stack([np.ones_like(losses), (gained - lost) @ times, losses], -1)
        fitted = np.linalg.lstsq(known, variances)[0]
        likely = self._seen.most_lost if prices[1] > 0 else float(np.median(losses))
        at = np.array([1.0, total, min(likely, float(losses.max()))])
        least = max(float(variances.min()) / 2.0, 1e-12)
        return math.sqrt(max(float(fitted @ at), least))
