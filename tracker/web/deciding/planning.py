"""How many more labels would make the intervals as narrow as is wanted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, now, requires
from tracker.services.deciding.planning import (
    Goal,
    LabelPlan,
    PlannedClass,
    build_plan,
    choose_next,
    labels_for_balanced,
    price_audit,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import MOST_ROWS, read_classes
from tracker.words import DECIDING_METHOD

CHOICES = ("10", "5", "3", "2", "1", "0.5")
USUAL = "5"
# How well the accuracy might be known beyond the verdict.
ROWS = ("2", "1")


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes to know everything within so many points up or down."""

    points: str
    labels: LabelPlan
    drawn: int | None
    classes: Sequence[PlannedClass]
    # The class whose label helps most, and what it is supposed to be.
    next: PlannedClass
    supposed: float | None
    hidden: int
    # How many draws reach other widths.
    rows: Sequence[tuple[str, int | None]]


@pages.get("/detectors/<detector_id>/labelling")
@requires("viewer")
def show_plan(detector_id: str) -> ResponseReturnValue:
    """Show how many more labels would reach a given width."""
    version = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        estimate = get_estimate(
            session,
            detector,
            version=version,
            method=DECIDING_METHOD,
            computed_at=now(),
        )
        estimate = price_audit(session, detector, estimate)
        return render_template(
            "detectors/plan.html",
            detector=detector,
            estimate=estimate,
            version=version,
            plan=build_page(
                estimate,
                points=parse_points(request.args.get("within")),
            ),
            choices=CHOICES,
        )


def parse_points(text: str | None) -> str:
    """Return one of the choices, the usual one for anything else."""
    return text if text in CHOICES else USUAL


def build_page(estimate: Estimate, *, points: str) -> Plan:
    """Return how many more labels bring *estimate* within *points* up or down."""
    following = choose_next(estimate).name
    shown = {one.name for one in read_classes(estimate, limit=MOST_ROWS)}
    goal = Goal(width=2 * float(points) / 100)
    among = {*shown, following}
    plan = build_plan(estimate, goal, among=among)
    accuracies = {one.name: one.accuracy for one in estimate.classes}
    return Plan(
        points=points,
        labels=plan,
        drawn=count_draws(estimate, goal.width),
        classes=[one for one in plan.classes if one.name in shown],
        hidden=len(estimate.classes) - len(shown),
        next=next(one for one in plan.classes if one.name == following),
        supposed=accuracies[following],
        rows=[(one, count_draws(estimate, 2 * float(one) / 100)) for one in ROWS],
    )


def count_draws(estimate: Estimate, width: float) -> int | None:
    """Return how many random draws bring the balanced interval to *width*, roughly.

    Nobody can order labels of a class: they come as often as the class does.
    """
    labelled = estimate.labelled
    more = labels_for_balanced(estimate, width)
    pairs = list(zip(more or (), labelled, strict=False))
    if more is None or any(wanted and not n for wanted, n in pairs):
        return None
    draws = (wanted * sum(labelled) / n for wanted, n in pairs if wanted)
    return math.ceil(max(draws, default=0))
