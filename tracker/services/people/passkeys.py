"""Passkeys (WebAuthn): a key pair of a device, which checks who holds it."""

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import By
from tracker.services.fields import KeyName
from tracker.services.people.second_factors import add_step, fingerprint, forget_codes
from tracker.services.wording import describe_errors, missing
from tracker.storage.dialect import lock
from tracker.storage.people import second_factors as storage
from tracker.storage.people.accounts import Account
from tracker.storage.people.second_factors import Passkey, find_step

_MOST = 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,2000}")
_WRONG = "the passkey did not fit; try again"


@dataclass(frozen=True, slots=True)
class Site:
    """Where browsers find this server, to which a passkey is bound."""

    host: str
    origin: str


def offer_passkey(
    session: Session, account: Account, site: Site
) -> tuple[dict[str, Any], str]:
    """Return what a browser needs to make a passkey, and the challenge in it."""
    # The library takes a tenth of a second to load, which no other page needs.
    from webauthn import generate_registration_options  # noqa: PLC0415
    from webauthn.helpers import structs  # noqa: PLC0415

    known = storage.list_passkeys(session, account.id)
    if len(known) >= _MOST:
        raise ConflictError(f"there are {_MOST} passkeys already; remove one first")
    options = generate_registration_options(
        rp_id=site.host,
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


def add_passkey(  # noqa: PLR0913, PLR0917 - whose, where, what, called what, by whom.
    session: Session,
    account: Account,
    site: Site,
    credential: Any,
    challenge: str,
    name: str,
    by: By,
) -> Passkey:
    """Add the passkey that a browser made; raises InvalidInputError."""
    # As above.
    from webauthn import verify_registration_response  # noqa: PLC0415
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415

    try:
        name = TypeAdapter(KeyName).validate_python(name)
    except ValidationError as error:
        wrong = "; ".join(one.message for one in describe_errors(error))
        raise InvalidInputError.of("name", wrong) from error
    if not isinstance(credential, dict):
        raise InvalidInputError.of("credential", _WRONG)
    try:
        made = verify_registration_response(
            credential=credential,
            expected_challenge=_bytes(challenge),
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, TypeError, KeyError) as error:
        raise InvalidInputError.of("credential", _WRONG) from error
    passkey = Passkey(
        account_id=account.id,
        credential=_text(made.credential_id),
        public_key=_text(made.credential_public_key),
        uses=made.sign_count,
        name=name,
        created_at=by.at,
    )
    if storage.find_passkey(session, passkey.credential) is not None:
        raise ConflictError("this passkey is here already")
    session.add(passkey)
    session.flush()
    by.record(session, "second step added", account.name, what="passkey", name=name)
    return passkey


def ask_for_passkey(site: Site) -> tuple[dict[str, Any], str]:
    """Return what a browser needs to show a passkey, and the challenge in it."""
    # As above.
    from webauthn import generate_authentication_options  # noqa: PLC0415
    from webauthn.helpers import structs  # noqa: PLC0415

    options = generate_authentication_options(
        rp_id=site.host,
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    return _dump(options)


def take_passkey(
    session: Session, site: Site, credential: Any, challenge: str, by: By
) -> Account | None:
    """Return whose passkey a browser shows; None if it is wrong or shown twice.

    The device has checked who holds it, so that it counts for both steps.
    """
    # As above.
    from webauthn import verify_authentication_response  # noqa: PLC0415
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415

    said = credential.get("id") if isinstance(credential, dict) else None
    passkey = storage.find_passkey(session, str(said)) if _is_id(said) else None
    # A challenge that was answered is answered no second time, not even at once.
    lock(session, "sign-in steps")
    used = fingerprint(challenge)
    if passkey is None or find_step(session, used) is not None:
        return None
    account = session.get_one(Account, passkey.account_id)
    try:
        shown = verify_authentication_response(
            credential=credential,
            expected_challenge=_bytes(challenge),
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=_bytes(passkey.public_key),
            credential_current_sign_count=passkey.uses,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, TypeError, KeyError):
        return None
    add_step(session, account, used, by, how="passkey")
    passkey.uses, passkey.used_at = shown.new_sign_count, by.at
    return None if account.disabled_at is not None else account


def remove_passkey(session: Session, account: Account, passkey_id: int, by: By) -> None:
    """Take a passkey away; raises NotFoundError."""
    removed = storage.delete_passkeys(session, account.id, id=passkey_id)
    if not removed:
        raise missing("passkey", str(passkey_id))
    by.record(
        session, "second step removed", account.name, what="passkey", name=removed[0]
    )
    forget_codes(session, account)


def _is_id(said: object) -> bool:
    return isinstance(said, str) and _ID.fullmatch(said) is not None


def _dump(options: Any) -> tuple[dict[str, Any], str]:
    # As above.
    from webauthn import options_to_json  # noqa: PLC0415

    return json.loads(options_to_json(options)), _text(options.challenge)


def _text(raw: bytes) -> str:
    # As above.
    from webauthn.helpers import bytes_to_base64url  # noqa: PLC0415

    return str(bytes_to_base64url(raw))


def _bytes(text: str) -> bytes:
    # As above.
    from webauthn.helpers import base64url_to_bytes  # noqa: PLC0415

    return bytes(base64url_to_bytes(text))
