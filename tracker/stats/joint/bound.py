"""A bound for the chance of a high sum, at all accuracies with at most some total."""

from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats, total_of
from tracker.stats.joint.waves import Waves, coefficients

# Into how many steps a period may be cut.  The more classes there are, the smoother
# is their sum.
FEW_CLASSES = 24
_STEPS = 16, 32, 64
_STEPS_OF_MANY = (24,)

_STEPS_TO_TOTAL = 8
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

    def joined(self, other: "Lines") -> "Lines":
        """Return the lines of both."""
        return Lines(
            np.concatenate([self.slopes, other.slopes]),
            np.concatenate([self.values, other.values]),
        )

    def lowest(self, totals: Floats) -> tuple[Floats, Floats]:
        """Return the least values at the rows' totals, and the slopes there."""
        values = self.values + self.slopes * totals[:, np.newaxis]
        at = values.argmin(axis=0)
        # Quicker than `np.take_along_axis`.
        at = at * at.size + np.arange(at.size).reshape(at.shape)
        return values.take(at), self.slopes.take(at)


class Bound(NamedTuple):
    """What bounds the chance of a sum as high as the observed one, for a tilt a row."""

    waves: Waves
    steps: tuple[int, ...]
    offset: Floats

    @classmethod
    def of(
        cls,
        labelled: Floats,
        weights: Floats,
        box: tuple[Floats, Floats],
        tilts: Floats,
        scores: Floats,
    ) -> "Bound":
        """Return the bound for rows of classes with these weighted sums of shares."""
        classes = labelled.shape[-1]
        steps = _STEPS if classes <= FEW_CLASSES else _STEPS_OF_MANY
        offset = tilts * scores
        doubt = 2.0**-50 * (classes + 8) * (offset + 1.0)
        waves = Waves.of(labelled, weights, box, tilts, max(steps))
        return cls(waves, steps, (doubt - offset)[:, np.newaxis])

    @property
    def frequencies(self) -> int:
        """How many frequencies there are."""
        return max(self.steps)

    def lines(
        self, totals: Floats, multipliers: Floats, steps: Floats, halvings: int
    ) -> Lines:
        """Return lines that are low at these totals.

        The best multipliers are sought from those given, within *steps* of them.
        """
        slopes, values = [], []
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
