"""Accounts of people: made, changed, disabled; none is ever deleted."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.detectors import get_detector
from tracker.services.fields import ROLES, missing, refuse, show
from tracker.services.names import check_is_free, check_name
from tracker.services.passwords import check_password, hash_password
from tracker.storage import accounts as storage
from tracker.storage import sign_ins
from tracker.storage.accounts import Account


def create_account(
    session: Session,
    name: str,
    role: str,
    *,
    created_at: datetime,
    has_all_detectors: bool = False,
) -> Account:
    """Add an account that has no password yet.

    Raises ConflictError for a name that another account or a key has, or one like it.
    """
    _check_role(role)
    check_name(name)
    check_is_free(session, name)
    account = Account(
        name=name,
        role=role,
        has_all_detectors=has_all_detectors,
        created_at=created_at,
    )
    session.add(account)
    session.flush()
    return account


def get_account(session: Session, name: str) -> Account:
    """Return the account of that name; raises NotFoundError."""
    account = storage.find_account(session, name)
    if account is None:
        raise missing("account", name)
    return account


def get_account_by_id(session: Session, account_id: int) -> Account:
    """Return the account in that row; raises NotFoundError."""
    account = session.get(Account, account_id)
    if account is None:
        raise missing("account", str(account_id))
    return account


def change_role(session: Session, account: Account, role: str) -> None:
    """Give an account another role; raises ConflictError for the last admin."""
    _check_role(role)
    if role != "admin":
        _check_is_not_last_admin(session, account)
    account.role = role
    session.flush()


def change_detectors(
    session: Session, account: Account, references: Iterable[str], *, has_all: bool
) -> None:
    """Let an account see these detectors and no others, or all of them."""
    ids = [get_detector(session, reference).id for reference in references]
    account.has_all_detectors = has_all
    storage.set_detector_ids(session, account.id, ids)
    session.flush()


def disable_account(
    session: Session, account: Account, *, disabled_at: datetime
) -> None:
    """Let nobody in by this account, from now on.

    Raises ConflictError for the last admin.
    """
    _check_is_not_last_admin(session, account)
    account.disabled_at = account.disabled_at or disabled_at
    sign_ins.delete_sign_ins(session, account.id)
    sign_ins.delete_links(session, account.id)
    session.flush()


def enable_account(session: Session, account: Account) -> None:
    """Let an account in again, with the password that it had."""
    account.disabled_at = None
    session.flush()


def set_password(
    session: Session, account: Account, password: str, *, but: str | None = None
) -> None:
    """Give an account another password, and sign it out everywhere.

    *but* is the hash of what the one browser shows that stays signed in.
    """
    check_password(password, name=account.name)
    account.password_hash = hash_password(password)
    sign_ins.delete_sign_ins(session, account.id, but=but)
    sign_ins.delete_links(session, account.id)
    session.flush()


def has_open_account(session: Session) -> bool:
    """Return whether there is an account that is not disabled."""
    return any(row.disabled_at is None for row in storage.list_accounts(session))


def find_admin_without_password(session: Session) -> Account | None:
    """Return the first admin, if no admin has another way in than a link."""
    admins = [
        row
        for row in storage.list_accounts(session)
        if row.role == "admin" and row.disabled_at is None
    ]
    is_let_in = any(row.password_hash or row.identity for row in admins)
    return None if is_let_in or not admins else admins[0]


def _check_role(role: str) -> None:
    if role not in ROLES:
        refuse("role", role, f"it must be one of {', '.join(ROLES)}")


def _check_is_not_last_admin(session: Session, account: Account) -> None:
    others = (
        other
        for other in storage.list_accounts(session)
        if other.id != account.id
        and other.role == "admin"
        and other.disabled_at is None
    )
    if account.role == "admin" and next(others, None) is None:
        raise ConflictError(
            f"{show(account.name)} is the only admin who can sign in; make another "
            "one first"
        )
