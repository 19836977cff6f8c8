"""How long queries are kept that were never labelled."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.storage.retention import Place, delete_disposable, lock_disposable

# Whoever was shown a query may answer long after the reservation has ended.
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
