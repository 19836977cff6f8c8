"""Counting queries and their labels by the database, and what waits for the job."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    text,
    union_all,
)
from sqlalchemy.orm import Session, aliased

from tracker.storage import labels
from tracker.storage.base import columns_of, on_postgresql, stream
from tracker.storage.detectors import Version
from tracker.storage.dialect import day_of, minute_of
from tracker.storage.estimates.cells import Cell, Counts, day_in, pool
from tracker.storage.estimates.pending import (
    Pending,
    PendingBatch,
    list_pending_batches,
    of_pending,
)
from tracker.storage.labels import Label
from tracker.storage.queries.finding import Between, Condition, put_aside
from tracker.storage.queries.queries import Query, has_standing, is_of_query
from tracker.words import GROUPED, REPLAYED, REPLAYED_UNSTATED, SAMPLINGS, UNSTATED

# What decides where the label of a query counts.
_COUNTED = (Query.version_id, Query.standing, Query.label, Query.predicted)


def count_pending_labels(
    session: Session,
    detector_ids: Collection[int],
    conditions: Iterable[ColumnElement[bool]] = (),
) -> dict[int, Counts]:
    """Return what the labels of detectors that wait for the job change, by version.

    Or those of queries that meet all *conditions*.  The database does the counting,
    because a file of a million labels may be waiting.
    """
    found = count_pending(session, detector_ids, (), conditions)
    return {version_id: counts for (_, version_id), counts in found.items()}


def count_pending_days(
    session: Session, zones: Mapping[int, tzinfo], *, until: datetime | None = None
) -> dict[int, dict[date, Counts]]:
    """Return what waiting labels, known *until* then, change of days, by version."""
    found: dict[tuple[int, int], list[tuple[str, Counts]]] = {}
    by = (minute_of(session, Query.asked_at),)
    waiting = count_pending(session, zones, by, until=until)
    for (detector_id, version_id, minute), counts in waiting.items():
        found.setdefault((detector_id, version_id), []).append((minute, counts))
    return {one[1]: sum_minutes(some, zones[one[0]]) for one, some in found.items()}


def sum_minutes(
    found: Iterable[tuple[str, Counts]], zone: tzinfo
) -> dict[date, Counts]:
    """Return what was *found* by minute, in UTC, by the day in a time zone."""
    days: dict[date, list[Counts]] = {}
    for minute, counts in found:
        instant = datetime.fromisoformat(minute).replace(tzinfo=UTC)
        days.setdefault(day_in(instant, zone), []).append(counts)
    return {day: pool(parts) for day, parts in days.items()}


def count_pending(
    session: Session,
    detector_ids: Collection[int],
    by: Sequence[ColumnElement[Any]],
    conditions: Iterable[ColumnElement[bool]] = (),
    *,
    until: datetime | None = None,
) -> dict[tuple[Any, ...], Counts]:
    """Return what waiting labels, known *until* then, change by version and *by*."""
    batches = list_pending_batches(session, detector_ids)
    if not batches:
        return {}
    waiting = of_pending(select(Label), Label, batches)
    rows = waiting.join(Query, is_of_query(Label)).where(*conditions)
    place: list[Any] = [Query.detector_id, Query.version_id, *by]
    return count_changes(session, rows, place, until=until)


def count_changes(
    session: Session,
    rows: Select[Label],
    place: Sequence[ColumnElement[Any]],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[tuple[Any, ...], Counts]:
    """Return what labels *rows*, known from *since* to *until*, change by *place*."""
    parts = []
    for is_old in (False, True):
        shown = aliased(Label) if is_old else Label
        kind = (shown.standing, labels.truth_of(shown), Query.predicted)
        corrects = labels.is_correction(Label, shown) if is_old else false()
        number = -func.count() if is_old else func.count()
        numbers = number, func.count().filter(corrects), func.max(Label.created_at)
        statement = rows.with_only_columns(*place, *kind, *numbers)
        statement = statement.group_by(*place, *kind)
        if is_old:
            statement = statement.join(shown, labels.is_replaced(shown))
        # What was replaced was known until both were there.
        both = (Label.created_at, shown.created_at)
        if since is not None:
            statement = statement.where(or_(*(one >= since for one in both)))
        if until is not None:
            statement = statement.where(*(one <= until for one in both))
        parts.append(statement)
    changes: dict[tuple[Any, ...], Counts] = {}
    for row in session.execute(union_all(*parts)):
        *key, standing, label, predicted, number, corrected, at = row
        found = changes.setdefault(tuple(key), Counts())
        found.add(Cell(standing, label, predicted), number)
        found.corrections += corrected
        found.last_label_at = max(found.last_label_at or at, at)
    return changes


def count_pending_rows(session: Session, batches: Pending) -> dict[int, int]:
    """Count the queries and labels of pending *batches* together by detector."""
    columns = select(PendingBatch.detector_id, func.count())
    both = (of_pending(columns, rows_of, batches) for rows_of in (Query, Label))
    rows = union_all(*(one.group_by(PendingBatch.detector_id) for one in both))
    found = dict.fromkeys(batches, 0)
    for detector_id, number in session.execute(rows):
        found[detector_id] += number
    return found


def count_window(  # noqa: PLR0913 - one argument for each filter.
    session: Session,
    detector_id: int,
    *,
    since: datetime | None,
    until: datetime | None,
    where: Sequence[Condition] = (),
    are_others: bool = False,
) -> dict[int, Counts]:
    """Count the labelled queries asked from *since* to before *until*, or all.

    They *are others* that do not count where versions are pooled.
    """
    span = Between("asked_at", since, below=until)
    conditions = put_aside((span, *where)) if are_others else (span, *where)
    tests: list[Any] = [one.test(session) for one in conditions]
    tests += [Query.detector_id == detector_id, Query.label.is_not(None)]
    if are_others:
        # As the index has it, which would not be used for IS false.
        tests.append(text("NOT queries.is_pooled"))
    statement = select(*_COUNTED, func.count()).where(*tests).group_by(*_COUNTED)
    return _add_up(session.execute(statement))


_Erased = aliased(Query)
# Built once: every list of labelled queries asks this.
_COUNT_ERASED = (
    select(*_COUNTED, func.count())
    .where(
        # Asked for nothing else, SQLite finds them in the index of the erased ones.
        Query.id.in_(
            select(_Erased.id).where(
                _Erased.detector_id == bindparam("detector_id"),
                _Erased.erased_at.is_not(None),
            )
        ),
        Query.label.is_not(None),
        on_postgresql(Query.detector_id == bindparam("detector_id")),
    )
    .group_by(*_COUNTED)
)


def count_erased(
    session: Session, detector_id: int, conditions: Sequence[Condition] = ()
) -> dict[int, Counts]:
    statement = _COUNT_ERASED
    if conditions:
        tests = (one.test(session) for one in put_aside(conditions))
        statement = statement.where(*tests)
    return _add_up(session.execute(statement, {"detector_id": detector_id}))


def _add_up(rows: Iterable[Any]) -> dict[int, Counts]:
    counts: dict[int, Counts] = {}
    for version_id, standing, label, predicted, number in rows:
        found = counts.setdefault(version_id, Counts())
        found.add(Cell(standing, label, predicted), number)
    return counts


def count_logged(session: Session, versions: Collection[Version]) -> dict[int, int]:
    """Return how many queries each version has, with those that wait for the job."""
    batches = list_pending_batches(session, {one.detector_id for one in versions})
    numbers = {one.id: one.queries - one.deleted for one in versions}
    if batches:
        waiting = of_pending(select(Query.version_id, func.count()), Query, batches)
        statement = waiting.group_by(Query.detector_id, Query.version_id)
        for version_id, number in session.execute(statement):
            if version_id in numbers:
                numbers[version_id] += number
    return numbers


# Each fold of a detector where every query gets its label reads them.
MOST_UNLABELLED = 100_000
# So many of the last labels tell how long labels take.
_DELAYS_OF = 500
# Few columns: whole rows take four times as long.
_OF_WAITING = columns_of(
    Query,
    *("version_id", "predicted", "group", "asked_at", "created_at", "erased_at"),
    *("is_repeat", "is_gold"),
)


def count_awaited(
    session: Session,
    version: Version,
    since: datetime | None,
    cuts: Sequence[datetime],
) -> list[tuple[str, int, int, datetime]] | None:
    """Count the queries of *version* that have no label yet by predicted class.

    Those asked at or after *since*, by how many of the *cuts* came after they were
    asked, with when the first was asked.  Of groups with an answer none is missing.
    None if there are more than `MOST_UNLABELLED`.
    """
    waits = (
        select(*_OF_WAITING)
        .where(Query.detector_id == version.detector_id, Query.label.is_(None))
        # Of an older version there may be more.
        .order_by(Query.id.desc())
        .limit(MOST_UNLABELLED + 1)
        .subquery()
    )
    query, other = waits.c, aliased(Query)
    has_answer = exists(other.id).where(
        other.detector_id == version.detector_id,
        other.version_id == version.id,
        other.group == query.group,
        other.standing.is_not(None),
    )
    is_missing = and_(
        query.version_id == version.id,
        ~query.is_repeat,
        ~query.is_gold,
        query.erased_at.is_(None),
        or_(query.group.is_(None), ~has_answer),
    )
    if since is not None:
        is_missing = and_(query.asked_at >= since, is_missing)
    cut_by = sum((case((query.asked_at < one, 1), else_=0) for one in cuts), literal(0))
    each = select(
        query.predicted,
        cut_by.label("cut_by"),
        case((is_missing, 1), else_=0).label("is_missing"),
        query.created_at,
        query.asked_at,
    ).subquery()
    place = (each.c.predicted, each.c.cut_by, each.c.is_missing)
    firsts = (func.min(each.c.created_at), func.min(each.c.asked_at))
    numbers = (func.count(), *firsts)
    rows = session.execute(select(*place, *numbers).group_by(*place)).all()
    is_whole = sum(row[3] for row in rows) <= MOST_UNLABELLED
    if not is_whole and min(row[4] for row in rows) >= version.created_at:
        return None
    return [(row[0], row[1], row[3], row[5]) for row in rows if row[2]]


def list_delays(session: Session, detector_id: int) -> list[timedelta]:
    """Return how long the last first labels of a detector came after their queries."""
    last = (
        select(Label.query_id, Label.created_at)
        .where(Label.detector_id == detector_id, Label.replaces_id.is_(None))
        .order_by(Label.id.desc())
        .limit(_DELAYS_OF)
        .subquery()
    )
    statement = select(last.c.created_at, Query.created_at).join(
        Query, and_(Query.detector_id == detector_id, Query.id == last.c.query_id)
    )
    return [given - arrived for given, arrived in session.execute(statement)]


def recount_queries(session: Session, detector_id: int) -> dict[int, tuple[int, int]]:
    """Return how many queries each version has, and how many with a confidence."""
    numbers = func.count(), func.count(Query.confidence)
    counted = select(Query.version_id, *numbers).group_by(Query.version_id)
    rows = session.execute(counted.where(Query.detector_id == detector_id))
    return {row[0]: (row[1], row[2]) for row in rows}


# Built once: every list of queries asks this.
_ERASED = select(func.count()).where(
    Query.detector_id == bindparam("detector_id"), Query.erased_at.is_not(None)
)


def count_all_erased(session: Session, detector_id: int) -> int:
    return session.scalars(_ERASED, {"detector_id": detector_id}).one()


def count_weights(
    session: Session, detector_id: int, version_ids: Sequence[int]
) -> Sequence[Any]:
    """Count current labels by class, by whether they were predicted, and by weight.

    The weights are not added up here: each database would round the sum differently.
    Labels that were taken over from another version have no weight, and repeats of an
    input do not count.
    """
    is_right = (Query.label == Query.predicted).label("is_right")
    kind = Query.label, is_right, Label.weight
    statement = (
        select(*kind, func.count().label("labels"))
        .join_from(Label, Query, is_of_query(Label))
        .where(
            Label.detector_id == detector_id,
            Label.weight.is_not(None),
            Query.label_id == Label.id,
            # SQLite would begin with all queries of the detector.
            on_postgresql(Query.detector_id == detector_id),
            Query.version_id.in_(version_ids),
            has_standing(Query, SAMPLINGS),
        )
        .group_by(*kind)
    )
    return session.execute(statement).all()


def count_repeats(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    standings: Collection[str],
) -> Sequence[Any]:
    """Return how many groups there are of each kind.

    That is labelled, correct, and whether their queries differ in what was predicted.
    Of a group counts whatever has a label with one of *standings*, or would have if its
    group did not count by another query; one query is no repeat.
    """
    is_unstated = Query.sampling == UNSTATED
    base = case(
        (Query.is_replayed & is_unstated, REPLAYED_UNSTATED),
        (Query.is_replayed, REPLAYED),
        else_=Query.sampling,
    )
    is_scored = has_standing(Query, {*standings, GROUPED}) & base.in_(sorted(standings))
    is_correct = is_scored & (Query.label == Query.predicted)
    differs = func.min(Query.predicted) != func.max(Query.predicted)
    labelled, correct = (func.count(case((one, 1))) for one in (is_scored, is_correct))
    found = labelled.label("labelled"), correct.label("correct")
    each = (
        select(*found, differs.label("differs"))
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .where(Query.group.is_not(None), ~Query.is_repeat)
        .group_by(Query.version_id, Query.group)
        .having(func.count() > 1)
        .subquery()
    )
    kinds = each.c.labelled, each.c.correct, each.c.differs
    statement = select(*kinds, func.count().label("groups")).group_by(*kinds)
    return session.execute(statement).all()


# A label that a query took over by its input did not come: it was there.
_OWN = ~Query.is_replayed & ~Query.is_repeat


def count_days(
    session: Session, detector_id: int, version_ids: Sequence[int], *, since: datetime
) -> list[tuple[str, str, int, int]]:
    """Return day, predicted class, queries asked, and how many of them have a label."""
    day = day_of(session, Query.asked_at).label("day")
    statement = (
        select(day, Query.predicted, func.count(), func.count(Query.label_id))
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .where(Query.asked_at >= since, _OWN)
        .group_by(day, Query.predicted)
    )
    return [(*row,) for row in session.execute(statement)]


_DELAY = (Query.asked_at, Query.predicted, Label.labelled_at)
# Built once: each page of a history asks for this.  The rows of a file have one delay.
_DELAYS = (
    select(*_DELAY, func.count())
    .select_from(Label)
    .join(Query, is_of_query(Label))
    .where(
        Query.detector_id == bindparam("detector_id"),
        Query.version_id.in_(bindparam("ids", expanding=True)),
        on_postgresql(Label.detector_id == bindparam("detector_id")),
        Query.asked_at >= bindparam("since"),
        Label.replaces_id.is_(None),
        _OWN,
    )
    .group_by(*_DELAY)
)


def iter_delays(
    session: Session, detector_id: int, version_ids: Sequence[int], *, since: datetime
) -> Iterator[Any]:
    chosen = {"detector_id": detector_id, "ids": tuple(version_ids), "since": since}
    return stream(session, _DELAYS, chosen)
