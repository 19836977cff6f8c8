"""Messages to webhooks: their bodies, recipients, signatures and retries."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session
from standardwebhooks import Webhook as Signer

from tracker import shapes, words
from tracker.charts.words import bounds, plural
from tracker.services import tasks
from tracker.services.estimates import report
from tracker.services.estimates.calendar import AccuracyChange
from tracker.services.evidence.measure import read_measure
from tracker.services.fields import Instant
from tracker.services.http_client import Answer
from tracker.services.wording import dump_instant, show
from tracker.storage import base
from tracker.storage import telling as storage
from tracker.storage.tasks import DELIVERY, Task, enqueue, finish, hold, repeat

MOST_WEBHOOKS = 100
_LONGEST_WISH_SECONDS = 24 * 3600.0
_GONE = 410


class Delivery(shapes.Shape):
    """One message to a webhook and its result."""

    id: str = Field(description="dlv_ and a number.")
    message: str = Field(description="The webhook-id, the same at every attempt.")
    event: str | None = Field(description="The event; null for a test.")
    type: Annotated[str, words.one_of([*words.EVENTS, words.TEST_EVENT])]
    state: Annotated[str, words.one_of(storage.STATES)] = Field(
        description="waiting, delivered or failed."
    )
    attempts: int
    created_at: Instant
    last_tried_at: Instant | None
    next_try_at: Instant | None = Field(description="null once it has ended.")
    status: int | None = Field(description="The HTTP status of the last attempt.")
    error: str | None = Field(description="Why the last attempt got no answer.")


def check_events(value: list[str]) -> list[str]:
    for name in value:
        if name not in words.EVENTS:
            raise ValueError(f"each must be one of {', '.join(words.EVENTS)}")
    return list(dict.fromkeys(value))


def describe_delivery(delivery: storage.Delivery) -> Delivery:
    """Return the API's answer about a delivery."""
    event_id = delivery.event_id
    return Delivery.from_row(
        delivery,
        id=base.dump_id("dlv", delivery.id),
        message=name_message(delivery),
        event=None if event_id is None else base.dump_id("evt", event_id),
    )


def name_message(delivery: storage.Delivery) -> str:
    """Return the webhook-id by which receivers recognise repeats."""
    if delivery.event_id is None:
        return base.dump_id("dlv", delivery.id)
    return base.dump_id("evt", delivery.event_id)


def queue_event(session: Session, event: storage.Event) -> None:
    """Add a delivery of an event for each webhook that subscribes to it."""
    found = storage.list_listeners(
        session, event.detector_id, event.type, limit=MOST_WEBHOOKS
    )
    for webhook in found:
        at = event.happened_at
        queue_message(session, webhook, event.type, event.data, at, event=event)


def queue_message(  # noqa: PLR0913 - the parts of a message.
    session: Session,
    webhook: storage.Webhook,
    kind: str,
    data: Mapping[str, Any],
    at: datetime,
    *,
    event: storage.Event | None = None,
) -> storage.Delivery:
    """Add a delivery of *event*, or of a test without one, and its task."""
    delivery = storage.Delivery(
        webhook_id=webhook.id,
        event_id=None if event is None else event.id,
        detector_id=None if event is None else event.detector_id,
        type=kind,
        body=write_body(webhook.format, kind, data, at),
        created_at=at,
        state=storage.WAITING,
        attempts=0,
        next_try_at=at,
    )
    session.add(delivery)
    session.flush()
    # One task sends all deliveries about a detector in order; a test has its own.
    about = delivery.detector_id or base.dump_id("dlv", delivery.id)
    enqueue(
        session,
        DELIVERY,
        f"{webhook.id}/{about}",
        detector_id=delivery.detector_id,
        lane=str(webhook.id),
        due_at=at,
    )
    session.flush()
    return delivery


def find_next(session: Session, task: Task) -> storage.Delivery | None:
    """Return the delivery that a task sends next."""
    if task.detector_id is not None:
        return storage.find_next(session, int(task.lane), task.detector_id)
    number = base.parse_id("dlv", task.key.partition("/")[2])
    found = session.get(storage.Delivery, number)
    return found if found is not None and found.state == storage.WAITING else None


def say(kind: str, data: Mapping[str, Any]) -> str:
    if kind == words.TEST_EVENT:
        return "Tracker can reach this webhook."
    return words.EVENTS[kind].format_map(_with_nouns(kind, data))


