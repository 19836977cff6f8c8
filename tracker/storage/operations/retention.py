"""Deleting unlabelled queries, in small pieces, oldest first."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, delete, exists, not_, select, tuple_
from sqlalchemy.orm import Session, aliased

from tracker.storage.base import are_among, change_rows, delete_rows
from tracker.storage.detectors import Version
from tracker.storage.estimates.pending import BATCH_LIMIT, PendingBatch
from tracker.storage.estimates.thresholds import forget_confidences
from tracker.storage.labelling.audits import AuditItem
from tracker.storage.labelling.golds import Gold
from tracker.storage.labelling.labelers import Judgement
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, has, is_of_query, repeat_of

_PLACE = (Query.created_at, Query.id, Query.detector_id)


class Place(NamedTuple):
    """The place of a query in the order of deletion."""

    created_at: datetime
    query_id: int
    detector_id: int


def list_unlabelled(
    session: Session, *, before: datetime, after: Place | None, limit: int
) -> Sequence[Place]:
    """Return some unlabelled queries from before an instant, oldest first."""
    order = (Query.created_at, Query.id)
    statement = select(*_PLACE).where(Query.label.is_(None), Query.created_at < before)
    if after is not None:
        behind = tuple_(after.created_at, after.query_id)
        statement = statement.where(tuple_(*order) > behind)
    found = session.execute(statement.order_by(*order).limit(limit))
    return [Place(*row) for row in found]


def lock_disposable(
    session: Session,
    detector_id: int,
    query_ids: Collection[int],
    *,
    reserved_until: datetime,
) -> Sequence[int]:
    """Lock and return the queries that may be deleted.

    From then on nobody can label, reserve or skip one, because those lock the query.
    Queries locked by others are skipped; a later run gets them.
    """
    statement = (
        select(Query.id)
        .where(*_are_needed_by_nothing(detector_id, query_ids, reserved_until))
        .with_for_update(skip_locked=True)
    )
    return session.scalars(statement).all()


def delete_disposable(
    session: Session,
    detector_id: int,
    query_ids: Collection[int],
    *,
    reserved_until: datetime,
) -> int:
    """Delete the locked queries that may still be deleted, and count them.

    The deleting statement repeats the condition: it sees everything committed before
    the lock, which the locking statement may not.
    """
    own = {"detector_id": detector_id}
    theirs = Reservation.query_id.in_(query_ids), Reservation.until <= reserved_until
    delete_rows(session, Reservation, *theirs, **own)
    disposable = _are_needed_by_nothing(detector_id, query_ids, reserved_until)
    for beside in (Skip, Judgement):
        gone_too = beside.query_id.in_(select(Query.id).where(*disposable))
        delete_rows(session, beside, gone_too, **own)
    gone = delete(Query).where(*disposable)
    rows: Sequence[Any] = session.execute(
        gone.returning(
            Query.detector_id, Query.version_id, Query.confidence, Query.asked_at
        )
    ).all()
    forget_confidences(session, (row[:3] for row in rows))
    asked: dict[int, list[datetime]] = {}
    for row in rows:
        asked.setdefault(row.version_id, []).append(row.asked_at)
    for version_id, instants in sorted(asked.items()):
        last, known_to = max(instants), Version.deleted_to
        is_later = known_to.is_(None) | (known_to < last)
        change_rows(
            session,
            Version,
            are_among(Version, [(detector_id, version_id)]),
            deleted=Version.deleted + len(instants),
            deleted_to=case((is_later, last), else_=known_to),
        )
    return len(rows)


def _are_needed_by_nothing(
    detector_id: int, query_ids: Collection[int], reserved_until: datetime
) -> list[ColumnElement[bool]]:
    """Return the conditions of queries that nothing needs any more."""
    beside, repeat = aliased(Query), aliased(Query)
    kept_by = (
        select(Label.id).where(is_of_query(Label)).exists(),
        has(Reservation, Reservation.until > reserved_until),
        # The answers to gold queries measure the labelers' errors.
        has(Gold),
        # The set of an audit is fixed, even of a closed one: labels may come late.
        has(AuditItem),
        # The job has yet to count it.
        exists(PendingBatch.id).where(
            PendingBatch.detector_id == Query.detector_id,
            PendingBatch.id == Query.id // BATCH_LIMIT,
        ),
        # The first query with an input counts for its repeats.
        exists(repeat.id).where(repeat_of(repeat)),
        # Versions are compared by their predictions of one input, of which one label
        # is enough.  All repeats and every label, which is greater than the empty text,
        # are named, or the index would not be used that far.
        exists(beside.id).where(
            beside.detector_id == Query.detector_id,
            beside.input == Query.input,
            beside.is_repeat.in_((False, True)),
            beside.label > "",
        ),
    )
    chosen = Query.detector_id == detector_id, Query.id.in_(query_ids)
    return [*chosen, Query.label.is_(None), *(not_(found) for found in kept_by)]
