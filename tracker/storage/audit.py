"""What was done, by whom, when and from where; nobody can change it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, stream


class AuditEvent(Base):
    """One thing that somebody did."""

    __tablename__ = "audit_events"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    happened_at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(Name)
    # "account", "key", "command" or "nobody".
    actor_kind: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
    address: Mapped[str] = mapped_column(Text)


def list_events(
    session: Session, *, before: int | None = None, limit: int
) -> Sequence[AuditEvent]:
    """Return the newest events, from *before* that one on backwards."""
    statement = select(AuditEvent).order_by(AuditEvent.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(AuditEvent.id < before)
    return session.scalars(statement).all()


def iter_events(session: Session) -> Iterator[AuditEvent]:
    """Stream every event, the oldest first."""
    return (
        row.AuditEvent
        for row in stream(session, select(AuditEvent).order_by(AuditEvent.id))
    )
