"""Signing in by password, link or provider (OpenID Connect), and signing out.

Browsers and links hold 256 random bits; only a hash of them is stored.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, count
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, TrackerError
from tracker.services.by import By, network_of
from tracker.services.people import accounts
from tracker.services.wording import missing
from tracker.storage import people as storage
from tracker.storage.base import count_rows, delete_rows, find_row
from tracker.storage.dialect import lock
from tracker.storage.people import Account, SignIn, SignInLink, SignInTry, digest_of
from tracker.words import ROLES

LINK_LASTS = timedelta(hours=1)
INVITATION_LASTS = timedelta(days=7)
LONGEST_IDLE = timedelta(days=7)
LONGEST = timedelta(days=30)
# A role that the provider takes away is noticed at the next sign-in.
LONGEST_OF_PROVIDER = timedelta(hours=12)
TRIES_WITHIN = timedelta(minutes=15)
TRIES_PER_ACCOUNT = 5
TRIES_PER_ADDRESS = 20
# Not noted at every request: each page would be a write.
SEEN_EVERY = timedelta(minutes=5)
_BROWSER_CHARACTERS = 200


class TooManyTriesError(TrackerError):
    """Too many wrong passwords; no other is checked for a while."""

    def __init__(self, wait: timedelta) -> None:
        minutes = TRIES_WITHIN // timedelta(minutes=1)
        super().__init__(
            f"too many tries; wait up to {minutes} minutes, or ask for a link"
        )
        self.seconds = max(1, int(wait.total_seconds()) + 1)


def create_link(
    session: Session, account: Account, by: By, *, lasts: timedelta = LINK_LASTS
) -> str:
    """Return the token of a link that signs in as *account* once, for a while."""
    token = secrets.token_urlsafe(32)
    session.add(
        SignInLink(
            digest=digest_of(token), account_id=account.id, expires_at=by.at + lasts
        )
    )
    session.flush()
    return token


def invite(session: Session, account: Account, by: By) -> str:
    if account.disabled_at is not None:
        raise ConflictError("the account is disabled; enable it first")
    by.record(session, "link made", account.name)
    return create_link(session, account, by, lasts=INVITATION_LASTS)


def find_link(session: Session, token: str, *, at: datetime) -> Account | None:
    return _owner_of(session, session.get(SignInLink, digest_of(token)), at)


def use_link(session: Session, token: str, *, used_at: datetime) -> Account | None:
    """Return the account of a link and end the link; None as ``find_link``."""
    return _owner_of(session, storage.take_link(session, digest_of(token)), used_at)


def _owner_of(
    session: Session, link: SignInLink | None, at: datetime
) -> Account | None:
    if link is None or link.expires_at <= at:
        return None
    account = session.get_one(Account, link.account_id)
    return account if account.disabled_at is None else None


def begin_try(session: Session, name: str, by: By) -> None:
    """Count a password before it is checked.

    Raises TooManyTriesError, without counting, after too many tries for the account or
    from the address.  All processes count together, before the slow hash.
    """
    lock(session, "sign-in tries")
    tried_at = by.at
    name_digest = digest_of(name)
    network = network_of(by.address)
    delete_rows(session, SignInTry, SignInTry.tried_at <= tried_at - TRIES_WITHIN)
    of_account = count_rows(session, SignInTry, SignInTry.account == name_digest)
    of_address = count_rows(session, SignInTry, SignInTry.address == network)
    if of_account >= TRIES_PER_ACCOUNT or of_address >= TRIES_PER_ADDRESS:
        first = storage.find_oldest_try(session, name_digest, network)
        raise TooManyTriesError((first or tried_at) + TRIES_WITHIN - tried_at)
    session.add(SignInTry(account=name_digest, address=network, tried_at=tried_at))
    session.flush()


def forget_tries(session: Session, name: str) -> None:
    delete_rows(session, SignInTry, account=digest_of(name))


def fail_try(session: Session, name: str, by: By, *, is_known: bool) -> None:
    """Record a wrong password, with the name only if an account has it."""
    by.record(session, "sign-in failed", name[:100] if is_known else "unknown name")


def sign_in(
    session: Session, account: Account, by: By, *, browser: str, how: str = "signed in"
) -> str:
    """Return the token that signs a *browser* in; the audit log says *how*."""
    storage.delete_expired(
        session, at=by.at, seen_until=by.at - LONGEST_IDLE, made_until=by.at - LONGEST
    )
    forget_tries(session, account.name)
    token = secrets.token_urlsafe(32)
    session.add(
        SignIn(
            account_id=account.id,
            digest=digest_of(token),
            created_at=by.at,
            seen_at=by.at,
            address=by.address,
            browser=browser[:_BROWSER_CHARACTERS],
        )
    )
    own = replace(by, actor=accounts.actor_of_account(session, account))
    own.record(session, how, account.name)
    return token


def find_signed_in(
    session: Session, token: str, *, at: datetime
) -> tuple[SignIn, Account] | None:
    """Return the browser and the account of *token*, unless the sign-in has expired."""
    found = storage.find_sign_in(session, digest_of(token))
    if found is None:
        return None
    browser, account = found
    longest = LONGEST if account.identity is None else LONGEST_OF_PROVIDER
    is_over = (
        account.disabled_at is not None
        or at - browser.seen_at > LONGEST_IDLE
        or at - browser.created_at > longest
    )
    return None if is_over else found


def end_sign_in(session: Session, token: str) -> None:
    delete_rows(session, SignIn, digest=digest_of(token))


def sign_out(session: Session, token: str, by: By) -> None:
    end_sign_in(session, token)
    by.record(session, "signed out", by.name)


def sign_out_of(session: Session, account: Account, sign_in_id: int, by: By) -> None:
    if not delete_rows(session, SignIn, account_id=account.id, id=sign_in_id):
        raise missing("browser", str(sign_in_id))
    by.record(session, "signed out of a browser", account.name)


def sign_out_everywhere(session: Session, account: Account, by: By) -> None:
    storage.delete_sign_ins(session, account.id)
    by.record(session, "signed out everywhere", account.name)


def choose_role(
    claims: Mapping[str, Any], claim: str, values: Mapping[str, str]
) -> str | None:
    """Return the strongest role in *claim*; *values* has its word if not its name."""
    said = claims.get(claim)
    words = said if isinstance(said, list) else [said]
    given = [role for role in ROLES if values.get(role, role) in words]
    return given[-1] if given else None


def admit(session: Session, claims: Mapping[str, Any], role: str, by: By) -> Account:
    """Return the account of *claims*, created at the first sign-in, with *role*.

    Only issuer and subject identify it: an equal name or address gives no access to
    another account.
    """
    identity = f"{claims['iss']} {claims['sub']}"
    account = find_row(session, Account, identity=identity)
    if account is None:
        name = _find_free_name(session, claims)
        account = accounts.create_account(session, name, role, by)
        account.identity = identity
    elif account.role != role:
        accounts.change_account(session, account, by, role=role)
    session.flush()
    return account


def end_role(session: Session, claims: Mapping[str, Any], by: By) -> None:
    """Sign the person out everywhere, because the provider gives no role."""
    identity = f"{claims['iss']} {claims['sub']}"
    account = find_row(session, Account, identity=identity)
    if account is not None:
        sign_out_everywhere(session, account, by)


def _find_free_name(session: Session, claims: Mapping[str, Any]) -> str:
    said = [claims.get(name) for name in ("preferred_username", "email", "name")]
    name = "person"
    for one in (*said, f"person {str(claims['sub'])[:50]}"):
        if isinstance(one, str):
            with suppress(InvalidInputError):
                accounts.check_name(one)
                name = one
                break
    tried = chain([name], (f"{name[:90]} {number}" for number in count(2)))
    return next(free for free in tried if accounts.find_alike(session, free) is None)
