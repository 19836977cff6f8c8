"""Webhooks: addresses to which events are sent."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Text, delete, func, or_, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.detectors import Detector


class Webhook(Base):
    """An address that gets some events of some detectors, or all of them."""

    __tablename__ = "webhooks"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    url: Mapped[str] = mapped_column(Text)
    # Their types.
    events: Mapped[list[str]] = mapped_column(JSON)
    format: Mapped[str] = mapped_column(Text)
    has_all_detectors: Mapped[bool]
    # Not a hash: each message is signed with it.
    secret: Mapped[str] = mapped_column(Text)
    old_secret: Mapped[str | None] = mapped_column(Text)
    old_secret_until: Mapped[datetime | None]
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    disabled_because: Mapped[str | None] = mapped_column(Text)
    # Its receiver asked to be left alone until then.
    rests_until: Mapped[datetime | None]


class WebhookDetector(Base):
    """A detector that a webhook is about, where it is not about all of them."""

    __tablename__ = "webhook_detectors"

    webhook_id: Mapped[int] = mapped_column(
        ForeignKey(Webhook.id), primary_key=True, autoincrement=False
    )
    detector_id: Mapped[int] = mapped_column(
        ForeignKey(Detector.id), primary_key=True, autoincrement=False
    )


def find_webhook(session: Session, webhook_id: int) -> Webhook | None:
    """Return a webhook."""
    return session.get(Webhook, webhook_id)


def lock_webhook(session: Session, webhook_id: int) -> Webhook | None:
    """Return a webhook that nobody else changes before this transaction ends."""
    statement = select(Webhook).where(Webhook.id == webhook_id).with_for_update()
    statement = statement.execution_options(populate_existing=True)
    return session.scalars(statement).one_or_none()


def list_webhooks(session: Session) -> Sequence[Webhook]:
    """Return every webhook, the oldest first."""
    return session.scalars(select(Webhook).order_by(Webhook.id)).all()


def list_reachable(session: Session, *, at: datetime) -> Sequence[int]:
    """Return the webhooks that are enabled and have not asked to be left alone."""
    is_rested = or_(Webhook.rests_until.is_(None), Webhook.rests_until <= at)
    statement = select(Webhook.id).where(Webhook.disabled_at.is_(None), is_rested)
    return session.scalars(statement.order_by(Webhook.id)).all()


def count_webhooks(session: Session) -> int:
    """Count the webhooks."""
    return session.scalars(select(func.count()).select_from(Webhook)).one()


def list_listeners(
    session: Session, detector_id: int, kind: str, *, limit: int
) -> list[Webhook]:
    """Return the enabled webhooks that subscribe to such events of a detector."""
    about = select(WebhookDetector.webhook_id).where(
        WebhookDetector.detector_id == detector_id
    )
    statement = (
        select(Webhook)
        .where(
            Webhook.disabled_at.is_(None),
            or_(Webhook.has_all_detectors, Webhook.id.in_(about)),
        )
        .order_by(Webhook.id)
        .limit(limit)
        # None of them is deleted before what it is told is in its outbox.
        .with_for_update(read=True, key_share=True)
    )
    return [one for one in session.scalars(statement) if kind in one.events]


def list_webhook_detector_ids(session: Session, webhook_id: int) -> Sequence[int]:
    """Return the detectors that a webhook is about, where it is not about all."""
    statement = (
        select(WebhookDetector.detector_id)
        .where(WebhookDetector.webhook_id == webhook_id)
        .order_by(WebhookDetector.detector_id)
    )
    return session.scalars(statement).all()


def set_webhook_detector_ids(
    session: Session, webhook_id: int, detector_ids: Iterable[int]
) -> None:
    """Let a webhook be about these detectors and no others."""
    session.execute(
        delete(WebhookDetector).where(WebhookDetector.webhook_id == webhook_id)
    )
    session.add_all(
        WebhookDetector(webhook_id=webhook_id, detector_id=detector_id)
        for detector_id in sorted(set(detector_ids))
    )
    session.flush()


def delete_webhook(session: Session, webhook: Webhook) -> None:
    """Delete a webhook that has no deliveries any more."""
    set_webhook_detector_ids(session, webhook.id, ())
    session.delete(webhook)
    session.flush()
