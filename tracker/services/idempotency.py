"""Stored answers, so that a request is carried out once."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError, TrackerError
from tracker.services.by import By
from tracker.services.wording import show
from tracker.storage import idempotency as storage
from tracker.storage.base import delete_rows, find_row
from tracker.storage.dialect import lock
from tracker.storage.idempotency import StoredAnswer

HEADER = "Idempotency-Key"
KEPT_FOR = timedelta(hours=24)


class StillRunningError(TrackerError):
    """A request under the same idempotency key is being carried out."""


def answer_once(
    session: Session,
    key: str,
    by: By,
    work: Callable[[], tuple[str, int]],
    *,
    digest: str,
) -> StoredAnswer:
    """Return the answer stored under *key*, or store what *work* returns.

    *key* is locked until this transaction ends.  Raises StillRunningError if another
    request has the lock, and as ``find_answer``.
    """
    owner, at = by.actor.name, by.at
    if not lock(session, f"answer {owner}\n{key}", waits=False):
        raise StillRunningError
    storage.delete_old_answers(session, until=at - KEPT_FOR)
    found = find_answer(session, key, by, digest=digest)
    if found is None:
        body, status = work()
        # One that is too old.
        delete_rows(session, StoredAnswer, owner=owner, key=key)
        found = StoredAnswer(
            owner=owner, key=key, digest=digest, status=status, body=body, created_at=at
        )
        session.add(found)
        session.flush()
    return found


def find_answer(
    session: Session, key: str, by: By, *, digest: str
) -> StoredAnswer | None:
    """Return the answer stored under *key* in the last 24 hours.

    Raises InvalidInputError if *key* was used for a request with another *digest*.
    """
    found = find_row(session, StoredAnswer, owner=by.actor.name, key=key)
    if found is None or found.created_at <= by.at - KEPT_FOR:
        return None
    if found.digest != digest:
        raise InvalidInputError.of(
            HEADER, f"{show(key)} was used for another request; choose a new one"
        )
    return found
