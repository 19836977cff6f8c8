"""What a person shows beside a password: codes of an app, passkeys, recovery codes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Text, delete, func, insert, select
from sqlalchemy import update as sql_update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId


class Totp(Base):
    """The secret that an account shares with an app, which makes a code of it."""

    __tablename__ = "totps"

    account_id: Mapped[int] = mapped_column(
        ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    secret: Mapped[str] = mapped_column(Text)
    # The half minute of the last code that was taken: none is taken twice.
    last_step: Mapped[int] = mapped_column(BigInteger)
    # None until a first code has shown that the app has the secret.
    confirmed_at: Mapped[datetime | None]


class Passkey(Base):
    """A key pair whose private half never leaves a device of the person."""

    __tablename__ = "passkeys"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), index=True)
    credential: Mapped[str] = mapped_column(Text, unique=True)
    public_key: Mapped[str] = mapped_column(Text)
    # How often the device says that it was used, where it counts.
    uses: Mapped[int] = mapped_column(BigInteger)
    name: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class RecoveryCode(Base):
    """A code that signs in once where app and device are lost; kept as a hash."""

    __tablename__ = "recovery_codes"

    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), index=True)


class SignInStep(Base):
    """A sign-in whose second step is still to come, or a challenge that was used."""

    __tablename__ = "sign_in_steps"

    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    how: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime]


def has_second_factor(session: Session, account_id: int) -> bool:
    """Return whether an account has an app or a passkey."""
    app = select(Totp.account_id).where(
        Totp.account_id == account_id, Totp.confirmed_at.is_not(None)
    )
    key = select(Passkey.account_id).where(Passkey.account_id == account_id)
    return session.execute(app.union_all(key).limit(1)).first() is not None


def find_totp(session: Session, account_id: int) -> Totp | None:
    """Return the app of an account, confirmed or not."""
    return session.get(Totp, account_id)


def take_totp_step(session: Session, account_id: int, step: int) -> bool:
    """Note that the code of *step* was taken; False if that one or a later one was."""
    statement = (
        sql_update(Totp)
        .where(Totp.account_id == account_id, Totp.last_step < step)
        .values(last_step=step)
        .returning(Totp.account_id)
    )
    return session.scalar(statement) is not None


def delete_totp(session: Session, account_id: int) -> None:
    """Forget the app of an account."""
    session.execute(delete(Totp).where(Totp.account_id == account_id))


def list_passkeys(session: Session, account_id: int) -> Sequence[Passkey]:
    """Return the passkeys of an account, the oldest first."""
    statement = select(Passkey).where(Passkey.account_id == account_id)
    return session.scalars(statement.order_by(Passkey.id)).all()


def find_passkey(session: Session, credential: str) -> Passkey | None:
    """Return the passkey with that id of its device."""
    statement = select(Passkey).where(Passkey.credential == credential)
    return session.scalars(statement).one_or_none()


def delete_passkeys(session: Session, account_id: int, **which: Any) -> list[str]:
    """Delete the passkeys of an account, or that of an ``id``; return their names."""
    chosen = delete(Passkey).where(Passkey.account_id == account_id)
    statement = chosen.filter_by(**which).returning(Passkey.name)
    return [*session.scalars(statement)]


def count_recovery_codes(session: Session, account_id: int) -> int:
    """Return how many recovery codes of an account are unused."""
    statement = select(func.count()).where(RecoveryCode.account_id == account_id)
    return session.scalar(statement) or 0


def set_recovery_codes(
    session: Session, account_id: int, digests: Iterable[str]
) -> None:
    """Give an account these recovery codes in the place of those it had."""
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account_id))
    rows = [{"digest": digest, "account_id": account_id} for digest in digests]
    if rows:
        session.execute(insert(RecoveryCode), rows)


def take_recovery_code(session: Session, account_id: int, digest: str) -> bool:
    """Delete a recovery code; False if the account has none like it."""
    statement = (
        delete(RecoveryCode)
        .where(RecoveryCode.account_id == account_id, RecoveryCode.digest == digest)
        .returning(RecoveryCode.digest)
    )
    return session.scalar(statement) is not None


def find_step(session: Session, digest: str) -> SignInStep | None:
    """Return the step with that hash."""
    return session.get(SignInStep, digest)


def delete_steps(session: Session, account_id: int) -> None:
    """End every sign-in of an account that waits for its second step."""
    session.execute(delete(SignInStep).where(SignInStep.account_id == account_id))


def delete_expired_steps(session: Session, *, at: datetime) -> None:
    """Delete steps past *at*."""
    session.execute(delete(SignInStep).where(SignInStep.expires_at <= at))
