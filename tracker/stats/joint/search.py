"""Find the largest sum of accuracies at which a proved chance is small enough."""

import math
from collections.abc import Callable

from scipy.special import ndtri

_CLOSE_ENOUGH = 1e-10
_MOST_STEPS = 60
_POINTS_OF_A_PARABOLA = 3


class Search:
    """Where the chance is known, and where it should be looked at next.

    Normal deviates of the chance are almost a line in the arcsine of the mean's
    root, so secants and inverse parabolas there meet the limit in a few steps.
    """

    def __init__(
        self, *, floor: float, estimate: float, classes: int, tolerance: float
    ) -> None:
        """Begin with a *floor* that needs no proof, and an *estimate* above it.

        The search ends within *tolerance*, a part of the allowed chance, below it.
        """
        self.best = floor
        self._tolerance = tolerance
        self._classes = classes
        self._beyond = estimate
        self._is_done = False
        self._left = (floor, 0.0)
        self._right = (estimate, 0.5)
        self._seen = [(0.0, self._arcsine(estimate))]
        self._narrowings = 0

    def run(
        self, largest_chance: Callable[[float], float], allowed: float, guess: float
    ) -> float:
        """Return a sum where *largest_chance* was at most *allowed*, or the floor.

        It is never above the estimate.  *largest_chance* must bound the chance at
        all accuracies with the sum it is given; how the search runs matters for
        nothing but time, since what is returned has been proved.
        """
        total = guess
        aim = allowed * (1.0 - self._tolerance / 2.0)
        for _ in range(_MOST_STEPS):
            if not self.best < total < self._beyond:
                total = self._narrowed(aim)
            if self._has_ended(total):
                break
            self._record(total, largest_chance(total), allowed)
            total = self.place_of(aim)
        return self.best

    def place_of(self, chance: float) -> float:
        """Return the sum at which the *chance* seems to be, NaN if there is none."""
        arcsine = self._interpolated(float(ndtri(chance)))
        return self._classes * math.sin(arcsine) ** 2

    def _has_ended(self, total: float) -> bool:
        return (
            self._is_done
            or self._beyond - self.best <= _CLOSE_ENOUGH * self._beyond
            or not self.best < total < self._beyond
        )

    def _record(self, total: float, chance: float, allowed: float) -> None:
        # What cannot be compared is not small enough.
        if chance <= allowed:
            self.best, self._left = total, (total, chance)
            self._is_done = chance >= allowed * (1.0 - self._tolerance)
        else:
            self._beyond, self._right = total, (total, chance)
        deviate = float(ndtri(min(max(chance, 1e-300), 1.0 - 1e-16)))
        self._seen.append((deviate, self._arcsine(total)))

    def _narrowed(self, aim: float) -> float:
        # Where a class has nothing correct, the chance itself is a line in the sum.
        self._narrowings += 1
        (left, low), (right, high) = self._left, self._right
        if self._narrowings % 3 and low < aim < high:
            total = left + (right - left) * (aim - low) / (high - low)
            if left < total < right:
                return total
        return (self.best + self._beyond) / 2.0

    def _arcsine(self, total: float) -> float:
        return math.asin(math.sqrt(min(max(total / self._classes, 0.0), 1.0)))

    def _interpolated(self, aim: float) -> float:
        """Return the arcsine at which a parabola meets a deviate, NaN if none does."""
        points = self._seen[-_POINTS_OF_A_PARABOLA:]
        total = 0.0
        for index, (deviate, arcsine) in enumerate(points):
            weight = arcsine
            for position, (other, _) in enumerate(points):
                if position != index:
                    if other == deviate:
                        return math.nan
                    weight *= (aim - other) / (deviate - other)
            total += weight
        return total
