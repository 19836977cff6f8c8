"""The answered queries of groups with their labels, to be counted again."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tracker.storage.labels import Label
from tracker.storage.queries.lookup import lock_found, look_up
from tracker.storage.queries.queries import Query
from tracker.words import GROUPED

_MEMBER = (
    Query.id,
    Query.version_id,
    Query.key,
    Query.input,
    Query.group,
    Query.label,
    Query.label_id,
    Query.sampling,
    Query.standing,
    Query.agreement,
    Query.is_replayed,
    Query.is_repeat,
    Query.erased_at,
)


def lock_answered(
    session: Session, detector_id: int, groups: Collection[str]
) -> Sequence[Any]:
    """Return the labelled queries of *groups* as rows, locked."""
    statement = select(*_MEMBER).where(
        Query.detector_id == detector_id, Query.label_id.is_not(None)
    )
    return lock_found(session, statement, Query.group, [*groups])


def lock_left(session: Session, detector_id: int, *, limit: int) -> Sequence[Any]:
    """Return some queries as rows, locked, that are in no group any more."""
    statement = (
        select(*_MEMBER)
        .where(Query.detector_id == detector_id)
        .where(Query.standing == GROUPED, Query.group.is_(None))
        .order_by(Query.id)
        .limit(limit)
        .with_for_update(key_share=True)
    )
    return session.execute(statement).all()


def list_labels_of(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[Any]:
    statement = select(*Label.__table__.c).where(Label.detector_id == detector_id)
    rows = look_up(session, statement, Label.query_id, query_ids)
    return sorted(rows, key=lambda row: int(row.id))
