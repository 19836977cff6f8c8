"""Browsers that are signed in, links to sign in by, and tries that failed."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Text, bindparam, delete, func, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.people.accounts import Account


class SignIn(Base):
    """A browser in which somebody is signed in."""

    __tablename__ = "sign_ins"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), index=True)
    # SHA-256 of what the browser shows.
    digest: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    address: Mapped[str] = mapped_column(Text)
    browser: Mapped[str] = mapped_column(Text)


class SignInLink(Base):
    """A link that signs in once."""

    __tablename__ = "sign_in_links"

    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    expires_at: Mapped[datetime]


class SignInTry(Base):
    """A password that was tried and has not proved right."""

    __tablename__ = "sign_in_tries"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # A hash of the name that was typed, for it may be a password typed too early.
    account: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    tried_at: Mapped[datetime] = mapped_column(index=True)


# Built once: every page asks this.
_BY_DIGEST = (
    select(SignIn, Account)
    .join(Account, Account.id == SignIn.account_id)
    .where(SignIn.digest == bindparam("digest"))
)


def find_sign_in(session: Session, digest: str) -> tuple[SignIn, Account] | None:
    """Return the browser with that hash, and the account in it."""
    found = session.execute(_BY_DIGEST, {"digest": digest}).one_or_none()
    return None if found is None else (found[0], found[1])


def list_sign_ins(session: Session, account_id: int) -> Sequence[SignIn]:
    """Return the browsers in which an account is signed in, the newest first."""
    statement = (
        select(SignIn)
        .where(SignIn.account_id == account_id)
        .order_by(SignIn.seen_at.desc(), SignIn.id.desc())
    )
    return session.scalars(statement).all()


def count_sign_ins(session: Session) -> dict[int, int]:
    """Return in how many browsers each account is signed in."""
    statement = select(SignIn.account_id, func.count()).group_by(SignIn.account_id)
    return {row[0]: row[1] for row in session.execute(statement)}


def touch_sign_in(session: Session, sign_in_id: int, *, seen_at: datetime) -> None:
    """Note that a browser was seen."""
    statement = update(SignIn).where(SignIn.id == sign_in_id, SignIn.seen_at < seen_at)
    session.execute(statement.values(seen_at=seen_at))


def delete_sign_in(session: Session, digest: str) -> None:
    """Sign a browser out."""
    session.execute(delete(SignIn).where(SignIn.digest == digest))


def delete_one_sign_in(session: Session, account_id: int, sign_in_id: int) -> bool:
    """Sign an account out of one browser; False if it is not signed in there."""
    statement = (
        delete(SignIn)
        .where(SignIn.id == sign_in_id, SignIn.account_id == account_id)
        .returning(SignIn.id)
    )
    return session.scalar(statement) is not None


def delete_sign_ins(
    session: Session, account_id: int, *, excluding: str | None = None
) -> None:
    """Sign an account out of every browser, *excluding* the one with that hash."""
    statement = delete(SignIn).where(SignIn.account_id == account_id)
    if excluding is not None:
        statement = statement.where(SignIn.digest != excluding)
    session.execute(statement)


def delete_links(session: Session, account_id: int) -> None:
    """Make every link of an account useless."""
    session.execute(delete(SignInLink).where(SignInLink.account_id == account_id))


def find_link(session: Session, digest: str) -> SignInLink | None:
    """Return the link with that hash."""
    return session.get(SignInLink, digest)


def take_link(session: Session, digest: str) -> SignInLink | None:
    """Return the link with that hash, which nobody will be given again."""
    statement = (
        delete(SignInLink).where(SignInLink.digest == digest).returning(SignInLink)
    )
    return session.scalars(statement).one_or_none()


def delete_expired(
    session: Session, *, at: datetime, seen_until: datetime, made_until: datetime
) -> None:
    """Delete links past *at*, and browsers last seen or signed in too long ago."""
    session.execute(delete(SignInLink).where(SignInLink.expires_at <= at))
    old = (SignIn.seen_at <= seen_until) | (SignIn.created_at <= made_until)
    session.execute(delete(SignIn).where(old))


def delete_tries(session: Session, *, until: datetime) -> None:
    """Forget the tries of long ago."""
    session.execute(delete(SignInTry).where(SignInTry.tried_at <= until))


def count_tries(session: Session, account: str, address: str) -> tuple[int, int]:
    """Return how many tries there are for an account, and how many from an address."""
    counts = [
        session.scalar(select(func.count()).select_from(SignInTry).where(condition))
        for condition in (SignInTry.account == account, SignInTry.address == address)
    ]
    return counts[0] or 0, counts[1] or 0


def find_oldest_try(session: Session, account: str, address: str) -> datetime | None:
    """Return when the first of these tries was."""
    concerned = (SignInTry.account == account) | (SignInTry.address == address)
    return session.scalar(select(func.min(SignInTry.tried_at)).where(concerned))


def delete_tries_of(session: Session, account: str) -> None:
    """Forget the tries for an account whose password has proved right."""
    session.execute(delete(SignInTry).where(SignInTry.account == account))
