"""Every method side by side on the counts of an estimate."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from tracker import stats
from tracker.errors import InvalidInputError
from tracker.services.calculator import CoverageFigures, calculate_coverage
from tracker.services.estimates import Estimate, ScopeEstimate, estimate_scopes
from tracker.stats.coverage import MOST_OUTCOMES, class_coverage

# Outcomes whose coverage is summed for a page, over all classes.
_MOST_OUTCOMES = 20_000


@dataclass(frozen=True, slots=True)
class ClassCoverage:
    """How often a method holds the accuracy of the class that it holds least."""

    scope: str
    labelled: int
    accuracy: float
    holds: float


@dataclass(frozen=True, slots=True)
class MethodReading:
    """What one method says of the balanced accuracy, and what it is worth."""

    method: stats.Method
    balanced: ScopeEstimate
    coverage: ClassCoverage | None


def read_methods(estimate: Estimate) -> list[MethodReading]:
    """Return what each method says of *estimate*, the guaranteed ones first.

    The coverage is exact, at the counts of each class and at the accuracy seen; a
    class without any mistake is taken to make half of one in as many queries and
    one more, for at an accuracy of 100 % even the worst method is always right.
    Classes with many labels, where no method fails, are left out where the sum
    would take long.
    """
    names = [scope.scope for scope in estimate.classes]
    correct = [scope.correct for scope in estimate.classes]
    labelled = [scope.labelled for scope in estimate.classes]
    readings = []
    for name in stats.METHODS:
        rows = estimate_scopes(
            names, [correct], [labelled], name, estimate.confidence_level
        )
        readings.append(
            MethodReading(
                method=stats.get_method(name),
                balanced=rows[0][0],
                coverage=_least_coverage(name, estimate),
            )
        )
    return sorted(readings, key=lambda reading: not reading.method.is_guaranteed)


def can_sum_balanced(estimate: Estimate) -> bool:
    """Return whether `sum_balanced` finds anything, without summing."""
    labelled = [scope.labelled for scope in estimate.classes]
    outcomes = math.prod(n + 1 for n in labelled)
    return len(labelled) == 2 and all(labelled) and outcomes <= MOST_OUTCOMES


def sum_balanced(estimate: Estimate) -> list[CoverageFigures]:
    """Return how often each method holds the balanced accuracy of two classes.

    The truth is supposed to be what was seen, as `read_methods` has it.  A method
    is left out where summing over its outcomes would take too long; for another
    number of classes, and while one of them has no labels, all are.
    """
    labelled = tuple(scope.labelled for scope in estimate.classes)
    if len(labelled) != 2 or not all(labelled):
        return []
    truth = tuple(_supposed(scope) for scope in estimate.classes)
    figures = []
    for name in stats.METHODS:
        with suppress(InvalidInputError):
            figures.append(
                _balanced_coverage(name, labelled, truth, estimate.confidence_level)
            )
    return figures


def labels_that_exact_needs(
    estimate: Estimate, readings: Sequence[MethodReading]
) -> int | None:
    """Return how many more labels give `exact` the width that `joint` has now.

    0 where it is that narrow already, None for more than ten million of a class.
    """
    joint = next(one.balanced for one in readings if one.method.name == "joint")
    width = joint.high - joint.low
    if not 0 < width < 1:
        return 0
    more = _labels_to_reach(
        tuple(scope.correct for scope in estimate.classes),
        tuple(scope.labelled for scope in estimate.classes),
        width,
        estimate.confidence_level,
    )
    return None if more is None else sum(more)


def _least_coverage(method: str, estimate: Estimate) -> ClassCoverage | None:
    outcomes = 0
    found: list[ClassCoverage] = []
    for scope in sorted(estimate.classes, key=lambda one: one.labelled):
        outcomes += scope.labelled + 1
        if not scope.labelled:
            continue
        if outcomes > _MOST_OUTCOMES:
            break
        accuracy = _supposed(scope)
        holds = _coverage(method, scope.labelled, accuracy, estimate.confidence_level)
        found.append(ClassCoverage(scope.scope, scope.labelled, accuracy, holds))
    return min(found, key=lambda one: one.holds, default=None)


def _supposed(scope: ScopeEstimate) -> float:
    if 0 < scope.correct < scope.labelled:
        return scope.correct / scope.labelled
    return (scope.correct + 0.5) / (scope.labelled + 1)


@lru_cache(maxsize=256)
def _balanced_coverage(
    method: str,
    labelled: tuple[int, ...],
    accuracy: tuple[float, ...],
    level: float,
) -> CoverageFigures:
    return calculate_coverage(labelled, accuracy, method=method, confidence_level=level)


@lru_cache(maxsize=4096)
def _coverage(method: str, labelled: int, accuracy: float, level: float) -> float:
    interval = stats.get_method(method).class_interval
    return float(class_coverage(interval, labelled, accuracy, level).holds)


# The page asks again as labels arrive, and most of them change nothing here.
_labels_to_reach = lru_cache(maxsize=256)(stats.labels_to_reach_balanced_width)
