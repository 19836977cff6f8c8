"""How many more labels reach a width, and all methods side by side."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker import stats
from tracker.http import by, limit_exact_sums, now
from tracker.services.deciding.methods import (
    MethodReading,
    can_sum_balanced,
    labels_that_exact_needs,
    read_methods,
    sum_balanced,
)
from tracker.services.deciding.planning import (
    Goal,
    build_plan,
    choose_next,
    count_draws,
    price_audit,
)
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.facets import LABELER, get_facets
from tracker.services.estimates.intervals import ALL
from tracker.services.estimates.query_lists import QueryFilter
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.labelers import count_confirmed, list_assignments
from tracker.services.labelling.queues import (
    MOST_COUNTED,
    RECHECK,
    QueueChoice,
    build_queue,
    count_waiting,
)
from tracker.services.versions import choose_versions
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import count_disputed
from tracker.web.blueprint import page, reading
from tracker.web.drawing.readings import (
    MOST_ROWS,
    Axis,
    Reading,
    count_classes,
    read_classes,
    read_mean,
    span,
)
from tracker.web.drawing.words import narrow
from tracker.web.labelling.rechecks import read_errors
from tracker.web.queries.filters import count_this_week
from tracker.words import DECIDING_METHOD, DISPUTED, RANDOM, TARGETED

CHOICES = ("10", "5", "3", "2", "1", "0.5")
USUAL = "5"
# How well the accuracy might be known beyond the verdict.
ROWS = ("2", "1")


@page("GET /detectors/<detector_id>/labelling", "viewer")
def show_plan(detector_id: str) -> ResponseReturnValue:
    version = request.args.get("version") or None
    with reading(detector_id) as (session, detector):
        estimate = get_estimate(
            session,
            detector,
            version=version,
            method=DECIDING_METHOD,
            computed_at=now(),
            is_dated=False,
        )
        estimate = price_audit(session, detector, estimate)
        points = request.args.get("within", USUAL)
        return render_template(
            "detectors/plan.html",
            detector=detector,
            estimate=estimate,
            version=version,
            plan=_build_plan(
                estimate,
                points=points if points in CHOICES else USUAL,
                measure=detector.measure,
            ),
            choices=CHOICES,
            # They are on a page that is looked at, not in what the Overview asks for.
            most=MOST_COUNTED,
            find_queues=partial(_find_queues, session, detector, version),
            find_people=partial(_find_people, session, detector, version),
            reread=read_errors(session, detector, estimate),
        )


def _find_queues(
    session: Session, detector: Detector, version: str | None
) -> dict[str, int]:
    chosen = None if version == ALL else version
    found = {DISPUTED: count_disputed(session, detector.id)}
    for name in (RANDOM, TARGETED, RECHECK):
        choice = QueueChoice(queue=name, version=chosen)
        queue = build_queue(session, detector, choice, by())
        found[name] = count_waiting(session, queue)
    return found


def _find_people(
    session: Session, detector: Detector, version: str | None
) -> dict[str, Any]:
    """Return who labelled or was asked to, those with most labels first.

    Each with their labels of this week and of the newest queries, as on the page of
    mistakes, and with what is asked of them.
    """
    asked = {one.labeler: one for one in list_assignments(session, detector, by())}
    wanted = QueryFilter(version=version)
    found = get_facets(session, detector, wanted, at=now(), keys=[LABELER]).items[0]
    given = {one.name: one.labelled for one in found.values}
    week = count_this_week(session, detector.id)
    weekly = {name: number for (_, name), number in week.counts.items()}
    names = sorted({*asked, *given, *weekly}, key=lambda one: (-given.get(one, 0), one))
    return {
        "rows": [
            (one, weekly.get(one, 0), given.get(one, 0), asked.get(one))
            for one in names
        ],
        "week": week,
        # How many of their labels a second look confirms, and of how many.
        "confirmed": count_confirmed(session, detector),
    }


def _build_plan(estimate: Estimate, *, points: str, measure: str) -> dict[str, Any]:
    following = choose_next(estimate, measure)
    name = None if following is None else following.name
    shown = {one.name for one in read_classes(estimate, limit=MOST_ROWS)}
    goal = Goal(width=2 * float(points) / 100)
    among = shown if name is None else {*shown, name}
    plan = build_plan(estimate, goal, measure, among=among)
    accuracies = {one.name: one.accuracy for one in estimate.classes}
    return {
        "points": points,
        "labels": plan,
        "measured": read_measure(measure).name,
        "classes": [one for one in plan.classes if one.name in shown],
        "hidden": len(estimate.classes) - len(shown),
        # The class whose label helps most, and what it is supposed to be.
        "next": next((one for one in plan.classes if one.name == name), None),
        "supposed": None if name is None else accuracies[name],
        # How many draws reach other widths.
        "rows": [
            (one, count_draws(estimate, 2 * float(one) / 100, measure)) for one in ROWS
        ],
    }


# When each method is of use; its own description stands in the documentation.
_USES = {
    "joint": "The default: the narrowest proved interval, for one look at a fixed "
    "number of labels.",
    "exact": "Published figures, and comparison with reports that use Clopper-Pearson.",
    "anytime": "Every decision: verdicts, gates, alerts. Safe to look at after every "
    "label.",
    "wilson": "Quick estimates in the middle of the range.",
    "wilson-cc": "Like Wilson, but more cautious.",
    "agresti-coull": "Calculations by hand.",
    "jeffreys": "Where a Bayesian default is expected.",
    "mid-p": "Where exact seems too cautious.",
    "normal": "Not near 0 or 100 %.",
    "bootstrap": "Not with few mistakes: it can only repeat what it saw.",
    "posterior": "With a prior that you can defend.",
}


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method, drawn."""

    method: MethodReading
    reading: Reading
    exact_width: float
    target: float | None

    @property
    def span(self) -> str:
        """The interval, with digits enough to say on which side of the target it is."""
        return span(self.reading.score, self.target)

    @property
    def compared_with_exact(self) -> str:
        """Return "80 % narrower than", "as wide as" or "3 % wider than"."""
        if not self.exact_width:
            return ""
        width = self.method.balanced.width
        percent = round(100 * (width / self.exact_width - 1))
        if not percent:
            return "as wide as"
        return narrow(f"{abs(percent)} % {'wider' if percent > 0 else 'narrower'} than")

    @property
    def use(self) -> str:
        return narrow(_USES.get(self.method.method.name, ""))

    @property
    def holds_estimate(self) -> bool:
        one = self.method.balanced
        return one.accuracy is None or one.low <= one.accuracy <= one.high


