"""Badges: made, listed and revoked; everybody looks at them outside of the API."""

from typing import Any

from flask import Response, request
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import IdPath, Page, dump_newest
from tracker.api.routes import answers, build_routes
from tracker.http import answer_idempotently, by, database, no_content, requires
from tracker.services.detectors import get_open_detector
from tracker.services.fields import Address
from tracker.services.telling import badges as services
from tracker.services.telling.badges import BadgeSummary, MadeBadge
from tracker.shapes import Shape
from tracker.storage import telling as storage

routes = build_routes("badges", "Addresses that show an accuracy to everybody.")


class BadgeList(Page):
    """Which badges to list."""

    prefix = "bdg"


class BadgePage(Shape):
    """A page of badges, the newest first."""

    items: list[BadgeSummary]
    next: Address | None = Field(description="The address of the page after this one.")


@routes.post(
    "/detectors/<id>/badges", responses=answers({201: MadeBadge}, 404, 409, 422)
)
@requires("editor")
def add_badge(path: IdPath) -> Response:
    """Create a badge; its addresses are shown only once."""

    def add(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        badge, token = services.create_badge(session, detector, by())
        server = request.url_root.rstrip("/")
        return services.describe_made(badge, token, server), 201

    return answer_idempotently(add)


@routes.get("/detectors/<id>/badges", responses=answers({200: BadgePage}, 404))
@requires("viewer")
def list_badges(path: IdPath, query: BadgeList) -> dict[str, Any]:
    """List the badges of a detector, the newest first, without their addresses."""
    return dump_newest(
        path.id,
        storage.list_badges,
        lambda _session, badge: services.describe_badge(badge),
        "bdg",
        **dict(query),
    )


@routes.delete("/badges/<id>", responses={"204": None, **answers({}, 404)})
@requires("editor")
def revoke_badge(path: IdPath) -> Response:
    """Revoke a badge: its addresses show nothing from now on."""
    with database().write() as session:
        services.revoke_badge(session, services.get_badge(session, path.id), by())
    return no_content()
