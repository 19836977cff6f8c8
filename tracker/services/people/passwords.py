"""Passwords: which are taken, and how they are kept and compared."""

import threading
import unicodedata
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from tracker.errors import InvalidInputError

FEWEST_CHARACTERS = 8
MOST_CHARACTERS = 1_000
# Of zxcvbn's scores 0 to 4, the first that resists guessing through a sign-in
# page which counts tries.
_LOWEST_SCORE = 2
# It looks no further, and its time grows with the square of the length.
_JUDGED_CHARACTERS = 72

# Argon2id with the parameters that RFC 9106 gives for machines with little memory:
# 64 MiB.
_HASHER = PasswordHasher()
# A hundred people who sign in at once must neither take all processors nor all
# memory from those who are at work.
_ONE_AT_A_TIME = threading.Lock()


def hash_password(password: str) -> str:
    """Return what is stored of *password*: Argon2id with a salt of its own."""
    with _ONE_AT_A_TIME:
        return _HASHER.hash(_encoded(password))


def is_right(password: str, stored: str | None) -> bool:
    """Return whether *password* is the one that was stored.

    It takes the same time where nothing is stored, so that nobody learns from a
    watch which accounts there are.
    """
    if len(password) > MOST_CHARACTERS:
        password, stored = "", None
    with _ONE_AT_A_TIME:
        try:
            _HASHER.verify(stored or _unknown(), _encoded(password))
        except VerifyMismatchError:
            return False
    return stored is not None


def check_password(password: str, *, name: str) -> None:
    """Raise InvalidInputError for a password that is short, long or easily guessed."""
    if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise InvalidInputError.of(
            "password",
            f"it has {len(password)} characters; it must have {FEWEST_CHARACTERS} to "
            f"{MOST_CHARACTERS:,}",
        )
    # Its word lists take a tenth of a second to load, which no other command needs.
    from zxcvbn import zxcvbn  # noqa: PLC0415

    judged = zxcvbn(_normalized(password)[:_JUDGED_CHARACTERS], [name, "tracker"])
    if judged["score"] < _LOWEST_SCORE:
        why = judged["feedback"]["warning"] or "It is easily guessed."
        raise InvalidInputError.of(
            "password", f"{why} Three or four words that do not belong together do."
        )


def _normalized(password: str) -> str:
    # The same letters typed on another keyboard may come as other code points.
    return unicodedata.normalize("NFKC", password)


def _encoded(password: str) -> bytes:
    return _normalized(password).encode("utf-8", "surrogatepass")


@cache
def _unknown() -> str:
    return _HASHER.hash(b"")
