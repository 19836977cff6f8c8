"""A second step to sign in: codes of an app (RFC 6238), and recovery codes."""

import base64
import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import By
from tracker.services.people.sign_ins import digest_of
from tracker.services.wording import missing
from tracker.storage.people import second_factors as storage
from tracker.storage.people.accounts import Account
from tracker.storage.people.second_factors import SignInStep, Totp

RECOVERY_CODES = 10
STEP_LASTS = timedelta(minutes=10)
# A browser that was left open must not be enough to change the way in.
FRESH = timedelta(hours=1)
_STEP_SECONDS = 30
_DIGITS = 6
# A clock may be off by half a minute.
_NEIGHBOURS = (0, -1, 1)
_SECRET_BYTES = 20
_ISSUER = "Tracker"


def begin_totp(session: Session, account: Account) -> str:
    """Return a secret for an app to make codes of, which a first code confirms.

    Raises ConflictError where an app is confirmed already.
    """
    found = storage.find_totp(session, account.id)
    if found is not None and found.confirmed_at is not None:
        raise ConflictError("an app is set up already; remove it first")
    if found is None:
        found = Totp(account_id=account.id, last_step=0)
        session.add(found)
    # Never that of an earlier beginning, which somebody else may have seen.
    found.secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    session.flush()
    return found.secret


def find_begun_totp(session: Session, account: Account) -> str:
    """Return the secret that waits for its first code, a new one if there is none."""
    found = storage.find_totp(session, account.id)
    if found is None or found.confirmed_at is not None:
        return begin_totp(session, account)
    return found.secret


def describe_totp(account: Account, secret: str) -> str:
    """Return the address by which an app takes over *secret*."""
    label = quote(f"{_ISSUER}:{account.name}")
    return f"otpauth://totp/{label}?" + urlencode({"secret": secret, "issuer": _ISSUER})


def confirm_totp(session: Session, account: Account, code: str, by: By) -> None:
    """Ask for codes of the app from now on; raises InvalidInputError."""
    found = storage.find_totp(session, account.id)
    if found is None or found.confirmed_at is not None:
        raise ConflictError("no app waits for its first code; begin again")
    if not _take_code(session, found, code, at=by.at):
        raise InvalidInputError.of(
            "code", "it is not the code that the app shows now; check the clock"
        )
    found.confirmed_at = by.at
    by.record(session, "second step added", account.name, what="app")


def totp_code(secret: str, step: int) -> str:
    """Return the code of the half minute *step* (RFC 6238 with SHA-1)."""
    digest = hmac.digest(base64.b32decode(secret), step.to_bytes(8), "sha1")
    start = digest[-1] & 15
    number = int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def step_of(at: datetime) -> int:
    """Return the half minute in which *at* lies."""
    return int(at.timestamp()) // _STEP_SECONDS


def _take_code(session: Session, found: Totp, code: str, *, at: datetime) -> bool:
    typed = code.replace(" ", "")
    if not typed.isascii():
        return False
    for neighbour in _NEIGHBOURS:
        step = step_of(at) + neighbour
        if hmac.compare_digest(totp_code(found.secret, step), typed):
            return storage.take_totp_step(session, found.account_id, step)
    return False


def take_code(
    session: Session, account: Account, code: str, *, at: datetime
) -> str | None:
    """Return what *code* is, of the app or for recovery, and take it; None if wrong."""
    found = storage.find_totp(session, account.id)
    is_confirmed = found is not None and found.confirmed_at is not None
    if found is not None and is_confirmed and _take_code(session, found, code, at=at):
        return "a code"
    if storage.take_recovery_code(session, account.id, _digest_code(code)):
        return "a recovery code"
    return None


def make_recovery_codes(session: Session, account: Account, by: By) -> list[str]:
    """Return new recovery codes, which nobody can read again; the old ones end."""
    if not storage.has_second_factor(session, account.id):
        raise ConflictError("set up an app or a passkey first")
    codes = [_new_code() for _ in range(RECOVERY_CODES)]
    storage.set_recovery_codes(session, account.id, map(_digest_code, codes))
    by.record(session, "recovery codes made", account.name)
    return codes


def _new_code() -> str:
    text = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def _digest_code(code: str) -> str:
    return digest_of("".join(code.lower().replace("-", "").split()))


def remove_totp(session: Session, account: Account, by: By) -> None:
    """Ask for no codes of the app any more."""
    storage.delete_totp(session, account.id)
    by.record(session, "second step removed", account.name, what="app")
    forget_codes(session, account)


def forget_codes(session: Session, account: Account) -> None:
    """Delete recovery codes that stand for nothing any more."""
    if not storage.has_second_factor(session, account.id):
        storage.set_recovery_codes(session, account.id, ())


def reset_second_factor(session: Session, account: Account, by: By) -> None:
    """Let an account in by its password or a link alone, until it sets up a new step.

    Raises NotFoundError where it has none.
    """
    if not storage.has_second_factor(session, account.id):
        raise missing("second step of", account.name)
    storage.delete_totp(session, account.id)
    storage.delete_passkeys(session, account.id)
    storage.set_recovery_codes(session, account.id, ())
    storage.delete_steps(session, account.id)
    by.record(session, "second step reset", account.name)


def begin_step(session: Session, account: Account, by: By, *, how: str) -> str:
    """Return what a browser shows that has done the first step to sign in."""
    storage.delete_expired_steps(session, at=by.at)
    token = secrets.token_urlsafe(32)
    add_step(session, account, digest_of(token), by, how=how)
    return token


def add_step(
    session: Session, account: Account, digest: str, by: By, *, how: str
) -> None:
    """Keep a step for a while; raises IntegrityError for one that is there."""
    session.add(
        SignInStep(
            digest=digest,
            account_id=account.id,
            how=how,
            expires_at=by.at + STEP_LASTS,
        )
    )
    session.flush()


def find_step(
    session: Session, token: object, *, at: datetime
) -> tuple[SignInStep, Account] | None:
    """Return the step that a browser shows and whose it is, None if it is over."""
    if not isinstance(token, str):
        return None
    step = storage.find_step(session, digest_of(token))
    if step is None or step.expires_at <= at:
        return None
    account = session.get_one(Account, step.account_id)
    return None if account.disabled_at is not None else (step, account)


def fingerprint(challenge: str) -> str:
    """Return what is stored of a challenge that was used."""
    return hashlib.sha256(challenge.encode()).hexdigest()