def _with_nouns(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return *data* with the texts of its numbers, such as "1 label", and changes."""
    counted: dict[str, Any] = {
        name: plural(data[name], name.removesuffix("s"))
        for name in ("labels", "hours")
        if isinstance(data.get(name), int)
    }
    if "measure" in data:
        counted["measured"] = read_measure(data["measure"]).name
    if kind in words.CHANGE_EVENTS.values():
        known = data.keys() & AccuracyChange.model_fields
        change = AccuracyChange.model_validate({name: data[name] for name in known})
        counted |= {
            "changed": report.say_change(change),
            "more": report.say_more(change, data["sentence"]),
        }
    if data.get("population") == words.AUDITED:
        queries = plural(data["queries"], "query", "queries")
        counted["of_set"] = f" of a set of {queries}"
    if "verdict" in data and data["before"]:
        counted["was"] = f", {data['before']} before"
    return {"of_set": "", "was": "", **data, **counted}


def say_in_full(kind: str, data: Mapping[str, Any]) -> str:
    """Return an event in a sentence, and its figures behind it if it has any."""
    figures = words.EVENT_FIGURES.get(kind)
    if figures is None:
        return say(kind, data)
    known = _with_nouns(kind, data)
    if "low" in data:
        found = shapes.Accuracy(accuracy=None, low=data["low"], high=data["high"])
        known["low"], known["high"] = bounds(found, beside=data.get("target"))
        # As the page of the detector says it.
        measure = read_measure(data.get("measure") or words.BALANCED)
        said = f"{known['low']}\N{EN DASH}{known['high']} %"
        is_mean = measure.kind == words.BALANCED
        same = ", all classes counting the same" if is_mean else ""
        known["right"] = f"{report.right_how_often(measure, said)}{same}"
    if "value" in data:
        known["value"] = show(data["value"])
    if "target" in data:
        known["target"] = f"{100 * data['target']:g}"
    said = figures.format_map(known)
    return f"{say(kind, data)} {said[0].upper()}{said[1:]}"


def write_body(
    body_format: str, kind: str, data: Mapping[str, Any], at: datetime
) -> str:
    """Return the body of a message, by Standard Webhooks or for a chat."""
    body: dict[str, Any]
    if body_format == words.STANDARD:
        body = {"type": kind, "timestamp": dump_instant(at), "data": dict(data)}
    elif body_format == words.SLACK:
        # Escaped, or a name could notify everybody in the channel.
        text = say_in_full(kind, data).replace("&", "&amp;")
        body = {"text": text.replace("<", "&lt;").replace(">", "&gt;")}
    else:
        # Not a TextBlock: it reads Markdown, and a name could contain links.
        run = {"type": "TextRun", "text": say_in_full(kind, data)}
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "RichTextBlock", "inlines": [run]}],
        }
        kind_of_card = "application/vnd.microsoft.card.adaptive"
        attachment = {"contentType": kind_of_card, "content": card}
        body = {"type": "message", "attachments": [attachment]}
    return json.dumps(body, allow_nan=False, ensure_ascii=False)


def sign(
    webhook: storage.Webhook, delivery: storage.Delivery, at: datetime
) -> dict[str, str]:
    """Return signature headers; while a secret is replaced, the old one signs too."""
    secrets, until = [webhook.secret], webhook.old_secret_until
    if webhook.old_secret is not None and until is not None and at < until:
        secrets.append(webhook.old_secret)
    message = name_message(delivery)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(
            Signer(secret).sign(message, at, delivery.body) for secret in secrets
        ),
    }


def finish_or_retry(
    session: Session, task: Task, delivery_id: int, answer: Answer, *, at: datetime
) -> None:
    """Store the result of an attempt, and when the next one is due.

    After three days of trying, or a 410, the delivery has failed and its webhook is
    disabled, so that later deliveries wait.  Raises LostTaskError.
    """
    # The webhook before its task, as events lock them.
    webhook = base.lock_row(session, storage.Webhook, int(task.lane))
    row = hold(session, task)
    assert webhook is not None
    delivery = session.get_one(storage.Delivery, delivery_id)
    delivery.attempts += 1
    delivery.last_tried_at = at
    delivery.status, delivery.error = answer.status, answer.error
    why, wish = None, 0.0
    if answer.is_success:
        delivery.state = storage.DELIVERED
    elif answer.status == _GONE:
        delivery.state, why = storage.FAILED, "it answered 410: it is gone"
    elif tasks.is_over(row, at=at):
        delivery.state, why = storage.FAILED, "it accepted nothing for three days"
    else:
        wish = min(answer.rest_seconds(at), _LONGEST_WISH_SECONDS)
        reason = answer.error or f"it answered {answer.status}"
        tasks.retry(session, row, reason, at=at, at_least_seconds=wish)
    delivery.next_try_at = row.due_at if delivery.state == storage.WAITING else None
    session.flush()
    webhook.rests_until = at + timedelta(seconds=wish) if wish else None
    if why is not None and webhook.disabled_at is None:
        webhook.disabled_at, webhook.disabled_because = at, why
    if delivery.state != storage.WAITING:
        go_on(session, row, at)


def go_on(session: Session, task: Task, at: datetime) -> None:
    """Repeat the held task if it has a next delivery, else end it."""
    if find_next(session, task) is None:
        finish(session, task)
    else:
        repeat(session, task, due_at=at)
