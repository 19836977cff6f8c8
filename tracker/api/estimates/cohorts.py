"""Cohorts: how late labels come."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import DrawLimit, IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import cohorts as services

routes = build_routes("cohorts", "How late labels come.")


class CohortChoice(Parameters):
    """Which cohorts."""

    by: services.Cut = Field(default="day", description="A week begins on Monday, UTC.")
    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * pools all "
        "versions.",
    )
    limit: DrawLimit = Field(
        default=30, description="The number of days or weeks, the newest ones."
    )


@routes.get(
    "/detectors/<id>/cohorts",
    responses=answers({200: services.Cohorts}, 404),
)
@requires("viewer")
def get_cohorts(path: IdPath, query: CohortChoice) -> dict[str, Any]:
    """Get how many queries of each day or week have a label, and how late it came."""
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_cohorts(
            session, detector, computed_at=now(), **choices
        ).dump()
