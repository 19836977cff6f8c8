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
    ShareText,
    Text,
    wrong_parameter,
)
from tracker.api.routes import answers, build_routes
from tracker.errors import InvalidInputError
from tracker.http import BadParametersError, account, database, now, requires
from tracker.services.detectors import get_open_detector
from tracker.services.fields import KeyName, parse_input
from tracker.services.queues import ORDERS, QUEUES, QueueChoice, build_queue
from tracker.services.reservations import RESERVED_FOR, reserve, skip
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.queries import find_query_of
from tracker.storage.queues import Queue

routes = build_routes("labelling", "Which query to label next.")


class NextWanted(Parameters):
    """For whom the next query is."""

    labeler: KeyName | None = Field(
        default=None, description="Who labels; the name of the key unless given."
    )
    queue: str = Field(
        default="random",
        description="random, which is drawn by chance, or targeted, which is picked.",
        json_schema_extra={"enum": list(QUEUES)},
    )
    order: str | None = Field(
        default=None,
        description="Of the targeted queue: confidence, the lowest first and the "
        "default, or newest.",
        json_schema_extra={"enum": list(ORDERS)},
    )
    predicted: Text | None = Field(
        default=None, description="Targeted: only with this prediction."
    )
    version: Text | None = Field(
        default=None, description="Targeted: only of this version."
    )
    min_confidence: ShareText | None = Field(
        default=None, description="Targeted: at least as confident."
    )
    max_confidence: ShareText | None = Field(
        default=None, description="Targeted: at most as confident."
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
    """Get the next query to label, drawn at random unless wanted otherwise.

    It is reserved, and comes without its prediction.  The same labeler gets the same
    query until it is labelled or skipped; nobody else does within five minutes.
    """
    labeler = query.labeler or account().name

    def work(session: Session) -> dict[str, Any] | None:
        detector = get_open_detector(session, path.id)
        if query.skip is not None:
            _set_aside(session, detector, query.skip, labeler)
        queue = _build_queue(session, detector, query)
        found = reserve(session, queue, labeler=labeler, reserved_at=now())
        if not found:
            return None
        until = now() + RESERVED_FOR
        return dump_next_query(
            detector, found[0], sampling=queue.sampling, reserved_until=until
        )

    answer = database().run(work)
    return Response(status=204) if answer is None else answer


def _build_queue(session: Session, detector: Detector, wanted: NextWanted) -> Queue:
    choice = wanted.model_dump(exclude={"labeler", "skip"})
    try:
        return build_queue(
            session,
            detector,
            parse_input(QueueChoice, choice),
            labeler=account().name,
        )
    except InvalidInputError as error:
        raise BadParametersError(error.errors) from error


def _set_aside(session: Session, detector: Detector, number: int, labeler: str) -> None:
    skipped = find_query_of(session, detector.id, number)
    if skipped is None:
        message = "it is not a query of this detector"
        raise wrong_parameter("skip", dump_id("iq", number), message)
    skip(session, skipped, labeler=labeler, skipped_at=now())
