"""The next query to label, reserved for the one who asks."""

from typing import Annotated, Any, ClassVar

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import (
    IdPath,
    Parameters,
    QueryReference,
    ShareText,
    Text,
    wrong_parameter,
)
from tracker.api.queries.queries import address_of_image
from tracker.api.routes import answers, build_routes
from tracker.errors import InvalidInputError
from tracker.http import BadParametersError, by, database, no_content, requires
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.fields import KeyName, parse_input
from tracker.services.labelling.queues import (
    ORDERS,
    QUEUES,
    NextQuery,
    QueueChoice,
    build_queue,
    describe_next,
    reserve,
    skip,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling.queues import Queue
from tracker.storage.queries.queries import find_query_of
from tracker.words import one_of

routes = build_routes("labelling", "Which query to label next.")


class NextWanted(Parameters):
    """For whom the next query is."""

    repeated: ClassVar[frozenset[str]] = frozenset({"where"})

    labeler: KeyName | None = Field(
        default=None, description="The labeler; by default the name of the key."
    )
    queue: Annotated[str, one_of(QUEUES)] | None = Field(
        default=None,
        description="random: drawn by chance (the default); targeted: picked (the "
        "default where something is picked); disagreements: drawn by chance from what "
        "two versions answer differently; recheck: to be labelled again.",
    )
    order: Annotated[str, one_of(ORDERS)] | None = Field(
        default=None,
        description="Targeted queue: confidence (the default), the lowest first, or "
        "newest.",
    )
    predicted: Text | None = Field(
        default=None, description="Targeted queue: only queries with this prediction."
    )
    version: Text | None = Field(
        default=None,
        description="Only queries of this version; * for all. By default the targeted "
        "queue gives all versions, the random queue the one that is shown.",
    )
    min_confidence: ShareText | None = Field(
        default=None, description="Targeted queue: only queries at least as confident."
    )
    max_confidence: ShareText | None = Field(
        default=None, description="Targeted queue: only queries at most as confident."
    )
    where: list[Text] | None = Field(
        default=None,
        description="Targeted queue: only queries that meet this condition, as in a "
        "list of queries; if repeated, all must hold.",
    )
    old: Text | None = Field(
        default=None,
        description="Disagreements queue: the old version; by default the one that "
        "arrived before new.",
    )
    new: Text | None = Field(
        default=None,
        description="Disagreements queue: the new version; by default the one that "
        "queries last arrived with.",
    )
    skip: QueryReference | None = Field(
        default=None, description="The id of a query to skip first."
    )


@routes.get(
    "/detectors/<id>/next",
    responses={
        **answers({200: NextQuery}, 404, 409),
        "204": {"description": "No query is left, or others have reserved the rest."},
    },
)
@requires("labeler")
def get_next(path: IdPath, query: NextWanted) -> Response | dict[str, Any]:
    """Get the next query to label, drawn at random by default.

    It is reserved, and comes without its prediction.  The same labeler gets the same
    query until it is labelled or skipped; nobody else gets it within five minutes.
    """
    asked_by = by().credit(query.labeler)

    def work(session: Session) -> dict[str, Any] | None:
        detector = get_open_detector(session, path.id)
        if query.skip is not None:
            _set_aside(session, detector, query.skip, asked_by)
        queue = _build_queue(session, detector, query, asked_by)
        found = reserve(session, queue, asked_by)
        if not found:
            return None
        image = address_of_image(found[0])
        return describe_next(detector, found[0], queue, asked_by, image=image).dump()

    answer = database().run(work)
    return no_content() if answer is None else answer


def _build_queue(
    session: Session, detector: Detector, wanted: NextWanted, asked_by: By
) -> Queue:
    choice = wanted.model_dump(exclude={"labeler", "skip"})
    try:
        return build_queue(
            session, detector, parse_input(QueueChoice, choice), asked_by
        )
    except InvalidInputError as error:
        raise BadParametersError(error.errors) from error


def _set_aside(session: Session, detector: Detector, number: int, asked_by: By) -> None:
    skipped = find_query_of(session, detector.id, number)
    if skipped is None:
        message = "it is not a query of this detector"
        raise wrong_parameter("skip", dump_id("iq", number), message)
    skip(session, skipped, asked_by)
