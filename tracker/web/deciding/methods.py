"""All methods side by side on the counts of a detector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker import stats
from tracker.http import database, limit_exact_sums, now, requires
from tracker.services.deciding.methods import (
    MethodReading,
    can_sum_balanced,
    labels_that_exact_needs,
    read_methods,
    sum_balanced,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.versions import choose_versions
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import (
    Axis,
    Reading,
    count_classes,
    read_mean,
    span,
)
from tracker.web.drawing.words import narrow

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
    width: float
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
        percent = round(100 * (self.width / self.exact_width - 1))
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


@pages.get("/detectors/<detector_id>/methods")
@requires("viewer")
def show_methods(detector_id: str) -> ResponseReturnValue:
    """Show the interval of each method for the same labels, and how good it is."""
    asked = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        versions = choose_versions(session, detector, asked)
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
        found = read_methods(estimate) if estimate.labels else []
        rows = _draw(estimate, found, detector.target)
        return render_template(
            "methods/methods.html",
            detector=detector,
            version=versions[0] if versions else None,
            estimate=estimate,
            rows=rows,
            axis=_axis_of(rows, detector.target),
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
    with limit_exact_sums():
        figures = sum_balanced(estimate)
    summed = {one.method for one in figures}
    return render_template(
        "methods/coverage.html",
        detector=detector,
        version=asked,
        estimate=estimate,
        figures=figures,
        left_out=[name for name in stats.METHODS if name not in summed],
    )


def _draw(
    estimate: Estimate, found: Sequence[MethodReading], target: float | None
) -> list[MethodRow]:
    rows = []
    labelled = count_classes(estimate)
    widths = {one.method.name: one.balanced.width for one in found}
    for one in found:
        # Each looks like the balanced accuracy that it is.
        reading = read_mean(one.balanced, labelled, name=one.method.name)
        width = widths[one.method.name]
        rows.append(MethodRow(one, reading, width, widths["exact"], target))
    return rows


def _axis_of(rows: Sequence[MethodRow], target: float | None) -> Axis:
    """Return the axis from where the intervals are, or from lower for the target."""
    lows = [row.reading.score.low for row in rows]
    if target is not None:
        lows.append(target)
    return Axis(max(0, min(8, math.floor(10 * min(lows, default=0.5) - 0.2))) / 10)
