"""Events of detectors, webhooks, mail, badges, and the sent estimates."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Key, Name, index_where, owner
from tracker.storage.detectors import (
    Detector,
    Version,
    is_of_version,
    of_version,
    select_open,
)
from tracker.storage.dialect import upsert
from tracker.storage.people import Account
from tracker.words import EVENTS


class Event(Base):
    """An event of a detector."""

    __tablename__ = "events"
    __table_args__ = (
        of_version(),
        sa.Index(None, "detector_id", "version_id", "type", "id"),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    version_id: Mapped[int | None] = mapped_column(BigId)
    type: Mapped[str] = mapped_column(sa.Text)
    happened_at: Mapped[datetime]
    data: Mapped[dict[str, Any]] = mapped_column(sa.JSON)


def list_detector_events(
    session: Session,
    detector_id: int,
    *,
    kind: str | None = None,
    before: int | None = None,
    limit: int,
) -> Sequence[Event]:
    own = base.equal(Event, detector_id=detector_id, type=kind)
    return base.list_newest(session, Event, *own, before=before, limit=limit)


# Built once: every page of a detector asks this.
_LAST = (
    sa.select(Event.detector_id, sa.func.max(Event.id).label("id"))
    .where(
        Event.detector_id.in_(sa.bindparam("detector_ids", expanding=True)),
        Event.version_id.in_(sa.bindparam("version_ids", expanding=True)),
        Event.type == sa.bindparam("kind"),
    )
    .group_by(Event.detector_id, Event.version_id)
    .subquery()
)
_NEWEST = sa.select(Event).join(
    _LAST, (_LAST.c.detector_id == Event.detector_id) & (_LAST.c.id == Event.id)
)


def find_last_events(
    session: Session,
    detector_ids: Collection[int],
    version_ids: Collection[int],
    kind: str,
) -> dict[int, Event]:
    """Return the last such event of versions of detectors, by the version."""
    values = {
        "detector_ids": tuple(detector_ids),
        "version_ids": tuple(version_ids),
        "kind": kind,
    }
    found = session.scalars(_NEWEST, values)
    return {event.version_id: event for event in found if event.version_id is not None}


def find_last_event(session: Session, detector_id: int, kind: str) -> Event | None:
    found = list_detector_events(session, detector_id, kind=kind, limit=1)
    return found[0] if found else None


def list_news(
    session: Session,
    after: int | sa.ScalarSelect[int],
    *,
    among: Collection[int] | None,
    limit: int,
) -> Sequence[Event]:
    conditions = (Event.id > after, Event.detector_id.in_(select_open(among)))
    return base.list_newest(session, Event, *conditions, limit=limit)


def find_newest_id(session: Session) -> int:
    return session.scalar(sa.select(sa.func.max(Event.id))) or 0


class Webhook(Base):
    """A URL that gets some events of some or all detectors."""

    __tablename__ = "webhooks"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    url: Mapped[str] = mapped_column(sa.Text)
    # The types of its events.
    events: Mapped[list[str]] = mapped_column(sa.JSON)
    format: Mapped[str] = mapped_column(sa.Text)
    has_all_detectors: Mapped[bool]
    # Not hashed: each message is signed with it.
    secret: Mapped[str] = mapped_column(sa.Text)
    old_secret: Mapped[str | None] = mapped_column(sa.Text)
    old_secret_until: Mapped[datetime | None]
    created_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    disabled_because: Mapped[str | None] = mapped_column(sa.Text)
    # Until then the receiver asked for a pause.
    rests_until: Mapped[datetime | None]


class WebhookDetector(Base):
    """A detector of a webhook that is not about all detectors."""

    __tablename__ = "webhook_detectors"

    webhook_id: Mapped[int] = owner("webhooks")
    detector_id: Mapped[int] = owner("detectors")


def list_reachable(session: Session, *, at: datetime) -> Sequence[int]:
    is_rested = sa.or_(Webhook.rests_until.is_(None), Webhook.rests_until <= at)
    statement = sa.select(Webhook.id).where(Webhook.disabled_at.is_(None), is_rested)
    return session.scalars(statement.order_by(Webhook.id)).all()


def list_listeners(
    session: Session, detector_id: int, kind: str, *, limit: int
) -> list[Webhook]:
    """Return the enabled webhooks that subscribe to an event of a detector."""
    about = sa.select(WebhookDetector.webhook_id).where(
        WebhookDetector.detector_id == detector_id
    )
    statement = (
        sa.select(Webhook)
        .where(
            Webhook.disabled_at.is_(None),
            sa.or_(Webhook.has_all_detectors, Webhook.id.in_(about)),
        )
        .order_by(Webhook.id)
        .limit(limit)
        # Locked, so that none is deleted before its delivery is added.
        .with_for_update(read=True, key_share=True)
    )
    return [one for one in session.scalars(statement) if kind in one.events]


STATES = WAITING, DELIVERED, FAILED = ("waiting", "delivered", "failed")


class Delivery(Base):
    """One message to one webhook, with its result."""

    __tablename__ = "deliveries"
    __table_args__ = (
        sa.Index(None, "webhook_id", "id"),
        sa.Index(None, "event_id"),
        index_where(
            "state = 'waiting'",
            "ix_deliveries_waiting",
            "webhook_id",
            "detector_id",
            "id",
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    webhook_id: Mapped[int] = mapped_column(sa.ForeignKey(Webhook.id))
    # None for a test message.
    detector_id: Mapped[int | None] = mapped_column(BigId)
    event_id: Mapped[int | None] = mapped_column(BigId)
    type: Mapped[str] = mapped_column(sa.Text)
    # The same bytes at each attempt.
    body: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(sa.Text)
    attempts: Mapped[int]
    last_tried_at: Mapped[datetime | None]
    # The HTTP status of the last attempt, or its error.
    status: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(sa.Text)
    # None once it is delivered or failed.
    next_try_at: Mapped[datetime | None]


def find_next(session: Session, webhook_id: int, detector_id: int) -> Delivery | None:
    own = {"webhook_id": webhook_id, "detector_id": detector_id, "state": WAITING}
    waiting = sa.select(Delivery).filter_by(**own)
    return session.scalars(waiting.order_by(Delivery.id).limit(1)).one_or_none()


def list_deliveries(
    session: Session, webhook_id: int, *, before: int | None = None, limit: int
) -> Sequence[Delivery]:
    own = Delivery.webhook_id == webhook_id
    return base.list_newest(session, Delivery, own, before=before, limit=limit)


def list_told(
    session: Session, detector_id: int, audit: str
) -> dict[Event, list[tuple[int | str, str]]]:
    """Return the events about an audit, each with its recipients and their states.

    A recipient is the id of a webhook, or the name of an account that gets mail.
    """
    about = sa.select(Event).where(
        Event.detector_id == detector_id,
        Event.version_id.is_(None),
        Event.type.in_([name for name in EVENTS if name.startswith("audit.")]),
        Event.data["id"].as_string() == audit,
    )
    events = {one.id: one for one in session.scalars(about.order_by(Event.id))}
    found: dict[Event, list[tuple[int | str, str]]] = {e: [] for e in events.values()}
    sent = sa.select(Delivery.event_id, Delivery.webhook_id, Delivery.state)
    mailed = sa.select(Notice.event_id, Account.name, Notice.state).join(Account)
    for statement in (
        sent.where(Delivery.event_id.in_(events)).order_by(Delivery.id),
        mailed.where(Notice.event_id.in_(events)).order_by(Notice.id),
    ):
        for event_id, to, state in session.execute(statement):
            found[events[event_id]].append((to, state))
    return found


def delete_ended(session: Session, *, before: datetime, limit: int) -> None:
    for rows_of in (Delivery, Notice):
        old = rows_of.state != WAITING, rows_of.created_at < before
        found = sa.select(rows_of.id).where(*old).order_by(rows_of.id).limit(limit)
        ids = session.scalars(found).all()
        base.delete_rows(session, rows_of, rows_of.id.in_(ids))


class AddressCheck(Base):
    """An address of an account that waits for its owner's confirmation."""

    __tablename__ = "address_checks"

    account_id: Mapped[int] = owner("accounts")
    email: Mapped[str] = mapped_column(sa.Text)
    asked_at: Mapped[datetime]
    # When the account last caused such a mail, to any address.
    sent_at: Mapped[datetime | None]
    # Why the last attempt to send it failed.
    error: Mapped[str | None] = mapped_column(sa.Text)


