"""Every method side by side on the counts of an estimate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tracker import shapes, stats
from tracker.services.deciding.planning import narrow_balanced
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.estimate import ClassEstimate, Estimate
from tracker.services.estimates.intervals import score

# How long the coverage of one method may take.
_MILLISECONDS = 20.0


class _Budget(NamedTuple):
    """How the coverage of a method may be simulated."""

    most_draws: int
    fewest_draws: int
    largest_error: float


# A few samples show what an approximation loses.  What is proved is worth a
# simulated figure only where that is more precise than the proof.
_APPROXIMATE, _GUARANTEED = _Budget(400, 20, 1.0), _Budget(500, 100, 0.01)

# Milliseconds for an interval, and for each of its classes, where they are many.
_COSTS = {"anytime": (0.04, 0.015), "mid-p": (0.06, 0.015)}

# Of pairs of counts that are likely, in a sum: one takes two milliseconds by `joint`,
# half of one by `bootstrap` and `posterior`, a tenth by `anytime` and a fortieth by
# `mid-p`.  These are done in a second or a little more.
_MOST_PAIRS = {
    "joint": 700,
    "bootstrap": 2_000,
    "posterior": 1_500,
    "anytime": 10_000,
    "mid-p": 40_000,
}

# More than this below the level, and beyond doubt, is far below it.
_FAR = 0.1


class Coverage(NamedTuple):
    """How often an interval holds the truth, summed, and how wide it is on average."""

    method: str
    is_guaranteed: bool
    confidence_level: float
    labelled: tuple[int, ...]
    accuracy: tuple[float, ...]
    holds: float
    above: float
    below: float
    expected_width: float


@dataclass(frozen=True, slots=True)
class BalancedCoverage:
    """How often a method holds the balanced accuracy that was seen.

    It is summed over all outcomes, with no *standard_error*, or simulated.  What is
    simulated of a guaranteed method is never below its level: that is proved.
    """

    holds: float
    standard_error: float
    confidence_level: float

    @property
    def is_too_low(self) -> bool:
        """Whether it is below the level, beyond doubt."""
        return self.holds + 2.0 * self.standard_error < self.confidence_level

    @property
    def is_far_too_low(self) -> bool:
        """Whether it is below the level by more than ten points, beyond doubt."""
        return self.holds + 2.0 * self.standard_error < self.confidence_level - _FAR


@dataclass(frozen=True, slots=True)
class MethodReading:
    """The interval of one method for the balanced accuracy, and its coverage."""

    method: stats.Method
    balanced: shapes.Score
    coverage: BalancedCoverage | None


def read_methods(estimate: Estimate) -> list[MethodReading]:
    """Return the interval of each method for *estimate*, the guaranteed ones first.

    Those far below the level come last.  The coverage is that of the balanced interval
    at the counts and accuracies seen; a class without a mistake is taken to make half
    of one in one query more, for at 100 % even the worst method is always right.
    There is none where that would take long, or say less than is proved.
    """
    readings = []
    counts, shares = ([estimate.correct], [estimate.labelled]), [estimate.shares]
    for name in stats.METHODS:
        level = method_level(name, estimate.confidence_level, estimate.population.kind)
        balanced = score(*counts, name, level, shares)[0][0]
        coverage = _cover(name, estimate)
        readings.append(MethodReading(stats.get_method(name), balanced, coverage))
    return sorted(
        readings,
        key=lambda one: (
            not one.method.is_guaranteed,
            one.coverage is not None and one.coverage.is_far_too_low,
        ),
    )


def can_sum_balanced(estimate: Estimate) -> bool:
    """Return whether `sum_balanced` finds anything, without summing."""
    labelled = estimate.labelled
    outcomes = math.prod(n + 1 for n in labelled)
    return len(labelled) == 2 and all(labelled) and outcomes <= stats.MOST_OUTCOMES


def sum_balanced(estimate: Estimate) -> list[Coverage]:
    """Return how often each method holds the balanced accuracy of two classes.

    The truth is supposed to be what was seen, as `read_methods` has it.  A method
    is left out where summing over its outcomes would take too long; for another
    number of classes, and while one of them has no labels, all are.
    """
    if not can_sum_balanced(estimate):
        return []
    labelled = estimate.labelled
    truth = tuple(_supposed(scope) for scope in estimate.classes)
    likely = stats.count_likely(labelled, truth)
    return [
        _sum_coverage(name, labelled, truth, estimate.confidence_level)
        for name in stats.METHODS
        if likely <= _MOST_PAIRS.get(name, stats.MOST_OUTCOMES)
    ]


def labels_that_exact_needs(
    estimate: Estimate, readings: Sequence[MethodReading]
) -> int | None:
    """Return how many more labels give `exact` the width that `joint` has now.

    0 where it is that narrow already, None for more than ten million of a class.
    """
    joint = next(one.balanced for one in readings if one.method.name == "joint")
    if not 0 < joint.width < 1:
        return 0
    more = narrow_balanced(
        estimate.correct, estimate.labelled, joint.width, estimate.confidence_level
    )
    return None if more is None else sum(more)


def _cover(method: str, estimate: Estimate) -> BalancedCoverage | None:
    labelled = estimate.labelled
    if not all(labelled):
        return None
    truth = tuple(_supposed(scope) for scope in estimate.classes)
    level = estimate.confidence_level
    is_guaranteed = stats.get_method(method).is_guaranteed
    budget = _GUARANTEED if is_guaranteed else _APPROXIMATE
    most = int(_MILLISECONDS / _milliseconds(method, labelled))
    if can_sum_balanced(estimate) and stats.count_likely(labelled, truth) <= most:
        found = _sum_coverage(method, labelled, truth, level)
        return BalancedCoverage(found.holds, 0.0, level)
    if most < budget.fewest_draws:
        return None
    draws = min(most, budget.most_draws)
    holds, error = _simulated(method, labelled, truth, level, draws)
    if error > budget.largest_error:
        return None
    return BalancedCoverage(max(holds, level) if is_guaranteed else holds, error, level)


def _milliseconds(method: str, labelled: Sequence[int]) -> float:
    """Return about how long one balanced interval takes, by the counts alone."""
    classes = len(labelled)
    if method == "joint":
        if stats.joint_is_costly(labelled):
            return math.inf
        is_quick = classes > 3 and len(set(labelled)) == 1
        return 0.03 + 0.004 * classes if is_quick else 4.0
    if method == "bootstrap":
        return 0.15 + 0.05 * sum(math.sqrt(n) for n in labelled)
    if method == "posterior":
        return 0.1 + 0.05 * sum(math.log10(n) ** 2 for n in labelled)
    first, each = _COSTS.get(method, (0.01, 0.002))
    return first + each * classes


def _supposed(scope: ClassEstimate) -> float:
    if 0 < scope.correct < scope.labelled:
        return scope.correct / scope.labelled
    return (scope.correct + 0.5) / (scope.labelled + 1)


@lru_cache(maxsize=256)
def _sum_coverage(
    method: str, labelled: tuple[int, ...], accuracy: tuple[float, ...], level: float
) -> Coverage:
    """Return the coverage for two classes, over all outcomes but negligible ones."""
    described = stats.get_method(method)
    interval = stats.only_likely(described.balanced_interval, labelled, accuracy)
    both = labelled[0], labelled[1]
    found = stats.balanced_coverage(interval, both, accuracy, level)
    figures = (float(one) for one in found)
    return Coverage(
        method, described.is_guaranteed, level, labelled, accuracy, *figures
    )


@lru_cache(maxsize=256)
def _simulated(
    method: str,
    labelled: tuple[int, ...],
    accuracy: tuple[float, ...],
    level: float,
    draws: int,
) -> tuple[float, float]:
    interval = stats.get_method(method).balanced_interval
    found, error = stats.simulated_coverage(
        interval, labelled, accuracy, level, draws=draws
    )
    return float(found.holds), error
