"""API keys; only a hash of each is kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Text,
    bindparam,
    select,
    true,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.prepared import Asked, Prepared
from tracker.words import ROLES


class ApiKey(Base):
    """What a program shows instead of a password, with the role it has."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint(f"role IN {ROLES}", name="role"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    role: Mapped[str] = mapped_column(Text)
    # SHA-256; a key has 190 random bits, so nothing slower is needed.
    digest: Mapped[str] = mapped_column(Text, unique=True)
    has_all_detectors: Mapped[bool] = mapped_column(server_default=true())
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    # To the minute, so that a key that is used all the time is seldom written.
    last_used_at: Mapped[datetime | None]
    # Who answers for it; the name of an account as a rule.
    owner: Mapped[str | None] = mapped_column(Name)


class ApiKeyDetector(Base):
    """A detector that an API key is for, where it is not for all of them."""

    __tablename__ = "api_key_detectors"

    api_key_id: Mapped[int] = mapped_column(
        ForeignKey("api_keys.id"), primary_key=True, autoincrement=False
    )
    detector_id: Mapped[int] = mapped_column(
        ForeignKey("detectors.id"), primary_key=True, autoincrement=False
    )


class ShownKey(NamedTuple):
    """What a request has to know of the key that it shows."""

    id: int
    name: str
    role: str
    has_all_detectors: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None


# Every request of a program asks this.
_BY_DIGEST = Prepared(
    select(*(ApiKey.__table__.c[name] for name in ShownKey._fields)).where(
        ApiKey.__table__.c.digest == bindparam("digest")
    )
)


def find_key_by_digest(session: Asked, digest: str) -> ShownKey | None:
    """Return the key with that hash, revoked or not."""
    row = _BY_DIGEST.first(session, {"digest": digest})
    return None if row is None else ShownKey(*row)


def find_key_by_name(session: Session, name: str) -> ApiKey | None:
    """Return the key of that name."""
    return session.scalars(select(ApiKey).where(ApiKey.name == name)).one_or_none()


def touch_key(session: Session, key_id: int, *, used_at: datetime) -> None:
    """Note that a key was used, unless somebody else is noting the same."""
    # A skipped lock is no loss: the other one writes the same minute.
    chosen = select(ApiKey.id).where(ApiKey.id == key_id)
    if session.scalar(chosen.with_for_update(skip_locked=True)) is not None:
        statement = update(ApiKey).where(ApiKey.id == key_id)
        session.execute(statement.values(last_used_at=used_at))


def list_keys(session: Session) -> Sequence[ApiKey]:
    """Return every key, the oldest first."""
    return session.scalars(select(ApiKey).order_by(ApiKey.id)).all()


def list_key_detector_ids(session: Asked, key_id: int) -> Sequence[int]:
    """Return the detectors that a key is for."""
    statement = (
        select(ApiKeyDetector.detector_id)
        .where(ApiKeyDetector.api_key_id == key_id)
        .order_by(ApiKeyDetector.detector_id)
    )
    return session.scalars(statement).all()


def add_key_detector_id(session: Session, key_id: int, detector_id: int) -> None:
    """Let a key be for one detector more."""
    session.add(ApiKeyDetector(api_key_id=key_id, detector_id=detector_id))
    session.flush()
