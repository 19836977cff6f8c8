"""What the confidences of a detector are worth: thresholds and calibration."""

from decimal import Decimal

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.thresholds import (
    CalibrationBin,
    ThresholdPoint,
    get_thresholds_and_calibration,
)
from tracker.shapes import Score
from tracker.web.blueprint import pages
from tracker.web.drawing.curves import draw_bins, draw_thresholds
from tracker.web.drawing.readings import Reading, read


@pages.get("/detectors/<detector_id>/thresholds")
@requires("viewer")
def show_thresholds(detector_id: str) -> ResponseReturnValue:
    """Show how accurate answers above a confidence are, and what confidences mean."""
    version = request.args.get("version") or None
    target = _parse_target(request.args.get("target", ""))
    with database().read() as session:
        detector = get_detector(session, detector_id)
        found, calibration = get_thresholds_and_calibration(
            session,
            detector,
            target=target,
            version=None if version == "*" else version,
            computed_at=now(),
        )
        has_curve = bool(found.points) and bool(found.labels)
        return render_template(
            "thresholds/thresholds.html",
            detector=detector,
            found=found,
            calibration=calibration,
            curve=draw_thresholds(found.points, found.target) if has_curve else None,
            points=[(one, _read(one), _at_least(one)) for one in found.points],
            lowest=None if found.lowest is None else _read(found.lowest),
            bins=[(one, _read(one), _within(one)) for one in calibration.bins],
            marks=draw_bins(calibration.bins),
            typed=request.args.get("target", ""),
        )


def _at_least(point: ThresholdPoint) -> str:
    """Return the condition on the queries of *point*: every digit counts."""
    return f"confidence:{Decimal(repr(point.threshold)):f}.."


def _within(one: CalibrationBin) -> str:
    """Return the condition on the queries of a bin; the last one has both its ends."""
    return f"confidence:{one.start}..{'<' if one.end < 1 else ''}{one.end}"


def _parse_target(text: str) -> float | None:
    """Return the target that was typed in percent, None where it is none."""
    cleaned = text.replace("%", "").replace(",", ".").strip()
    if not cleaned.replace(".", "", 1).isdecimal() or len(cleaned) > 10:
        return None
    share = float(cleaned) / 100
    return share if 0 < share < 1 else None


def _read(one: ThresholdPoint | CalibrationBin) -> Reading:
    score = Score(
        correct=one.correct,
        labelled=one.labelled,
        accuracy=one.accuracy,
        low=one.low,
        high=one.high,
    )
    return read(score, name="", tone=0)
