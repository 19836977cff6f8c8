"""Answering a request once, however often it is sent."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError, TrackerError
from tracker.services.fields import show
from tracker.storage import answers as storage
from tracker.storage.answers import StoredAnswer

HEADER = "Idempotency-Key"
KEPT_FOR = timedelta(hours=24)


class StillRunningError(TrackerError):
    """A request under the same idempotency key is being carried out just now."""


def find_answer(
    session: Session, owner: str, key: str, *, digest: str, at: datetime
) -> StoredAnswer | None:
    """Return what was answered under *key*; None means that it is still to be done.

    In the latter case nobody else does it before this transaction ends.  Raises
    StillRunningError if somebody does it now, and InvalidInputError if *key* was
    given to a request with another *digest*.
    """
    if not storage.lock_idempotency_key(session, owner, key):
        raise StillRunningError
    storage.delete_old_answers(session, until=at - KEPT_FOR)
    found = storage.find_answer(session, owner, key)
    if found is not None and found.created_at <= at - KEPT_FOR:
        session.delete(found)
        session.flush()
        return None
    if found is not None and found.digest != digest:
        raise InvalidInputError.of(
            HEADER, f"{show(key)} was given to another request; choose a new one"
        )
    return found


def add_answer(  # noqa: PLR0913 - the columns of one row.
    session: Session,
    owner: str,
    key: str,
    *,
    digest: str,
    status: int,
    body: str,
    at: datetime,
) -> StoredAnswer:
    """Keep an answer in the transaction of what it speaks of."""
    answer = StoredAnswer(
        owner=owner, key=key, digest=digest, status=status, body=body, created_at=at
    )
    session.add(answer)
    session.flush()
    return answer
