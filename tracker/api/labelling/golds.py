"""Gold queries, whose answer is known; only editors see which they are."""

from typing import Any

from flask import Response
from pydantic import Field

from tracker.api.parameters import IdPath, Page, dump_page
from tracker.api.routes import answers, build_routes
from tracker.http import by, database, no_content, requires
from tracker.services.detectors import get_detector
from tracker.services.fields import Address
from tracker.services.labelling import golds as services
from tracker.services.labelling.golds import Gold, NewGold
from tracker.shapes import Shape

routes = build_routes(
    "gold queries", "Queries whose answer is known; they tell how often people err."
)


class GoldList(Page):
    """Which gold queries to list."""

    prefix = "iq"


class GoldPage(Shape):
    """A page of gold queries, the newest first."""

    items: list[Gold]
    next: Address | None = Field(description="The address of the page after this one.")


@routes.put(
    "/queries/<id>/gold", responses=answers({200: Gold}, 404, 409, 410, 413, 415, 422)
)
@requires("editor")
def mark_gold(path: IdPath, body: NewGold) -> dict[str, Any]:
    """Make a query without a label gold, by giving its known answer.

    It is mixed into the random queue at the detector's `gold_rate`, unmarked.
    Answers to it are not labels, and are never scored.
    """
    with database().write() as session:
        return services.mark_gold(session, path.id, body, by()).dump()


@routes.get("/queries/<id>/gold", responses=answers({200: Gold}, 404, 410))
@requires("editor")
def get_gold(path: IdPath) -> dict[str, Any]:
    """Get the known answer of a gold query, and how many people answered otherwise."""
    with database().read() as session:
        return services.get_gold(session, path.id).dump()


@routes.delete(
    "/queries/<id>/gold", responses={"204": None, **answers({}, 404, 409, 410)}
)
@requires("editor")
def unmark_gold(path: IdPath) -> Response:
    """Make a gold query ordinary again; the answers to it still count."""
    with database().write() as session:
        services.unmark_gold(session, path.id, by())
    return no_content()


@routes.get("/detectors/<id>/gold", responses=answers({200: GoldPage}, 404))
@requires("editor")
def list_golds(path: IdPath, query: GoldList) -> dict[str, Any]:
    """List the gold queries of a detector, including those that no longer are."""
    with database().read() as session:
        found = services.list_golds(
            session,
            get_detector(session, path.id),
            before=query.after,
            limit=query.limit + 1,
        )
        return dump_page(found, query.limit, lambda one: one, lambda one: one.query)
