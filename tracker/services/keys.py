"""API keys: made once, shown once, stored hashed."""

import hashlib
import secrets
import string
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.services.detectors import get_detector
from tracker.services.fields import ROLES, refuse, show
from tracker.services.names import check_is_free, check_name
from tracker.storage import api_keys as storage
from tracker.storage.api_keys import ApiKey

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 32


def create_key(
    session: Session,
    name: str,
    role: str,
    *,
    created_at: datetime,
    detectors: Iterable[str] | None = None,
) -> str:
    """Add a key and return its text, which nobody can ever read again.

    It is for the named *detectors* alone, or for all there are and will be.
    """
    if role not in ROLES:
        refuse("role", role, f"it must be one of {', '.join(ROLES)}")
    check_name(name)
    check_is_free(session, name)
    text = "trk_" + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    key = ApiKey(
        name=name,
        role=role,
        digest=_digest(text),
        has_all_detectors=detectors is None,
        created_at=created_at,
    )
    session.add(key)
    session.flush()
    for reference in detectors or ():
        detector_id = get_detector(session, reference).id
        storage.add_key_detector_id(session, key.id, detector_id)
    return text


def find_valid_key(session: Session, text: str) -> ApiKey | None:
    """Return the key with that text, unless it is unknown or revoked."""
    # Found by its hash: comparing hashes tells an attacker nothing by its timing.
    key = storage.find_key_by_digest(session, _digest(text))
    return None if key is None or key.revoked_at is not None else key


def revoke_key(session: Session, name: str, *, revoked_at: datetime) -> None:
    """Make a key useless from now on; raises NotFoundError."""
    key = storage.find_key_by_name(session, name)
    if key is None:
        raise NotFoundError(f"there is no key {show(name)}")
    key.revoked_at = key.revoked_at or revoked_at


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
