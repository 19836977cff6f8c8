"""Deleting unlabelled queries, in small pieces, oldest first."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, delete, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from tracker.storage.detectors import Version
from tracker.storage.estimates.pending import PendingBatch, batch_of
from tracker.storage.estimates.thresholds import forget_confidences
from tracker.storage.labelling.audits import AuditItem
from tracker.storage.labelling.golds import Gold
from tracker.storage.labelling.judgements import Judgement
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label, is_of_query
from tracker.storage.queries.queries import Query

_PLACE = (Query.created_at, Query.id, Query.detector_id)


class Place(NamedTuple):
    """The place of a query in the order of deletion."""

    created_at: datetime
    query_id: int
    detector_id: int


def list_unlabelled(
    session: Session, *, before: datetime, after: Place | None, limit: int
) -> Sequence[Place]:
    """Return some unlabelled queries from before an instant, oldest first.

    They follow the place *after*.
    """
    order = (Query.created_at, Query.id)
    statement = select(*_PLACE).where(Query.label.is_(None), Query.created_at < before)
    if after is not None:
        behind = tuple_(after.created_at, after.query_id)
        statement = statement.where(tuple_(*order) > behind)
    found = session.execute(statement.order_by(*order).limit(limit))
    return [Place(*row) for row in found]


def _among(places: Sequence[Place]) -> ColumnElement[bool]:
    # The id alone is unique; with the detector, the index on both is used.
    return and_(
        Query.id.in_([place.query_id for place in places]),
        Query.detector_id.in_({place.detector_id for place in places}),
    )


def lock_disposable(
    session: Session, places: Sequence[Place], *, reserved_until: datetime
) -> Sequence[Place]:
    """Lock and return the queries that may be deleted.

    From then on nobody can label, reserve or skip one, because those lock the query.
    Queries locked by others are skipped; a later run gets them.
    """
    statement = (
        select(*_PLACE)
        .where(_among(places), *_is_disposable(reserved_until))
        .with_for_update(skip_locked=True)
    )
    return [Place(*row) for row in session.execute(statement)]


def delete_disposable(
    session: Session, places: Sequence[Place], *, reserved_until: datetime
) -> int:
    """Delete the locked queries that may still be deleted, and count them.

    The deleting statement repeats the condition: it sees everything committed before
    the lock, which the locking statement may not.
    """
    expired = Reservation.until <= reserved_until
    query_ids = [place.query_id for place in places]
    ended = delete(Reservation).where(Reservation.query_id.in_(query_ids), expired)
    session.execute(ended)
    disposable = _is_disposable(reserved_until)
    known = _among(places)
    skips = delete(Skip).where(
        Skip.query_id.in_(select(Query.id).where(known, *disposable))
    )
    session.execute(skips)
    said = delete(Judgement).where(
        Judgement.query_id.in_(select(Query.id).where(known, *disposable))
    )
    session.execute(said)
    gone = delete(Query).where(known, *disposable)
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
        counted = update(Version).where(Version.id == version_id)
        session.execute(
            counted.values(
                deleted=Version.deleted + len(instants),
                deleted_to=case((is_later, last), else_=known_to),
            )
        )
    return sum(map(len, asked.values()))


def _is_disposable(reserved_until: datetime) -> list[ColumnElement[bool]]:
    """Return the conditions of a query that nothing needs any more."""
    beside, repeat = aliased(Query), aliased(Query)
    kept_by = (
        select(Label.id).where(is_of_query()),
        select(Reservation.query_id).where(
            Reservation.query_id == Query.id, Reservation.until > reserved_until
        ),
        # The answers to gold queries measure the labelers' errors.
        select(Gold.query_id).where(Gold.query_id == Query.id),
        # The set of an audit is fixed, even of a closed one: labels may come late.
        select(AuditItem.query_id).where(AuditItem.query_id == Query.id),
        # The job has yet to count it.
        select(PendingBatch.id).where(PendingBatch.id == batch_of(Query.id)),
        # The first query with an input counts for its repeats.
        select(repeat.id).where(
            repeat.detector_id == Query.detector_id,
            repeat.input == Query.input,
            repeat.version_id == Query.version_id,
            repeat.is_repeat,
            ~Query.is_repeat,
        ),
        # Versions are compared by their predictions of one input, of which one label
        # is enough.  Every label is greater than the empty text, which uses the index.
        select(beside.id).where(
            beside.detector_id == Query.detector_id,
            beside.input == Query.input,
            beside.label > "",
        ),
    )
    return [Query.label.is_(None), *(~found.exists() for found in kept_by)]
