"""Judges: what they said of queries, and how they agree with the labels."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import IdPath, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.fields import Address
from tracker.services.labelling import judgements as services
from tracker.services.labelling.judgements import JudgeReport, QueryJudgement
from tracker.services.queries.queries import get_query
from tracker.shapes import Shape

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
