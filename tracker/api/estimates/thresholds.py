"""Confidences: how accurate answers above a threshold are, and how calibrated."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import ConfidenceText, IdPath, LevelText, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import thresholds as services

routes = build_routes("confidences", "How useful the confidences of a detector are.")


class CalibrationChoice(Parameters):
    """Of what the calibration is."""

    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * pools all "
        "versions.",
    )
    confidence_level: ConfidenceText | None = Field(
        default=None, description="The confidence level; by default the detector's own."
    )


class ThresholdChoice(CalibrationChoice):
    """Of what the curve is, and what is wanted."""

    target: LevelText | None = Field(
        default=None,
        description="The wanted accuracy; by default the detector's target. Another "
        "one may have been chosen after a look at the curve, and needs about twice as "
        "many labels.",
    )


@routes.get(
    "/detectors/<id>/thresholds",
    responses=answers({200: services.Thresholds}, 404),
)
@requires("viewer")
def get_thresholds(path: IdPath, query: ThresholdChoice) -> dict[str, Any]:
    """Compute the accuracy above confidence thresholds, with a simultaneous band."""
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_thresholds(
            session, detector, computed_at=now(), **choices
        ).dump()


@routes.get(
    "/detectors/<id>/calibration",
    responses=answers({200: services.Calibration}, 404),
)
@requires("viewer")
def get_calibration(path: IdPath, query: CalibrationChoice) -> dict[str, Any]:
    """Compute the accuracy in bins of confidence, and the calibration error."""
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_calibration(
            session, detector, computed_at=now(), **choices
        ).dump()
