"""Whether the system, the judge or the mix of queries moved a judged rate."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import IdPath, Parameters, Whole
from tracker.api.routes import answers, build_routes
from tracker.http import answer_idempotently, by, database, requires
from tracker.services.deciding import attribution as services
from tracker.services.deciding.attribution import (
    AnchorList,
    Attribution,
    NewInvestigation,
)
from tracker.services.detectors import get_detector, get_open_detector
from tracker.shapes import Shape

routes = build_routes("attribution", "What moved a judged rate.")


class InvestigationChoice(Parameters):
    """Which investigation."""

    number: Whole | None = Field(
        default=None, description="Its number; by default the newest."
    )


@routes.post(
    "/detectors/<id>/attribution",
    responses=answers({201: Attribution}, 404, 409, 413, 415, 422),
)
@requires("editor")
def begin_investigation(path: IdPath, body: NewInvestigation) -> Response:
    """Ask what moved between two weeks: it draws anchors, queries of the week then.

    Begin once system and judge are what they are now, and put the anchors to both.
    Every investigation that is begun makes the intervals of later ones wider.
    """

    def begin(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        return services.begin_investigation(session, detector, body, by()), 201

    return answer_idempotently(begin, body)


@routes.get("/detectors/<id>/attribution", responses=answers({200: Attribution}, 404))
@requires("viewer")
def get_attribution(path: IdPath, query: InvestigationChoice) -> dict[str, Any]:
    """Say whether the system, the judge or the mix moved, by what is known so far."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.get_attribution(session, detector, query.number).dump()


@routes.get(
    "/detectors/<id>/attribution/anchors", responses=answers({200: AnchorList}, 404)
)
@requires("viewer")
def list_anchors(path: IdPath, query: InvestigationChoice) -> dict[str, Any]:
    """List the anchors of an investigation, and what is still to be found out."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.list_anchors(session, detector, query.number).dump()
