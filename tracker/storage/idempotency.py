"""Stored answers of requests with an idempotency key."""

from datetime import datetime

from sqlalchemy import Index, Text, UniqueConstraint, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, delete_rows

# The most that one request deletes, so that it does not pay for all others.
_MOST_DELETED = 100


class StoredAnswer(Base):
    """The answer to a request with an idempotency key."""

    __tablename__ = "stored_answers"
    __table_args__ = (
        UniqueConstraint("owner", "key"),
        Index(None, "created_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # The name of the API key or account; others may use the same idempotency key.
    owner: Mapped[str] = mapped_column(Name)
    key: Mapped[str] = mapped_column(Name)
    # SHA-256 of the request; its body may be a large file.
    digest: Mapped[str] = mapped_column(Text)
    status: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


def delete_old_answers(session: Session, *, until: datetime) -> None:
    """Delete some answers stored up to *until*, oldest first."""
    old = select(StoredAnswer.id).where(StoredAnswer.created_at <= until)
    some = old.order_by(StoredAnswer.created_at).limit(_MOST_DELETED)
    chosen = StoredAnswer.id.in_(some.with_for_update(skip_locked=True))
    delete_rows(session, StoredAnswer, chosen)
