"""Conditions that queries are found by, as SQL of both databases."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Numeric,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.orm import Session

from tracker.storage.dialect import is_sqlite
from tracker.storage.queries.queries import Query
from tracker.words import NO_VALUE

_LITERALS = ("true", "false", "null")


@dataclass(frozen=True, slots=True)
class Equals:
    """A column has this value."""

    column: str
    value: Any

    def test(self, _session: Session) -> ColumnElement[bool]:
        found: ColumnElement[bool] = _column(self.column) == self.value
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
        column = _column(self.column)
        tests: list[ColumnElement[bool]] = [true()]
        if self.low is not None:
            tests.append(column >= self.low)
        if self.high is not None:
            tests.append(column <= self.high)
        if self.below is not None:
            tests.append(column < self.below)
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

    def test(self, session: Session) -> ColumnElement[bool]:
        """Return the condition on a query, which reads the JSON of each."""
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
        return given.where(or_(*tests)).exists()

    def _on_postgresql(self) -> ColumnElement[bool]:
        details = cast(Query.details, JSON)
        name = bindparam(None, self.name, type_=String)
        text = details.op("->>", return_type=String())(name)
        if self.text == NO_VALUE:
            return func.coalesce(text, NO_VALUE) == NO_VALUE
        kind = func.json_typeof(details.op("->")(name))
        kinds: list[tuple[ColumnElement[bool], ColumnElement[bool]]] = [
            (kind == "string", text == self.text)
        ]
        if self.number is not None:
            # As decimals, for an integer may have more digits than a float.
            number = cast(bindparam(None, repr(self.number), type_=String), Numeric)
            kinds.append((kind == "number", cast(text, Numeric) == number))
        if self.text in _LITERALS:
            name_of = "null" if self.text == "null" else "boolean"
            is_same = cast(details.op("->")(name), String) == self.text
            kinds.append((kind == name_of, is_same))
        # Only what is a number is read as one.
        return case(*kinds, else_=literal(value=False))


Condition = Equals | Between | Metadata


def _column(name: str) -> Any:
    return getattr(Query, name)
