"""Accounts of people, and which detectors each may see."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Text, delete, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.words import ADMIN, LABELER, ROLES, has_role


class Account(Base):
    """A person, with the role that says what they may do."""

    __tablename__ = "accounts"
    __table_args__ = (
        CheckConstraint(f"role IN {ROLES}", name="role"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    role: Mapped[str] = mapped_column(Text)
    # Those made later too; an admin sees all of them in any case.
    has_all_detectors: Mapped[bool]
    password_hash: Mapped[str | None] = mapped_column(Text)
    # Issuer and subject at the provider that this account signs in through.
    identity: Mapped[str | None] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    # Where they get mail, and of which events.
    email: Mapped[str | None] = mapped_column(Text)
    mail_events: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))


class AccountDetector(Base):
    """A detector that an account was given."""

    __tablename__ = "account_detectors"

    account_id: Mapped[int] = mapped_column(
        ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    detector_id: Mapped[int] = mapped_column(
        ForeignKey("detectors.id"), primary_key=True, autoincrement=False
    )


def find_account(session: Session, name: str) -> Account | None:
    """Return the account of that name."""
    return session.scalars(select(Account).where(Account.name == name)).one_or_none()


def find_account_by_identity(session: Session, identity: str) -> Account | None:
    """Return the account that signs in as *identity* at its provider."""
    statement = select(Account).where(Account.identity == identity)
    return session.scalars(statement).one_or_none()


def list_accounts(session: Session) -> Sequence[Account]:
    """Return every account, the oldest first."""
    return session.scalars(select(Account).order_by(Account.id)).all()


def list_people_who_label(session: Session, detector_id: int) -> Sequence[str]:
    """Return the names of the accounts that may label this detector, by name."""
    was_given = select(AccountDetector.account_id).where(
        AccountDetector.account_id == Account.id,
        AccountDetector.detector_id == detector_id,
    )
    statement = select(Account.name).where(
        Account.disabled_at.is_(None),
        Account.role.in_([role for role in ROLES if has_role(role, LABELER)]),
        Account.has_all_detectors | (Account.role == ADMIN) | was_given.exists(),
    )
    return session.scalars(statement.order_by(Account.name)).all()


def list_detector_ids(session: Session, account_id: int) -> Sequence[int]:
    """Return the detectors that an account was given, the oldest first."""
    statement = (
        select(AccountDetector.detector_id)
        .where(AccountDetector.account_id == account_id)
        .order_by(AccountDetector.detector_id)
    )
    return session.scalars(statement).all()


def set_detector_ids(
    session: Session, account_id: int, detector_ids: Iterable[int]
) -> None:
    """Give an account these detectors and take every other one away."""
    session.execute(
        delete(AccountDetector).where(AccountDetector.account_id == account_id)
    )
    rows = [
        {"account_id": account_id, "detector_id": number}
        for number in sorted(set(detector_ids))
    ]
    if rows:
        session.execute(insert(AccountDetector), rows)


def add_detector_id(session: Session, account_id: int, detector_id: int) -> None:
    """Give an account one detector more."""
    session.add(AccountDetector(account_id=account_id, detector_id=detector_id))
    session.flush()
