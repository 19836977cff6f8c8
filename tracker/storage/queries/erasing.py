"""Taking away what a query holds beyond what was counted of it."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from tracker.storage.queries.queries import Query
from tracker.words import DISPUTED


def erase_content(session: Session, query: Query, *, erased_at: datetime) -> None:
    """Take away what *query* holds beyond what was counted of it."""
    query.input = query.details = query.image = query.image_url = None
    query.audit_rank = query.tags = None
    query.erased_at = erased_at
    if query.agreement == DISPUTED:
        # Nobody can settle it any more.
        query.agreement = None
    session.flush()


def has_image(session: Session, name: str) -> bool:
    """Return whether a query of any detector has this image."""
    statement = select(Query.id).where(Query.image == name).limit(1)
    return session.scalar(statement) is not None
