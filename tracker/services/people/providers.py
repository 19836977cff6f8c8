"""Accounts of people who sign in at a provider (OpenID Connect)."""

from collections.abc import Mapping
from itertools import chain, count
from typing import Any, TypeGuard

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.people.accounts import change_account, create_account
from tracker.services.people.names import check_name, find_alike
from tracker.services.people.sign_ins import sign_out_everywhere
from tracker.storage.people.accounts import Account, find_account_by_identity
from tracker.words import ROLES


def choose_role(
    claims: Mapping[str, Any], claim: str, values: Mapping[str, str]
) -> str | None:
    """Return the strongest role that *claims* give, None if they give none.

    *claim* is the name of one of them, a word or a list of words; *values* says
    which word stands for a role, where it is not the role's own name.
    """
    said = claims.get(claim)
    words = said if isinstance(said, list) else [said]
    given = [role for role in ROLES if values.get(role, role) in words]
    return given[-1] if given else None


def admit(session: Session, claims: Mapping[str, Any], role: str, by: By) -> Account:
    """Return the account of whom *claims* speak, made at the first time.

    Its role becomes *role*.  It is known by issuer and subject alone: a name or an
    address that equals another account's gives nothing.
    """
    identity = f"{claims['iss']} {claims['sub']}"
    account = find_account_by_identity(session, identity)
    if account is None:
        name = _find_free_name(session, claims)
        account = create_account(session, name, role, by)
        account.identity = identity
    elif account.role != role:
        change_account(session, account, by, role=role)
    session.flush()
    return account


def end_role(session: Session, claims: Mapping[str, Any], by: By) -> None:
    """Sign out everywhere whom the provider gives no role any more."""
    account = find_account_by_identity(session, f"{claims['iss']} {claims['sub']}")
    if account is not None:
        sign_out_everywhere(session, account, by)


def _find_free_name(session: Session, claims: Mapping[str, Any]) -> str:
    said = (claims.get(name) for name in ("preferred_username", "email", "name"))
    otherwise = f"person {str(claims['sub'])[:50]}"
    name = next((found for found in (*said, otherwise) if _is_name(found)), "person")
    tried = chain([name], (f"{name[:90]} {number}" for number in count(2)))
    return next(free for free in tried if find_alike(session, free) is None)


def _is_name(said: object) -> TypeGuard[str]:
    if not isinstance(said, str):
        return False
    try:
        check_name(said)
    except InvalidInputError:
        return False
    return True
