"""How long is kept what is not kept for ever."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.storage import tasks, telling
from tracker.storage.estimates import job_runs
from tracker.storage.operations.retention import (
    Place,
    delete_disposable,
    lock_disposable,
)

# Deliveries that have ended, tasks that were given up, and runs without a snapshot.
_RECORDS_KEPT = timedelta(days=30)
_DELETED_AT_ONCE = 1_000
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


def delete_records(session: Session, at: datetime) -> None:
    before = at - _RECORDS_KEPT
    for delete in (telling.delete_ended, tasks.delete_ended, job_runs.delete_runs):
        delete(session, before=before, limit=_DELETED_AT_ONCE)
