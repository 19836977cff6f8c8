"""How large the exponential moments of a weighted sum of shares can be."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats, total_of

# How far the tilted exponential falls within a period.
FALL = 8.0

# Far more than the rounding of a logarithm's argument, in parts of its terms.
_FEW_UNITS = 2.0**-49

# More, for each label, than the rounding of the accuracy can take from a maximum.
_LEAST_DOUBT = 2.0**-70


class Waves(NamedTuple):
    """What log |E exp((t + iu) weight share correct)| is made of, and a box.

    The axes are classes, rows and frequencies u.  With z = exp((t + iu) weight/n) - 1
    the moment of a class with accuracy p is |1 + p z|**n; *real* and *imaginary* are
    the parts of z, the latter without its sign, and *square* is |z|**2.  *steep* is
    n times that, *doubt* pays for the rounding of |1 + p z|**2, and *at_low* is the
    logarithm of the moment at the lower end of the box.
    """

    n: Floats
    low: Floats
    high: Floats
    real: Floats
    imaginary: Floats
    square: Floats
    steep: Floats
    doubt: Floats
    at_low: Floats

    @classmethod
    def of(
        cls,
        labelled: Floats,
        weights: Floats,
        box: tuple[Floats, Floats],
        tilts: Floats,
        frequencies: int,
    ) -> "Waves":
        """Return the waves for rows of classes, each row with its tilt t."""
        grown = _by_class(tilts[:, np.newaxis] * weights / labelled)
        orders = np.arange(frequencies)
        turned = grown * (2.0 * math.pi / FALL) * orders
        real = np.expm1(grown) * np.cos(turned) - 2.0 * np.sin(turned / 2.0) ** 2
        imaginary = np.abs(np.exp(grown) * np.sin(turned))
        square = real * real + imaginary * imaginary
        n, low, high = (_by_class(array) for array in (labelled, *box))
        doubt = _FEW_UNITS * (2.0 * np.abs(real) + square)
        at_low = _log_moments(n, real, square, doubt, low)
        steep = n * square
        return cls(n, low, high, real, imaginary, square, steep, doubt, at_low)

    def largest(self, multipliers: Floats) -> tuple[Floats, Floats]:
        """Return bounds of the largest sums of the logs less multiplier times sum.

        *multipliers* are positive, one for each row and frequency, and so are the
        results: a bound for the sum over classes of the largest log less the
        multiplier times the accuracy, and the sum of the accuracies at which they
        are taken.  By Lagrange, the first plus the multiplier times a total bounds
        the sum of the logs at all accuracies with at most that total.

        The derivative of a class's log less the multiplier has the sign of a parabola
        that opens downward, so the largest is at the lower end of the box or at the
        greater root.  Where the root is not exact the derivative is next to nothing,
        so what that takes from the maximum is far less than what is added.
        """
        twice = 2.0 * multipliers
        lean = twice * self.imaginary
        root = np.sqrt(np.maximum((self.steep - lean) * (self.steep + lean), 0.0))
        root += self.steep - twice * self.real
        root /= twice * self.square
        # As `np.clip` does it, but for its checks.
        p = np.minimum(np.maximum(root, self.low), self.high)
        logs = _log_moments(self.n, self.real, self.square, self.doubt, p)
        worth, at_low = logs - multipliers * p, self.at_low - multipliers * self.low
        is_low = at_low >= worth
        most = _total(np.maximum(at_low, worth))
        taken = _total(np.where(is_low, self.low, p))
        size = _total(np.abs(np.where(is_low, self.at_low, logs)))
        classes = len(self.n)
        doubt = 2.0**-50 * (classes + 8) * (size + classes * multipliers + 1.0)
        return most + (doubt + _LEAST_DOUBT * _total(self.n)), taken


def _by_class(array: Floats) -> Floats:
    """Return an array of rows and classes with the axes of waves."""
    return np.ascontiguousarray(array.T)[..., np.newaxis]


def _total(array: Floats) -> Floats:
    return total_of(np.moveaxis(array, 0, -1))


def _log_moments(
    n: Floats, real: Floats, square: Floats, doubt: Floats, p: Floats
) -> Floats:
    beyond_one = (2.0 * real + square * p) * p + doubt
    logs: Floats = n / 2.0 * np.log1p(np.maximum(beyond_one, _FEW_UNITS - 1.0))
    return logs


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
