"""API keys: shown once, stored hashed."""

import re
import secrets
import string
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.by import Actor, By
from tracker.services.detectors import get_detector
from tracker.services.fields import is_storable
from tracker.services.people.accounts import check_is_free, check_name, parse_name
from tracker.services.wording import check_one_of, dump_instant, invalid, missing
from tracker.storage import people as storage
from tracker.storage.base import (
    find_row,
    list_detector_ids,
    list_rows,
    set_detector_ids,
)
from tracker.storage.inserting import Asked
from tracker.storage.people import ApiKey, digest_of
from tracker.words import KEY_ROLES, LOGGER

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 32
_DURATION = re.compile(r"(\d{1,5})([dw])", re.ASCII)
_DAYS = {"d": 1, "w": 7}
# Ten years; a key without an expiry lasts longer.
_MOST_DAYS = 3_650
# Not noted at every request: each would be a write.
KEY_USED_EVERY = timedelta(minutes=1)


def create_key(  # noqa: PLR0913 - name, role, access and expiry.
    session: Session,
    name: str,
    role: str,
    by: By,
    *,
    detectors: Iterable[str] | None = None,
    expires: str | None = None,
    owner: str | None = None,
) -> str:
    """Add a key and return its text, which is not stored.

    It is for the named *detectors*, or for all, now and later.  It *expires* after a
    time such as 90d.  Its *owner* is responsible for it, by default its creator.
    """
    check_one_of("role", role, KEY_ROLES)
    check_name(name)
    check_is_free(session, name)
    expires_at = None if not expires else _parse_expiry(expires, at=by.at)
    owner = parse_name(owner, field="owner") if owner else by.name or None
    text = "trk_" + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    key = ApiKey(
        name=name,
        role=role,
        digest=digest_of(text),
        has_all_detectors=detectors is None,
        created_at=by.at,
        expires_at=expires_at,
        owner=owner,
    )
    session.add(key)
    session.flush()
    given = list(detectors or ())
    ids = [get_detector(session, reference).id for reference in given]
    set_detector_ids(session, storage.ApiKeyDetector, ids, api_key_id=key.id)
    ends = None if expires_at is None else dump_instant(expires_at)
    by.record(
        session, "key made", name, role=role, detectors=given, expires=ends, owner=owner
    )
    return text


def renew_logger_key(
    session: Session, name: str, by: By, *, detectors: Iterable[str] | None = None
) -> str:
    """Make a key that only logs and revoke the one made so before; return its text.

    It is called *name*, or that with the next number.
    """
    made_so = re.compile(rf"{re.escape(name)}( \d+)?")
    taken = [0]
    for old in list_rows(session, ApiKey):
        if made := made_so.fullmatch(old.name):
            taken.append(int(made[1] or 1))
            # One of that name with another role was made by a person.
            if old.revoked_at is None and old.role == LOGGER:
                revoke_key(session, old.name, by)
    called = f"{name} {max(taken) + 1}" if len(taken) > 1 else name
    return create_key(session, called, LOGGER, by, detectors=detectors)


def _parse_expiry(text: str, *, at: datetime) -> datetime:
    found = _DURATION.fullmatch(text.strip())
    days = int(found[1]) * _DAYS[found[2]] if found else 0
    if not 1 <= days <= _MOST_DAYS:
        raise invalid(
            "expires",
            text,
            f"it must be a number of days or weeks such as 90d or 12w, at most "
            f"{_MOST_DAYS:,} days",
        )
    return at + timedelta(days=days)


def find_valid_key(
    session: Asked, text: str, *, at: datetime
) -> tuple[Actor, datetime | None] | None:
    """Return the actor of a key that is valid, and when it was last used."""
    # Looked up by its hash, so that timing tells an attacker nothing.
    key = storage.find_key_by_digest(session, digest_of(text))
    if key is None or key.revoked_at is not None:
        return None
    if key.expires_at is not None and key.expires_at <= at:
        return None
    seen = None
    if not key.has_all_detectors:
        seen = frozenset(
            list_detector_ids(session, storage.ApiKeyDetector, api_key_id=key.id)
        )
    return Actor(key.name, key.role, "key", key.id, seen), key.last_used_at


def revoke_key(session: Session, name: str, by: By) -> None:
    key = find_row(session, storage.ApiKey, name=name) if is_storable(name) else None
    if key is None:
        raise missing("key", name)
    key.revoked_at = key.revoked_at or by.at
    by.record(session, "key revoked", name)
