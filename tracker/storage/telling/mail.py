"""Mail to people: what waits to be told, and about what they want none.

A notice is written in the transaction of its event, and so is the task that sends it.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ForeignKey, Index, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.detectors import Detector
from tracker.storage.people.accounts import Account
from tracker.storage.telling.events import Event


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


def find_last_notice(session: Session, account_id: int, detector_id: int) -> int | None:
    """Return the newest notice of an account about a detector."""
    statement = select(func.max(Notice.id)).where(
        Notice.account_id == account_id, Notice.detector_id == detector_id
    )
    return session.scalar(statement)


def list_notices(
    session: Session, account_id: int, detector_id: int, *, last: int
) -> list[tuple[int, Event]]:
    """Return the notices up to the one *last*, each with its event, in order."""
    statement = (
        select(Notice.id, Event)
        .join(Event, Event.id == Notice.event_id)
        .where(
            Notice.account_id == account_id,
            Notice.detector_id == detector_id,
            Notice.id <= last,
        )
        .order_by(Notice.id)
    )
    return [(row.id, row.Event) for row in session.execute(statement)]


def delete_told(session: Session, notices: Collection[int]) -> None:
    """Delete notices that were told.

    They are named, because one with a lower id may be committed after those that were
    read.
    """
    session.execute(delete(Notice).where(Notice.id.in_(notices)))


def delete_notices(
    session: Session, account_id: int, detector_id: int | None = None
) -> None:
    """Delete what an account was to be told, of all detectors or of one."""
    statement = delete(Notice).where(Notice.account_id == account_id)
    if detector_id is not None:
        statement = statement.where(Notice.detector_id == detector_id)
    session.execute(statement)
