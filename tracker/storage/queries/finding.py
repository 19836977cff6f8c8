"""Lists of queries in any order, their conditions as SQL, and how many there are."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy import column, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session, aliased

from tracker.storage.detectors import Version
from tracker.storage.dialect import is_sqlite
from tracker.storage.labels import Label, is_current
from tracker.storage.queries.queries import Query
from tracker.words import NO_VALUE

Conditions = Sequence[sa.ColumnElement[bool]]
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


def has_key(text: str, key: Any = Query.key) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on a key; with a * at its end all that begin so pass."""
    if not text.endswith("*"):
        return [key == text]
    prefix = text[:-1]
    # Which an index answers.
    found: list[sa.ColumnElement[bool]] = [key >= prefix]
    if stem := prefix.rstrip(chr(_LAST_LETTER)):
        following = ord(stem[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        found.append(key < stem[:-1] + chr(following))
    return found


def list_sorted(  # noqa: PLR0913 - a place in a list, and which way to go from it.
    session: Session,
    conditions: Conditions,
    *,
    sort: str,
    after: Query | None,
    limit: int,
    is_backwards: bool = False,
    are_few: bool = False,
) -> Sequence[Query]:
    """Return queries that meet all *conditions*, behind *after* in the order *sort*.

    Those without a value to sort by come last.  Backwards it is those before *after*,
    the nearest first.  Each part of the list is one walk along an index, where there
    is one; where all that pass *are few*, they are found first, and then sorted.
    """
    name, is_down = SORTS[sort]
    shown: Any = Query
    if are_few:
        found_first = sa.select(Query).where(*conditions).cte()
        found_first = found_first.prefix_with("MATERIALIZED", dialect="postgresql")
        shown, conditions = aliased(Query, found_first), ()
    column: Any = getattr(shown, name)
    is_down ^= is_backwards
    parts = [True] if name == "id" else [True, False]
    if is_backwards:
        parts.reverse()
    if after is not None:
        parts = parts[parts.index(getattr(after, name) is not None) :]
    found: list[Query] = []
    for number, has_value in enumerate(parts):
        columns = (column, shown.id) if has_value else (shown.id,)
        tests = [*conditions, (column.is_not if has_value else column.is_)(None)]
        if after is not None and number == 0:
            place = sa.tuple_(*columns)
            other = sa.tuple_(*(getattr(after, one.key) for one in columns))
            tests.append(place < other if is_down else place > other)
        order = [one.desc() if is_down else one.asc() for one in columns]
        statement = sa.select(shown).where(*tests).order_by(*order)
        found += session.scalars(statement.limit(limit - len(found)))
        if len(found) == limit:
            break
    return found


def list_near(  # noqa: PLR0913 - a place in a list, and which way to go from it.
    session: Session,
    detector_id: int,
    conditions: Conditions,
    *,
    sort: str,
    after: Query | None,
    limit: int,
    is_backwards: bool,
) -> Sequence[Query] | None:
    """Return what `list_sorted` does if it lies near by in a list sorted by id.

    Else None.  Of a span SQLite would read and sort all queries, PostgreSQL maybe too.
    """
    is_down = SORTS[sort][1] ^ is_backwards
    order = Query.id.desc() if is_down else Query.id.asc()
    tests = [Query.detector_id == detector_id]
    if after is not None:
        tests.append(Query.id < after.id if is_down else Query.id > after.id)
    places = sa.select(Query.id).where(*tests).order_by(order)
    last = session.scalar(places.offset(_FEW).limit(1))
    # Without any bound SQLite would not walk along the ids.
    end = last or (-1 if is_down else 2**63 - 1)
    tests.append(Query.id > end if is_down else Query.id < end)
    some = sa.select(Query).where(*conditions, *tests).order_by(order).limit(limit)
    found = session.scalars(some).all()
    return found if last is None or len(found) == limit else None


def are_few(session: Session, conditions: Conditions) -> bool:
    """Return whether PostgreSQL should find all that pass before it sorts them.

    It takes each value of metadata for one in a hundred, and would rather walk along a
    list of millions that has none.
    """
    if is_sqlite(session):
        return False
    return count_queries(session, conditions, at_most=_FEW) < _FEW


def count_queries(
    session: Session, conditions: Conditions, *, at_most: int | None = None
) -> int:
    found = sa.select(sa.literal(1).label("one")).select_from(Query).where(*conditions)
    some = found.limit(at_most).subquery()
    return session.scalar(sa.select(sa.func.count()).select_from(some)) or 0


def list_answers(
    session: Session, conditions: Conditions, *, limit: int
) -> Sequence[Any]:
    said = Query.predicted, Query.label, Query.confidence, Query.asked_at
    found = sa.select(*said, Query.details, Query.tags, Label.labeler)
    found = found.join(Label, is_current()).where(*conditions)
    return session.execute(found.order_by(Query.id.desc()).limit(limit)).all()


def has_label(labeler: str | None, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the condition on the current label: who gave it, and since when.

    A label taken over was given to another query, at another time.
    """
    found = [is_current()]
    if labeler is not None:
        found.append(Label.labeler == labeler)
    if since is not None:
        found += [Label.labelled_at >= since, Label.source_label_id.is_(None)]
    return sa.select(sa.literal(1)).where(*found).exists()


def find_first_asked(session: Session, version: Version) -> datetime | None:
    own = {"detector_id": version.detector_id, "version_id": version.id}
    asked = sa.select(Query.asked_at).filter_by(**own)
    return session.scalar(asked.order_by(Query.asked_at).limit(1))


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
    statement = _select_span(conditions) if conditions else _SPANS[is_few]
    values = {"detector_id": detector_id, "versions": versions, "classes": classes}
    values["standings"] = sorted(standings)
    first, last = session.execute(statement, values).one()
    return None if first is None or last is None else (first, last)


def _select_span(
    conditions: Conditions, *, is_few: bool = False
) -> sa.Select[*tuple[Any, ...]]:
    tests = [
        Query.detector_id == sa.bindparam("detector_id"),
        Query.version_id.in_(sa.bindparam("versions", expanding=True)),
        Query.label.in_(sa.bindparam("classes", expanding=True)),
        Query.standing.in_(sa.bindparam("standings", expanding=True)),
        *conditions,
    ]
    if is_few:
        ends = sa.func.min(Query.asked_at), sa.func.max(Query.asked_at)
        return sa.select(*ends).where(*tests)
    walk = sa.select(Query.asked_at).where(*tests).limit(1)
    oldest = walk.order_by(Query.asked_at).scalar_subquery()
    newest = walk.order_by(Query.asked_at.desc()).scalar_subquery()
    return sa.select(oldest, newest)


# Built once: to build one takes longer than to run it.
_SPANS = {is_few: _select_span((), is_few=is_few) for is_few in (False, True)}


_LITERALS = ("true", "false", "null")
# Names that JSON writes as they are, and a path may hold.
_PLAIN = re.compile(r"[\w .:/-]+")


@dataclass(frozen=True, slots=True)
class Equals:
    """A column has this value."""

    column: str
    value: Any

    def test(self, _session: Session) -> sa.ColumnElement[bool]:
        found: sa.ColumnElement[bool] = getattr(Query, self.column) == self.value
        return found


@dataclass(frozen=True, slots=True)
class Between:
    """A column is at least *low*, at most *high* and less than *below*."""

    column: str
    low: Any = None
    high: Any = None
    below: Any = None
    # Whether other conditions find fewer, which SQLite cannot know.
    is_aside: bool = False

    def test(self, session: Session) -> sa.ColumnElement[bool]:
        """Return the condition on a query; what is None bounds nothing."""
        value: Any = getattr(Query, self.column)
        if self.is_aside and is_sqlite(session):
            # By the sign it finds no index.
            value = sa.literal_column(f"+queries.{self.column}", value.type)
        low = [] if self.low is None else [value >= self.low]
        high = [] if self.high is None else [value <= self.high]
        below = [] if self.below is None else [value < self.below]
        return sa.and_(sa.true(), *low, *high, *below)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata has under *name* this text, or what is written as this text.

    *number* is the text as a number, where it is one: 1.50 and 1.5 are the same.
    The text ``(none)`` finds queries without the name too, as the slice of that name
    does.
    """

    name: str
    text: str
    number: int | float | None = None
    # The detector that counts the name as a slice, whose queries SQLite finds by it.
    indexed_for: int | None = None

    def test(self, session: Session) -> sa.ColumnElement[bool]:
        """Return the condition on a query; without an index it reads each JSON."""
        return self._on_sqlite() if is_sqlite(session) else self._on_postgresql()

    def _on_sqlite(self) -> sa.ColumnElement[bool]:
        # The key is compared and no path is built of it: it may hold any letter.
        each = sa.func.json_each(Query.details).table_valued("key", "value", "type")
        given = sa.select(sa.literal(1)).select_from(each).correlate(Query)
        given = given.where(each.c.key == self.name)
        if self.text == NO_VALUE:
            is_none = sa.or_(each.c.type == "null", each.c.value == NO_VALUE)
            return ~given.where(~is_none).exists()
        tests = [sa.and_(each.c.type == "text", each.c.value == self.text)]
        if self.number is not None:
            is_number = each.c.type.in_(["integer", "real"])
            tests.append(sa.and_(is_number, each.c.value == self.number))
        if self.text in _LITERALS:
            tests.append(each.c.type == self.text)
        found = given.where(sa.or_(*tests)).exists()
        if self.indexed_for is None or self.text in _LITERALS:
            return found
        return sa.and_(self._is_indexed(self.indexed_for), found)

    def _is_indexed(self, detector_id: int) -> sa.ColumnElement[bool]:
        """Return a condition that an index answers, and that all that pass meet."""
        if not _PLAIN.fullmatch(self.name):
            return sa.true()
        # As the index has it: a parameter would keep SQLite from it.
        own: Any = sa.literal_column(str(detector_id))
        path: Any = sa.literal_column(_path(self.name))
        if self.number is None:
            value = sa.func.json_extract(Query.details, path)
            return sa.and_(Query.detector_id == own, value == self.text)
        # Of two values it would rather walk through all queries in the order asked.
        other = aliased(Query)
        value = sa.func.json_extract(other.details, path)
        some = sa.select(other.id).where(other.detector_id == own)
        return Query.id.in_(some.where(value.in_([self.text, self.number])))

    def _on_postgresql(self) -> sa.ColumnElement[bool]:
        details = sa.cast(Query.details, JSONB)
        if self.text == NO_VALUE:
            said = details.op("->>", return_type=sa.String())(self.name)
            return sa.func.coalesce(said, NO_VALUE) == NO_VALUE
        meant: list[Any] = [self.text]
        if self.number is not None:
            meant.append(self.number)
        if self.text in _LITERALS:
            meant.append(json.loads(self.text))
        return sa.or_(*(details.contains({self.name: value}) for value in meant))


def _path(name: str) -> str:
    return f"'$.\"{name}\"'"


def index_metadata(session: Session, detector_id: int, names: Iterable[str]) -> None:
    """Let SQLite find the queries of a detector by these keys, and by no others.

    PostgreSQL has one index for every key of all detectors.  A name with letters that
    JSON may write in two ways has none.
    """
    if not is_sqlite(session):
        return
    prefix = f"ix_queries_metadata_{detector_id}_"
    plain = [name for name in names if _PLAIN.fullmatch(name)]
    wanted = {prefix + sha256(name.encode()).hexdigest()[:16]: name for name in plain}
    there: Any = sa.select(column("name")).select_from(sa.table("sqlite_master"))
    there = there.where(column("name").startswith(prefix, autoescape=True))
    for index in set(session.scalars(there)) - wanted.keys():
        session.execute(text(f"DROP INDEX {index}"))
    for index, name in wanted.items():
        made = f"CREATE INDEX IF NOT EXISTS {index} ON queries"
        value = f"json_extract(metadata, {_path(name)})"
        which = f"WHERE detector_id = {detector_id}"
        session.connection().exec_driver_sql(f"{made} ({value}, detector_id) {which}")


Condition = Equals | Between | Metadata


def put_aside(conditions: Iterable[Condition]) -> list[Condition]:
    """Return *conditions*, whose ranges SQLite does not begin with."""
    return [
        replace(one, is_aside=True) if isinstance(one, Between) else one
        for one in conditions
    ]
