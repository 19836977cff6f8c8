"""Formats of tools, recognised by content: where a record holds the fields of a row.

A shape is tried by what its first record has, from the most particular to the most
general.  Paths name values: ``a.b``, ``a[0]``, ``a.*`` for the first of an object,
``*-a`` for the first whose name ends so, ``^.a`` for one in the document around the
records; ``a | b`` is the first there is.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from tracker.errors import FieldError, InvalidInputError
from tracker.services.imports.reading.rows import Piece, Row, iter_pieces
from tracker.services.wording import show

Record = Mapping[str, Any]
Get = Callable[[Record, Record], Any]

_STEP = re.compile(r"[^.\[\]]+|\[-?\d+\]")
LONGEST_NAME = 200
_LONGEST_KEPT = 2_000
_NAMES = {"input", "group", "key"}
_CLASSES = {"predicted", "label"}
_KEPT_WHOLE = ("metadata", "meta")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records of a tool have, and where each field is in them."""

    name: str
    # Paths that tell the shape.
    has: str
    fields: Mapping[str, str | Get]
    # Path of the records, for a shape that is a whole document.
    records: str | Callable[[Record], Iterable[Any]] = ""
    is_row: Get = lambda *_: True
    # A path with the same value in all rows, or the file is of several things.
    same: str = ""
    # For a table that is of the shape only if it has no column but those: what the
    # others are called, and how many the user named.
    others: str | None = None
    own: int = 0
    # Why it is not read before somebody says which column is which.
    unclear: str = ""

    def fits(self, record: Any) -> bool:
        is_record = self.others is None and isinstance(record, Mapping)
        return is_record and all(
            find(record, path) is not None for path in self.has.split()
        )

    def holds(self, columns: Collection[str]) -> bool:
        """Return whether a table of those *columns* is of the shape."""
        has = set(self.has.split())
        if self.records or not has <= set(columns):
            return False
        more = set(columns) - has
        return self.others is None or self.own == sum(
            not re.fullmatch(self.others, name) for name in more
        )


def find(value: Any, path: str) -> Any:
    """Return what *value* has at *path*, None if nothing.

    A name with dots in it goes first.
    """
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in _STEP.findall(path):
        if isinstance(value, list) and step.startswith("["):
            place = int(step[1:-1])
            value = value[place] if -len(value) <= place < len(value) else None
        elif isinstance(value, Mapping) and step.startswith("*"):
            ending = step[1:]
            found = (one for name, one in value.items() if name.endswith(ending))
            value = next(found, None)
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


