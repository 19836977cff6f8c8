"""The next query to label: drawn at random, and reserved for one labeler."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.storage import reservations as storage
from tracker.storage.detectors import Detector
from tracker.storage.queries import Query, list_queries

RESERVED_FOR = timedelta(minutes=5)
# A page says how many wait; beyond so many the number helps nobody.
MOST_COUNTED = 1_000


def reserve(
    session: Session,
    detector: Detector,
    *,
    labeler: str,
    reserved_at: datetime,
    ahead: int = 0,
) -> list[Query]:
    """Return the query that *labeler* is to label next, and up to *ahead* more.

    They are nobody else's for RESERVED_FOR, and come again until they are labelled
    or skipped; nothing comes when nothing is left.  They come by their ranks, so
    that nobody can choose what is labelled next.

    Two labelers who want two queries of each other's wait for each other, and one
    of them is tried again as a whole.
    """
    storage.lock_labeler(session, detector.id, labeler)
    storage.delete_expired(session, at=reserved_at)
    until = reserved_at + RESERVED_FOR
    own = storage.list_reserved(session, detector, labeler, at=reserved_at)
    storage.renew(session, [query.id for query in own], until=until)
    while len(own) <= ahead:
        query = storage.find_free_query(session, detector, labeler, at=reserved_at)
        if query is None and not own:
            query = storage.find_skipped_query(
                session, detector, labeler, at=reserved_at
            )
        if query is None:
            break
        # Another labeler may have been faster since it was found free.
        if storage.reserve_query(
            session, query.id, labeler, at=reserved_at, until=until
        ):
            own.append(query)
    return own[: ahead + 1]


def skip(session: Session, query: Query, *, labeler: str, skipped_at: datetime) -> None:
    """Set *query* aside: *labeler* gets it again only when nothing else is left."""
    if query.audit_rank is not None:
        storage.set_aside(session, query.id, labeler, skipped_at=skipped_at)


def count_waiting(session: Session, detector: Detector) -> int:
    """Count the queries of the audit queue, reserved or not; MOST_COUNTED if more."""
    return storage.count_waiting(session, detector, limit=MOST_COUNTED)


def has_unlabelled(session: Session, detector: Detector) -> bool:
    """Return whether any query has no label, be it in the audit queue or not."""
    return bool(list_queries(session, detector.id, labelled=False, limit=1))
