"""API keys; only a hash of each is kept."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import CheckConstraint, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name


class ApiKey(Base):
    """What a program shows instead of a password, with the role it has."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint(
            "role IN ('viewer', 'labeler', 'editor', 'admin')", name="role"
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    role: Mapped[str] = mapped_column(Text)
    # SHA-256; a key has 190 random bits, so nothing slower is needed.
    digest: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


def find_key_by_digest(session: Session, digest: str) -> ApiKey | None:
    """Return the key with that hash, revoked or not."""
    return session.scalars(select(ApiKey).where(ApiKey.digest == digest)).one_or_none()


def find_key_by_name(session: Session, name: str) -> ApiKey | None:
    """Return the key of that name."""
    return session.scalars(select(ApiKey).where(ApiKey.name == name)).one_or_none()


def list_keys(session: Session) -> Sequence[ApiKey]:
    """Return every key, the oldest first."""
    return session.scalars(select(ApiKey).order_by(ApiKey.id)).all()
