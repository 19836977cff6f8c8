"""The next query to label, reserved for whoever asks."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_next_query
from tracker.api.parameters import (
    DetectorPath,
    Parameters,
    QueryReference,
    wrong_parameter,
)
from tracker.api.routes import answers, build_routes
from tracker.http import account, database, now, requires
from tracker.services.detectors import get_open_detector
from tracker.services.fields import KeyName
from tracker.services.reservations import RESERVED_FOR, reserve, skip
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.queries import find_query

routes = build_routes("labelling", "Which query to label next.")


class NextWanted(Parameters):
    """For whom the next query is."""

    labeler: KeyName | None = Field(
        default=None, description="Who labels; the name of the key unless given."
    )
    skip: QueryReference | None = Field(
        default=None, description="The id of a query to set aside before."
    )


@routes.get(
    "/detectors/<detector:id>/next",
    responses={
        **answers({200: shapes.NextQuery}, 404, 409),
        "204": {"description": "Nothing is left, or others have reserved it."},
    },
)
@requires("labeler")
def get_next(path: DetectorPath, query: NextWanted) -> Response | dict[str, Any]:
    """Get the next query to label, drawn at random, and reserve it.

    It comes without its prediction.  The same labeler gets the same query until it
    is labelled or skipped; nobody else does within five minutes.
    """
    labeler = query.labeler or account().name

    def work(session: Session) -> dict[str, Any] | None:
        detector = get_open_detector(session, path.id)
        if query.skip is not None:
            _set_aside(session, detector, query.skip, labeler)
        found = reserve(session, detector, labeler=labeler, reserved_at=now())
        if not found:
            return None
        until = now() + RESERVED_FOR
        return dump_next_query(detector, found[0], reserved_until=until)

    answer = database().run(work)
    return Response(status=204) if answer is None else answer


def _set_aside(session: Session, detector: Detector, number: int, labeler: str) -> None:
    skipped = find_query(session, number)
    if skipped is None or skipped.detector_id != detector.id:
        message = "it is not a query of this detector"
        raise wrong_parameter("skip", dump_id("iq", number), message)
    skip(session, skipped, labeler=labeler, skipped_at=now())
