"""Accounts of people: made, changed, disabled; none is ever deleted."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.detectors import get_detector
from tracker.services.people.names import check_is_free, check_name
from tracker.services.people.passwords import check_password, hash_password
from tracker.services.wording import invalid, missing, show
from tracker.storage.people import accounts as storage
from tracker.storage.people import second_factors, sign_ins
from tracker.storage.people.accounts import Account
from tracker.words import ADMIN, ROLES


def create_account(  # noqa: PLR0913 - who it is, what they may do and see.
    session: Session,
    name: str,
    role: str,
    by: By,
    *,
    detectors: Iterable[str] = (),
    has_all_detectors: bool = False,
    password: str | None = None,
) -> Account:
    """Add an account that sees these *detectors*, or all of them.

    Without a password it is entered by a link.  Raises ConflictError for a name that
    another account or a key has, or one like it.
    """
    _check_role(role)
    check_name(name)
    check_is_free(session, name)
    account = Account(
        name=name,
        role=role,
        has_all_detectors=has_all_detectors,
        created_at=by.at,
    )
    session.add(account)
    session.flush()
    _set_detectors(session, account, detectors)
    if password is not None:
        _set_password(account, password)
    by.record(session, "account made", name, role=role)
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


def change_account(  # noqa: PLR0913 - what it may do and see, by whom.
    session: Session,
    account: Account,
    by: By,
    *,
    role: str | None = None,
    detectors: Iterable[str] | None = None,
    has_all_detectors: bool = False,
) -> None:
    """Give an account another role, or let it see other *detectors*, or all.

    What is None stays as it is.  Raises ConflictError for the role of the last admin.
    """
    details: dict[str, Any] = {}
    if role is not None and role != account.role:
        details["role"] = {"old": account.role, "new": role}
        _check_role(role)
        if role != ADMIN:
            _check_is_not_last_admin(session, account)
        account.role = role
    if detectors is not None:
        details["detectors"] = list(detectors)
        details["sees"] = "all" if has_all_detectors else "some"
        account.has_all_detectors = has_all_detectors
        _set_detectors(session, account, details["detectors"])
    if details:
        by.record(session, "account changed", account.name, **details)


def _set_detectors(
    session: Session, account: Account, references: Iterable[str]
) -> None:
    ids = [get_detector(session, reference).id for reference in references]
    storage.set_detector_ids(session, account.id, ids)
    session.flush()


def disable_account(session: Session, account: Account, by: By) -> None:
    """Let nobody in by this account, from now on.

    Raises ConflictError for the last admin.
    """
    _check_is_not_last_admin(session, account)
    account.disabled_at = account.disabled_at or by.at
    sign_ins.delete_sign_ins(session, account.id)
    sign_ins.delete_links(session, account.id)
    second_factors.delete_steps(session, account.id)
    by.record(session, "account disabled", account.name)


def enable_account(session: Session, account: Account, by: By) -> None:
    """Let an account in again, with the password that it had."""
    account.disabled_at = None
    by.record(session, "account enabled", account.name)


def set_password(
    session: Session,
    account: Account,
    password: str,
    by: By,
    *,
    excluding: str | None = None,
) -> None:
    """Give an account another password, and sign it out everywhere.

    *excluding* is the hash of what the one browser shows that stays signed in.
    """
    _set_password(account, password)
    sign_ins.delete_sign_ins(session, account.id, excluding=excluding)
    sign_ins.delete_links(session, account.id)
    second_factors.delete_steps(session, account.id)
    by.record(session, "password changed", account.name)


def _set_password(account: Account, password: str) -> None:
    check_password(password, name=account.name)
    account.password_hash = hash_password(password)


def has_open_account(session: Session) -> bool:
    """Return whether there is an account that is not disabled."""
    return any(row.disabled_at is None for row in storage.list_accounts(session))


def find_admin_without_password(session: Session) -> Account | None:
    """Return the first admin, if no admin has another way in than a link."""
    admins = [
        row
        for row in storage.list_accounts(session)
        if row.role == ADMIN and row.disabled_at is None
    ]
    is_let_in = any(row.password_hash or row.identity for row in admins)
    return None if is_let_in or not admins else admins[0]


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise invalid("role", role, f"it must be one of {', '.join(ROLES)}")


def _check_is_not_last_admin(session: Session, account: Account) -> None:
    others = (
        other
        for other in storage.list_accounts(session)
        if other.id != account.id and other.role == ADMIN and other.disabled_at is None
    )
    if account.role == ADMIN and next(others, None) is None:
        raise ConflictError(
            f"{show(account.name)} is the only admin who can sign in; make another "
            "one first"
        )
