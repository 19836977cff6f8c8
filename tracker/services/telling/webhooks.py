"""Webhooks: created, changed, tested and deleted."""

import base64
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import Actor, By
from tracker.services.detectors import get_detector
from tracker.services.fields import Input, Instant
from tracker.services.http_client import Target, check_target
from tracker.services.telling.deliveries import (
    MOST_WEBHOOKS,
    check_events,
    queue_message,
)
from tracker.services.telling.mail import list_mailed
from tracker.services.wording import invalid, missing
from tracker.shapes import Shape
from tracker.storage import base
from tracker.storage import telling as storage
from tracker.storage.labelling.audits import AuditSchedule
from tracker.storage.tasks import DELIVERY, Task, wake_lane
from tracker.words import EVENTS, SLACK, TEAMS, TEST_EVENT, EventWord

_SECRET_BYTES = 32
_OVERLAP = timedelta(hours=24)


def _check_url(value: str) -> str:
    Target.of(value)
    return value


Url = Annotated[str, Field(max_length=2000), AfterValidator(_check_url)]
EventTypes = Annotated[
    list[EventWord], Field(min_length=1, max_length=100), AfterValidator(check_events)
]
References = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(min_length=1, max_length=1000),
]
Format = Literal["standard", "slack", "teams"]


class NewWebhook(Input):
    """An address to which events are sent."""

    url: Url = Field(description="http or https; public, unless the operator named it.")
    events: EventTypes = Field(
        default=list(EVENTS),
        description=f"Any of {', '.join(EVENTS)}; all if left out.",
    )
    detectors: References | None = Field(
        default=None,
        description="Ids or names of detectors; by default all that the caller sees.",
    )
    format: Format = Field(
        default="standard", description="standard, or a message for slack or teams."
    )


class WebhookChange(Input):
    """The fields to change; a field that is left out keeps its value."""

    url: Url | None = None
    events: EventTypes | None = None
    detectors: References | None = Field(
        default=None, description="null for all that the caller sees."
    )
    format: Format | None = None
    is_enabled: bool | None = Field(
        default=None,
        description="Pending deliveries are sent once the webhook is enabled again.",
    )


class Webhook(Shape):
    """An address to which events are sent."""

    id: str = Field(description="whk_ and a number.")
    url: str
    events: list[EventWord]
    detectors: list[str] | None = Field(
        description="The ids of the detectors; null for all of them."
    )
    format: Format
    created_by: str
    created_at: Instant
    is_enabled: bool
    disabled_at: Instant | None
    disabled_because: str | None


class WebhookSecret(Shape):
    """The secret that signs messages; it is shown only once."""

    id: str = Field(description="whk_ and a number.")
    secret: str = Field(description="whsec_ and Base64.")
    old_secret_until: Instant = Field(
        description="Until this instant messages are signed with the old secret too."
    )


class MadeWebhook(Webhook):
    """A new webhook with its secret, which is shown only once."""

    secret: str = Field(description="whsec_ and Base64; messages are signed with it.")


def describe_webhook(session: Session, webhook: storage.Webhook) -> Webhook:
    """Return the API's answer about a webhook."""
    ids = None
    if not webhook.has_all_detectors:
        found = base.list_detector_ids(
            session, storage.WebhookDetector, webhook_id=webhook.id
        )
        ids = [base.dump_id("det", one) for one in found]
    return Webhook.from_row(
        webhook,
        id=base.dump_id("whk", webhook.id),
        detectors=ids,
        is_enabled=webhook.disabled_at is None,
    )


def describe_made(session: Session, webhook: storage.Webhook) -> MadeWebhook:
    shown = describe_webhook(session, webhook)
    return MadeWebhook(**dict(shown), secret=webhook.secret)


def create_webhook(
    session: Session, new: NewWebhook, by: By, *, allowed_hosts: Collection[str]
) -> storage.Webhook:
    """Add a webhook with a new secret; raises InvalidInputError, ConflictError."""
    _check_reachable(new.url, allowed_hosts)
    if base.count_rows(session, storage.Webhook) >= MOST_WEBHOOKS:
        raise ConflictError(
            f"there are {MOST_WEBHOOKS} webhooks already, the most there can be"
        )
    webhook = storage.Webhook(
        **new.model_dump(exclude={"detectors"}),
        has_all_detectors=False,
        secret=_new_secret(),
        created_by=by.name,
        created_at=by.at,
    )
    session.add(webhook)
    session.flush()
    _choose_detectors(session, webhook, new.detectors, by.actor)
    name = base.dump_id("whk", webhook.id)
    # For some receivers the URL itself is a secret.
    by.record(session, "webhook made", name, host=Target.of(new.url).authority)
    return webhook


def _check_reachable(url: str, allowed_hosts: Collection[str]) -> None:
    try:
        check_target(url, allowed_hosts)
    except ValueError as error:
        raise invalid("url", url, str(error)) from error


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _choose_detectors(
    session: Session,
    webhook: storage.Webhook,
    references: list[str] | None,
    actor: Actor,
) -> None:
    """Set the detectors of a webhook, by default all that *actor* sees."""
    webhook.has_all_detectors = references is None and actor.detectors is None
    ids = [] if references is not None else [*(actor.detectors or ())]
    for reference in references or ():
        ids.append(get_detector(session, reference).id)
        if not actor.sees(ids[-1]):
            raise missing("detector", reference)
    base.set_detector_ids(session, storage.WebhookDetector, ids, webhook_id=webhook.id)


