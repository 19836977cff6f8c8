"""Addresses that people gave for mail and have not confirmed yet."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ForeignKey, Select, Text, delete, or_, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.dialect import lock, upsert
from tracker.storage.operations.leases import LEASE_SECONDS, is_held
from tracker.storage.people.accounts import Account

# Nobody can fill the mailboxes of others by typing their addresses.
ASK_EVERY = timedelta(minutes=10)
# An attempt to send takes a minute at most.
_LEASES = 20.0


class AddressCheck(Base):
    """An address of an account, until its owner confirms it."""

    __tablename__ = "address_checks"

    account_id: Mapped[int] = mapped_column(
        ForeignKey(Account.id), primary_key=True, autoincrement=False
    )
    email: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime]
    # Whether a mail to it is still to be sent.
    is_waiting: Mapped[bool]
    # When the account last caused such a mail, to this address or another.
    sent_at: Mapped[datetime | None]
    attempts: Mapped[int]
    error: Mapped[str | None] = mapped_column(Text)
    worker: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime]
    until: Mapped[datetime]


def find_address_check(session: Session, account_id: int) -> AddressCheck | None:
    """Return the address that an account has to confirm."""
    return session.get(AddressCheck, account_id, populate_existing=True)


def ask_address(session: Session, account_id: int, email: str, *, at: datetime) -> None:
    """Let a mail ask the owner of an address to confirm it, in place of another."""
    row: dict[str, Any] = {
        "account_id": account_id,
        "email": email,
        "asked_at": at,
        "is_waiting": True,
        "sent_at": None,
        "attempts": 0,
        "error": None,
        "worker": None,
        "since": at,
        "until": at,
    }
    upsert(session, AddressCheck, [row], keeping=["sent_at"])


def delete_address_check(session: Session, account_id: int) -> None:
    """Forget the address that an account had to confirm."""
    session.execute(delete(AddressCheck).where(AddressCheck.account_id == account_id))


def is_check_due(session: Session, *, at: datetime) -> bool:
    """Return whether somebody may be asked to confirm an address."""
    return session.scalar(_select_due(at)) is not None


def _select_due(at: datetime) -> Select[int]:
    return (
        select(AddressCheck.account_id)
        .join(Account, Account.id == AddressCheck.account_id)
        .where(AddressCheck.is_waiting, Account.disabled_at.is_(None))
        .where(~is_held(AddressCheck.since, AddressCheck.until, at))
        # An instant that is yet to come was written before the clock was set back.
        .where(
            or_(
                AddressCheck.sent_at.is_(None),
                AddressCheck.sent_at <= at - ASK_EVERY,
                AddressCheck.sent_at > at + timedelta(seconds=LEASE_SECONDS),
            )
        )
        .order_by(AddressCheck.asked_at, AddressCheck.account_id)
        .limit(1)
    )


def take_address_check(
    session: Session, worker: str, *, at: datetime
) -> AddressCheck | None:
    """Lease the address that has waited longest to *worker*; None if none is due."""
    # Without it two workers would send the same mail.
    lock(session, "address_checks")
    account_id = session.scalar(_select_due(at))
    if account_id is None:
        return None
    check = session.get_one(AddressCheck, account_id, populate_existing=True)
    check.worker, check.since = worker, at
    check.until = at + timedelta(seconds=_LEASES * LEASE_SECONDS)
    session.flush()
    return check


def note_address_check(
    session: Session, check: AddressCheck, *, worker: str, values: dict[str, Any]
) -> bool:
    """Write what came of an attempt; False if *worker* has lost it.

    So it has when the person gave another address meanwhile.
    """
    statement = update(AddressCheck).where(
        AddressCheck.account_id == check.account_id,
        AddressCheck.email == check.email,
        AddressCheck.worker == worker,
    )
    result: Any = session.execute(statement.values({**values, "worker": None}))
    return bool(result.rowcount)
