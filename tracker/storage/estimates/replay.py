"""Counting labels as they were known at an instant, or only the last of them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from itertools import product
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from tracker.storage.base import on_postgresql
from tracker.storage.dialect import minute_of
from tracker.storage.estimates.cells import Arrival, Cell, Counts, Standings, pool
from tracker.storage.estimates.counts import (
    count_changes,
    count_pending_days,
    sum_minutes,
)
from tracker.storage.estimates.pending import is_pending
from tracker.storage.estimates.projections import KNOWN, load_by_name
from tracker.storage.labels import Label, is_correction, truth_of
from tracker.storage.queries.finding import Between, Condition
from tracker.storage.queries.queries import Query, is_of_query
from tracker.words import UNCLEAR


def count_known(  # noqa: PLR0913 - one argument for each filter.
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    *,
    known_at: datetime | None = None,
    last: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Sequence[Condition] = (),
    standings: Standings = frozenset(),
    are_pooled: bool = False,
) -> Counts:
    """Count the labels that were current at *known_at*, now unless given.

    With *last* only so many with one of *standings*, of the queries whose first label
    came last.
    Of versions that *are pooled* an input counts by one of them.
    It reads the labels themselves, so many of them or all.
    """
    shape = (last is not None, known_at is not None)
    limits = [one.test(session) for one in where]
    if since or until:
        limits.append(Between("asked_at", since, below=until).test(session))
    if are_pooled:
        limits.append(Query.is_pooled.is_(other=True))
    statement = _select_kinds(shape, limits) if limits else _KINDS[shape]
    chosen = {
        "detector_id": detector_id,
        "ids": tuple(version_ids),
        "known_at": known_at,
        "last": last,
        "standings": sorted(standings),
    }
    counts = Counts()
    for row in session.execute(statement, chosen):
        standing, label, predicted, number, at = row
        counts.add(Cell(standing, label, predicted), number)
        counts.last_label_at = max(counts.last_label_at or at, at)
    if last is None:
        corrections = _select_corrections(detector_id, version_ids)
        if known_at is not None:
            corrections = corrections.where(Label.created_at <= known_at)
        number = session.scalar(corrections.with_only_columns(sa.func.count()))
        counts.corrections = number or 0
    return counts


def count_known_days(
    session: Session,
    detector_id: int,
    version_id: int,
    zone: tzinfo,
    known_at: datetime,
) -> dict[date, Counts]:
    """Count the labels that were current at *known_at* by the day of their queries.

    What is kept of each day on which labels came is added up.  Labels themselves are
    read of that day alone, and of what waits for the job.
    """
    of, parts = (detector_id, version_id), list[Mapping[date, Counts]]()
    last = known_at.astimezone(UTC).date().isoformat()
    kept = load_by_name(session, [detector_id], KNOWN, [version_id], until=last)
    for state in kept.get(version_id, {}).values():
        row = Arrival.load(state)
        if row.until > known_at:
            parts.append(_count_arrived(session, of, zone, row, known_at))
        else:
            parts.append(row.days)
    waiting = count_pending_days(session, {detector_id: zone}, until=known_at)
    parts.append(waiting.get(version_id, {}))
    days: dict[date, list[Counts]] = {}
    for part in parts:
        for day, counts in part.items():
            days.setdefault(day, []).append(counts)
    return {day: pool(some) for day, some in days.items()}


def _count_arrived(
    session: Session, of: tuple[int, int], zone: tzinfo, row: Arrival, by: datetime
) -> dict[date, Counts]:
    rows = (
        sa.select(Label)
        .select_from(Label)
        .join(Query, is_of_query(Label))
        .where(Query.detector_id == of[0], Query.version_id == of[1])
        .where(Label.id.between(row.first, row.last), ~is_pending(of[0], Label.id))
        .where(on_postgresql(Label.detector_id == of[0]))
    )
    place = (minute_of(session, Query.asked_at),)
    found = count_changes(session, rows, place, since=row.since, until=by)
    return sum_minutes(((minute, one) for (minute,), one in found.items()), zone)


def list_newest_scored(
    session: Session,
    detector_id: int,
    version_id: int,
    standings: Standings,
    *,
    limit: int,
) -> Sequence[Any]:
    """Return the labels of *standings* of the queries labelled last, newest first."""
    statement = (
        sa.select(truth_of(Label).label("label"), Query.predicted, Query.asked_at)
        .where(Query.detector_id == detector_id, Query.version_id == version_id)
        .where(on_postgresql(Label.detector_id == detector_id))
        .where(Label.standing.in_(sorted(standings)), truth_of(Label) != UNCLEAR)
    )
    newest = _newest_first(statement, is_as_known=False).limit(limit)
    return session.execute(newest).all()


def list_corrections(
    session: Session, detector_id: int, version_id: int, *, limit: int
) -> Sequence[Any]:
    """Return the labels that replaced another class, the newest first."""
    statement = _select_corrections(detector_id, [version_id])
    newest_first = statement.order_by(Label.id.desc()).limit(limit)
    return session.execute(newest_first).all()


def _select_corrections(
    detector_id: int, version_ids: Sequence[int]
) -> sa.Select[*tuple[Any, ...]]:
    replaced = aliased(Label)
    labels = truth_of(Label).label("label"), truth_of(replaced).label("before")
    return (
        sa.select(*labels, Label.created_at)
        .select_from(Label)
        .join(Query, is_of_query(Label))
        .join(replaced, replaced.id == Label.replaces_id)
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .where(on_postgresql(Label.detector_id == detector_id))
        .where(on_postgresql(replaced.detector_id == detector_id))
        .where(is_correction(Label, replaced))
    )


def _newest_first(
    statement: sa.Select[*tuple[Any, ...]], *, is_as_known: bool
) -> sa.Select[*tuple[Any, ...]]:
    """Put queries in the order of their first labels, those of the last one first.

    What is corrected stays in its place: it was chosen, and is no sample of lately.
    Databases begin with the first labels, and read no more of them than are asked for.
    """
    first = aliased(Label)
    is_near = on_postgresql(first.detector_id == Query.detector_id)
    is_current = _is_current(is_as_known=is_as_known)
    if is_as_known:
        is_current &= Label.query_id == Query.id
    # The sum keeps SQLite from looking for the first label of each query.
    is_of_first = Query.id == first.query_id + 0
    return (
        statement.select_from(first)
        .join(Query, sa.and_(is_of_first, is_near))
        .join(Label, is_current)
        .where(first.replaces_id.is_(None))
        .order_by(first.id.desc())
    )


def _is_current(*, is_as_known: bool) -> sa.ColumnElement[bool]:
    if not is_as_known:
        return Query.label_id == Label.id
    newer = aliased(Label)
    known_at: sa.BindParameter[datetime] = sa.bindparam("known_at")
    replaced = sa.exists(newer.id).where(
        newer.query_id == Label.query_id,
        newer.replaces_id == Label.id,
        on_postgresql(newer.detector_id == Label.detector_id),
        newer.created_at <= known_at,
    )
    return sa.and_(Label.created_at <= known_at, ~replaced)


def _select_kinds(
    shape: tuple[bool, bool], limits: Sequence[sa.ColumnElement[bool]] = ()
) -> sa.Select[*tuple[Any, ...]]:
    is_of_last, is_as_known = shape
    kind = Label.standing, truth_of(Label).label("label"), Query.predicted
    statement = (
        sa.select(Label.id, *kind, Label.created_at)
        .where(Query.detector_id == sa.bindparam("detector_id"))
        .where(Query.version_id.in_(sa.bindparam("ids", expanding=True)))
        .where(on_postgresql(Label.detector_id == sa.bindparam("detector_id")))
        .where(*limits)
    )
    if is_of_last:
        among: sa.BindParameter[Any] = sa.bindparam("standings", expanding=True)
        scored = Label.standing.in_(among) & (truth_of(Label) != UNCLEAR)
        ordered = _newest_first(statement.where(scored), is_as_known=is_as_known)
        statement = ordered.limit(sa.bindparam("last"))
    else:
        statement = statement.select_from(Label).join(Query, is_of_query(Label))
        statement = statement.where(_is_current(is_as_known=is_as_known))
    rows = statement.subquery()
    kinds = [rows.c[name] for name in ("standing", "label", "predicted")]
    numbers = sa.func.count(), sa.func.max(rows.c.created_at)
    return sa.select(*kinds, *numbers).group_by(*kinds)


# Built once: a page of the history asks for them.
_KINDS = {
    (last, known): _select_kinds((last, known))
    for last, known in product((False, True), repeat=2)
}
