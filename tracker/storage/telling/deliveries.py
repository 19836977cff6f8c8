"""The outbox: what webhooks are still to be told, and what they were told.

Workers share out deliveries by leases, as they do with detectors.  Of one detector a
webhook is told in order: a delivery waits until those before it have ended.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ForeignKey,
    Index,
    Text,
    delete,
    exists,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.dialect import lock
from tracker.storage.operations.leases import is_held, lease_from
from tracker.storage.telling.events import Event
from tracker.storage.telling.webhooks import Webhook

STATES = WAITING, DELIVERED, FAILED = ("waiting", "delivered", "failed")
_WAITING = text("state = 'waiting'")
_MOST_LOOKED_AT = 1_000


class Delivery(Base):
    """One message to one webhook, with what came of it."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(None, "webhook_id", "id"),
        Index(
            "ix_deliveries_waiting",
            "webhook_id",
            "detector_id",
            "id",
            sqlite_where=_WAITING,
            postgresql_where=_WAITING,
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    webhook_id: Mapped[int] = mapped_column(ForeignKey(Webhook.id))
    # None where it only tries the webhook.
    event_id: Mapped[int | None] = mapped_column(ForeignKey(Event.id))
    detector_id: Mapped[int | None] = mapped_column(BigId)
    type: Mapped[str] = mapped_column(Text)
    # The very bytes of each attempt.
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(Text)
    attempts: Mapped[int]
    first_tried_at: Mapped[datetime | None]
    last_tried_at: Mapped[datetime | None]
    # Of the last attempt: what was answered, or else why nothing was.
    status: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
    # Who sends it, or until when it rests.
    worker: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime]
    until: Mapped[datetime]


def list_due(
    session: Session, *, at: datetime, busy: Collection[int]
) -> Sequence[Delivery]:
    """Return the next delivery of each webhook that is not *busy*."""
    earlier = aliased(Delivery)
    has_earlier = exists().where(
        earlier.state == WAITING,
        earlier.webhook_id == Delivery.webhook_id,
        earlier.detector_id == Delivery.detector_id,
        earlier.id < Delivery.id,
    )
    statement = (
        select(Delivery)
        .join(Webhook, Webhook.id == Delivery.webhook_id)
        .where(
            Delivery.state == WAITING,
            Delivery.webhook_id.not_in(busy),
            Webhook.disabled_at.is_(None),
            or_(Webhook.rests_until.is_(None), Webhook.rests_until <= at),
            ~is_held(Delivery.since, Delivery.until, at),
            ~has_earlier,
        )
        .order_by(Delivery.until.desc(), Delivery.id.desc())
    )
    # The last one to be seen of each webhook is the one that has waited longest.
    found = {one.webhook_id: one for one in session.scalars(statement)}
    return list(found.values())


def take_due(
    session: Session, worker: str, *, at: datetime, busy: Collection[int]
) -> Sequence[Delivery]:
    """Lease the next delivery of each webhook to *worker*."""
    # Without it two workers would send the same one.
    lock(session, "deliveries")
    found = list_due(session, at=at, busy=busy)
    ids = [delivery.id for delivery in found]
    statement = update(Delivery).where(Delivery.id.in_(ids))
    session.execute(statement.values(worker=worker, **lease_from(at)))
    return found


def renew_deliveries(
    session: Session, worker: str, ids: Collection[int], *, at: datetime
) -> None:
    """Hold what *worker* is sending for longer."""
    statement = update(Delivery).where(
        Delivery.id.in_(ids), Delivery.worker == worker, Delivery.state == WAITING
    )
    session.execute(statement.values(lease_from(at)))


def note_attempt(
    session: Session, delivery_id: int, worker: str, values: dict[str, Any]
) -> bool:
    """Write what came of an attempt; False if *worker* has lost the delivery."""
    statement = update(Delivery).where(
        Delivery.id == delivery_id,
        Delivery.worker == worker,
        Delivery.state == WAITING,
    )
    written = {**values, "worker": None, "attempts": Delivery.attempts + 1}
    result: Any = session.execute(statement.values(written))
    return bool(result.rowcount)


def wake_deliveries(session: Session, webhook_id: int, *, at: datetime) -> None:
    """Let what rests for a webhook be sent at once, and for three days again."""
    statement = update(Delivery).where(
        Delivery.webhook_id == webhook_id,
        Delivery.state == WAITING,
        Delivery.worker.is_(None),
    )
    session.execute(statement.values(since=at, until=at, first_tried_at=None))


def list_deliveries(
    session: Session, webhook_id: int, *, before: int | None = None, limit: int
) -> Sequence[Delivery]:
    """Return the deliveries of a webhook, the newest first."""
    statement = select(Delivery).where(Delivery.webhook_id == webhook_id)
    if before is not None:
        statement = statement.where(Delivery.id < before)
    return session.scalars(statement.order_by(Delivery.id.desc()).limit(limit)).all()


def delete_deliveries(session: Session, webhook_id: int) -> None:
    """Delete all deliveries of a webhook, also those that wait."""
    session.execute(delete(Delivery).where(Delivery.webhook_id == webhook_id))


def delete_ended(session: Session, *, at: datetime, days: int) -> None:
    """Delete some deliveries that ended so many days ago."""
    old = (
        select(Delivery.id)
        .where(
            Delivery.state != WAITING,
            Delivery.created_at < at - timedelta(days=days),
        )
        .order_by(Delivery.id)
        .limit(_MOST_LOOKED_AT)
    )
    ids = session.scalars(old).all()
    session.execute(delete(Delivery).where(Delivery.id.in_(ids)))
