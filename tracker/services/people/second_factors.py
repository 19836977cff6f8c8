"""The second step of signing in: app codes (RFC 6238), recovery codes, passkeys."""

import base64
import hmac
import json
import re
import secrets
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import By
from tracker.services.people.accounts import parse_name
from tracker.services.wording import missing
from tracker.storage import people as storage
from tracker.storage.base import change_rows, delete_rows, find_row, list_rows, set_rows
from tracker.storage.dialect import lock
from tracker.storage.people import (
    Account,
    Passkey,
    RecoveryCode,
    SignInStep,
    Totp,
    digest_of,
)

RECOVERY_CODES = 10
STEP_LASTS = timedelta(minutes=10)
# An unattended browser must not suffice to change how its owner signs in.
FRESH = timedelta(hours=1)
_STEP_SECONDS = 30
_DIGITS = 6
# A clock may be off by half a minute.
_NEIGHBOURS = (0, -1, 1)
_SECRET_BYTES = 20
_ISSUER = "Tracker"


def begin_totp(session: Session, account: Account) -> str:
    """Return a new secret for an app; its first code confirms it."""
    found = session.get(Totp, account.id)
    if found is not None and found.confirmed_at is not None:
        raise ConflictError("an app is set up already; remove it first")
    if found is None:
        found = Totp(account_id=account.id, last_step=0)
        session.add(found)
    # Never an earlier secret, which somebody else may have seen.
    found.secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    session.flush()
    return found.secret


def find_begun_totp(session: Session, account: Account) -> str:
    """Return the secret that waits for its first code, or a new one."""
    found = session.get(Totp, account.id)
    if found is None or found.confirmed_at is not None:
        return begin_totp(session, account)
    return found.secret


def describe_totp(account: Account, secret: str) -> str:
    label = quote(f"{_ISSUER}:{account.name}")
    return f"otpauth://totp/{label}?" + urlencode({"secret": secret, "issuer": _ISSUER})


def confirm_totp(session: Session, account: Account, code: str, by: By) -> None:
    """Require codes of the app from now on; raises InvalidInputError."""
    found = session.get(Totp, account.id)
    if found is None or found.confirmed_at is not None:
        raise ConflictError("setup has expired; start again")
    if not _take_code(session, found, code, at=by.at):
        raise InvalidInputError.of(
            "code", "it is not the current code of the app; check the clock"
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
    return int(at.timestamp()) // _STEP_SECONDS


def _take_code(session: Session, found: Totp, code: str, *, at: datetime) -> bool:
    typed = code.replace(" ", "")
    if not typed.isascii():
        return False
    for neighbour in _NEIGHBOURS:
        step = step_of(at) + neighbour
        if hmac.compare_digest(totp_code(found.secret, step), typed):
            # False if this code or a later one was used.
            is_new = Totp.account_id == found.account_id, Totp.last_step < step
            return change_rows(session, Totp, *is_new, last_step=step) == 1
    return False


def take_code(
    session: Session, account: Account, code: str, *, at: datetime
) -> str | None:
    """Use up a *code* of the app or for recovery; None if it is wrong."""
    found = session.get(Totp, account.id)
    is_confirmed = found is not None and found.confirmed_at is not None
    if found is not None and is_confirmed and _take_code(session, found, code, at=at):
        return "a code"
    digest = _digest_code(code)
    if delete_rows(session, RecoveryCode, account_id=account.id, digest=digest):
        return "a recovery code"
    return None


def make_recovery_codes(session: Session, account: Account, by: By) -> list[str]:
    """Replace the recovery codes and return the new ones, which are stored hashed."""
    if not storage.has_second_factor(session, account.id):
        raise ConflictError("set up an app or a passkey first")
    codes = []
    for _ in range(RECOVERY_CODES):
        text = base64.b32encode(secrets.token_bytes(10)).decode().lower()
        codes.append("-".join(text[at : at + 4] for at in range(0, len(text), 4)))
    rows = [{"digest": _digest_code(code)} for code in codes]
    set_rows(session, RecoveryCode, rows, account_id=account.id)
    by.record(session, "recovery codes made", account.name)
    return codes


def _digest_code(code: str) -> str:
    return digest_of("".join(code.lower().replace("-", "").split()))


def remove_totp(session: Session, account: Account, by: By) -> None:
    delete_rows(session, Totp, account_id=account.id)
    by.record(session, "second step removed", account.name, what="app")
    _forget_codes(session, account)


def _forget_codes(session: Session, account: Account) -> None:
    if not storage.has_second_factor(session, account.id):
        delete_rows(session, RecoveryCode, account_id=account.id)


def reset_second_factor(session: Session, account: Account, by: By) -> None:
    """Remove the second step of an account; raises NotFoundError if it has none."""
    if not storage.has_second_factor(session, account.id):
        raise missing("second step of", account.name)
    for rows_of in (Totp, Passkey, RecoveryCode, SignInStep):
        delete_rows(session, rows_of, account_id=account.id)
    by.record(session, "second step reset", account.name)


def begin_step(session: Session, account: Account, by: By, *, how: str) -> str:
    """Return the token of a sign-in that waits for its second step."""
    delete_rows(session, SignInStep, SignInStep.expires_at <= by.at)
    token = secrets.token_urlsafe(32)
    _add_step(session, account, token, by, how=how)
    return token


def _add_step(
    session: Session, account: Account, token: str, by: By, *, how: str
) -> None:
    step = SignInStep(digest=digest_of(token), account_id=account.id, how=how)
    step.expires_at = by.at + STEP_LASTS
    session.add(step)
    session.flush()


def find_step(
    session: Session, token: object, *, at: datetime
) -> tuple[SignInStep, Account] | None:
    """Return the step of a browser and its account, None if it has expired."""
    if not isinstance(token, str):
        return None
    step = session.get(SignInStep, digest_of(token))
    if step is None or step.expires_at <= at:
        return None
    account = session.get_one(Account, step.account_id)
    return None if account.disabled_at is not None else (step, account)


_MOST = 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,2000}")
_WRONG = "the passkey did not match; try again"


