"""How large the exponential moments of a weighted sum of shares can be."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats

# How far the tilted exponential falls within a period.
FALL = 8.0

# Far more than the rounding of a logarithm's argument, in parts of its terms.
_FEW_UNITS = 2.0**-49


class Waves(NamedTuple):
    """Bounds of log |E exp((t + iu) weight share correct)| over a box of accuracies.

    A row for each class, in it one for each of a grid of accuracies, in it one for
    each frequency u.  Between neighbours the bound is the straight line.
    """

    accuracies: Floats
    logs: Floats

    def largest(self, multipliers: Floats, total: float) -> tuple[Floats, Floats]:
        """Return bounds for the sums of the logs, at accuracies with at most a sum.

        By Lagrange, the largest sum is at most that of each class's largest log
        less a multiplier times its accuracy, plus the multiplier times *total*.
        Along a straight line the largest is at an end.  The sums of the accuracies
        at which they are taken come second: above *total*, a greater multiplier
        would be better.
        """
        p = self.accuracies[..., np.newaxis]
        values = self.logs - multipliers * p
        at = values.argmax(axis=1)[:, np.newaxis]
        most = np.take_along_axis(values, at, axis=1)[:, 0].sum(axis=0)
        taken = np.take_along_axis(p, at, axis=1)[:, 0].sum(axis=0)
        return most + multipliers * total, taken

    def favourite(self, multiplier: float) -> Floats:
        """Return the accuracies at which the sum without turns is largest."""
        values = self.logs[..., 0] - multiplier * self.accuracies
        at = values.argmax(axis=1)[:, np.newaxis]
        chosen: Floats = np.take_along_axis(self.accuracies, at, axis=1)[:, 0]
        return chosen


def waves(
    labelled: Floats,
    weights: Floats,
    box: tuple[Floats, Floats],
    tilt: float,
    size: tuple[int, int],
) -> Waves:
    """Return the bounds for accuracies in the *box*, at a *tilt* t.

    *size* says how many frequencies and how many cells of accuracies.

    For n labels the expectation is (1 + p z)**n, with z = exp((t + iu) weight/n) - 1.
    Since |1 + p z| is convex in p, it is at most its chord; and by Hoeffding's lemma
    the logarithm of a chord is above the chord of the logarithms by no more than an
    eighth of their squared difference.
    """
    frequencies, cells = size
    weight = (weights / labelled)[:, np.newaxis]
    grown = tilt * weight
    turned = grown * (2.0 * math.pi / FALL) * np.arange(frequencies)
    real = np.expm1(grown) * np.cos(turned) - 2.0 * np.sin(turned / 2.0) ** 2
    square = real**2 + (np.exp(grown) * np.sin(turned)) ** 2
    low, high = box
    shares = np.arange(cells + 1.0) / cells
    p = low[:, np.newaxis] + (high - low)[:, np.newaxis] * shares
    # Rounding must not let the grid fall short of the box.
    p[:, -1] = high
    real, square = real[:, np.newaxis], square[:, np.newaxis]
    at, n = p[..., np.newaxis], labelled[:, np.newaxis, np.newaxis]
    doubt = _FEW_UNITS * (2.0 * np.abs(real) + square)
    beyond_one = 2.0 * real * at + square * at * at + doubt
    logs = n / 2.0 * np.log1p(np.maximum(beyond_one, _FEW_UNITS - 1.0))
    steps = np.abs(np.diff(logs, axis=1))
    excess = np.minimum(steps * steps / (8.0 * n), steps)
    raised = logs.copy()
    raised[:, :-1] += excess
    raised[:, 1:] = np.maximum(raised[:, 1:], logs[:, 1:] + excess)
    return Waves(p, raised)


@cache
def coefficients(steps: int) -> Floats:
    """Return the sizes of a majorant's coefficients, at frequencies from 0 on.

    The majorant is periodic and nowhere below exp(-FALL x), x the part of a period
    that has passed.  The coefficients of frequencies below 0, as large as those
    above, are counted with them, and there are none from *steps* on.

    With B(x) = 1/(1 - exp(-x)), x B(x) grows; a is the fall of one step.  The
    function that is repeated, one period being that many steps, is

        (sin(pi x)/pi)**2 * (sum over m >= 0 of exp(-a m)/(x - m)**2
            - a * sum over m >= 1 of exp(-a m)/(x - m) + a (B(a) - 1)/x).

    For x < 0 it is (sin(pi x)/pi)**2 times the integral over w > 0 of
    exp(w x) ((w + a) B(w + a) - a B(a)), and for x > 0 it exceeds exp(-a x) by that
    square times the integral of exp(-w x) (a B(a) - (a - w) B(a - w)): both are
    positive.  Its Fourier transform vanishes from 1 on.

    S. W. Graham and J. D. Vaaler, Transactions of the American Mathematical Society
    265 (1981), 283-302.
    """
    step = FALL / steps
    order = np.arange(steps)
    at = 1.0 / (1.0 - np.exp(-step - 2j * np.pi * order / steps))
    sizes = (1.0 - order / steps) * at
    sizes[1:] += step * (at[0] - at[1:]) / (2j * np.pi)
    absolute: Floats = np.abs(sizes) * (-math.expm1(-FALL) / steps * (1.0 + 1e-12))
    absolute[1:] *= 2.0
    return absolute
