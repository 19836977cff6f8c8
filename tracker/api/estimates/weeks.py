"""Weeks: how accurate a version was on the queries asked in each."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import DrawLimit, IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import weeks as services

routes = build_routes("weeks", "Accuracy by week, day or month.")


class WeekChoice(Parameters):
    """Which weeks, days or months."""

    by: services.Cut = Field(default="week", description="A week begins on Monday.")
    version: Text | None = Field(
        default=None, description="The version; by default the one that is shown."
    )
    measure: Text | None = Field(
        default=None,
        description="balanced, overall, recall:CLASS or precision:CLASS; by default "
        "the measure of the detector.",
    )
    limit: DrawLimit = Field(
        default=26, description="The number of spans, back from the newest query."
    )


@routes.get("/detectors/<id>/weeks", responses=answers({200: services.Weeks}, 404))
@requires("viewer")
def get_weeks(path: IdPath, query: WeekChoice) -> dict[str, Any]:
    """Get how many of the queries asked in each week are right, with the interval."""
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_weeks(
            session, detector, computed_at=now(), **choices
        ).dump()
