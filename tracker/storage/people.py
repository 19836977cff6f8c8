"""Accounts, sign-ins, second factors, API keys, and the audit log."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Name, owner, stream, text_list
from tracker.storage.inserting import Asked, Prepared
from tracker.words import ADMIN, HAS_ROLES, KEY_ROLES, LABELER, ROLES


class Account(Base):
    """A person, with a role."""

    __tablename__ = "accounts"
    __table_args__ = (
        sa.CheckConstraint(f"role IN {ROLES}", name="role"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    role: Mapped[str] = mapped_column(sa.Text)
    # Later ones too; an admin always sees all.
    has_all_detectors: Mapped[bool]
    password_hash: Mapped[str | None] = mapped_column(sa.Text)
    # Issuer and subject at the provider.
    identity: Mapped[str | None] = mapped_column(sa.Text, unique=True)
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    # The confirmed mail address, and the events to send.
    email: Mapped[str | None] = mapped_column(sa.Text)
    mail_events: Mapped[list[str] | None] = mapped_column(sa.JSON(none_as_null=True))
    # When the inbox was last marked as seen, and its newest event then.
    last_looked_at: Mapped[datetime | None]
    seen_event_id: Mapped[int] = mapped_column(BigId, default=0, server_default="0")
    # Saved views of the list, each a name and a query string.
    views: Mapped[list[list[str]]] = text_list()


class AccountDetector(Base):
    """A detector that an account may see."""

    __tablename__ = "account_detectors"

    account_id: Mapped[int] = owner("accounts")
    detector_id: Mapped[int] = owner("detectors")


class Pin(Base):
    """A detector pinned by an account."""

    __tablename__ = "pins"

    account_id: Mapped[int] = owner("accounts")
    detector_id: Mapped[int] = owner("detectors")


def seen_by(account_id: int) -> sa.ScalarSelect[int]:
    """Return the newest event that an account has seen, as part of a statement."""
    seen = sa.select(Account.seen_event_id).where(Account.id == account_id)
    return seen.scalar_subquery()


def find_account(session: Session, name: str) -> Account | None:
    return base.find_row(session, Account, name=name)


def list_people_who_label(session: Session, detector_id: int) -> Sequence[str]:
    """Return the names of the accounts that may label this detector, sorted."""
    was_given = sa.select(AccountDetector.account_id).where(
        AccountDetector.account_id == Account.id,
        AccountDetector.detector_id == detector_id,
    )
    statement = sa.select(Account.name).where(
        Account.disabled_at.is_(None),
        Account.role.in_([role for role in ROLES if LABELER in HAS_ROLES[role]]),
        Account.has_all_detectors | (Account.role == ADMIN) | was_given.exists(),
    )
    return session.scalars(statement.order_by(Account.name)).all()


class SignIn(Base):
    """A browser that is signed in."""

    __tablename__ = "sign_ins"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"), index=True)
    # SHA-256 of the browser's token.
    digest: Mapped[str] = mapped_column(sa.Text, unique=True)
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    address: Mapped[str] = mapped_column(sa.Text)
    browser: Mapped[str] = mapped_column(sa.Text)


class SignInLink(Base):
    """A link that signs in once."""

    __tablename__ = "sign_in_links"

    digest: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"))
    expires_at: Mapped[datetime]


class SignInTry(Base):
    """A password that was tried and not yet found right."""

    __tablename__ = "sign_in_tries"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # A hash of the entered name, which may be a password in the wrong field.
    account: Mapped[str] = mapped_column(sa.Text)
    address: Mapped[str] = mapped_column(sa.Text)
    tried_at: Mapped[datetime] = mapped_column(index=True)


# Built once: every page asks this.
_SIGN_IN_BY_DIGEST = (
    sa.select(SignIn, Account)
    .join(Account, Account.id == SignIn.account_id)
    .where(SignIn.digest == sa.bindparam("digest"))
)


def find_sign_in(session: Session, digest: str) -> tuple[SignIn, Account] | None:
    found = session.execute(_SIGN_IN_BY_DIGEST, {"digest": digest}).one_or_none()
    return None if found is None else (found[0], found[1])


def list_sign_ins(session: Session, account_id: int) -> Sequence[SignIn]:
    statement = sa.select(SignIn).where(SignIn.account_id == account_id)
    newest_first = statement.order_by(SignIn.seen_at.desc(), SignIn.id.desc())
    return session.scalars(newest_first).all()


def find_last_seen(session: Session) -> dict[int, datetime]:
    statement = sa.select(SignIn.account_id, sa.func.max(SignIn.seen_at))
    rows = session.execute(statement.group_by(SignIn.account_id))
    return {row[0]: row[1] for row in rows}


def delete_sign_ins(
    session: Session, account_id: int, *, excluding: str | None = None
) -> None:
    others = [] if excluding is None else [SignIn.digest != excluding]
    base.delete_rows(session, SignIn, *others, account_id=account_id)


def take_link(session: Session, digest: str) -> SignInLink | None:
    statement = (
        sa.delete(SignInLink).where(SignInLink.digest == digest).returning(SignInLink)
    )
    return session.scalars(statement).one_or_none()


def delete_expired(
    session: Session, *, at: datetime, seen_until: datetime, made_until: datetime
) -> None:
    base.delete_rows(session, SignInLink, SignInLink.expires_at <= at)
    old = (SignIn.seen_at <= seen_until) | (SignIn.created_at <= made_until)
    base.delete_rows(session, SignIn, old)


def find_oldest_try(session: Session, account: str, address: str) -> datetime | None:
    concerned = (SignInTry.account == account) | (SignInTry.address == address)
    return session.scalar(sa.select(sa.func.min(SignInTry.tried_at)).where(concerned))


class Totp(Base):
    """The TOTP secret that an account shares with an app."""

    __tablename__ = "totps"

    account_id: Mapped[int] = owner("accounts")
    secret: Mapped[str] = mapped_column(sa.Text)
    # The half minute of the last accepted code, so that none is accepted twice.
    last_step: Mapped[int] = mapped_column(sa.BigInteger)
    # None until a first code has proved that the app has the secret.
    confirmed_at: Mapped[datetime | None]


class Passkey(Base):
    """The public half of a passkey."""

    __tablename__ = "passkeys"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"), index=True)
    credential: Mapped[str] = mapped_column(sa.Text, unique=True)
    public_key: Mapped[str] = mapped_column(sa.Text)
    # The device's counter of uses, if it has one.
    uses: Mapped[int] = mapped_column(sa.BigInteger)
    name: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class RecoveryCode(Base):
    """A code that signs in once if app and device are lost; stored hashed."""

    __tablename__ = "recovery_codes"

    digest: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"), index=True)


class SignInStep(Base):
    """A sign-in that waits for its second step, or a used challenge."""

    __tablename__ = "sign_in_steps"

    digest: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"))
    how: Mapped[str] = mapped_column(sa.Text)
    expires_at: Mapped[datetime]


def has_second_factor(session: Session, account_id: int) -> bool:
    app = sa.select(Totp.account_id).where(
        Totp.account_id == account_id, Totp.confirmed_at.is_not(None)
    )
    key = sa.select(Passkey.account_id).where(Passkey.account_id == account_id)
    return session.execute(app.union_all(key).limit(1)).first() is not None


def list_second_factors(session: Session) -> dict[int, str]:
    apps = sa.select(Totp.account_id).where(Totp.confirmed_at.is_not(None))
    keys = sa.select(Passkey.account_id)
    found = dict.fromkeys(session.scalars(apps), "app")
    return found | dict.fromkeys(session.scalars(keys), "passkey")


class ApiKey(Base):
    """The key of a program, with its role."""

    __tablename__ = "api_keys"
    __table_args__ = (
        sa.CheckConstraint(f"role IN {KEY_ROLES}", name="role"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    role: Mapped[str] = mapped_column(sa.Text)
    # SHA-256; a key has 190 random bits, so nothing slower is needed.
    digest: Mapped[str] = mapped_column(sa.Text, unique=True)
    has_all_detectors: Mapped[bool] = mapped_column(server_default=sa.true())
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    # To the minute, so that a busy key is seldom written.
    last_used_at: Mapped[datetime | None]
    # The responsible person, usually the name of an account.
    owner: Mapped[str | None] = mapped_column(Name)


class ApiKeyDetector(Base):
    """A detector that an API key may see, if it may not see all."""

    __tablename__ = "api_key_detectors"

    api_key_id: Mapped[int] = owner("api_keys")
    detector_id: Mapped[int] = owner("detectors")


class ShownKey(NamedTuple):
    """The columns of a key that its requests need."""

    id: int
    name: str
    role: str
    has_all_detectors: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None


def digest_of(token: str) -> str:
    """Return what is stored of a token or key, which cannot be told from it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


