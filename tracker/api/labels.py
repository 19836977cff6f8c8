"""Labels of one query: given, and looked back at."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_label
from tracker.api.once import answer_once
from tracker.api.pages import dump_page
from tracker.api.parameters import LabelCursor, Page, QueryPath, wrong_parameter
from tracker.api.routes import answers, build_routes
from tracker.http import ForbiddenError, account, database, now, requires
from tracker.services import labels as services
from tracker.services.detectors import get_open_detector
from tracker.services.labels import NewLabel
from tracker.services.queries import get_query
from tracker.storage.base import dump_id
from tracker.storage.labels import Label

routes = build_routes("labels", "The ground truth of queries; the newest is current.")


class LabelList(Page):
    """Which labels to list."""

    after: LabelCursor | None = Field(default=None, description="As it stands in next.")


@routes.post(
    "/queries/<id>/labels",
    responses=answers({201: shapes.Label}, 404, 409, 413, 415, 422),
)
@requires("labeler")
def add_label(path: QueryPath, body: NewLabel) -> Response:
    """Give a query its label; one given before stays in the label history.

    What an editor has settled takes the role editor to change; others get a 409.
    """
    is_editor = account().may("editor")
    if body.settles and not is_editor:
        raise ForbiddenError("to settle takes the role editor; leave settles out")

    def add(session: Session) -> tuple[dict[str, Any], int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        label = services.add_label(
            session,
            detector,
            query,
            body,
            labeler=account().name,
            created_at=now(),
            is_editor=is_editor,
        )
        return dump_label(label, is_current=True), 201

    return answer_once(add, content=body.model_dump_json())


@routes.get("/queries/<id>/labels", responses=answers({200: shapes.LabelPage}, 404))
@requires("viewer")
def list_labels(path: QueryPath, query: LabelList) -> dict[str, Any]:
    """List every label ever given to a query, the current one first."""
    with database().read() as session:
        labelled = get_query(session, path.id)
        history = services.list_label_history(session, labelled)
        return dump_page(
            _behind(history, query.after),
            query.limit,
            lambda label: dump_label(label, is_current=label.id == labelled.label_id),
            lambda label: dump_id("lab", label.id),
        )


def _behind(history: list[Label], after: int | None) -> list[Label]:
    if after is None:
        return history
    for number, label in enumerate(history, start=1):
        if label.id == after:
            return history[number:]
    raise wrong_parameter(
        "after", dump_id("lab", after), "it is not a label of this query"
    )