def change_webhook(
    session: Session,
    webhook: storage.Webhook,
    change: WebhookChange,
    by: By,
    *,
    allowed_hosts: Collection[str],
) -> None:
    """Change the given fields; enabling a webhook retries its deliveries at once."""
    given = change.model_fields_set
    for field in sorted(given - {"detectors"}):
        if getattr(change, field) is None:
            raise InvalidInputError.of(field, "must not be null; leave it out instead")
    if change.url is not None:
        _check_reachable(change.url, allowed_hosts)
    for field in given & {"url", "events", "format"}:
        setattr(webhook, field, getattr(change, field))
    if change.is_enabled is True:
        webhook.disabled_at = webhook.disabled_because = webhook.rests_until = None
        session.flush()
        waiting = {"webhook_id": webhook.id, "state": storage.WAITING}
        their = base.equal(storage.Delivery, **waiting)
        base.change_rows(session, storage.Delivery, *their, next_try_at=by.at)
        wake_lane(session, DELIVERY, str(webhook.id), at=by.at)
    elif change.is_enabled is False and webhook.disabled_at is None:
        webhook.disabled_at, webhook.disabled_because = by.at, f"by {by.name}"
    if "detectors" in given:
        _choose_detectors(session, webhook, change.detectors, by.actor)
    session.flush()
    fields = sorted(given)
    by.record(
        session, "webhook changed", base.dump_id("whk", webhook.id), fields=fields
    )


def rotate_secret(session: Session, webhook: storage.Webhook, by: By) -> WebhookSecret:
    """Give a webhook a new secret; for a day the old one signs too."""
    webhook.old_secret, webhook.secret = webhook.secret, _new_secret()
    webhook.old_secret_until = by.at + _OVERLAP
    session.flush()
    name = base.dump_id("whk", webhook.id)
    by.record(session, "webhook secret replaced", name)
    return WebhookSecret(
        id=name, secret=webhook.secret, old_secret_until=webhook.old_secret_until
    )


def try_webhook(session: Session, webhook: storage.Webhook, by: By) -> storage.Delivery:
    if webhook.disabled_at is not None:
        raise ConflictError("the webhook is disabled; enable it first")
    data = {"webhook": base.dump_id("whk", webhook.id)}
    return queue_message(session, webhook, TEST_EVENT, data, by.at)


def delete_webhook(session: Session, webhook: storage.Webhook, by: By) -> None:
    """Delete a webhook and its deliveries."""
    base.lock_row(session, storage.Webhook, webhook.id)
    theirs = {"kind": DELIVERY, "lane": str(webhook.id), "ended_at": None}
    base.delete_rows(session, Task, **theirs)
    for rows_of in (storage.Delivery, storage.WebhookDetector):
        base.delete_rows(session, rows_of, webhook_id=webhook.id)
    session.delete(webhook)
    session.flush()
    by.record(session, "webhook deleted", base.dump_id("whk", webhook.id))


def get_webhook(session: Session, reference: str, actor: Actor) -> storage.Webhook:
    """Return a webhook if *actor* sees all its detectors; raises NotFoundError."""
    webhook_id = base.parse_id("whk", reference)
    webhook = None if webhook_id is None else session.get(storage.Webhook, webhook_id)
    if webhook is None or not _is_seen(session, webhook, actor):
        raise missing("webhook", reference)
    return webhook


def list_seen_webhooks(session: Session, actor: Actor) -> list[storage.Webhook]:
    found = base.list_rows(session, storage.Webhook)
    return [one for one in found if _is_seen(session, one, actor)]


def list_listening(
    session: Session, schedule: AuditSchedule, actor: Actor
) -> list[tuple[str, set[str]]]:
    """Return which webhooks that *actor* sees, and who by mail, gets which events."""
    detector_id = schedule.detector_id
    found: list[tuple[str, set[str]]] = []
    for one in list_seen_webhooks(session, actor):
        about = base.list_detector_ids(
            session, storage.WebhookDetector, webhook_id=one.id
        )
        if one.disabled_at is None and (one.has_all_detectors or detector_id in about):
            found.append((name_place(one), set(one.events)))
    for person in list_mailed(session, detector_id):
        is_asked = person.name in schedule.labelers
        chosen = {*(person.mail_events or ()), *(["audit.waiting"] * is_asked)}
        found.append((f"{person.name} by mail", chosen))
    return found


def name_place(webhook: storage.Webhook | Webhook) -> str:
    """Return what people call a webhook: the chat, or the host."""
    chats = {SLACK: "Slack", TEAMS: "Microsoft Teams"}
    return chats.get(webhook.format) or urlsplit(webhook.url).hostname or webhook.url


def _is_seen(session: Session, webhook: storage.Webhook, actor: Actor) -> bool:
    if actor.detectors is None:
        return True
    ids = base.list_detector_ids(
        session, storage.WebhookDetector, webhook_id=webhook.id
    )
    return not webhook.has_all_detectors and all(map(actor.sees, ids))
