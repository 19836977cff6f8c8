"""How many more labels would make the intervals as narrow as is wanted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.planning import (
    Goal,
    NextClass,
    choose_next,
    labels_for_balanced,
    labels_for_class,
    plan_certifying,
)
from tracker.web.blueprint import pages
from tracker.web.readings import MOST_ROWS, read_classes

CHOICES = ("10", "5", "3", "2", "1", "0.5")
USUAL = "5"


@dataclass(frozen=True, slots=True)
class PlannedClass:
    """How many more labels of one class are needed, None where it is hopeless."""

    name: str
    labelled: int
    for_itself: int | None
    for_balanced: int | None


@dataclass(frozen=True, slots=True)
class Certifying:
    """What it takes to certify a target for the class to be labelled next.

    *labels* is None where more labels are not expected to.
    """

    target: float
    power: float
    accuracy: float
    labels: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes to know everything within so many points up or down."""

    points: str
    in_all: int | None
    drawn: int | None
    classes: Sequence[PlannedClass]
    hidden: int
    next: NextClass
    certifying: Certifying | None


@pages.get("/detectors/<detector_id>/plan")
@requires("viewer")
def show_plan(detector_id: str) -> ResponseReturnValue:
    """Show how many more labels would reach a given width."""
    version = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        estimate = get_estimate(session, detector, version=version, computed_at=now())
        return render_template(
            "detectors/plan.html",
            detector=detector,
            version=version,
            plan=build_plan(estimate, points=parse_points(request.args.get("within"))),
            choices=CHOICES,
        )


def parse_points(text: str | None) -> str:
    """Return one of the choices, the usual one for anything else."""
    return text if text in CHOICES else USUAL


def build_plan(estimate: Estimate, *, points: str) -> Plan:
    """Return how many more labels bring *estimate* within *points* up or down."""
    width = 2 * float(points) / 100
    level = estimate.confidence_level
    ks = tuple(scope.correct for scope in estimate.classes)
    ns = tuple(scope.labelled for scope in estimate.classes)
    balanced = labels_for_balanced(ks, ns, width, level)
    places = {scope.scope: index for index, scope in enumerate(estimate.classes)}
    shown = read_classes(estimate, limit=MOST_ROWS)
    following = choose_next(estimate)
    return Plan(
        points=points,
        in_all=None if balanced is None else sum(balanced),
        drawn=None if balanced is None else _draws(balanced, ns),
        classes=[
            PlannedClass(
                name=one.name,
                labelled=one.labelled,
                for_itself=labels_for_class(one.correct, one.labelled, width, level),
                for_balanced=None if balanced is None else balanced[places[one.name]],
            )
            for one in shown
        ],
        hidden=len(ns) - len(shown),
        next=following,
        certifying=_plan_certifying(estimate, following),
    )


def _plan_certifying(estimate: Estimate, following: NextClass) -> Certifying | None:
    scope, target = following.scope, estimate.detector.target
    if target is None or scope.accuracy is None:
        return None
    goal = Goal(target=target)
    labels = plan_certifying(scope, goal, estimate.confidence_level)
    return Certifying(
        target=target,
        power=goal.power,
        accuracy=scope.accuracy,
        labels=labels and roughly(labels),
    )


def roughly(labels: int) -> int:
    """Return *labels* rounded up to two digits and zeros."""
    unit: int = 10 ** max(len(str(labels)) - 2, 0)
    return -(-labels // unit) * unit


def _draws(more: Sequence[int], ns: Sequence[int]) -> int | None:
    """Return how many random draws hold *more* of each class, roughly.

    Nobody can order labels of a class: they come as often as the class does.
    """
    if any(wanted and not n for wanted, n in zip(more, ns, strict=True)):
        return None
    total = sum(ns)
    draws = (wanted * total / n for wanted, n in zip(more, ns, strict=True) if wanted)
    return math.ceil(max(draws, default=0))