# Prepared: every API request asks this.
_KEY_BY_DIGEST = Prepared(
    sa.select(*base.columns_of(ApiKey, *ShownKey._fields)).where(
        ApiKey.__table__.c.digest == sa.bindparam("digest")
    )
)


def find_key_by_digest(session: Asked, digest: str) -> ShownKey | None:
    rows = _KEY_BY_DIGEST.run(session, {"digest": digest})
    return ShownKey(*rows[0]) if rows else None


def touch_key(session: Session, key_id: int, *, used_at: datetime) -> None:
    # A locked row may be skipped: the other request writes the same minute.
    chosen = sa.select(ApiKey.id).where(ApiKey.id == key_id)
    if session.scalar(chosen.with_for_update(skip_locked=True)) is not None:
        base.change_rows(session, ApiKey, ApiKey.id == key_id, last_used_at=used_at)


# The filters of the audit log list the names in the newest events.
_MOST_LOOKED_AT = 10_000


class AuditEvent(Base):
    """An event of the audit log."""

    __tablename__ = "audit_events"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    happened_at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(Name)
    # "account", "key", "command" or "nobody".
    actor_kind: Mapped[str] = mapped_column(sa.Text)
    action: Mapped[str] = mapped_column(sa.Text)
    subject: Mapped[str] = mapped_column(sa.Text)
    details: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    address: Mapped[str] = mapped_column(sa.Text)


def find_last_event(session: Session, action: str, subject: str) -> AuditEvent | None:
    """Return the newest such event among the newest ones of the audit log."""
    newest = sa.select(AuditEvent.id).order_by(AuditEvent.id.desc())
    among = AuditEvent.id.in_(newest.limit(_MOST_LOOKED_AT))
    such = among, AuditEvent.action == action, AuditEvent.subject == subject
    found = base.list_newest(session, AuditEvent, *such, limit=1)
    return found[0] if found else None


def list_doings(session: Session) -> Sequence[tuple[str, str]]:
    doings = sa.select(AuditEvent.actor, AuditEvent.action)
    newest = doings.order_by(AuditEvent.id.desc()).limit(_MOST_LOOKED_AT).subquery()
    rows = session.execute(sa.select(newest).distinct())
    return [(row.actor, row.action) for row in rows]


def iter_events(session: Session) -> Iterator[AuditEvent]:
    statement = sa.select(AuditEvent).order_by(AuditEvent.id)
    return (row.AuditEvent for row in stream(session, statement))
