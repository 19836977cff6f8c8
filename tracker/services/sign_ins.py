"""Signing in: by a password or by a link, and out again.

What a browser or a link shows is 256 random bits; only a hash of it is stored.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.storage import sign_ins as storage
from tracker.storage.accounts import Account
from tracker.storage.sign_ins import SignIn, SignInLink, SignInTry

LINK_LASTS = timedelta(hours=1)
INVITATION_LASTS = timedelta(days=7)
LONGEST_IDLE = timedelta(days=7)
LONGEST = timedelta(days=30)
TRIES_WITHIN = timedelta(minutes=15)
TRIES_PER_ACCOUNT = 5
TRIES_PER_ADDRESS = 20
# Not at every request: a page that is looked at would be a write.
_SEEN_EVERY = timedelta(minutes=5)
_BROWSER_CHARACTERS = 200


class TooManyTriesError(TrackerError):
    """So many passwords were wrong that no other is looked at for a while."""

    def __init__(self, wait: timedelta) -> None:
        """Say how long to *wait*."""
        minutes = TRIES_WITHIN // timedelta(minutes=1)
        super().__init__(
            f"too many tries; wait up to {minutes} minutes, or ask for a link"
        )
        self.seconds = max(1, int(wait.total_seconds()) + 1)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from."""

    address: str
    browser: str


def create_link(
    session: Session,
    account: Account,
    *,
    created_at: datetime,
    lasts: timedelta = LINK_LASTS,
) -> str:
    """Return what a link shows that signs in as *account*, once and for a while."""
    token = secrets.token_urlsafe(32)
    session.add(
        SignInLink(
            digest=digest_of(token),
            account_id=account.id,
            expires_at=created_at + lasts,
        )
    )
    session.flush()
    return token


def use_link(session: Session, token: str, *, used_at: datetime) -> Account | None:
    """Return whom a link signs in, None if it is unknown, used or too old."""
    link = storage.take_link(session, digest_of(token))
    if link is None or link.expires_at <= used_at:
        return None
    account = session.get_one(Account, link.account_id)
    return account if account.disabled_at is None else None


def begin_try(
    session: Session, name: str, origin: Origin, *, tried_at: datetime
) -> None:
    """Count a password that is about to be looked at.

    Raises TooManyTriesError, and counts nothing, where there were too many for the
    account or from the address.  It is counted before anything is hashed, and by
    all processes in one place.
    """
    storage.lock_tries(session)
    storage.delete_tries(session, until=tried_at - TRIES_WITHIN)
    name_digest = digest_of(name)
    of_account, of_address = storage.count_tries(session, name_digest, origin.address)
    if of_account >= TRIES_PER_ACCOUNT or of_address >= TRIES_PER_ADDRESS:
        first = storage.find_oldest_try(session, name_digest, origin.address)
        raise TooManyTriesError((first or tried_at) + TRIES_WITHIN - tried_at)
    session.add(
        SignInTry(account=name_digest, address=origin.address, tried_at=tried_at)
    )
    session.flush()


def sign_in(
    session: Session, account: Account, origin: Origin, *, signed_in_at: datetime
) -> str:
    """Return what a browser shows from now on to be taken for *account*."""
    storage.delete_expired(
        session,
        at=signed_in_at,
        seen_until=signed_in_at - LONGEST_IDLE,
        made_until=signed_in_at - LONGEST,
    )
    storage.delete_tries_of(session, digest_of(account.name))
    token = secrets.token_urlsafe(32)
    session.add(
        SignIn(
            account_id=account.id,
            digest=digest_of(token),
            created_at=signed_in_at,
            seen_at=signed_in_at,
            address=origin.address,
            browser=origin.browser[:_BROWSER_CHARACTERS],
        )
    )
    session.flush()
    return token


def find_signed_in(
    session: Session, token: str, *, at: datetime
) -> tuple[SignIn, Account] | None:
    """Return the browser that shows *token* and who is in it, unless that is over."""
    found = storage.find_sign_in(session, digest_of(token))
    if found is None:
        return None
    browser, account = found
    is_over = (
        account.disabled_at is not None
        or at - browser.seen_at > LONGEST_IDLE
        or at - browser.created_at > LONGEST
    )
    return None if is_over else found


def is_to_be_noted(browser: SignIn, *, at: datetime) -> bool:
    """Return whether it is time to note that a browser was seen again."""
    return at - browser.seen_at > _SEEN_EVERY


def sign_out(session: Session, token: str) -> None:
    """Make what a browser shows useless, wherever it was copied to."""
    storage.delete_sign_in(session, digest_of(token))


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
