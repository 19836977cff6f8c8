"""Which estimates were sent out, so that each is sent once more only after a crash."""

from collections.abc import Mapping

from sqlalchemy import ForeignKey, or_, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert


class SentEstimate(Base):
    """The newest snapshot of a version that was sent."""

    __tablename__ = "sent_estimates"

    version_id: Mapped[int] = mapped_column(
        ForeignKey(Version.id), primary_key=True, autoincrement=False
    )
    sequence: Mapped[int]


def list_unsent(session: Session, *, limit: int) -> dict[int, int]:
    """Return some versions whose newest snapshot was not sent, each with its number."""
    statement = (
        select(Version.id, Version.sequence)
        .outerjoin(SentEstimate, SentEstimate.version_id == Version.id)
        .where(
            Version.sequence > 0,
            or_(
                SentEstimate.sequence.is_(None),
                SentEstimate.sequence < Version.sequence,
            ),
        )
        .order_by(Version.id)
        .limit(limit)
    )
    return {row.id: row.sequence for row in session.execute(statement)}


def note_sent(session: Session, sent: Mapping[int, int]) -> None:
    """Note which snapshot of each version was sent."""
    rows = [{"version_id": key, "sequence": value} for key, value in sent.items()]
    upsert(session, SentEstimate, rows)
