"""The next query to label: drawn at random, and reserved for one labeler."""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.ranks import TARGETED
from tracker.storage import reservations as storage
from tracker.storage.detectors import Detector
from tracker.storage.queries import Query, list_queries
from tracker.storage.queues import Queue, RandomQueue

RESERVED_FOR = timedelta(minutes=5)
# A page says how many wait; beyond so many the number helps nobody.
MOST_COUNTED = 1_000


def reserve(
    session: Session,
    queue: Queue,
    *,
    labeler: str,
    reserved_at: datetime,
    ahead: int = 0,
) -> list[Query]:
    """Return the query that *labeler* is to label next, and up to *ahead* more.

    They are nobody else's for RESERVED_FOR, and come again until they are labelled
    or skipped; nothing comes when nothing is left.  What another queue gave does not
    come from this one, so that a label is marked by how its query was found.

    Two labelers who want two queries of each other's wait for each other, and one
    of them is tried again as a whole.
    """
    storage.lock_labeler(session, queue.detector_id, labeler)
    storage.delete_expired(session, at=reserved_at)
    if queue.sampling == TARGETED:
        storage.release_others(session, queue, labeler)
    until = reserved_at + RESERVED_FOR
    own = storage.list_reserved(session, queue, labeler, at=reserved_at)
    storage.renew(session, [query.id for query in own], until=until)
    while len(own) <= ahead:
        query = storage.find_free_query(session, queue, labeler, at=reserved_at)
        if query is None and not own:
            query = storage.find_skipped_query(session, queue, labeler, at=reserved_at)
        if query is None:
            break
        # Another labeler may have been faster since it was found free.
        if storage.reserve_query(
            session, queue, query.id, labeler, at=reserved_at, until=until
        ):
            own.append(query)
    return own[: ahead + 1]


def skip(session: Session, query: Query, *, labeler: str, skipped_at: datetime) -> None:
    """Set *query* aside: *labeler* gets it again only when nothing else is left."""
    if query.label is None or query.audit_rank is not None:
        storage.set_aside(session, query, labeler, skipped_at=skipped_at)


def count_waiting(session: Session, queue: Queue) -> int:
    """Count the queries of *queue*, reserved or not; MOST_COUNTED if more."""
    return storage.count_waiting(session, queue, limit=MOST_COUNTED)


def count_for_others(session: Session, queue: Queue) -> int:
    """Count what waits for others alone, where *queue* has nothing for its labeler."""
    if not isinstance(queue, RandomQueue) or queue.labeler is None:
        return 0
    return count_waiting(session, replace(queue, labeler=None))


def has_unlabelled(session: Session, detector: Detector) -> bool:
    """Return whether any query has no label, be it in the audit queue or not."""
    return bool(list_queries(session, detector.id, labelled=False, limit=1))
