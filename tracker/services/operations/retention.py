"""How long queries are kept that were never labelled."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.storage.operations.retention import (
    Place,
    delete_disposable,
    lock_disposable,
)
from tracker.storage.queries import waiting

# A labeler may answer a query long after the reservation has ended.
ANSWERED_WITHIN = timedelta(days=1)


def delete_unlabelled(
    session: Session, places: Sequence[Place], *, deleted_at: datetime
) -> int:
    """Delete those of the queries that nothing needs any more, and count them.

    Needed is what has or had a label, what was reserved for a labeler within the last
    day, what the job has yet to count, and what has the input of a labelled query, by
    which versions are compared.  So no estimate, count or comparison changes.
    """
    reserved_until = deleted_at - ANSWERED_WITHIN
    locked = lock_disposable(session, places, reserved_until=reserved_until)
    return delete_disposable(session, locked, reserved_until=reserved_until)


def delete_waiting(session: Session, *, before: datetime, limit: int) -> int:
    """Delete some queries that got neither a prediction nor a label, and count them.

    Nothing refers to them, and nothing has counted them.
    """
    return waiting.delete_unlabelled(session, before=before, limit=limit)
