"""Labels of a query, judges, and the people who label."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.parameters import (
    IdPath,
    Page,
    Parameters,
    Text,
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
    no_content,
    now,
    requires,
    send_rows,
)
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.history import LABEL_COLUMNS, iter_labels
from tracker.services.exports import FILE_TYPES
from tracker.services.fields import Address, KeyName
from tracker.services.labelling import judgements, labelers
from tracker.services.labelling import labels as services
from tracker.services.labelling.golds import see_as
from tracker.services.labelling.judgements import (
    JudgeReport,
    NewVerdict,
    QueryJudgement,
)
from tracker.services.labelling.labelers import Assignment, LabelerReport, NewAssignment
from tracker.services.labelling.labels import NewLabel
from tracker.services.queries.queries import get_query, parse_query_id
from tracker.services.queries.where import parse_where
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.labels import Label
from tracker.storage.queries.finding import Between

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


judges_routes = build_routes("judges", "Judgements, which are never the truth.")


class JudgeChoice(Parameters):
    """Of which version."""

    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * pools all "
        "versions.",
    )


class JudgementPage(Shape):
    """What judges said of a query, by their names."""

    items: list[QueryJudgement]
    next: Address | None = Field(description="Always null: all fit on one page.")


@judges_routes.get("/detectors/<id>/judges", responses=answers({200: JudgeReport}, 404))
@requires("viewer")
def get_judges(path: IdPath, query: JudgeChoice) -> dict[str, Any]:
    """Compare each judge with the labels: sensitivity and specificity by class."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return judgements.build_report(session, detector, version=query.version).dump()


@judges_routes.get(
    "/queries/<id>/judgements", responses=answers({200: JudgementPage}, 404)
)
@requires("viewer")
def list_judgements(path: IdPath) -> dict[str, Any]:
    """List the judgements of a query; none of them is its label."""
    with database().read() as session:
        items = judgements.list_judgements(session, get_query(session, path.id))
        return JudgementPage(items=items, next=None).dump()


@judges_routes.post(
    "/queries/<id>/judgements",
    responses=answers({201: QueryJudgement}, 404, 409, 413, 415, 422),
)
@requires("editor")
def add_judgement(path: IdPath, body: NewVerdict) -> Response:
    """Give a judge's verdict: it is no label, but audits choose and correct by it."""

    def add(session: Session) -> tuple[Shape, int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        judgements.add_verdict(session, detector, query.id, body, by())
        session.flush()
        found = judgements.list_judgements(session, query)
        return next(one for one in found if one.judge == body.judge), 201

    return answer_idempotently(add, body)


labelers_routes = build_routes(
    "labelers", "The people who label, compared with each other."
)


@labelers_routes.get(
    "/detectors/<id>/labelers", responses=answers({200: LabelerReport}, 404)
)
@requires("editor")
def get_labelers(path: IdPath) -> dict[str, Any]:
    """Compare labelers: kappa with intervals, and the error rate of each person."""
    with database().read() as session:
        return labelers.get_labelers(session, get_detector(session, path.id)).dump()


assignments_routes = build_routes(
    "assignments", "How many labels each person is asked for."
)


class WhoseAssignment(Parameters):
    """Whose assignment."""

    labeler: KeyName = Field(description="The person.")


class AssignmentList(Shape):
    """The assignments of a detector, by the name of the person."""

    items: list[Assignment]
    next: None = Field(description="Always null: all are in this list.")


@assignments_routes.put(
    "/detectors/<id>/assignments",
    responses=answers({200: Assignment}, 404, 409, 413, 415, 422),
)
@requires("editor")
def assign(path: IdPath, body: NewAssignment) -> dict[str, Any]:
    """Ask a person for a number of labels, counted from now on.

    This replaces what they were asked for before.
    """
    with database().write() as session:
        detector = get_open_detector(session, path.id)
        return labelers.assign(session, detector, body, by()).dump()


@assignments_routes.get(
    "/detectors/<id>/assignments", responses=answers({200: AssignmentList}, 404)
)
@requires("labeler")
def list_assignments(path: IdPath) -> dict[str, Any]:
    """List the progress of each person; labelers see only their own."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        items = labelers.list_assignments(session, detector, by())
        return AssignmentList(items=items, next=None).dump()


@assignments_routes.delete(
    "/detectors/<id>/assignments", responses={"204": None, **answers({}, 404, 409)}
)
@requires("editor")
def end_assignment(path: IdPath, query: WhoseAssignment) -> Response:
    """End the assignment of a person; their labels stay."""
    with database().write() as session:
        detector = get_open_detector(session, path.id)
        labelers.end_assignment(session, detector, query.labeler, by())
    return no_content()
