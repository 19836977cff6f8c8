"""Addresses that people gave for mail and have not confirmed yet."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Text, delete
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.dialect import upsert
from tracker.storage.people.accounts import Account


class AddressCheck(Base):
    """An address of an account, until its owner confirms it."""

    __tablename__ = "address_checks"

    account_id: Mapped[int] = mapped_column(
        ForeignKey(Account.id), primary_key=True, autoincrement=False
    )
    email: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime]
    # When the account last caused such a mail, to this address or another.
    sent_at: Mapped[datetime | None]
    # Why the last attempt to send it failed.
    error: Mapped[str | None] = mapped_column(Text)


def find_address_check(session: Session, account_id: int) -> AddressCheck | None:
    """Return the address that an account has to confirm."""
    return session.get(AddressCheck, account_id, populate_existing=True)


def set_address_check(
    session: Session, account_id: int, email: str, *, at: datetime
) -> None:
    """Let an account have this address to confirm, and no other."""
    row: dict[str, Any] = {
        "account_id": account_id,
        "email": email,
        "asked_at": at,
        "sent_at": None,
        "error": None,
    }
    upsert(session, AddressCheck, [row], keeping=["sent_at"])


def delete_address_check(session: Session, account_id: int) -> None:
    """Forget the address that an account had to confirm."""
    session.execute(delete(AddressCheck).where(AddressCheck.account_id == account_id))
