"""A limit for any number of classes, by the modulus of the likelihood."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..arguments import Floats, total_of
from ..exact import lower_bound, upper_bound
from .outcomes import shortfalls

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
        half = grown * (math.pi / FALL) * orders
        sine, cosine = np.sin(half), np.cos(half)
        versine = 2.0 * sine * sine
        real = np.expm1(grown) * (1.0 - versine) - versine
        imaginary = np.abs(np.exp(grown) * (2.0 * sine * cosine))
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
        # In place: room for as much again costs more than the sums.
        one, other = twice * self.imaginary, np.empty_like(self.steep)
        np.subtract(self.steep, one, out=other)
        one += self.steep
        other *= one
        p = np.sqrt(np.maximum(other, 0.0, out=other), out=other)
        np.multiply(twice, self.real, out=one)
        p += np.subtract(self.steep, one, out=one)
        p /= np.multiply(twice, self.square, out=one)
        # As `np.clip` does it, but for its checks.
        np.minimum(np.maximum(p, self.low, out=p), self.high, out=p)
        logs = _log_moments(self.n, self.real, self.square, self.doubt, p)
        worth = logs - np.multiply(multipliers, p, out=one)
        at_low = self.at_low - multipliers * self.low
        is_low = at_low >= worth
        most = total_of(np.maximum(at_low, worth, out=worth), 0)
        np.copyto(p, self.low, where=is_low)
        np.copyto(logs, self.at_low, where=is_low)
        size = total_of(np.abs(logs, out=logs), 0)
        classes = len(self.n)
        doubt = 2.0**-50 * (classes + 8) * (size + classes * multipliers + 1.0)
        return most + (doubt + _LEAST_DOUBT * total_of(self.n, 0)), total_of(p, 0)


def _by_class(array: Floats) -> Floats:
    """Return an array of rows and classes with the axes of waves."""
    return np.ascontiguousarray(array.T)[..., np.newaxis]


def _log_moments(
    n: Floats, real: Floats, square: Floats, doubt: Floats, p: Floats
) -> Floats:
    logs = square * p
    logs += 2.0 * real
    logs *= p
    logs += doubt
    np.log1p(np.maximum(logs, _FEW_UNITS - 1.0, out=logs), out=logs)
    logs *= n / 2.0
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


# What part of the error pays for the box of class intervals.
_BOX_PART = 0.02

# How often each search is narrowed.  All of it is done, and nothing ends as soon as
# it is close enough: so a row takes the same steps alone as among others.
_TILTINGS = 2
_LEVELS = 24
_HALVINGS, _HALVINGS_OF_CHOICE = 9, 6

# The tilts that are tried, in parts of what suits a normal sum, and how many steps
# the chosen one may be away from the middle.
_TILT_STEP, _FURTHEST = 1.3, 1.25
_TILTS = np.array([1.0 / _TILT_STEP, 1.0, _TILT_STEP])
_TILTS_OF_MANY = np.array([1.1])

_LEAST_WEIGHT = 0.1
_MOST_TILT_PER_LABEL = 50.0
# Arrays of so many numbers stay in the cache of a processor.
_MOST_AT_ONCE = 2**16

Rows = tuple[Floats, ...]


def modulus_limits(
    k: Floats, n: Floats, error: float, *, expected: float | Floats
) -> Floats:
    """Return what the mean accuracies exceed, but for a chance of at most *error*.

    *k* and *n* hold a row for each limit and in it a column for each class, all
    labelled.  A row gives the same limit, to the last bit, alone and among others,
    and in whatever order its classes are.

    The outcomes are ordered by a weighted sum S of the shares correct, which suits
    accuracies of about *expected*, by row or of all; that must have been fixed before
    the outcomes were seen.  The limit is a mean at which a bound for the chance of a
    sum as high as the observed one, s, is at most *error* less what pays for a box of
    exact class intervals.

    The bound: a periodic Q is a sum of waves with frequencies u and coefficients q,
    and at every x it is at least exp(-t (x mod P)) > 0, P being the period.  Then
    exp(t x) Q(x) is at least 1 where x >= 0 and nowhere negative, so its expectation
    at x = S - s bounds the chance.  In turn it is at most exp(-t s) times the sum
    over u of |q| times the product over classes of |E exp((t + iu) their part)|.
    That holds for any tilt t.

    Should the limit be above the mean of the true accuracies, then either the box
    misses them, or their sum is no higher than one at which the bound was small
    enough for all accuracies in the box with at most that sum.  The chance of the
    latter is at most what the bound was compared with.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; R. L. Berger and D. D. Boos, same journal 89 (1994), 1012-1016.
    """
    # The same numbers are added in the same order, whatever the order of classes.
    order = np.lexsort((k, n), axis=-1)
    correct, labelled = (np.take_along_axis(part, order, axis=-1) for part in (k, n))
    guesses = np.broadcast_to(expected, len(correct))
    limits = np.zeros(len(correct))
    some = np.flatnonzero(correct.any(axis=-1))
    block = max(1, _MOST_AT_ONCE // (160 * correct.shape[-1]))
    for start in range(0, some.size, block):
        rows = some[start : start + block]
        limits[rows] = _limits(correct[rows], labelled[rows], error, guesses[rows])
    return limits


def _limits(k: Floats, n: Floats, error: float, expected: Floats) -> Floats:
    classes = n.shape[-1]
    box_error = error * _BOX_PART
    # Rounding must not let the parts add up to more than the error.
    allowed = math.log((error - box_error) * (1.0 - 1e-15))
    right, labelled = k.astype(np.int64), n.astype(np.int64)
    box = (
        lower_bound(right, labelled, box_error / (2 * classes)),
        upper_bound(right, labelled, box_error / (2 * classes)),
    )
    z = max(-float(ndtri(error)), 0.1)
    weights = _weights(n, expected[:, np.newaxis], z)
    scores = total_of(weights * k / n)
    # Below the box's lowest corner there is nothing left to refute.
    floor = total_of(box[0]) * (1.0 - 2.0**-52 * (classes + 4))
    ends = floor, np.maximum(total_of(k / n), floor)
    tilts, prices, guess = _tilted(k, n, weights, box, z)
    is_few = classes <= FEW_CLASSES
    tried = tilts[:, np.newaxis] * (_TILTS if is_few else _TILTS_OF_MANY)
    sums = n, weights, *box, scores
    tilts, near = _choose_tilts(tried, sums, (*ends, prices, guess), allowed)
    bound = Bound.of(tilts, sums, _STEPS if is_few else _STEPS_OF_MANY)
    found = _largest_totals(bound, (*ends, prices, near), allowed, _HALVINGS)
    return np.asarray(np.nextafter(found / classes, 0.0))


def _choose_tilts(
    tilts: Floats, sums: Rows, search: Rows, allowed: float
) -> tuple[Floats, Floats]:
    """Return a tilt for each row, (R,), near which few waves give the highest limit.

    With them come the highest totals.  Of the *tilts*, (R, 3) or (R, 1), all are
    tried.  A bound holds for any tilt, whatever it was chosen by.
    """
    sums, search = (
        tuple(np.repeat(part, tilts.shape[-1], axis=0) for part in parts)
        for parts in (sums, search)
    )
    bound = Bound.of(tilts.ravel(), sums, _STEPS_OF_CHOICE)
    found = _largest_totals(bound, search, allowed, _HALVINGS_OF_CHOICE)
    by_tilt = found.reshape(tilts.shape).T
    near = by_tilt.max(axis=0)
    if len(by_tilt) == 1:
        return tilts[:, 0], near
    left, middle, right = by_tilt
    # The top of a parabola through the three, in steps from the middle.
    bend = np.minimum(left - 2.0 * middle + right, -1e-300)
    steps = np.clip((left - right) / (2.0 * bend), -_FURTHEST, _FURTHEST)
    return tilts[:, 1] * np.exp(steps * math.log(_TILT_STEP)), near


def _largest_totals(
    bound: "Bound", search: Rows, allowed: float, halvings: int
) -> Floats:
    floor, estimate, prices, guess = search
    first = np.repeat(prices[:, np.newaxis], max(bound.steps), axis=1)
    lines = bound.lines(guess, first, halvings)
    return bound.largest_total(lines, (floor, estimate), guess, allowed)


def _tilted(
    k: Floats, n: Floats, weights: Floats, box: tuple[Floats, Floats], z: float
) -> tuple[Floats, Floats, Floats]:
    """Return tilts that suit the limits, and guesses of multipliers and totals there.

    For a normal sum the tilt loses next to nothing.
    """
    p = (k + 0.5) / (n + 1.0)
    most = _MOST_TILT_PER_LABEL / (weights / n).max(axis=-1)
    scores = total_of(weights * k / n)
    for _ in range(_TILTINGS):
        spread = np.sqrt(total_of(weights * weights * (p * (1.0 - p) + 1e-9) / n))
        tilts = np.minimum((z + math.sqrt(z * z + 4.0)) / (2.0 * spread), most)
        # What the logarithm of the moment is where the limit of a normal sum is.
        raised = tilts * spread
        logs = tilts * scores - raised * (z - raised / 2.0)
        p, prices = _likeliest(
            n, np.expm1(tilts[:, np.newaxis] * weights / n), box, logs
        )
    return tilts, prices, total_of(p)


def _likeliest(
    n: Floats, growth: Floats, box: tuple[Floats, Floats], logs: Floats
) -> tuple[Floats, Floats]:
    """Return accuracies that make a high sum likely, of the least total that can.

    The logarithms of their moments add up to about *logs*.  They are
    n * level - 1/growth where the box allows it; one over the level is the
    multiplier at which they are the largest of the wave that does not turn.
    """
    low, high = box
    behind = 1.0 / growth
    bottom = ((low + behind) / n).min(axis=-1)
    top = ((high + behind) / n).max(axis=-1)
    for _ in range(_LEVELS):
        level = np.sqrt(bottom * top)
        p = np.clip(n * level[:, np.newaxis] - behind, low, high)
        is_beyond = total_of(n * np.log1p(p * growth)) > logs
        bottom, top = (
            np.where(is_beyond, bottom, level),
            np.where(is_beyond, level, top),
        )
    return p, 1.0 / level


def _weights(labelled: Floats, expected: Floats, z: float) -> Floats:
    """Return weights of the shares that do what MOVER's lower limit does.

    That limit is the sum of the shares less the root of the summed squares of how
    far Wilson's lower limits are below them; these are its slopes where all shares
    are as expected (R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890).
    """
    step = 1e-3
    below, square, above = (
        shortfalls(share, z * z / labelled) ** 2
        for share in (expected - step, expected, expected + step)
    )
    distance = np.sqrt(total_of(square))[:, np.newaxis]
    change = (above - below) / (2.0 * step)
    return np.maximum(1.0 - change / (2.0 * distance), _LEAST_WEIGHT)


# Into how many steps a period may be cut.  The more classes there are, the smoother
# is their sum.
FEW_CLASSES = 24
_STEPS = 16, 32, 48
_STEPS_OF_MANY = (24,)
# Of the bounds that choose a tilt.
_STEPS_OF_CHOICE = (16,)

_STEPS_TO_TOTAL = 5
# What part of the allowed chance may be left unused.
_UNUSED = 2e-4
# Far more than the rounding of a logarithm of a chance.
_SLACK = 1e-9


class Lines(NamedTuple):
    """Lines in the total that each bound the logarithm of a wave from above.

    The axes are lines, rows and frequencies.
    """

    slopes: Floats
    values: Floats

    def lowest(self, totals: Floats) -> tuple[Floats, Floats]:
        """Return the least values at the rows' totals, and the slopes there."""
        values = self.values + self.slopes * totals[:, np.newaxis]
        lowest = values.min(axis=0)
        # A fifth of the time of `argmin`.
        slopes = np.zeros(lowest.shape)
        for line, slope in zip(values, self.slopes, strict=True):
            np.copyto(slopes, slope, where=line == lowest)
        return lowest, slopes