def find_address_check(session: Session, account_id: int) -> AddressCheck | None:
    return session.get(AddressCheck, account_id, populate_existing=True)


def set_address_check(
    session: Session, account_id: int, email: str, *, at: datetime
) -> None:
    row: dict[str, Any] = {"account_id": account_id, "email": email, "asked_at": at}
    row |= {"sent_at": None, "error": None}
    upsert(session, AddressCheck, [row], keeping=["sent_at"])


class MailMute(Base):
    """A detector that an account gets no mail about."""

    __tablename__ = "mail_mutes"

    account_id: Mapped[int] = owner("accounts")
    detector_id: Mapped[int] = owner("detectors")


class Notice(Base):
    """An event in a mail to one person, with what became of it."""

    __tablename__ = "notices"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["detector_id", "event_id"], [Event.detector_id, Event.id]
        ),
        sa.Index(None, "event_id"),
        index_where(
            "state = 'waiting'",
            "ix_notices_waiting",
            "account_id",
            "detector_id",
            "id",
        ),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey(Account.id))
    event_id: Mapped[int] = mapped_column(BigId)
    created_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(sa.Text)


def find_last_notice(session: Session, account_id: int, detector_id: int) -> int | None:
    mine = {"account_id": account_id, "detector_id": detector_id, "state": WAITING}
    return session.scalar(sa.select(sa.func.max(Notice.id)).filter_by(**mine))


