"""Taking away what a query holds beyond what was counted of it."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from tracker.storage.queries.queries import Query
from tracker.storage.queries.waiting import WaitingQuery
from tracker.words import DISPUTED


def erase_content(
    session: Session,
    query: Query,
    *,
    group: str | None,
    name: str | None,
    erased_at: datetime,
) -> None:
    """Take away what *query* holds beyond what was counted of it.

    Of its *group* and of the *name* of its input hashes stay.
    """
    query.group, query.input = group, name
    query.details = query.image = query.image_url = None
    query.queue_rank = query.tags = None
    query.erased_at = erased_at
    if query.agreement == DISPUTED:
        # Nobody can settle it any more.
        query.agreement = None
    session.flush()


def erase_image(session: Session, query: Query, *, erased_at: datetime) -> None:
    query.image = query.image_url = None
    query.image_erased_at = erased_at
    session.flush()


def has_image(session: Session, name: str) -> bool:
    """Return whether a query of any detector has this image, also one that waits."""
    kinds: tuple[type[Query | WaitingQuery], ...] = (Query, WaitingQuery)
    return any(
        session.scalar(select(kind.id).where(kind.image == name).limit(1)) is not None
        for kind in kinds
    )
