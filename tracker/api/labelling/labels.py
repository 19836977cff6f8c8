"""Labels of a query, judges, and the people who label."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import http
from tracker.api import parameters, shapes
from tracker.api.routes import answers_file, build_routes
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.history import LABEL_COLUMNS, iter_labels
from tracker.services.exports import FILE_TYPES
from tracker.services.fields import Address, KeyName
from tracker.services.labelling import golds, labelers
from tracker.services.labelling import labels as services
from tracker.services.queries.queries import get_query, parse_query_id
from tracker.services.queries.where import parse_where
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.queries.finding import Between

routes = build_routes("labels", "The ground truth of queries; the newest is current.")


class LabelList(parameters.Page):
    """Which labels to list."""

    prefix = "lab"


class LabelExport(parameters.Window, parameters.Where):
    """Which labels of a detector to write out, by when their queries were asked."""

    format: Literal["json", "csv", "jsonl", "parquet", "xlsx"] = Field(
        default="json", description="The format of the file, which has all labels."
    )


@routes.call("POST /queries/<id>/labels", "labeler", services.Label, 409, status=201)
def add_label(path: parameters.IdPath, body: services.NewLabel) -> Response:
    """Label a query; an earlier label stays in the label history.

    Changing a label that an editor has settled takes the role editor; others get a 409.
    """

    def add(session: Session) -> tuple[Shape, int]:
        return services.add_label(
            session, parse_query_id(path.id), body, http.by()
        ), 201

    return http.answer_idempotently(add, body)


@routes.call("GET /queries/<id>/labels", "viewer", shapes.LabelPage)
def list_labels(path: parameters.IdPath, query: LabelList) -> dict[str, Any]:
    """List every label ever given to a query, the current one first."""
    with http.database().read() as session:
        who = http.by().name
        labelled = golds.see_as(session, get_query(session, path.id), who)
        history = services.list_label_history(session, labelled, who)
        if query.after is not None:
            ids = [label.id for label in history]
            if query.after not in ids:
                message = "it is not a label of this query"
                wrong = dump_id("lab", query.after)
                raise parameters.wrong_parameter("after", wrong, message)
            history = history[ids.index(query.after) + 1 :]
        return parameters.dump_page(
            history,
            query.limit,
            lambda label: services.describe_label(
                label, is_current=label.id == labelled.label_id
            ),
            lambda label: dump_id("lab", label.id),
        )


@routes.call(
    "GET /detectors/<id>/labels",
    "viewer",
    answers_file(*FILE_TYPES, page=shapes.LabelFile),
)
def export_labels(path: parameters.IdPath, query: LabelExport) -> Response:
    """Export every label of a detector with its query, oldest first."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        conditions = parse_where(session, detector, query.where, at=http.now())
    span = Between("asked_at", query.since, below=query.until)
    return http.send_rows(
        query.format,
        LABEL_COLUMNS,
        lambda session: iter_labels(session, detector, [span, *conditions]),
        http.name_file(detector, "labels", query.format),
    )


judges_routes = build_routes("judges", "Judgements, which are never the truth.")


class JudgeChoice(parameters.Parameters):
    """Of which version."""

    version: parameters.AnyVersion = None


class JudgementPage(Shape):
    """What judges said of a query, by their names."""

    items: list[labelers.QueryJudgement]
    next: Address | None = Field(description="Always null: all fit on one page.")


@judges_routes.call("GET /detectors/<id>/judges", "viewer", labelers.JudgeReport)
def get_judges(path: parameters.IdPath, query: JudgeChoice) -> dict[str, Any]:
    """Compare each judge with the labels: sensitivity and specificity by class."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        return labelers.get_judges(session, detector, version=query.version).dump()


@judges_routes.call("GET /queries/<id>/judgements", "viewer", JudgementPage)
def list_judgements(path: parameters.IdPath) -> dict[str, Any]:
    """List the judgements of a query; none of them is its label."""
    with http.database().read() as session:
        items = labelers.list_judgements(session, get_query(session, path.id))
        return JudgementPage(items=items, next=None).dump()


@judges_routes.call(
    "POST /queries/<id>/judgements", "editor", labelers.QueryJudgement, 409, status=201
)
def add_judgement(path: parameters.IdPath, body: labelers.NewVerdict) -> Response:
    """Give a judge's verdict: it is no label, but audits choose and correct by it."""

    def add(session: Session) -> tuple[Shape, int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        labelers.add_verdict(session, detector, query.id, body, http.by())
        session.flush()
        found = labelers.list_judgements(session, query)
        return next(one for one in found if one.judge == body.judge), 201

    return http.answer_idempotently(add, body)


labelers_routes = build_routes(
    "labelers", "The people who label, compared with each other."
)


@labelers_routes.call("GET /detectors/<id>/labelers", "editor", labelers.LabelerReport)
def get_labelers(path: parameters.IdPath) -> dict[str, Any]:
    """Compare labelers: kappa with intervals, and the error rate of each person."""
    with http.database().read() as session:
        return labelers.get_labelers(session, get_detector(session, path.id)).dump()


assignments_routes = build_routes(
    "assignments", "How many labels each person is asked for."
)


class WhoseAssignment(parameters.Parameters):
    """Whose assignment."""

    labeler: KeyName = Field(description="The person.")


class AssignmentList(Shape):
    """The assignments of a detector, by the name of the person."""

    items: list[labelers.Assignment]
    next: None = Field(description="Always null: all are in this list.")


@assignments_routes.call(
    "PUT /detectors/<id>/assignments", "editor", labelers.Assignment, 409
)
def assign(path: parameters.IdPath, body: labelers.NewAssignment) -> dict[str, Any]:
    """Ask a person for a number of labels, counted from now on.

    This replaces what they were asked for before.
    """
    with http.database().write() as session:
        detector = get_open_detector(session, path.id)
        return labelers.assign(session, detector, body, http.by()).dump()


@assignments_routes.call("GET /detectors/<id>/assignments", "labeler", AssignmentList)
def list_assignments(path: parameters.IdPath) -> dict[str, Any]:
    """List the progress of each person; labelers see only their own."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        items = labelers.list_assignments(session, detector, http.by())
        return AssignmentList(items=items, next=None).dump()


@assignments_routes.call("DELETE /detectors/<id>/assignments", "editor", None, 409)
def end_assignment(path: parameters.IdPath, query: WhoseAssignment) -> Response:
    """End the assignment of a person; their labels stay."""
    with http.database().write() as session:
        detector = get_open_detector(session, path.id)
        whose = labelers.Assignee(labeler=query.labeler)
        labelers.end_assignment(session, detector, whose, http.by())
    return http.no_content()
