"""Repeats: questions that were asked several times."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import repeats as services

routes = build_routes("repeats", "Questions that were asked several times.")


class RepeatChoice(Parameters):
    """Whose repeats."""

    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * takes the "
        "groups of all versions, each version's by itself.",
    )


@routes.get("/detectors/<id>/repeats", responses=answers({200: services.Repeats}, 404))
@requires("viewer")
def get_repeats(path: IdPath, query: RepeatChoice) -> dict[str, Any]:
    """Compute pass@k, pass^k and the share of questions to which answers differ."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_repeats(session, detector, version=query.version).dump()
