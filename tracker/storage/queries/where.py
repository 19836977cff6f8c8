"""Conditions that queries are found by, as SQL of both databases."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    cast,
    column,
    func,
    literal,
    literal_column,
    or_,
    select,
    table,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session, aliased

from tracker.storage.dialect import is_sqlite
from tracker.storage.queries.queries import Query
from tracker.words import NO_VALUE

_LITERALS = ("true", "false", "null")
# Names that JSON writes as they are, and a path may hold.
_PLAIN = re.compile(r"[\w .:/-]+")


@dataclass(frozen=True, slots=True)
class Equals:
    """A column has this value."""

    column: str
    value: Any

    def test(self, _session: Session) -> ColumnElement[bool]:
        found: ColumnElement[bool] = getattr(Query, self.column) == self.value
        return found


@dataclass(frozen=True, slots=True)
class Between:
    """A column is at least *low*, at most *high* and less than *below*."""

    column: str
    low: Any = None
    high: Any = None
    below: Any = None

    def test(self, _session: Session) -> ColumnElement[bool]:
        """Return the condition on a query; what is None bounds nothing."""
        value: Any = getattr(Query, self.column)
        tests: list[ColumnElement[bool]] = [true()]
        if self.low is not None:
            tests.append(value >= self.low)
        if self.high is not None:
            tests.append(value <= self.high)
        if self.below is not None:
            tests.append(value < self.below)
        return and_(*tests)


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

    def test(self, session: Session) -> ColumnElement[bool]:
        """Return the condition on a query; without an index it reads each JSON."""
        return self._on_sqlite() if is_sqlite(session) else self._on_postgresql()

    def _on_sqlite(self) -> ColumnElement[bool]:
        # The key is compared and no path is built of it: it may hold any letter.
        each = func.json_each(Query.details).table_valued("key", "value", "type")
        given = select(literal(1)).select_from(each).correlate(Query)
        given = given.where(each.c.key == self.name)
        if self.text == NO_VALUE:
            is_none = or_(each.c.type == "null", each.c.value == NO_VALUE)
            return ~given.where(~is_none).exists()
        tests = [and_(each.c.type == "text", each.c.value == self.text)]
        if self.number is not None:
            is_number = each.c.type.in_(["integer", "real"])
            tests.append(and_(is_number, each.c.value == self.number))
        if self.text in _LITERALS:
            tests.append(each.c.type == self.text)
        found = given.where(or_(*tests)).exists()
        if self.indexed_for is None or self.text in _LITERALS:
            return found
        return and_(self._is_indexed(self.indexed_for), found)

    def _is_indexed(self, detector_id: int) -> ColumnElement[bool]:
        """Return a condition that an index answers, and that all that pass meet."""
        if not _PLAIN.fullmatch(self.name):
            return true()
        # As the index has it: a parameter would keep SQLite from it.
        own: Any = literal_column(str(detector_id))
        path: Any = literal_column(_path(self.name))
        if self.number is None:
            value = func.json_extract(Query.details, path)
            return and_(Query.detector_id == own, value == self.text)
        # Of two values it would rather walk through all queries in the order asked.
        other = aliased(Query)
        value = func.json_extract(other.details, path)
        some = select(other.id).where(other.detector_id == own)
        return Query.id.in_(some.where(value.in_([self.text, self.number])))

    def _on_postgresql(self) -> ColumnElement[bool]:
        details = cast(Query.details, JSONB)
        if self.text == NO_VALUE:
            said = details.op("->>", return_type=String())(self.name)
            return func.coalesce(said, NO_VALUE) == NO_VALUE
        meant: list[Any] = [self.text]
        if self.number is not None:
            meant.append(self.number)
        if self.text in _LITERALS:
            meant.append(json.loads(self.text))
        return or_(*(details.contains({self.name: value}) for value in meant))


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
    there: Any = select(column("name")).select_from(table("sqlite_master"))
    there = there.where(column("name").startswith(prefix, autoescape=True))
    for index in set(session.scalars(there)) - wanted.keys():
        session.execute(text(f"DROP INDEX {index}"))
    for index, name in wanted.items():
        made = f"CREATE INDEX IF NOT EXISTS {index} ON queries"
        value = f"json_extract(metadata, {_path(name)})"
        which = f"WHERE detector_id = {detector_id}"
        session.connection().exec_driver_sql(f"{made} ({value}, detector_id) {which}")


Condition = Equals | Between | Metadata