class Bound(NamedTuple):
    """What bounds the chance of a sum as high as the observed one, for a tilt a row."""

    waves: Waves
    steps: tuple[int, ...]
    offset: Floats

    @classmethod
    def of(cls, tilts: Floats, sums: Rows, steps: tuple[int, ...]) -> "Bound":
        """Return the bound for rows with a tilt each, by periods cut into *steps*.

        *sums* are the labels of the classes, their weights, the ends of their boxes
        and the weighted sums of their shares.
        """
        labelled, weights, low, high, scores = sums
        classes = labelled.shape[-1]
        offset = tilts * scores
        doubt = 2.0**-50 * (classes + 8) * (offset + 1.0)
        waves = Waves.of(labelled, weights, (low, high), tilts, max(steps))
        return cls(waves, steps, (doubt - offset)[:, np.newaxis])

    def lines(self, totals: Floats, multipliers: Floats, halvings: int) -> Lines:
        """Return lines that are low at these totals.

        The best multipliers are sought from 0 to twice those given.
        """
        slopes, values, steps = [], [], multipliers
        for _ in range(halvings):
            worth, taken = self.waves.largest(multipliers)
            slopes.append(multipliers)
            values.append(worth + self.offset)
            is_beyond = taken > totals[:, np.newaxis]
            steps = steps / 2.0
            multipliers = multipliers + np.where(is_beyond, steps, -steps)
        return Lines(np.array(slopes), np.array(values))

    def log_chance(self, lines: Lines, totals: Floats) -> tuple[Floats, Floats]:
        """Return bounds of the logarithms of the chances, and their derivatives."""
        logs, slopes = lines.lowest(totals)
        best, slope = np.full(totals.shape, np.inf), np.zeros(totals.shape)
        for steps in self.steps:
            sizes = logs[:, :steps] + np.log(coefficients(steps))
            highest = sizes.max(axis=-1, keepdims=True)
            parts = np.exp(sizes - highest)
            sums = total_of(parts)
            found = highest[:, 0] + np.log(sums) + _SLACK
            rising = total_of(parts * slopes[:, :steps]) / sums
            slope = np.where(found < best, rising, slope)
            best = np.minimum(best, found)
        return best, slope

    def largest_total(
        self,
        lines: Lines,
        ends: tuple[Floats, Floats],
        guess: Floats,
        log_allowed: float,
    ) -> Floats:
        """Return totals between the *ends* at which the chance is still allowed.

        The lower ends need no proof.  The bound of the logarithm is about concave in
        the total, so Newton's steps come from the side where it is allowed.
        """
        best, beyond = ends
        total = np.clip(guess, best, beyond)
        aim = log_allowed - _UNUSED
        for _ in range(_STEPS_TO_TOTAL):
            found, slope = self.log_chance(lines, total)
            is_allowed = found <= log_allowed
            best = np.where(is_allowed, np.maximum(best, total), best)
            beyond = np.where(is_allowed, beyond, np.minimum(beyond, total))
            total = total + (aim - found) / np.maximum(slope, 1e-300)
            is_inside = (total > best) & (total < beyond)
            total = np.where(is_inside, total, (best + beyond) / 2.0)
        return best
