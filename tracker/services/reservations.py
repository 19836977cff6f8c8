"""The next query to label: drawn at random, and reserved for one labeler."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.fields import refuse
from tracker.storage import reservations as storage
from tracker.storage.detectors import Detector
from tracker.storage.queries import Query, find_id_bounds

RESERVED_FOR = timedelta(minutes=5)


def reserve(  # noqa: PLR0913 - for whom, when, and how it is drawn.
    session: Session,
    detector: Detector,
    *,
    labeler: str,
    reserved_at: datetime,
    draw: Callable[[], float],
    ahead: int = 0,
) -> list[Query]:
    """Return the query that *labeler* is to label next, and up to *ahead* more.

    They are nobody else's for RESERVED_FOR, and come again until they are labelled
    or skipped; nothing comes when nothing is left.  *draw* gives numbers from 0 up
    to 1 at random, which say where among the unlabelled queries to look, so that
    nobody can choose what is labelled next.

    Two labelers who want two queries of each other's wait for each other, and one
    of them is tried again as a whole.
    """
    storage.lock_labeler(session, detector.id, labeler)
    storage.delete_expired(session, at=reserved_at)
    until = reserved_at + RESERVED_FOR
    own = storage.list_reserved(session, detector.id, labeler, at=reserved_at)
    storage.renew(session, [query.id for query in own], until=until)
    while len(own) <= ahead:
        query = _find(session, detector, labeler, reserved_at, draw())
        if query is None and not own:
            query = storage.find_skipped_query(
                session, detector.id, labeler, at=reserved_at
            )
        if query is None:
            break
        # Another labeler may have been faster since it was found free.
        if storage.reserve_query(
            session, query.id, labeler, at=reserved_at, until=until
        ):
            own.append(query)
    return own[: ahead + 1]


def _find(
    session: Session, detector: Detector, labeler: str, at: datetime, fraction: float
) -> Query | None:
    if not 0 <= fraction < 1:
        refuse("fraction", fraction, "it must lie in [0, 1)")
    bounds = find_id_bounds(session, detector.id)
    if bounds is None:
        return None
    low, high = bounds
    start = low + int((high - low + 1) * fraction)
    for from_id in (start, low):
        query = storage.find_free_query(
            session, detector.id, labeler, at=at, from_id=from_id
        )
        if query is not None:
            return query
    return None


def skip(session: Session, query: Query, *, labeler: str, skipped_at: datetime) -> None:
    """Set *query* aside: *labeler* gets it again only when nothing else is left."""
    if query.label is None:
        storage.set_aside(session, query.id, labeler, skipped_at=skipped_at)


def has_unlabelled(session: Session, detector: Detector) -> bool:
    """Return whether any query waits for its label, reserved or not."""
    return find_id_bounds(session, detector.id) is not None
