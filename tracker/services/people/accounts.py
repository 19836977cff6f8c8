"""Accounts: names, passwords, roles and detectors; and the audit log.

Accounts are never deleted.
"""

import threading
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services import wording
from tracker.services.by import Actor, By
from tracker.services.detectors import get_detector
from tracker.services.fields import KeyName
from tracker.storage import dialect, telling
from tracker.storage import people as storage
from tracker.storage.base import (
    delete_rows,
    list_detector_ids,
    list_rows,
    set_detector_ids,
)
from tracker.words import ADMIN, ROLES

# Control and format characters, surrogates, private use.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co"})


def parse_name(text: str, *, field: str = "name") -> str:
    try:
        return TypeAdapter(KeyName).validate_python(text)
    except ValidationError as error:
        wrong = "; ".join(one.message for one in wording.describe_errors(error))
        raise InvalidInputError.of(field, wrong) from error


def check_name(name: str) -> None:
    """Raise InvalidInputError unless *name* can name an account or a key."""
    parse_name(name)
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        wrong = "invisible characters, and those that turn the text, are not allowed"
        raise wording.invalid("name", name, wrong)


def check_is_free(session: Session, name: str) -> None:
    """Raise ConflictError if an account or a key has *name*, or a similar name.

    Accounts and keys share names, because labels name who gave them.
    """
    found = find_alike(session, name)
    if found is not None:
        noun, taken = found
        like = "" if taken == name else f", and {wording.show(name)} is too similar"
        raise ConflictError(
            f"there is {noun} named {wording.show(taken)} already{like}; "
            "choose another name"
        )


def find_alike(session: Session, name: str) -> tuple[str, str] | None:
    """Return the account or key named *name* up to case and Unicode form.

    No account or key is added before this transaction ends: the database's constraint
    does not ignore case.
    """
    dialect.lock(session, "names of accounts and keys")
    wanted = _fold(name)
    named = chain(
        (
            ("an account", account.name)
            for account in list_rows(session, storage.Account)
        ),
        (("an API key", key.name) for key in list_rows(session, storage.ApiKey)),
    )
    return next((found for found in named if _fold(found[1]) == wanted), None)


def _fold(name: str) -> str:
    # Case folding may undo the normal form, and normalising may bring back case.
    for _ in range(2):
        name = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", name)


FEWEST_CHARACTERS = 8
MOST_CHARACTERS = 1_000
# The lowest of zxcvbn's scores, 0 to 4, that resists guessing through a sign-in page
# which counts tries.
_LOWEST_SCORE = 2
# zxcvbn ignores the rest, and its time grows with the square of the length.
_JUDGED_CHARACTERS = 72

# Argon2id with the parameters that RFC 9106 gives for machines with little memory:
# 64 MiB.
_HASHER = PasswordHasher()
# A hundred sign-ins at once must not take all processors and memory.
_ONE_AT_A_TIME = threading.Lock()


def is_right(password: str, stored: str | None) -> bool:
    """Return whether *password* is the stored one; without one it takes as long."""
    if len(password) > MOST_CHARACTERS:
        password, stored = "", None
    with _ONE_AT_A_TIME:
        try:
            _HASHER.verify(stored or _unknown(), _encoded(password))
        except VerifyMismatchError:
            return False
    return stored is not None


def _normalized(password: str) -> str:
    # Another keyboard may send the same letters as other code points.
    return unicodedata.normalize("NFKC", password)


def _encoded(password: str) -> bytes:
    return _normalized(password).encode("utf-8", "surrogatepass")


@cache
def _unknown() -> str:
    return _HASHER.hash(b"")


def actor_of_account(session: Session, account: storage.Account) -> Actor:
    seen = None
    if account.role != ADMIN and not account.has_all_detectors:
        seen = frozenset(
            list_detector_ids(session, storage.AccountDetector, account_id=account.id)
        )
    return Actor(account.name, account.role, "account", account.id, seen)


def create_account(  # noqa: PLR0913 - name, role and access.
    session: Session,
    name: str,
    role: str,
    by: By,
    *,
    detectors: Iterable[str] = (),
    has_all_detectors: bool = False,
    password: str | None = None,
) -> storage.Account:
    """Add an account; without a password its first sign-in is by a link."""
    wording.check_one_of("role", role, ROLES)
    check_name(name)
    check_is_free(session, name)
    account = storage.Account(
        name=name,
        role=role,
        has_all_detectors=has_all_detectors,
        created_at=by.at,
        # Earlier events are not news in their inbox.
        seen_event_id=telling.find_newest_id(session),
    )
    session.add(account)
    session.flush()
    _set_detectors(session, account, detectors)
    if password is not None:
        _set_password(account, password)
    by.record(session, "account made", name, role=role)
    return account


