"""What was done, by whom, when and from where; nobody can change it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, stream

# Among so many of the newest a page finds the names to choose from.
_MOST_LOOKED_AT = 10_000


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
    session: Session,
    *,
    actor: str | None = None,
    action: str | None = None,
    before: int | None = None,
    limit: int,
) -> Sequence[AuditEvent]:
    """Return the newest events that pass, from *before* that one on backwards."""
    statement = select(AuditEvent).order_by(AuditEvent.id.desc()).limit(limit)
    if actor is not None:
        statement = statement.where(AuditEvent.actor == actor)
    if action is not None:
        statement = statement.where(AuditEvent.action == action)
    if before is not None:
        statement = statement.where(AuditEvent.id < before)
    return session.scalars(statement).all()


def list_doings(session: Session) -> Sequence[tuple[str, str]]:
    """Return who did what lately, each pair once."""
    newest = (
        select(AuditEvent.actor, AuditEvent.action)
        .order_by(AuditEvent.id.desc())
        .limit(_MOST_LOOKED_AT)
        .subquery()
    )
    return [
        (row.actor, row.action) for row in session.execute(select(newest).distinct())
    ]


def iter_events(session: Session) -> Iterator[AuditEvent]:
    """Stream every event, the oldest first."""
    return (
        row.AuditEvent
        for row in stream(session, select(AuditEvent).order_by(AuditEvent.id))
    )
