"""How many more labels make intervals narrow, or show that a target is exceeded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tracker import stats
from tracker.services.estimates import Estimate, ScopeEstimate
from tracker.services.fields import refuse
from tracker.stats.arguments import MOST_LABELS
from tracker.stats.certification import (
    chance_to_certify,
    labels_to_certify,
    next_class,
)

USUAL_WIDTH = 0.1
USUAL_POWER = 0.8

# Eigenvalues of many small matrices take a while, and a page that stays open asks
# for the same plan again and again.
labels_for_balanced = lru_cache(maxsize=256)(stats.labels_to_reach_balanced_width)
labels_for_class = lru_cache(maxsize=4096)(stats.labels_to_reach_width)
_labels_to_certify = lru_cache(maxsize=4096)(labels_to_certify)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted, and what is supposed.

    Without an *accuracy* each class is supposed to stay as it is estimated.
    """

    width: float = USUAL_WIDTH
    target: float | None = None
    accuracy: float | None = None
    power: float = USUAL_POWER
    more: int | None = None


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """How many more labels of one class are needed, None where it is hopeless.

    *chance* is that of certifying the target after so many more labels as the goal
    says; None where it says none.
    """

    scope: ScopeEstimate
    for_width: int | None
    for_balanced_width: int | None
    to_certify: int | None
    chance: float | None


@dataclass(frozen=True, slots=True)
class NextClass:
    """The class whose next label is worth most, and why."""

    scope: ScopeEstimate
    reason: Literal["unlabelled", "narrows_most"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes to reach a goal, for each class and in all."""

    goal: Goal
    classes: Sequence[ClassPlan]
    for_balanced_width: int | None
    next: NextClass


def build_plan(estimate: Estimate, goal: Goal) -> Plan:
    """Return what it takes from *estimate* to *goal*.

    A goal without a target has the detector's, if there is one.

    Raises InvalidInputError for more labels than are planned for.
    """
    if goal.more is not None and goal.more > MOST_LABELS - estimate.labels:
        refuse("more", goal.more, f"in all there may be {MOST_LABELS:,} labels")
    if goal.target is None:
        goal = replace(goal, target=estimate.detector.target)
    level = estimate.confidence_level
    ks = tuple(scope.correct for scope in estimate.classes)
    ns = tuple(scope.labelled for scope in estimate.classes)
    balanced = labels_for_balanced(ks, ns, goal.width, level)
    return Plan(
        goal=goal,
        classes=[
            ClassPlan(
                scope=scope,
                for_width=labels_for_class(k, n, goal.width, level),
                for_balanced_width=None if balanced is None else balanced[place],
                to_certify=plan_certifying(scope, goal, level),
                chance=_chance(scope, goal, level),
            )
            for place, (scope, k, n) in enumerate(
                zip(estimate.classes, ks, ns, strict=True)
            )
        ],
        for_balanced_width=None if balanced is None else sum(balanced),
        next=choose_next(estimate),
    )


def plan_certifying(scope: ScopeEstimate, goal: Goal, level: float) -> int | None:
    """Return how many more labels certify the target for a class, if it has hope.

    None without a target, and where the accuracy that is supposed is no higher.
    """
    accuracy = scope.accuracy if goal.accuracy is None else goal.accuracy
    if goal.target is None or accuracy is None:
        return None
    return _labels_to_certify(
        goal.target, accuracy, goal.power, level, k=scope.correct, n=scope.labelled
    )


def choose_next(estimate: Estimate) -> NextClass:
    """Return the class whose next label is worth most."""
    index = next_class(
        [scope.correct for scope in estimate.classes],
        [scope.labelled for scope in estimate.classes],
    )
    scope = estimate.classes[index]
    return NextClass(scope, "narrows_most" if scope.labelled else "unlabelled")


def _chance(scope: ScopeEstimate, goal: Goal, level: float) -> float | None:
    accuracy = scope.accuracy if goal.accuracy is None else goal.accuracy
    if goal.target is None or goal.more is None or accuracy is None:
        return None
    return chance_to_certify(
        goal.more,
        goal.target,
        level,
        accuracy=accuracy,
        k=scope.correct,
        n=scope.labelled,
    )
