"""Mail to people: what waits to be told, and when each was last told.

A notice is written in the transaction of its event.  Workers share out digests, one
for each person and detector, by leases.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, delete, func, or_, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.detectors import Detector
from tracker.storage.dialect import lock, upsert
from tracker.storage.operations.leases import LEASE_SECONDS, is_held
from tracker.storage.people.accounts import Account
from tracker.storage.telling.events import Event

DIGEST_EVERY = timedelta(hours=1)
# An attempt to send takes a minute at most.
_LEASES = 20.0


class MailMute(Base):
    """A detector about which an account wants no mail any more."""

    __tablename__ = "mail_mutes"

    account_id: Mapped[int] = mapped_column(
        ForeignKey(Account.id), primary_key=True, autoincrement=False
    )
    detector_id: Mapped[int] = mapped_column(
        ForeignKey(Detector.id), primary_key=True, autoincrement=False
    )


class Notice(Base):
    """An event that a person is to be told of; it goes with the mail."""

    __tablename__ = "notices"
    __table_args__ = (
        Index(None, "account_id", "detector_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey(Account.id))
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    event_id: Mapped[int] = mapped_column(ForeignKey(Event.id))


class Digest(Base):
    """The mail to one person about one detector."""

    __tablename__ = "digests"

    account_id: Mapped[int] = mapped_column(
        ForeignKey(Account.id), primary_key=True, autoincrement=False
    )
    detector_id: Mapped[int] = mapped_column(
        ForeignKey(Detector.id), primary_key=True, autoincrement=False
    )
    # Up to which one it tells while it is tried, the same at each attempt.
    last_notice_id: Mapped[int | None] = mapped_column(BigId)
    sent_at: Mapped[datetime | None]
    attempts: Mapped[int]
    error: Mapped[str | None] = mapped_column(Text)
    worker: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime]
    until: Mapped[datetime]


def list_readers(session: Session) -> Sequence[Account]:
    """Return the accounts that can be sent mail, the oldest first."""
    statement = select(Account).where(
        Account.email.is_not(None), Account.disabled_at.is_(None)
    )
    return session.scalars(statement.order_by(Account.id)).all()


def list_muted_ids(session: Session, account_id: int) -> Sequence[int]:
    """Return the detectors about which an account wants no mail."""
    statement = select(MailMute.detector_id).where(MailMute.account_id == account_id)
    return session.scalars(statement.order_by(MailMute.detector_id)).all()


def set_muted(
    session: Session, account_id: int, detector_id: int, *, is_muted: bool
) -> None:
    """Let an account get no mail about a detector any more, or get it again."""
    row = {"account_id": account_id, "detector_id": detector_id}
    session.execute(delete(MailMute).filter_by(**row))
    if is_muted:
        session.add(MailMute(**row))
        delete_notices(session, account_id, detector_id)
    session.flush()


def is_due(session: Session, *, at: datetime) -> bool:
    """Return whether some mail may be sent."""
    return bool(_list_due(session, at=at, limit=1))


def _list_due(session: Session, *, at: datetime, limit: int) -> Sequence[Any]:
    """Return whom to tell of which detector, up to which notice, the oldest first."""
    pair = (Notice.account_id, Notice.detector_id)
    # An instant that is yet to come was written before the clock was set back.
    may_be_told = or_(
        Digest.sent_at.is_(None),
        Digest.sent_at <= at - DIGEST_EVERY,
        Digest.sent_at > at + timedelta(seconds=LEASE_SECONDS),
    )
    is_free = or_(
        Digest.account_id.is_(None),
        may_be_told & ~is_held(Digest.since, Digest.until, at),
    )
    statement = (
        select(*pair, func.max(Notice.id).label("last_id"))
        .outerjoin(
            Digest,
            (Digest.account_id == Notice.account_id)
            & (Digest.detector_id == Notice.detector_id),
        )
        .where(is_free)
        .group_by(*pair)
        .order_by(func.min(Notice.id))
        .limit(limit)
    )
    return session.execute(statement).all()


def take_digest(session: Session, worker: str, *, at: datetime) -> Digest | None:
    """Lease the mail that has waited longest to *worker*; None if none is due."""
    # Without it two workers would send the same one.
    lock(session, "digests")
    found = _list_due(session, at=at, limit=1)
    if not found:
        return None
    account_id, detector_id, last_id = found[0]
    key = (account_id, detector_id)
    digest = session.get(Digest, key, populate_existing=True)
    kept = None if digest is None else digest.last_notice_id
    until = at + timedelta(seconds=_LEASES * LEASE_SECONDS)
    row: dict[str, Any] = {
        "account_id": account_id,
        "detector_id": detector_id,
        "last_notice_id": kept or last_id,
        "attempts": 0,
        "worker": worker,
        "since": at,
        "until": until,
    }
    upsert(session, Digest, [row], keeping=["attempts"])
    session.expire_all()
    return session.get_one(Digest, key)


def list_told(session: Session, digest: Digest) -> list[tuple[int, Event]]:
    """Return the notices that a digest tells of, each with its event, in order."""
    statement = (
        select(Notice.id, Event)
        .join(Event, Event.id == Notice.event_id)
        .where(
            Notice.account_id == digest.account_id,
            Notice.detector_id == digest.detector_id,
            Notice.id <= digest.last_notice_id,
        )
        .order_by(Notice.id)
    )
    return [(row.id, row.Event) for row in session.execute(statement)]


def note_digest(
    session: Session,
    digest: Digest,
    *,
    worker: str,
    told: Collection[int],
    values: dict[str, Any],
) -> bool:
    """Write what came of an attempt; False if *worker* has lost it.

    The notices *told* go.  They are named, because one with a lower id may be
    committed after those that were read.
    """
    statement = update(Digest).where(
        Digest.account_id == digest.account_id,
        Digest.detector_id == digest.detector_id,
        Digest.worker == worker,
    )
    result: Any = session.execute(statement.values({**values, "worker": None}))
    if not result.rowcount:
        return False
    session.execute(delete(Notice).where(Notice.id.in_(told)))
    return True


def delete_notices(
    session: Session, account_id: int, detector_id: int | None = None
) -> None:
    """Delete what an account was to be told, of all detectors or of one."""
    statement = delete(Notice).where(Notice.account_id == account_id)
    if detector_id is not None:
        statement = statement.where(Notice.detector_id == detector_id)
    session.execute(statement)
