"""All methods side by side on the counts of a detector."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker import stats
from tracker.http import database, now, requires
from tracker.services.detectors import choose_versions, get_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.methods import (
    MethodReading,
    can_sum_balanced,
    labels_that_exact_needs,
    read_methods,
    sum_balanced,
)
from tracker.storage.detectors import list_versions
from tracker.web.blueprint import pages
from tracker.web.readings import Axis, Reading, build_axis, read

# Each method with tone 0 looks like the balanced accuracy that it is.
_TONE = 0


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method, drawn."""

    method: MethodReading
    reading: Reading
    width: float
    share_of_exact: float | None

    @property
    def holds_estimate(self) -> bool:
        """Whether the estimate lies within the interval."""
        one = self.method.balanced
        return one.accuracy is None or one.low <= one.accuracy <= one.high


@pages.get("/detectors/<detector_id>/methods")
@requires("viewer")
def show_methods(detector_id: str) -> ResponseReturnValue:
    """Show what each method says of the same labels, and what it is worth."""
    asked = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        versions = choose_versions(session, detector, asked)
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
        found = read_methods(estimate) if estimate.labels else []
        rows = _draw(estimate, found)
        return render_template(
            "methods/methods.html",
            detector=detector,
            versions=list_versions(session, detector.id),
            version=versions[0] if versions else None,
            estimate=estimate,
            rows=rows,
            axis=_axis_of(rows),
            can_sum=can_sum_balanced(estimate),
            more=labels_that_exact_needs(estimate, found) if found else 0,
        )


@pages.get("/detectors/<detector_id>/methods/coverage")
@requires("viewer")
def show_coverage(detector_id: str) -> ResponseReturnValue:
    """Show how often each method holds the balanced accuracy, summed."""
    asked = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
    # It takes a second or two and needs the database no longer.
    return render_template(
        "methods/coverage.html",
        detector=detector,
        version=asked,
        estimate=estimate,
        figures=sum_balanced(estimate),
        left_out=len(stats.METHODS),
    )


def _draw(estimate: Estimate, found: Sequence[MethodReading]) -> list[MethodRow]:
    rows = []
    widths = {one.method.name: one.balanced.high - one.balanced.low for one in found}
    for one in found:
        reading = read(
            one.balanced,
            labels=estimate.labels,
            computed_at=estimate.computed_at,
            name=one.method.name,
            tone=_TONE,
            classes=estimate.classes,
        )
        width, exact = widths[one.method.name], widths["exact"]
        rows.append(MethodRow(one, reading, width, width / exact if exact else None))
    return rows


def _axis_of(rows: Sequence[MethodRow]) -> Axis:
    return build_axis([row.reading for row in rows])
