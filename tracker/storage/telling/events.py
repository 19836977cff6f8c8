"""What happened to detectors that somebody may want to be told; append-only."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Text, bindparam, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.detectors import Detector, Version


class Event(Base):
    """Something that happened to a detector."""

    __tablename__ = "events"
    __table_args__ = (
        Index(None, "detector_id", "id"),
        Index(None, "version_id", "type", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    version_id: Mapped[int | None] = mapped_column(ForeignKey(Version.id))
    type: Mapped[str] = mapped_column(Text)
    happened_at: Mapped[datetime]
    data: Mapped[dict[str, Any]] = mapped_column(JSON)


def list_detector_events(
    session: Session,
    detector_id: int,
    *,
    kind: str | None = None,
    before: int | None = None,
    limit: int,
) -> Sequence[Event]:
    """Return the events of a detector, the newest first."""
    statement = select(Event).where(Event.detector_id == detector_id)
    if kind is not None:
        statement = statement.where(Event.type == kind)
    if before is not None:
        statement = statement.where(Event.id < before)
    return session.scalars(statement.order_by(Event.id.desc()).limit(limit)).all()


# Built once: every page of a detector asks this.
_NEWEST = select(Event).where(
    Event.id.in_(
        select(func.max(Event.id))
        .where(
            Event.version_id.in_(bindparam("version_ids", expanding=True)),
            Event.type == bindparam("kind"),
        )
        .group_by(Event.version_id)
    )
)


def find_last_events(
    session: Session, version_ids: Collection[int], kind: str
) -> dict[int, Event]:
    """Return the newest event of that kind of each version that has one."""
    values = {"version_ids": tuple(version_ids), "kind": kind}
    found = session.scalars(_NEWEST, values)
    return {event.version_id: event for event in found if event.version_id is not None}


def find_last_event(session: Session, detector_id: int, kind: str) -> Event | None:
    """Return the newest event of that kind of a detector."""
    found = list_detector_events(session, detector_id, kind=kind, limit=1)
    return found[0] if found else None
