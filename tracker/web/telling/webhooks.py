"""Pages of webhooks: the list, the form to add one, and one with its deliveries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, context, database
from tracker.services.detectors import get_detector
from tracker.services.fields import parse_input
from tracker.services.telling import webhooks as services
from tracker.services.telling.deliveries import describe_delivery, say_in_full
from tracker.services.telling.webhooks import NewWebhook, WebhookChange
from tracker.storage import telling as storage
from tracker.storage.detectors import list_detectors
from tracker.storage.people import Account
from tracker.web.blueprint import lead_to, page
from tracker.web.forms import Form, failed_form, filled_in
from tracker.words import EVENT_FIGURES, EVENTS, FORMATS, STANDARD

_SHOWN = 50
_BLANK = Form({"format": STANDARD})


@page("GET /alerts", "editor")
def show_webhooks() -> ResponseReturnValue:
    with database().read() as session:
        return _render_list(session, _BLANK)


@page("POST /alerts", "editor")
def make_webhook() -> ResponseReturnValue:
    typed = request.form
    given: dict[str, Any] = filled_in(typed, "url", "format")
    given["events"] = typed.getlist("events")
    if typed.get("sees", "all") != "all":
        given["detectors"] = typed.getlist("detectors")
    try:
        new = parse_input(NewWebhook, given)
        hosts = context().settings.webhook_hosts
        with database().write() as session:
            made = services.create_webhook(session, new, by(), allowed_hosts=hosts)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            form = failed_form(typed, error, conflict_field="url")
            return _render_list(session, form), 422
    # Not a redirect: the secret would have to be stored in between.
    with database().read() as session:
        return _render_list(session, _BLANK, made=made)


@dataclass(frozen=True, slots=True)
class Place:
    """A webhook with what became of its last message."""

    webhook: services.Webhook
    last: storage.Delivery | None
    waiting: int

    @property
    def name(self) -> str:
        return services.name_place(self.webhook)

    @property
    def is_failing(self) -> bool:
        """Whether it is switched off, or did not take the last message."""
        if self.last is None or not self.webhook.is_enabled:
            return not self.webhook.is_enabled
        return self.last.state != storage.DELIVERED and self.last.attempts > 0


def _render_list(
    session: Session, form: Form, *, made: storage.Webhook | None = None
) -> str:
    typed = request.form
    places = []
    for one in services.list_seen_webhooks(session, account()):
        found = storage.list_deliveries(session, one.id, limit=_SHOWN)
        last = next((x for x in found if x.last_tried_at), found[0] if found else None)
        waiting = sum(x.state == storage.WAITING for x in found)
        places.append(Place(services.describe_webhook(session, one), last, waiting))
    own = session.get_one(Account, account().row)
    news = storage.list_news(session, 0, among=account().detectors, limit=_SHOWN)
    newest = next((one for one in news if one.type in EVENT_FIGURES), None)
    return render_template(
        "webhooks/list.html",
        places=places,
        own_mail=own.email,
        own_events=list(EVENTS) if own.mail_events is None else own.mail_events,
        example=say_in_full(newest.type, newest.data) if newest else None,
        form=form,
        made=made,
        formats=FORMATS,
        events=list(EVENTS),
        chosen_events=typed.getlist("events") if form.errors else list(EVENTS),
        detectors=list_detectors(session, among=account().detectors),
        chosen=typed.getlist("detectors") if form.errors else [],
        sees_all=not form.errors or typed.get("sees", "all") == "all",
    )


@page("GET /alerts/<webhook_id>", "editor")
def show_webhook(webhook_id: str) -> ResponseReturnValue:
    return _render_one(webhook_id)


def _render_one(webhook_id: str, *, secret: str | None = None) -> str:
    with database().read() as session:
        webhook = services.get_webhook(session, webhook_id, account())
        found = storage.list_deliveries(session, webhook.id, limit=_SHOWN)
        described = services.describe_webhook(session, webhook)
        shown = described.detectors or []
        return render_template(
            "webhooks/webhook.html",
            webhook=described,
            seen=[get_detector(session, one).name for one in shown],
            deliveries=[describe_delivery(delivery) for delivery in found],
            secret=secret,
        )


@page("POST /alerts/<webhook_id>/test", "editor")
def test_webhook(webhook_id: str) -> ResponseReturnValue:
    _change(webhook_id, lambda session, one: services.try_webhook(session, one, by()))
    return lead_to(
        "show_webhook",
        says="A test message is on its way; look again in a moment.",
        webhook_id=webhook_id,
    )


@page("POST /alerts/<webhook_id>/enabled", "editor")
def enable_webhook(webhook_id: str) -> ResponseReturnValue:
    change = WebhookChange(is_enabled=request.form.get("enabled") == "yes")
    hosts = context().settings.webhook_hosts
    _change(
        webhook_id,
        lambda session, one: services.change_webhook(
            session, one, change, by(), allowed_hosts=hosts
        ),
    )
    return lead_to("show_webhook", webhook_id=webhook_id)


@page("POST /alerts/<webhook_id>/secret", "editor")
def replace_secret(webhook_id: str) -> ResponseReturnValue:
    made = _change(
        webhook_id, lambda session, one: services.rotate_secret(session, one, by())
    )
    return _render_one(webhook_id, secret=made.secret)


@page("POST /alerts/<webhook_id>/delete", "editor")
def remove_webhook(webhook_id: str) -> ResponseReturnValue:
    _change(
        webhook_id, lambda session, one: services.delete_webhook(session, one, by())
    )
    return lead_to("show_webhooks", says="The webhook is deleted.")


def _change(webhook_id: str, work: Callable[[Session, storage.Webhook], Any]) -> Any:
    with database().write() as session:
        return work(session, services.get_webhook(session, webhook_id, account()))
