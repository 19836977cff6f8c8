"""The outbox: what webhooks are still to be told, and what they were told.

Of one detector a webhook is told in order.  One task sends all of these deliveries, one
after the other: the first of them is what it waits for and tries again.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, Text, delete, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, where
from tracker.storage.telling.events import Event
from tracker.storage.telling.webhooks import Webhook

STATES = WAITING, DELIVERED, FAILED = ("waiting", "delivered", "failed")


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
            **where("state = 'waiting'"),
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
    last_tried_at: Mapped[datetime | None]
    # Of the last attempt: what was answered, or else why nothing was.
    status: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
    # None once it has ended.
    next_try_at: Mapped[datetime | None]


def find_next(session: Session, webhook_id: int, detector_id: int) -> Delivery | None:
    """Return the first delivery about a detector that a webhook waits for."""
    statement = (
        select(Delivery)
        .where(
            Delivery.state == WAITING,
            Delivery.webhook_id == webhook_id,
            Delivery.detector_id == detector_id,
        )
        .order_by(Delivery.id)
        .limit(1)
    )
    return session.scalars(statement).one_or_none()


def wake_deliveries(session: Session, webhook_id: int, *, at: datetime) -> None:
    """Note that what a webhook waits for is sent at once."""
    statement = update(Delivery).where(
        Delivery.webhook_id == webhook_id, Delivery.state == WAITING
    )
    session.execute(statement.values(next_try_at=at))


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


def delete_ended(session: Session, *, before: datetime, limit: int) -> None:
    """Delete some deliveries from before an instant that have ended."""
    old = (
        select(Delivery.id)
        .where(Delivery.state != WAITING, Delivery.created_at < before)
        .order_by(Delivery.id)
        .limit(limit)
    )
    ids = session.scalars(old).all()
    session.execute(delete(Delivery).where(Delivery.id.in_(ids)))