def first_of(record: Any, document: Any, paths: str) -> Any:
    """Return the first value that is there of those at *paths*."""
    for path in paths.split(" | "):
        whole, inner = (document, path[2:]) if path.startswith("^.") else (record, path)
        found = find(whole, inner)
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class _Reading:
    """The records of one file, read as a shape."""

    shape: Shape
    document: Record
    # By field, the path that was named.
    columns: Mapping[str, str]
    left_out: int = 0
    _same: Any = None
    _heads: set[str] = field(default_factory=set)
    _answers: set[str] = field(default_factory=set)

    def rows(self, records: Iterable[Any]) -> Iterator[Row]:
        self._heads = set().union(*map(_heads_of, self.shape.fields.values()))
        self._answers = _heads_of(self.shape.fields.get("predicted", ""))
        said = {*_CLASSES, *self.columns.values()}
        numbers = count(1)
        for record in records:
            if isinstance(record, Row):
                yield record._replace(number=next(numbers))
                continue
            is_record = isinstance(record, Mapping)
            if is_record and self.shape.is_row(record, self.document):
                of = find(record, self.shape.same) if self.shape.same else None
                self._same = of if self._same is None else self._same
                if of != self._same:
                    raise InvalidInputError.of(
                        self.shape.same,
                        f"the file has {show(self._same)} and {show(of)}; keep the "
                        "records of one of them",
                    )
                row = self._read(record)
                if row.errors or row.values.keys() & said:
                    yield row._replace(number=next(numbers))
                    continue
            self.left_out += 1

    def _read(self, record: Record) -> Row:
        values: dict[str, Any] = {}
        errors = []
        metadata = {}
        for name, where in self.shape.fields.items():
            try:
                at, found = self._find(record, name, where)
            except ValueError as error:
                errors.append(FieldError(name, str(error)))
                continue
            if name in _CLASSES:
                found = only(found)
            if found is None:
                continue
            values[at] = found
            if name in _NAMES:
                values[at] = as_name(found)
                if values[at] != found and isinstance(found, str):
                    metadata["text"] = found
        # It has a place for an answer, and none in it.
        has_answer = {"predicted", self.columns.get("predicted")} & values.keys()
        is_empty = not (has_answer or self._answers.isdisjoint(record))
        if is_empty or has_answer:
            metadata |= self._rest(record)
            if metadata:
                values["metadata"] = metadata
        return Row(0, values, tuple(errors), ("predicted",) if is_empty else ())

    def _find(self, record: Record, name: str, where: str | Get) -> tuple[str, Any]:
        """Return what the file calls a field, and its value: first what was named."""
        named = self.columns.get(name, name)
        if named != name and (found := find(record, named)) is not None:
            return named, found
        if isinstance(where, str):
            return name, first_of(record, self.document, where)
        return name, where(record, self.document)

    def _rest(self, record: Record) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in record.items():
            if name in _KEPT_WHOLE and isinstance(value, Mapping):
                found |= value
            elif name not in self._heads and (
                type(value) in {int, float, bool}
                or (isinstance(value, str) and 0 < len(value) <= _LONGEST_KEPT)
            ):
                found[name] = value
        return found


def _heads_of(paths: str | Get) -> set[str]:
    found = map(_STEP.match, paths.split(" | ")) if isinstance(paths, str) else ()
    return {match[0] for match in found if match}


def only(value: Any) -> Any:
    """Return the element of what has one, itself otherwise; None for an empty one."""
    while isinstance(value, list | Mapping) and len(value) <= 1:
        items = value.values() if isinstance(value, Mapping) else value
        value = next(iter(items), None)
    return value


def as_name(value: Any) -> str:
    """Return a name for *value*: itself where it may be one, else a hash of it."""
    if isinstance(value, bool | int | float):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    bare = text.strip()
    if 0 < len(bare) <= LONGEST_NAME and bare.isprintable():
        return bare
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def read_records(
    pieces: Iterator[Piece],
    shapes: Iterable[Shape],
    columns: Mapping[str, str],
    notes: list[str],
) -> Iterator[Piece]:
    """Read the records of a shape as rows, and any others as they are.

    So are those that have what *columns* name, which says how they are to be read.
    """
    start = next(pieces, None)
    if start is None:
        return
    whole = chain([start], pieces)
    record = start.rows()[0].values
    is_named = any(find(record, one) is not None for one in columns.values())
    fitting = (one for one in shapes if not one.records and one.fits(record))
    shape = None if is_named else next(fitting, None)
    if shape is None:
        yield from whole
        return
    rows = (row for piece in whole for row in piece.rows())
    records = (row if row.errors else row.values for row in rows)
    yield from read_shape(shape, record, records, {}, notes)


def read_shape(
    shape: Shape,
    document: Record,
    records: Iterable[Any],
    columns: Mapping[str, str],
    notes: list[str],
) -> Iterator[Piece]:
    """Read the *records* of a *document*, which are of the *shape*."""
    reading = _Reading(shape, document, columns)
    notes.append(f"the file was read as {shape.name}")
    yield from iter_pieces(reading.rows(records))
    if reading.left_out:
        notes.append(
            f"{reading.left_out:,} records have neither a prediction nor a label and "
            "were left out"
        )
