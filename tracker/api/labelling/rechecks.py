"""Labels that are given a second time, blind, to tell how often labels are wrong."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import answer_idempotently, by, database, now, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.labelling import rechecks as services
from tracker.services.labelling.label_errors import RecheckReport, get_recheck_report
from tracker.services.labelling.rechecks import NewRecheck, NewRechecks, Recheck
from tracker.services.queries.queries import get_query
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version
from tracker.storage.labelling.rechecks import find_recheck

routes = build_routes("rechecks", "Labels given a second time; they are not scored.")


class RecheckChoice(Parameters):
    """Of which version."""

    version: Text | None = Field(
        default=None, description="The version; by default the one that is shown."
    )


@routes.post(
    "/detectors/<id>/rechecks",
    responses=answers({201: RecheckReport}, 404, 409, 413, 415, 422),
)
@requires("editor")
def draw_rechecks(path: IdPath, body: NewRechecks) -> Response:
    """Draw labels of a version by chance, for somebody else to give again.

    Get them by `/next?queue=recheck`, and send the answers to `/queries/{id}/recheck`.
    """
    # It goes through all labels, which a write would keep others waiting for.
    with database().read() as session:
        detector = get_open_detector(session, path.id)
        version, frozen = services.freeze_if_needed(session, detector, body, now())

    def draw(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        found = services.choose_version(session, detector, version.name)
        services.draw_rechecks(session, found, frozen, body, by())
        return _report(session, detector, found), 201

    return answer_idempotently(draw, body)


@routes.get(
    "/detectors/<id>/rechecks", responses=answers({200: RecheckReport}, 404, 409)
)
@requires("viewer")
def get_rechecks(path: IdPath, query: RecheckChoice) -> dict[str, Any]:
    """Bound the share of wrong labels, and the accuracies by the truth."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        version = services.choose_version(session, detector, query.version)
        return _report(session, detector, version).dump()


def _report(session: Session, detector: Detector, version: Version) -> RecheckReport:
    estimate = get_estimate(session, detector, version=version.name, computed_at=now())
    return get_recheck_report(session, detector, version, estimate)


@routes.post(
    "/queries/<id>/recheck", responses=answers({201: Recheck}, 404, 409, 413, 415, 422)
)
@requires("labeler")
def add_recheck(path: IdPath, body: NewRecheck) -> Response:
    """Label a query a second time; the first label stays and is scored.

    Where the two differ the query is disputed, until an editor settles it.
    """

    def add(session: Session) -> tuple[Shape, int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        found = services.add_recheck(session, detector, query, body, by())
        return services.describe_recheck(found), 201

    return answer_idempotently(add, body)


@routes.get("/queries/<id>/recheck", responses=answers({200: Recheck}, 404))
@requires("viewer")
def get_recheck(path: IdPath) -> dict[str, Any]:
    """Get the second label of a query; 404 until it has one."""
    with database().read() as session:
        found = find_recheck(session, get_query(session, path.id).id)
        if found is None or found.answered_at is None:
            raise missing("recheck", path.id)
        return services.describe_recheck(found).dump()
