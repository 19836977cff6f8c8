"""Labels of one query: given, and looked back at."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.parameters import (
    IdPath,
    Page,
    Where,
    Window,
    dump_page,
    wrong_parameter,
)
from tracker.api.routes import answers, answers_file, build_routes
from tracker.http import (
    answer_idempotently,
    by,
    database,
    name_file,
    now,
    requires,
    send_rows,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates.history import LABEL_COLUMNS, iter_labels
from tracker.services.exports import FILE_TYPES
from tracker.services.labelling import labels as services
from tracker.services.labelling.golds import see_as
from tracker.services.labelling.labels import NewLabel
from tracker.services.queries.queries import get_query, parse_query_id
from tracker.services.queries.where import parse_where
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.labels import Label
from tracker.storage.queries.where import Between

routes = build_routes("labels", "The ground truth of queries; the newest is current.")


class LabelList(Page):
    """Which labels to list."""

    prefix = "lab"


class LabelExport(Window, Where):
    """Which labels of a detector to write out, by when their queries were asked."""

    format: Literal["json", "csv", "jsonl", "parquet", "xlsx"] = Field(
        default="json", description="The format of the file, which has all labels."
    )


@routes.post(
    "/queries/<id>/labels",
    responses=answers({201: services.Label}, 404, 409, 413, 415, 422),
)
@requires("labeler")
def add_label(path: IdPath, body: NewLabel) -> Response:
    """Label a query; an earlier label stays in the label history.

    Changing a label that an editor has settled takes the role editor; others get a 409.
    """

    def add(session: Session) -> tuple[Shape, int]:
        return services.add_label(session, parse_query_id(path.id), body, by()), 201

    return answer_idempotently(add, body)


@routes.get("/queries/<id>/labels", responses=answers({200: shapes.LabelPage}, 404))
@requires("viewer")
def list_labels(path: IdPath, query: LabelList) -> dict[str, Any]:
    """List every label ever given to a query, the current one first."""
    with database().read() as session:
        who = by().name
        labelled = see_as(session, get_query(session, path.id), who)
        history = services.list_label_history(session, labelled, who)
        return dump_page(
            _behind(history, query.after),
            query.limit,
            lambda label: services.describe_label(
                label, is_current=label.id == labelled.label_id
            ),
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


@routes.get(
    "/detectors/<id>/labels",
    responses=answers_file(*FILE_TYPES, problems=(404,), page=shapes.LabelFile),
)
@requires("viewer")
def export_labels(path: IdPath, query: LabelExport) -> Response:
    """Export every label of a detector with its query, oldest first."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        conditions = parse_where(session, detector, query.where, at=now())
    span = Between("asked_at", query.since, below=query.until)
    return send_rows(
        query.format,
        LABEL_COLUMNS,
        lambda session: iter_labels(session, detector, [span, *conditions]),
        name_file(detector, "labels", query.format),
    )
