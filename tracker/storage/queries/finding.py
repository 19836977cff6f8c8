"""Lists of queries in any order, page by page, and how many there are."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.orm import Session

from tracker.storage.detectors import Version
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

Conditions = Sequence[ColumnElement[bool]]
# By which column a list is sorted, and whether downwards.
SORTS = {
    "newest": ("id", True),
    "oldest": ("id", False),
    "asked_at": ("asked_at", False),
    "-asked_at": ("asked_at", True),
    "confidence": ("confidence", False),
    "-confidence": ("confidence", True),
    "key": ("key", False),
    "-key": ("key", True),
}
_FEW = 5_000
_LAST_LETTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def begins_with(prefix: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a key begins with *prefix*, which an index answers."""
    stem = prefix.rstrip(chr(_LAST_LETTER))
    found: list[ColumnElement[bool]] = [Query.key >= prefix]
    if stem:
        following = ord(stem[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        found.append(Query.key < stem[:-1] + chr(following))
    return found


def has_key(text: str) -> list[ColumnElement[bool]]:
    """Return the conditions on a key; with a * at its end all that begin so pass."""
    return begins_with(text[:-1]) if text.endswith("*") else [Query.key == text]


def list_sorted(  # noqa: PLR0913 - a place in a list, and which way to go from it.
    session: Session,
    conditions: Conditions,
    *,
    sort: str,
    after: Query | None,
    limit: int,
    is_backwards: bool = False,
) -> Sequence[Query]:
    """Return queries that meet all *conditions*, behind *after* in the order *sort*.

    Those without a value to sort by come last.  Backwards it is those before *after*,
    the nearest first.  Each part of the list is one walk along an index, where there
    is one.
    """
    name, is_down = SORTS[sort]
    column: Any = getattr(Query, name)
    is_down ^= is_backwards
    parts = [True] if column is Query.id else [True, False]
    if is_backwards:
        parts.reverse()
    if after is not None:
        parts = parts[parts.index(getattr(after, name) is not None) :]
    found: list[Query] = []
    for number, has_value in enumerate(parts):
        columns = (column, Query.id) if has_value else (Query.id,)
        tests = [*conditions, (column.is_not if has_value else column.is_)(None)]
        if after is not None and number == 0:
            place = tuple_(*columns)
            other = tuple_(*(getattr(after, one.key) for one in columns))
            tests.append(place < other if is_down else place > other)
        order = [one.desc() if is_down else one.asc() for one in columns]
        statement = select(Query).where(*tests).order_by(*order)
        found += session.scalars(statement.limit(limit - len(found)))
        if len(found) == limit:
            break
    return found


def count_queries(
    session: Session, conditions: Conditions, *, at_most: int | None = None
) -> int:
    found = select(literal(1).label("one")).select_from(Query).where(*conditions)
    some = found.limit(at_most).subquery()
    return session.scalar(select(func.count()).select_from(some)) or 0


def list_answers(
    session: Session, conditions: Conditions, *, limit: int
) -> Sequence[Any]:
    """Return what is known of labelled queries that meet *conditions*, newest first."""
    statement = (
        select(
            Query.predicted,
            Query.label,
            Query.confidence,
            Query.asked_at,
            Query.details,
            Query.tags,
            Label.labeler,
        )
        .join(Label, Label.id == Query.label_id)
        .where(*conditions)
        .order_by(Query.id.desc())
        .limit(limit)
    )
    return session.execute(statement).all()


def is_labelled_by(labeler: str) -> ColumnElement[bool]:
    own = select(literal(1)).where(Label.id == Query.label_id, Label.labeler == labeler)
    return own.exists()


def find_first_asked(session: Session, version: Version) -> datetime | None:
    statement = select(Query.asked_at).where(
        Query.detector_id == version.detector_id, Query.version_id == version.id
    )
    return session.scalar(statement.order_by(Query.asked_at).limit(1))


def find_asked_span(  # noqa: PLR0913 - which queries count.
    session: Session,
    detector_id: int,
    versions: Sequence[int],
    conditions: Conditions = (),
    *,
    labels: int,
    classes: Sequence[str],
    standings: Collection[str],
) -> tuple[datetime, datetime] | None:
    """Return when the first and the last of the queries that count were asked.

    *labels* says how many there are, about.  An index leads to a few of them, and of
    many, or those under *conditions*, the first one is met sooner by a walk along the
    time.
    """
    is_few = labels <= _FEW
    if conditions:
        statement = _select_span(conditions, is_few=False)
    else:
        statement = _select_span_of_all(is_few=is_few)
    values = {"detector_id": detector_id, "versions": versions, "classes": classes}
    values["standings"] = sorted(standings)
    first, last = session.execute(statement, values).one()
    return None if first is None or last is None else (first, last)


@cache
def _select_span_of_all(*, is_few: bool) -> Select[*tuple[Any, ...]]:
    """Return it once: to build it takes longer than to run it."""
    return _select_span((), is_few=is_few)


def _select_span(conditions: Conditions, *, is_few: bool) -> Select[*tuple[Any, ...]]:
    tests = [
        Query.detector_id == bindparam("detector_id"),
        Query.version_id.in_(bindparam("versions", expanding=True)),
        Query.label.in_(bindparam("classes", expanding=True)),
        Query.standing.in_(bindparam("standings", expanding=True)),
        *conditions,
    ]
    if is_few:
        return select(func.min(Query.asked_at), func.max(Query.asked_at)).where(*tests)
    walk = select(Query.asked_at).where(*tests).limit(1)
    oldest = walk.order_by(Query.asked_at).scalar_subquery()
    newest = walk.order_by(Query.asked_at.desc()).scalar_subquery()
    return select(oldest, newest)
