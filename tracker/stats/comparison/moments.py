"""How large the exponential moments of gains less losses can be."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import Floats
from tracker.stats.joint.waves import FALL

# Far more than the rounding of a squared modulus, in parts of its largest terms, and
# of a sum over classes, in parts of the sum of what is added.
_FEW_UNITS = 2.0**-46


class Box(NamedTuple):
    """Bounds of the chances of gaining and of losing, one of each for each class."""

    gained_low: Floats
    gained_high: Floats
    lost_low: Floats
    lost_high: Floats

    @property
    def gained_corners(self) -> Floats:
        """The chances of gaining at the four corners of each class's box."""
        return np.stack([self.gained_low] * 2 + [self.gained_high] * 2, axis=-1)

    @property
    def lost_corners(self) -> Floats:
        """The chances of losing at the same corners."""
        return np.stack([self.lost_low, self.lost_high] * 2, axis=-1)


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
        summed: Floats = ((square - mean * mean) / self.labelled) @ self.times
        return summed


class Extremes(NamedTuple):
    """What is largest, by point and frequency, and where: the latter without turns."""

    values: Floats
    gained: Floats
    lost: Floats


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
        self._gained, self._lost = box.gained_corners, box.lost_corners
        ends = self._logs(self._low)[..., :2], self._logs(self._high)[..., :2]
        self._corners = np.concatenate(ends, axis=-1)

    def largest(self, prices: Floats, lost_prices: Floats) -> Extremes:
        """Return bounds for the sums over classes of log|...| - price (g-q) - lost q.

        *prices* and *lost_prices* are at least 0; their rows are points, with a price
        for each frequency.

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
        p = self._stationary(along)
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
        return Extremes(
            most @ self._times + slack,
            self._choose(at, p[:, 0, :, :2], self._held[:, 2:], self._gained),
            self._choose(at, self._held[:, :2], p[:, 0, :, 2:], self._lost),
        )

    def _stationary(self, slope: Floats) -> Floats:
        middle = self._mixed / self._own
        spread = self._square / self._own - middle * middle
        with np.errstate(divide="ignore"):
            half = self._n / (2.0 * np.abs(slope))
        root = half + np.sqrt(np.maximum(half * half - spread, 0.0))
        at = np.copysign(root, slope) - middle
        return np.asarray(np.clip(at, self._low, self._high))

    def _logs(self, p: Floats) -> Floats:
        square = self._square + p * (2.0 * self._mixed + p * self._own)
        logs: Floats = self._n / 2.0 * np.log(np.maximum(square, 0.0) + self._doubt)
        return logs

    @staticmethod
    def _choose(at: npt.NDArray[np.intp], *candidates: Floats) -> Floats:
        shape = at.shape[:-1]
        every = np.concatenate(
            [np.broadcast_to(one, (*shape, one.shape[-1])) for one in candidates], -1
        )
        chosen: Floats = np.take_along_axis(every, at, axis=-1)[..., 0]
        return chosen
