"""The stream of changes: what each label adds to the counts and takes from them."""

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import tzinfo
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, null, select
from sqlalchemy.orm import Session, aliased

from tracker.storage import labels
from tracker.storage.base import on_postgresql, stream
from tracker.storage.detectors import Version
from tracker.storage.estimates import pending
from tracker.storage.estimates.cells import STEPS, Cell, Change, Standings, day_in
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, has_standing, is_of_query


def find_cut(session: Session, batches: pending.Pending, *, most: int) -> int | None:
    """Return the id before which *most* labels of pending *batches* lie, or some more.

    None if there are no more in all.  Labels before it replace none behind it.
    """
    waiting = pending.of_pending(select(Label.id), Label, batches)
    in_order = waiting.order_by(pending.PendingBatch.id, Label.id)
    cut: int | None = session.scalar(in_order.offset(most).limit(1))
    while cut is not None:
        # A long import draws its ids early, so its labels may replace later ones.
        behind = select(func.max(Label.replaces_id)).where(
            Label.id.in_(waiting.where(Label.id + 0 < cut)), Label.replaces_id >= cut
        )
        replaced: int | None = session.scalar(
            behind.where(on_postgresql(Label.detector_id.in_(batches)))
        )
        if replaced is None:
            break
        cut = replaced + 1
    return cut


def iter_pending_changes(
    session: Session,
    batches: pending.Pending,
    *,
    zones: Mapping[int, tzinfo],
    until: int | None = None,
    has_metadata: bool = False,
) -> Generator[Change]:
    """Stream the labels of pending *batches* in order, with ids below *until*."""
    values = {"detectors": list(batches), **pending.ends_of(batches)}
    values["until"] = pending.END if until is None else until
    statement = _select_pending(has_metadata=has_metadata).params(values)
    return _stream_changes(session, statement, zones)


@cache
def _select_pending(*, has_metadata: bool) -> Select[*tuple[Any, ...]]:
    """Return it once: for few labels, to build it takes longer than to run it."""
    among: Any = bindparam("detectors", type_=Query.detector_id.type, expanding=True)
    return (
        _select_changes(Label.detector_id.in_(among), has_metadata=has_metadata)
        .join(pending.PendingBatch, pending.belongs_to(Label.id))
        .where(pending.PendingBatch.detector_id.in_(among))
        .where(on_postgresql(Label.id.between(bindparam("first"), bindparam("last"))))
        # The sum keeps SQLite from taking it for the most telling condition.
        .where(Label.id + 0 < bindparam("until"))
        # The order of the labels' ids, in which SQLite finds those of one detector.
        .order_by(pending.PendingBatch.id, Label.id)
    )


def iter_folded_changes(
    session: Session, detector_id: int, *, zone: tzinfo, has_metadata: bool = False
) -> Generator[Change]:
    """Stream the labels that no longer wait for the job, in order."""
    statement = (
        _select_changes(Label.detector_id == detector_id, has_metadata=has_metadata)
        .where(Query.detector_id == detector_id)
        .where(~pending.is_pending(detector_id, Label.id))
        .order_by(Label.id)
    )
    return _stream_changes(session, statement, {detector_id: zone})


def _select_changes(
    is_theirs: ColumnElement[bool], *, has_metadata: bool
) -> Select[*tuple[Any, ...]]:
    old = aliased(Label)
    details: Any = Query.details if has_metadata else null()
    columns: tuple[Any, ...] = (
        *(Label.detector_id, Label.id, Label.replaces_id, labels.truth_of(Label)),
        *(Label.standing, Label.created_at, Query.version_id, Query.predicted),
        *(Query.asked_at, Query.confidence, details, labels.truth_of(old)),
        *(old.standing, old.created_at, labels.is_correction(Label, old)),
    )
    return (
        select(*columns)
        .select_from(Label)
        .join(Query, is_of_query(Label))
        .outerjoin(old, labels.is_replaced(old))
        .where(on_postgresql(is_theirs))
    )


def _stream_changes(
    session: Session, statement: Select[*tuple[Any, ...]], zones: Mapping[int, tzinfo]
) -> Generator[Change]:
    with closing(stream(session, statement)) as rows:
        for row in rows:
            detector_id, id_, replaces_id, label, standing, created_at, *rest = row
            version_id, predicted, asked_at, confidence, metadata, *old = rest
            old_label, old_standing, old_at, corrects = old
            is_first = old_standing is None
            yield Change(
                detector_id,
                version_id,
                id_,
                replaces_id,
                day_in(asked_at, zones[detector_id]),
                Cell(standing, label, predicted),
                None if is_first else Cell(old_standing, old_label, predicted),
                bool(corrects),
                created_at,
                metadata,
                None if confidence is None else int(confidence * STEPS),
                None if is_first else max(created_at, old_at),
            )


def in_order_of_replacement(
    changes: Iterable[Change], waiting: Container[int] | None = None
) -> Iterator[Change]:
    """Hold a label back until the one that it replaces has gone before.

    A long import draws its ids when it begins, so it may replace a label with a
    higher id that was committed meanwhile.  *waiting* are the first ids of the
    batches being folded, None for all: a replaced label of another batch is counted
    already.
    """
    held: dict[int, list[Change]] = {}
    for change in changes:
        replaced = change.replaces_id
        if replaced is not None and replaced > change.id:
            first = pending.first_id(replaced // pending.first_id(1))
            if waiting is None or first in waiting:
                held.setdefault(replaced, []).append(change)
                continue
        if not held:
            yield change
            continue
        free = [change]
        while free:
            following = free.pop()
            yield following
            free.extend(held.pop(following.id, ()))


_QUERY = (Query.detector_id, Query.version_id, Query.id, Query.details)


def iter_pending_queries(
    session: Session, batches: pending.Pending, *, until: int | None = None
) -> Generator[Change]:
    """Stream the queries of pending *batches* in order, with ids below *until*."""
    statement = pending.of_pending(select(*_QUERY), Query, batches, until=until)
    return _stream_queries(session, statement)


def iter_folded_queries(session: Session, detector_id: int) -> Generator[Change]:
    is_folded = ~pending.is_pending(detector_id, Query.id)
    statement = select(*_QUERY).where(Query.detector_id == detector_id, is_folded)
    return _stream_queries(session, statement)


def _stream_queries(
    session: Session, statement: Select[*tuple[Any, ...]]
) -> Generator[Change]:
    with closing(stream(session, statement.order_by(Query.id))) as rows:
        for detector_id, version_id, id_, metadata in rows:
            yield Change(detector_id, version_id, id_, metadata=metadata)


def list_first_labelled(
    session: Session, version: Version, standings: Standings, *, limit: int
) -> Sequence[Any]:
    """Return the queries of a version with a label of *standings*, labelled first."""
    columns = Query.id, Query.label, Query.predicted, Query.asked_at
    theirs = (
        Query.detector_id == version.detector_id,
        Query.version_id == version.id,
        on_postgresql(Label.detector_id == version.detector_id),
        Label.replaces_id.is_(None),
        has_standing(Query, standings),
    )
    found = select(*columns).select_from(Label).join(Query, is_of_query(Label))
    first = found.where(*theirs).order_by(Label.id).limit(limit)
    return session.execute(first).all()
