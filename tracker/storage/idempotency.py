"""Answers that are kept for repeated requests."""

from datetime import datetime

from sqlalchemy import Index, Text, UniqueConstraint, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name

# One request deletes so many at most, or it would pay for all others.
_MOST_DELETED = 100


class StoredAnswer(Base):
    """What a request under an idempotency key was answered."""

    __tablename__ = "stored_answers"
    __table_args__ = (
        UniqueConstraint("owner", "key"),
        Index(None, "created_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # The name of the API key that sent it; others may use the same words.
    owner: Mapped[str] = mapped_column(Name)
    key: Mapped[str] = mapped_column(Name)
    # SHA-256 of the request, whose body may have been a large file.
    digest: Mapped[str] = mapped_column(Text)
    status: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


def find_answer(session: Session, owner: str, key: str) -> StoredAnswer | None:
    statement = select(StoredAnswer).where(
        StoredAnswer.owner == owner, StoredAnswer.key == key
    )
    return session.scalars(statement).one_or_none()


def delete_old_answers(session: Session, *, until: datetime) -> None:
    """Delete some of the answers that were stored up to *until*, the oldest first."""
    old = (
        select(StoredAnswer.id)
        .where(StoredAnswer.created_at <= until)
        .order_by(StoredAnswer.created_at)
        .limit(_MOST_DELETED)
        .with_for_update(skip_locked=True)
    )
    session.execute(delete(StoredAnswer).where(StoredAnswer.id.in_(old)))