def get_account(session: Session, name: str) -> storage.Account:
    account = storage.find_account(session, name)
    if account is None:
        raise wording.missing("account", name)
    return account


def get_account_by_id(session: Session, account_id: int) -> storage.Account:
    account = session.get(storage.Account, account_id)
    if account is None:
        raise wording.missing("account", str(account_id))
    return account


def change_account(  # noqa: PLR0913 - role and access.
    session: Session,
    account: storage.Account,
    by: By,
    *,
    role: str | None = None,
    detectors: Iterable[str] | None = None,
    has_all_detectors: bool = False,
) -> None:
    """Change the role of an account, or what it sees; None changes nothing."""
    details: dict[str, Any] = {}
    if role is not None and role != account.role:
        details["role"] = {"old": account.role, "new": role}
        wording.check_one_of("role", role, ROLES)
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
    session: Session, account: storage.Account, references: Iterable[str]
) -> None:
    ids = [get_detector(session, reference).id for reference in references]
    set_detector_ids(session, storage.AccountDetector, ids, account_id=account.id)
    session.flush()


def disable_account(session: Session, account: storage.Account, by: By) -> None:
    _check_is_not_last_admin(session, account)
    account.disabled_at = account.disabled_at or by.at
    _end_sign_ins(session, account)
    by.record(session, "account disabled", account.name)


def _end_sign_ins(
    session: Session, account: storage.Account, *, excluding: str | None = None
) -> None:
    storage.delete_sign_ins(session, account.id, excluding=excluding)
    for waiting in (storage.SignInLink, storage.SignInStep):
        delete_rows(session, waiting, account_id=account.id)


def enable_account(session: Session, account: storage.Account, by: By) -> None:
    account.disabled_at = None
    by.record(session, "account enabled", account.name)


def set_password(
    session: Session,
    account: storage.Account,
    password: str,
    by: By,
    *,
    excluding: str | None = None,
) -> None:
    """Set a password, and sign out everywhere but at the token hash *excluding*."""
    _set_password(account, password)
    _end_sign_ins(session, account, excluding=excluding)
    by.record(session, "password changed", account.name)


def _set_password(account: storage.Account, password: str) -> None:
    """Set a password.

    Raises InvalidInputError for one that is short, long or easy to guess.
    """
    if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise InvalidInputError.of(
            "password",
            f"it has {len(password)} characters; it must have {FEWEST_CHARACTERS} to "
            f"{MOST_CHARACTERS:,}",
        )
    # Its word lists take a tenth of a second to load.
    from zxcvbn import zxcvbn  # noqa: PLC0415

    known = [account.name, "tracker"]
    judged = zxcvbn(_normalized(password)[:_JUDGED_CHARACTERS], known)
    if judged["score"] < _LOWEST_SCORE:
        why = judged["feedback"]["warning"] or "It is easy to guess."
        raise InvalidInputError.of(
            "password", f"{why} Use three or four words that do not belong together."
        )
    with _ONE_AT_A_TIME:
        account.password_hash = _HASHER.hash(_encoded(password))


def has_open_account(session: Session) -> bool:
    return any(row.disabled_at is None for row in list_rows(session, storage.Account))


def find_admin_without_password(session: Session) -> storage.Account | None:
    """Return the first admin, if admins can sign in only by a link."""
    admins = [
        row
        for row in list_rows(session, storage.Account)
        if row.role == ADMIN and row.disabled_at is None
    ]
    is_let_in = any(row.password_hash or row.identity for row in admins)
    return None if is_let_in or not admins else admins[0]


def _check_is_not_last_admin(session: Session, account: storage.Account) -> None:
    has_others = any(
        other.id != account.id and other.role == ADMIN and other.disabled_at is None
        for other in list_rows(session, storage.Account)
    )
    if account.role == ADMIN and not has_others:
        raise ConflictError(
            f"{wording.show(account.name)} is the only admin who can sign in; create "
            "another one first"
        )


COLUMNS = (
    *("happened_at", "actor", "actor_kind"),
    *("action", "subject", "details", "address"),
)


def iter_rows(session: Session) -> Iterator[dict[str, Any]]:
    for event in storage.iter_events(session):
        row = {name: getattr(event, name) for name in COLUMNS}
        yield row | {"happened_at": wording.dump_instant(event.happened_at)}