def list_notices(
    session: Session, account_id: int, detector_id: int, *, last: int
) -> list[tuple[int, Event]]:
    """Return what waits up to the notice *last*, each with its event, in order."""
    statement = (
        sa.select(Notice.id, Event)
        .join(Event, Event.id == Notice.event_id)
        .where(
            Event.detector_id == detector_id,
            Notice.account_id == account_id,
            Notice.detector_id == detector_id,
            Notice.state == WAITING,
            Notice.id <= last,
        )
        .order_by(Notice.id)
    )
    return [(row.id, row.Event) for row in session.execute(statement)]


class Badge(Base):
    """A secret address that shows a detector's accuracy."""

    __tablename__ = "badges"
    __table_args__ = (
        sa.Index(None, "detector_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(sa.ForeignKey(Detector.id))
    digest: Mapped[str] = mapped_column(sa.Text, unique=True)
    created_by: Mapped[str] = mapped_column(Name)
    created_at: Mapped[datetime]


def list_badges(
    session: Session, detector_id: int, *, before: int | None = None, limit: int
) -> Sequence[Badge]:
    own = Badge.detector_id == detector_id
    return base.list_newest(session, Badge, own, before=before, limit=limit)


class SentEstimate(Base):
    """The newest snapshot of a version that was exported by OTLP."""

    __tablename__ = "sent_estimates"
    __table_args__ = (of_version(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    sequence: Mapped[int]


def list_unsent(session: Session, *, limit: int) -> dict[Key, int]:
    """Return some versions whose newest snapshot was not sent, with its number."""
    sent = SentEstimate.sequence
    statement = (
        sa.select(Version.detector_id, Version.id, Version.sequence)
        .outerjoin(SentEstimate, is_of_version(SentEstimate))
        .where(Version.sequence > 0, sent.is_(None) | (sent < Version.sequence))
        .order_by(Version.id)
        .limit(limit)
    )
    found = session.execute(statement)
    return {(detector_id, number): sequence for detector_id, number, sequence in found}


def note_sent(session: Session, sent: Mapping[Key, int]) -> None:
    rows = [
        {"detector_id": detector_id, "version_id": number, "sequence": sequence}
        for (detector_id, number), sequence in sent.items()
    ]
    upsert(session, SentEstimate, rows)
