"""A limit for the balanced accuracy of any number of classes."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from tracker.stats.arguments import Floats
from tracker.stats.binomial import lower_bound, upper_bound
from tracker.stats.joint_search import Search
from tracker.stats.joint_waves import Waves, coefficients, waves

# What part of the error pays for the box of class intervals, and how much of it
# may be left unused.
_BOX_PART = 0.02
_TOLERANCE = 1e-3

# Into how many steps a period may be cut, and a class's interval into how many
# cells.  The more classes there are, the smoother is their sum.
_FEW_CLASSES = 24
_STEPS = 16, 32, 64
_STEPS_OF_MANY = (24,)
_CELLS = 24
_CELLS_OF_MANY = 12

_TILTS = 3
_HALVINGS = 10
_LEAST_WEIGHT = 0.1
_MOST_TILT_PER_LABEL = 50.0


def modulus_limit(
    k: tuple[int, ...], n: tuple[int, ...], error: float, *, expected: float
) -> float:
    """Return what the mean accuracy exceeds, but for a chance of at most *error*.

    The outcomes are ordered by a weighted sum S of the shares correct, which suits
    accuracies of about *expected*; that must have been fixed before the outcomes
    were seen.  The limit is the largest mean at which a bound for the chance of a
    sum as high as the observed one, s, is at most *error* less what pays for a box
    of exact class intervals.

    The bound: a periodic Q is a sum of waves with frequencies u and coefficients q,
    and at every x it is at least exp(-t (x mod P)) > 0, P being the period.  Then
    exp(t x) Q(x) is at least 1 where x >= 0 and nowhere negative, so its expectation
    at x = S - s bounds the chance.  In turn it is at most exp(-t s) times the sum
    over u of |q| times the product over classes of |E exp((t + iu) their part)|.
    That holds for any tilt t, and for the least over several of them.

    Should the limit be above the mean of the true accuracies, then either the box
    misses them, or their sum is no higher than one at which the bound was small
    enough for all accuracies in the box with at most that sum.  The chance of the
    latter is at most what the bound was compared with.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; R. L. Berger and D. D. Boos, same journal 89 (1994), 1012-1016.
    """
    if not any(k):
        return 0.0
    # The same numbers are added in the same order, whatever the order of classes.
    ranked = sorted(zip(n, k, strict=True))
    labelled, correct = (np.array(part) for part in zip(*ranked, strict=True))
    box_error = error * _BOX_PART
    # Rounding must not let the parts add up to more than the error.
    allowed = (error - box_error) * (1.0 - 1e-15)
    low = lower_bound(correct, labelled, box_error / (2 * len(n)))
    high = upper_bound(correct, labelled, box_error / (2 * len(n)))
    z = max(-float(ndtri(error)), 0.1)
    seen = _Seen.of(correct, labelled, (low, high), _weights(labelled, expected, z))

    floor = math.nextafter(math.fsum(low.tolist()), 0.0)
    estimate = math.fsum((correct / labelled).tolist())
    spread = _spread((correct + 0.5) / (labelled + 1.0), labelled)
    guess = estimate - z * spread
    best, most = floor, _MOST_TILT_PER_LABEL / float((seen.weights / labelled).max())
    for _ in range(_TILTS):
        # For a normal sum this tilt loses next to nothing.
        tilt = (z + math.sqrt(z * z + 4.0)) / (2.0 * spread)
        bound = _Bound.at(seen, min(tilt, most))
        found = Search(
            floor=floor, estimate=estimate, classes=len(n), tolerance=_TOLERANCE
        ).run(bound.chance, allowed, guess)
        best = guess = max(best, found)
        spread = _spread(bound.favourite(found), labelled)
    return math.nextafter(best / len(n), 0.0)


def _spread(accuracies: Floats, labelled: Floats) -> float:
    """Return about how far the sum of the shares strays, never quite nothing."""
    variances = (accuracies * (1.0 - accuracies) + 1e-9) / labelled
    return math.sqrt(math.fsum(variances.tolist()))


def _weights(labelled: Floats, expected: float, z: float) -> Floats:
    """Return weights of the shares that do what MOVER's lower limit does.

    That limit is the sum of the shares less the root of the summed squares of how
    far Wilson's lower limits are below them; these are its slopes where all shares
    are as expected (R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890).
    """
    ratio = z * z / labelled

    def square(share: float) -> Floats:
        root = np.sqrt(share * (1.0 - share) * ratio + ratio * ratio / 4.0)
        short: Floats = share - (share + ratio / 2.0 - root) / (1.0 + ratio)
        return short * short

    distance = math.sqrt(math.fsum(square(expected).tolist()))
    step = 1e-3
    change = (square(expected + step) - square(expected - step)) / (2.0 * step)
    return np.maximum(1.0 - change / (2.0 * distance), _LEAST_WEIGHT)


class _Seen(NamedTuple):
    """The labels, the box, the weights and the weighted sum that was observed."""

    labelled: Floats
    box: tuple[Floats, Floats]
    weights: Floats
    total: float

    @classmethod
    def of(
        cls,
        correct: Floats,
        labelled: Floats,
        box: tuple[Floats, Floats],
        weights: Floats,
    ) -> "_Seen":
        total = math.fsum((weights * correct / labelled).tolist())
        return cls(labelled.astype(np.float64), box, weights, total)


class _Bound(NamedTuple):
    """What bounds the chance of a sum as high as the observed one, for one tilt."""

    waves: Waves
    steps: tuple[int, ...]
    steepest: Floats
    # The logarithm of exp(-t s), and what rounding may add to each exponent.
    offset: float
    doubt: Floats

    @classmethod
    def at(cls, seen: _Seen, tilt: float) -> "_Bound":
        classes = seen.labelled.size
        is_few = classes <= _FEW_CLASSES
        steps = _STEPS if is_few else _STEPS_OF_MANY
        cells = _CELLS if is_few else _CELLS_OF_MANY
        found = waves(
            seen.labelled,
            seen.weights,
            seen.box,
            tilt,
            (max(steps), cells),
        )
        widths = np.maximum(np.diff(found.accuracies, axis=-1), 1e-300)
        slopes = np.diff(found.logs, axis=1) / widths[..., np.newaxis]
        steepest = np.maximum(slopes.max(axis=(0, 1)), 0.0)
        size = np.abs(found.logs).max(axis=1).sum(axis=0) + classes * steepest
        offset = -tilt * seen.total
        doubt = 2.0**-50 * (classes + 8) * (size + abs(offset) + 1.0)
        return cls(found, steps, steepest, offset, doubt)

    def chance(self, total: float) -> float:
        """Return a bound for the chance, at all accuracies with at most this sum."""
        logs = self._priced(total)[1] + (self.offset + self.doubt)
        # A chance above 1 says nothing, however far above.
        sizes = np.exp(np.minimum(logs, 10.0))
        sums = [
            math.fsum((coefficients(steps) * sizes[:steps]).tolist())
            for steps in self.steps
        ]
        return min(1.0, *sums) * (1.0 + 1e-12)

    def favourite(self, total: float) -> Floats:
        """Return accuracies of about this sum that make a high sum likely."""
        return self.waves.favourite(float(self._priced(total)[0][0]))

    def _priced(self, total: float) -> tuple[Floats, Floats]:
        """Return good multipliers, and the bounds that they give."""
        low, high = np.zeros_like(self.steepest), self.steepest.copy()
        best, chosen = np.full_like(low, np.inf), low
        for _ in range(_HALVINGS):
            multipliers = (low + high) / 2.0
            logs, taken = self.waves.largest(multipliers, total)
            chosen = np.where(logs < best, multipliers, chosen)
            best = np.minimum(best, logs)
            is_beyond = taken > total
            low = np.where(is_beyond, multipliers, low)
            high = np.where(is_beyond, high, multipliers)
        return chosen, best
