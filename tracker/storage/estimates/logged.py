"""How many queries there are, by the running counts and by counting them."""

from collections.abc import Collection

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from tracker.storage.detectors import Version
from tracker.storage.estimates.counts import count_pending_queries
from tracker.storage.estimates.pending import list_pending_batches
from tracker.storage.queries.queries import Query


def count_logged(session: Session, versions: Collection[Version]) -> dict[int, int]:
    """Return how many queries each version has by the running counts.

    Those that wait for the job are added, and nothing is counted that was before.
    """
    batches = list_pending_batches(session, {one.detector_id for one in versions})
    waiting = count_pending_queries(session, batches) if batches else {}
    return {
        one.id: one.queries - one.deleted + waiting.get(one.id, 0) for one in versions
    }


def recount_queries(session: Session, detector_id: int) -> dict[int, int]:
    """Return how many queries each version has, by counting all of them."""
    statement = (
        select(Query.version_id, func.count())
        .where(Query.detector_id == detector_id)
        .group_by(Query.version_id)
    )
    return dict(session.execute(statement).all())


# Built once: every list of queries asks this.
_ERASED = select(func.count()).where(
    Query.detector_id == bindparam("detector_id"), Query.erased_at.is_not(None)
)


def count_all_erased(session: Session, detector_id: int) -> int:
    """Count the queries whose content was taken away, with labels or without."""
    return session.scalars(_ERASED, {"detector_id": detector_id}).one()
