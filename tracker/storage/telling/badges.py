"""Badges; only a hash of each address is kept."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Detector


class Badge(Base):
    """An address that shows a detector's accuracy to everybody who knows it."""

    __tablename__ = "badges"
    __table_args__ = (
        Index(None, "detector_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    digest: Mapped[str] = mapped_column(Text, unique=True)
    created_by: Mapped[str] = mapped_column(Name)
    created_at: Mapped[datetime]


def find_badge(session: Session, badge_id: int) -> Badge | None:
    """Return a badge."""
    return session.get(Badge, badge_id)


def find_badge_by_digest(session: Session, digest: str) -> Badge | None:
    """Return the badge whose address has this hash."""
    return session.scalars(select(Badge).where(Badge.digest == digest)).one_or_none()


def list_badges(
    session: Session, detector_id: int, *, before: int | None = None, limit: int
) -> Sequence[Badge]:
    """Return the badges of a detector, the newest first."""
    statement = select(Badge).where(Badge.detector_id == detector_id)
    if before is not None:
        statement = statement.where(Badge.id < before)
    return session.scalars(statement.order_by(Badge.id.desc()).limit(limit)).all()
