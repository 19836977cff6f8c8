"""Events, webhooks and badges."""

from functools import partial
from typing import Annotated, Any

from flask import Response, request
from pydantic import Field, WithJsonSchema
from sqlalchemy.orm import Session

from tracker import http
from tracker.api import parameters
from tracker.api.parameters import optional
from tracker.api.routes import build_routes
from tracker.api.shapes import ListPage
from tracker.services.detectors import get_open_detector
from tracker.services.fields import Address
from tracker.services.telling import badges
from tracker.services.telling import webhooks as services
from tracker.services.telling.deliveries import Delivery, describe_delivery
from tracker.services.telling.events import Event, describe_event
from tracker.shapes import Shape
from tracker.storage import telling as storage
from tracker.storage.base import dump_id
from tracker.words import EVENTS

routes = build_routes(
    "webhooks", "Events of detectors, and the webhooks that receive them."
)

EventType = Annotated[
    parameters.Text, WithJsonSchema({"type": "string", "enum": list(EVENTS)})
]


class EventList(parameters.Page):
    """The filters and the page of a list of events."""

    prefix = "evt"

    type: EventType | None = optional("Only events of this type.")


class DeliveryList(parameters.Page):
    """The page of a list of deliveries."""

    prefix = "dlv"


class WebhookPage(Shape):
    """The webhooks that the caller may see, oldest first."""

    items: list[services.Webhook]
    next: Address | None = Field(description="Always null: all fit on one page.")


class DeliveryPage(ListPage[Delivery]):
    """A page of deliveries, newest first."""


class EventPage(ListPage[Event]):
    """A page of events, the newest first."""


@routes.call("GET /detectors/<id>/events", "viewer", EventPage)
def list_events(path: parameters.IdPath, query: EventList) -> dict[str, Any]:
    """List the events of a detector, newest first."""
    if query.type is not None and query.type not in EVENTS:
        raise parameters.wrong_parameter(
            "type", query.type, f"it must be one of {', '.join(EVENTS)}"
        )
    return parameters.dump_newest(
        path.id,
        partial(storage.list_detector_events, kind=query.type),
        lambda _session, event: describe_event(event),
        "evt",
        after=query.after,
        limit=query.limit,
    )


@routes.call("POST /webhooks", "editor", services.MadeWebhook, 404, 409, status=201)
def add_webhook(body: services.NewWebhook) -> Response:
    """Create a webhook; its secret is shown only once.

    Messages follow Standard Webhooks: a receiver checks webhook-signature with the
    secret, and recognises a repeat by its webhook-id.
    """
    hosts = http.context().settings.webhook_hosts

    def add(session: Session) -> tuple[Shape, int]:
        webhook = services.create_webhook(session, body, http.by(), allowed_hosts=hosts)
        return services.describe_made(session, webhook), 201

    return http.answer_idempotently(add, body)


@routes.call("GET /webhooks", "editor", WebhookPage)
def list_webhooks() -> dict[str, Any]:
    """List the webhooks, oldest first."""
    with http.database().read() as session:
        found = services.list_seen_webhooks(session, http.account())
        items = [services.describe_webhook(session, one) for one in found]
        return WebhookPage(items=items, next=None).dump()


def _find(session: Session, path: parameters.IdPath) -> storage.Webhook:
    return services.get_webhook(session, path.id, http.account())


@routes.call("GET /webhooks/<id>", "editor", services.Webhook)
def get_webhook(path: parameters.IdPath) -> dict[str, Any]:
    """Get a webhook."""
    with http.database().read() as session:
        return services.describe_webhook(session, _find(session, path)).dump()


@routes.call("PATCH /webhooks/<id>", "editor", services.Webhook, 409)
def change_webhook(
    path: parameters.IdPath, body: services.WebhookChange
) -> dict[str, Any]:
    """Change a webhook; is_enabled enables a disabled one again."""
    hosts = http.context().settings.webhook_hosts
    with http.database().write() as session:
        webhook = _find(session, path)
        services.change_webhook(session, webhook, body, http.by(), allowed_hosts=hosts)
        return services.describe_webhook(session, webhook).dump()


@routes.call("DELETE /webhooks/<id>", "editor")
def delete_webhook(path: parameters.IdPath) -> Response:
    """Delete a webhook and its pending deliveries."""
    with http.database().write() as session:
        services.delete_webhook(session, _find(session, path), http.by())
    return http.no_content()


@routes.call("POST /webhooks/<id>/test", "editor", Delivery, 409, 422, status=202)
def try_webhook(path: parameters.IdPath) -> Response:
    """Send a test message of the type webhook.test at once."""

    def send(session: Session) -> tuple[Shape, int]:
        delivery = services.try_webhook(session, _find(session, path), http.by())
        return describe_delivery(delivery), 202

    return http.answer_idempotently(send)


@routes.call("POST /webhooks/<id>/secret", "editor", services.WebhookSecret, 409, 422)
def rotate_secret(path: parameters.IdPath) -> Response:
    """Replace the secret; for a day messages are signed with both."""
    by = http.by()
    return http.answer_idempotently(
        lambda session: (services.rotate_secret(session, _find(session, path), by), 200)
    )


@routes.call("GET /webhooks/<id>/deliveries", "editor", DeliveryPage)
def list_deliveries(path: parameters.IdPath, query: DeliveryList) -> dict[str, Any]:
    """List the deliveries of a webhook, newest first."""
    with http.database().read() as session:
        found = storage.list_deliveries(
            session, _find(session, path).id, before=query.after, limit=query.limit + 1
        )
        return parameters.dump_page(
            found, query.limit, describe_delivery, lambda one: dump_id("dlv", one.id)
        )


badges_routes = build_routes("badges", "Addresses that show an accuracy to everybody.")


class BadgeList(parameters.Page):
    """The page of a list of badges."""

    prefix = "bdg"


class BadgePage(ListPage[badges.BadgeSummary]):
    """A page of badges, newest first."""


@badges_routes.call(
    "POST /detectors/<id>/badges", "editor", badges.MadeBadge, 409, 422, status=201
)
def add_badge(path: parameters.IdPath) -> Response:
    """Create a badge; its addresses are shown only once."""

    def add(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        server = request.url_root.rstrip("/")
        return badges.create_badge(session, detector, server, http.by()), 201

    return http.answer_idempotently(add)


@badges_routes.call("GET /detectors/<id>/badges", "viewer", BadgePage)
def list_badges(path: parameters.IdPath, query: BadgeList) -> dict[str, Any]:
    """List the badges of a detector, newest first, without their addresses."""
    return parameters.dump_newest(
        path.id,
        storage.list_badges,
        lambda _session, badge: badges.describe_badge(badge),
        "bdg",
        **dict(query),
    )


@badges_routes.call("DELETE /badges/<id>", "editor")
def revoke_badge(path: parameters.IdPath) -> Response:
    """Revoke a badge: its addresses show nothing from now on."""
    with http.database().write() as session:
        badges.revoke_badge(session, badges.get_badge(session, path.id), http.by())
    return http.no_content()
