"""Stored answers, so that a request is carried out once."""

from datetime import timedelta

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError, TrackerError
from tracker.services.by import By
from tracker.services.wording import show
from tracker.storage import idempotency as storage
from tracker.storage.base import find_row
from tracker.storage.dialect import lock
from tracker.storage.idempotency import StoredAnswer

HEADER = "Idempotency-Key"
KEPT_FOR = timedelta(hours=24)


class StillRunningError(TrackerError):
    """A request under the same idempotency key is being carried out."""


def begin_answer(
    session: Session, key: str, by: By, *, digest: str
) -> StoredAnswer | None:
    """Return the stored answer under *key*; None if the work is still to be done.

    With None, *key* is locked until this transaction ends.  Raises StillRunningError if
    another request has the lock, and as ``find_answer``.
    """
    owner, at = by.actor.name, by.at
    if not lock(session, f"answer {owner}\n{key}", waits=False):
        raise StillRunningError
    storage.delete_old_answers(session, until=at - KEPT_FOR)
    found = find_row(session, StoredAnswer, owner=owner, key=key)
    if found is not None and found.created_at <= at - KEPT_FOR:
        session.delete(found)
        session.flush()
        return None
    return find_answer(session, key, by, digest=digest)


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


def add_answer(  # noqa: PLR0913 - the columns of one row.
    session: Session, key: str, by: By, *, digest: str, status: int, body: str
) -> StoredAnswer:
    """Store an answer in the transaction of its work."""
    answer = StoredAnswer(
        owner=by.actor.name,
        key=key,
        digest=digest,
        status=status,
        body=body,
        created_at=by.at,
    )
    session.add(answer)
    session.flush()
    return answer
