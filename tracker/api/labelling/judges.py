"""Judges: what they said of queries, and how they agree with the labels."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import answer_idempotently, by, database, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import Address
from tracker.services.labelling import judgements as services
from tracker.services.labelling.judgements import (
    JudgeReport,
    NewVerdict,
    QueryJudgement,
)
from tracker.services.queries.queries import get_query
from tracker.shapes import Shape
from tracker.storage.base import dump_id

routes = build_routes("judges", "Judgements, which are never the truth.")


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


@routes.get("/detectors/<id>/judges", responses=answers({200: JudgeReport}, 404))
@requires("viewer")
def get_judges(path: IdPath, query: JudgeChoice) -> dict[str, Any]:
    """Compare each judge with the labels: sensitivity and specificity by class."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return services.build_report(session, detector, version=query.version).dump()


@routes.get("/queries/<id>/judgements", responses=answers({200: JudgementPage}, 404))
@requires("viewer")
def list_judgements(path: IdPath) -> dict[str, Any]:
    """List the judgements of a query; none of them is its label."""
    with database().read() as session:
        items = services.list_judgements(session, get_query(session, path.id))
        return JudgementPage(items=items, next=None).dump()


@routes.post(
    "/queries/<id>/judgements",
    responses=answers({201: QueryJudgement}, 404, 409, 413, 415, 422),
)
@requires("editor")
def add_judgement(path: IdPath, body: NewVerdict) -> Response:
    """Give a judge's verdict: it is no label, but audits choose and correct by it."""

    def add(session: Session) -> tuple[Shape, int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        services.add_verdict(session, detector, query.id, body, by())
        session.flush()
        found = services.list_judgements(session, query)
        return next(one for one in found if one.judge == body.judge), 201

    return answer_idempotently(add, body)