@page("GET /detectors/<detector_id>/methods", "viewer")
def show_methods(detector_id: str) -> ResponseReturnValue:
    """Show the interval of each method for the same labels, and how good it is."""
    asked = request.args.get("version") or None
    with reading(detector_id) as (session, detector):
        versions = choose_versions(session, detector, asked)
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
        found = read_methods(estimate) if estimate.labels else []
        labelled = count_classes(estimate)
        widths = {one.method.name: one.balanced.width for one in found}
        rows = [
            # Each looks like the balanced accuracy that it is.
            MethodRow(
                one,
                read_mean(one.balanced, labelled, name=one.method.name),
                widths["exact"],
                detector.target,
            )
            for one in found
        ]
        # From where the intervals are, or from lower for the target.
        lows = [one.balanced.low for one in found] or [0.5]
        lowest = min(*lows, detector.target or 1.0, 1.0)
        return render_template(
            "planning/methods.html",
            detector=detector,
            version=versions[0] if versions else None,
            estimate=estimate,
            rows=rows,
            axis=Axis(max(0, min(8, math.floor(10 * lowest - 0.2))) / 10),
            can_sum=can_sum_balanced(estimate),
            more=labels_that_exact_needs(estimate, found) if found else 0,
        )


@page("GET /detectors/<detector_id>/methods/coverage", "viewer")
def show_coverage(detector_id: str) -> ResponseReturnValue:
    """Show how often each method holds the balanced accuracy, summed."""
    asked = request.args.get("version") or None
    with reading(detector_id) as (session, detector):
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
    # It takes a second or two and needs the database no longer.
    with limit_exact_sums():
        figures = sum_balanced(estimate)
    summed = {one.method for one in figures}
    return render_template(
        "planning/coverage.html",
        detector=detector,
        version=asked,
        estimate=estimate,
        figures=figures,
        left_out=[name for name in stats.METHODS if name not in summed],
    )
