"""Names of accounts and API keys, which nobody may mistake for one another."""

import unicodedata
from itertools import chain

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.fields import KeyName
from tracker.services.wording import describe_errors, invalid, show
from tracker.storage.dialect import lock
from tracker.storage.people.accounts import list_accounts
from tracker.storage.people.api_keys import list_keys

# Control and format characters, surrogates, and what fonts draw as they please.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co"})


def check_name(name: str) -> None:
    """Raise InvalidInputError for what cannot be the name of an account or a key."""
    try:
        TypeAdapter(KeyName).validate_python(name)
    except ValidationError as error:
        messages = [wrong.message for wrong in describe_errors(error)]
        raise InvalidInputError.of("name", "; ".join(messages)) from error
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        wrong = "characters that are unseen or turn the text are not allowed"
        raise invalid("name", name, wrong)


def check_is_free(session: Session, name: str) -> None:
    """Raise ConflictError if an account or a key has *name*, or one like it.

    Both at once: labels say by name who gave them.
    """
    found = find_alike(session, name)
    if found is not None:
        noun, taken = found
        like = "" if taken == name else f", which {show(name)} is too much like"
        raise ConflictError(
            f"there is {noun} named {show(taken)} already{like}; choose another name"
        )


def find_alike(session: Session, name: str) -> tuple[str, str] | None:
    """Return what has *name*, or one that differs in case or in form alone.

    No other account or key is made before this transaction ends: the constraint of
    the database knows nothing of case.
    """
    lock(session, "names of accounts and keys")
    wanted = _fold(name)
    named = chain(
        (("an account", account.name) for account in list_accounts(session)),
        (("an API key", key.name) for key in list_keys(session)),
    )
    return next((found for found in named if _fold(found[1]) == wanted), None)


def _fold(name: str) -> str:
    # Folding may undo the normal form, and the normal form may bring back case.
    for _ in range(2):
        name = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", name)