def offer_passkey(
    session: Session, account: Account, site: str
) -> tuple[dict[str, Any], str]:
    """Return the options to create a passkey of *site*, and their challenge.

    *site* is the address of this server in browsers, to which a passkey is bound.
    """
    library = _load_webauthn()
    structs = library.helpers.structs
    known = list_rows(session, Passkey, Passkey.account_id == account.id)
    if len(known) >= _MOST:
        raise ConflictError(f"there are {_MOST} passkeys already; remove one first")
    options = library.generate_registration_options(
        rp_id=_host_of(site),
        rp_name="Tracker",
        user_id=str(account.id).encode(),
        user_name=account.name,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.REQUIRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            structs.PublicKeyCredentialDescriptor(id=_bytes(key.credential))
            for key in known
        ],
    )
    return _dump(options)


def add_passkey(  # noqa: PLR0913, PLR0917 - each is a part of the passkey.
    session: Session,
    account: Account,
    site: str,
    credential: Any,
    challenge: str,
    name: str,
    by: By,
) -> Passkey:
    """Add the passkey that a browser made; raises InvalidInputError."""
    name = parse_name(name)
    verify = _load_webauthn().verify_registration_response
    made = _verified(verify, site, credential, challenge)
    if made is None:
        raise InvalidInputError.of("credential", _WRONG)
    passkey = Passkey(
        account_id=account.id,
        credential=_text(made.credential_id),
        public_key=_text(made.credential_public_key),
        uses=made.sign_count,
        name=name,
        created_at=by.at,
    )
    known = find_row(session, Passkey, credential=passkey.credential)
    if known is not None:
        raise ConflictError("this passkey is already registered")
    session.add(passkey)
    session.flush()
    by.record(session, "second step added", account.name, what="passkey", name=name)
    return passkey


def ask_for_passkey(site: str) -> tuple[dict[str, Any], str]:
    """Return the options to sign in with a passkey, and their challenge."""
    library = _load_webauthn()
    required = library.helpers.structs.UserVerificationRequirement.REQUIRED
    return _dump(
        library.generate_authentication_options(
            rp_id=_host_of(site), user_verification=required
        )
    )


def take_passkey(
    session: Session, site: str, credential: Any, challenge: str, by: By
) -> Account | None:
    """Return the account of a passkey; None if it is wrong or used twice.

    The device has checked its owner, so a passkey counts for both steps.
    """
    said = credential.get("id") if isinstance(credential, dict) else None
    is_id = isinstance(said, str) and _ID.fullmatch(said)
    passkey = find_row(session, Passkey, credential=str(said)) if is_id else None
    # A challenge is used once, even by two requests at the same time.
    lock(session, "sign-in steps")
    if passkey is None or session.get(SignInStep, digest_of(challenge)) is not None:
        return None
    account = session.get_one(Account, passkey.account_id)
    shown = _verified(
        _load_webauthn().verify_authentication_response,
        site,
        credential,
        challenge,
        credential_public_key=_bytes(passkey.public_key),
        credential_current_sign_count=passkey.uses,
    )
    if shown is None:
        return None
    _add_step(session, account, challenge, by, how="passkey")
    passkey.uses, passkey.used_at = shown.new_sign_count, by.at
    return None if account.disabled_at is not None else account


def remove_passkey(session: Session, account: Account, passkey_id: int, by: By) -> None:
    """Remove a passkey; raises NotFoundError."""
    which = {"account_id": account.id, "id": passkey_id}
    removed = find_row(session, Passkey, **which)
    if removed is None or not delete_rows(session, Passkey, **which):
        raise missing("passkey", str(passkey_id))
    said = {"what": "passkey", "name": removed.name}
    by.record(session, "second step removed", account.name, **said)
    _forget_codes(session, account)


def _host_of(site: str) -> str:
    return urlsplit(site).hostname or ""


def _load_webauthn() -> Any:
    # It takes a tenth of a second to load.
    import webauthn  # noqa: PLC0415

    return webauthn


def _verified(
    verify: Any, site: str, credential: Any, challenge: str, **known: Any
) -> Any | None:
    """Return the verified *credential* of a browser, None if it is wrong."""
    wrong = _load_webauthn().helpers.exceptions.WebAuthnException
    if not isinstance(credential, dict):
        return None
    try:
        return verify(
            credential=credential,
            expected_challenge=_bytes(challenge),
            expected_rp_id=_host_of(site),
            expected_origin=site,
            require_user_verification=True,
            **known,
        )
    except (wrong, ValueError, TypeError, KeyError):
        return None


def _dump(options: Any) -> tuple[dict[str, Any], str]:
    written = _load_webauthn().options_to_json(options)
    return json.loads(written), _text(options.challenge)


def _text(raw: bytes) -> str:
    return str(_load_webauthn().helpers.bytes_to_base64url(raw))


def _bytes(text: str) -> bytes:
    return bytes(_load_webauthn().helpers.base64url_to_bytes(text))
