"""Reading the rows of an imported file, one after the other, whatever its format."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, NoReturn

from pydantic import Field

from tracker.errors import FieldError, InvalidInputError
from tracker.services import fields
from tracker.services.fields import load_json
from tracker.services.wording import show, show_name

# Stands for the classes of a file of which nobody has said them.
UNKNOWN = ["\0", "\0\0"]
# Beside images, the name of the one that belongs to a row.
IMAGE = "image"
# What a column may be named as instead of the weight: 1 / weight.
PROBABILITY = "probability"
# Before the number of a column that has no name.
COLUMN = "column "
# Before the name of a judge: the column of its verdicts.
JUDGE = "judge:"
PIECE_ROWS = 2_000
# Fewer rows where they are long, and fewer where there are many columns.
PIECE_BYTES = 2**22
_PIECE_CELLS = 2**17
# Fewer may all be empty but one in a row.
_SPARSE_CELLS = 2**16
LONGEST_ROW = 2**22
# As many as a sheet of Excel has.
MOST_COLUMNS = 16_384
_MOST_EMPTY_LINES = 1_000_000
NO_ODD: Mapping[int, Any] = MappingProxyType({})
_MOST_NAMED = 100


class ImportRow(fields.Input):
    """A query with or without its label, or a label for a known key or an input."""

    key: fields.Key | None = None
    input: fields.Key | None = None
    group: fields.Key | None = None
    predicted: fields.LabelText | None = None
    confidence: fields.Probability | None = None
    version: fields.VersionName | None = None
    asked_at: fields.Instant | None = None
    metadata: fields.Metadata | None = None
    image_url: fields.ImageUrl | None = None
    image: fields.Key | None = Field(
        default=None, description="The name of an image that is sent beside the rows."
    )
    label: fields.LabelText | None = None
    sampling: fields.Sampling | None = None
    note: fields.Note | None = None
    labeler: fields.KeyName | None = Field(
        default=None, description="Who gave the label, if not the caller."
    )
    labelled_at: fields.Instant | None = None
    weight: fields.Weight | None = Field(
        default=None,
        description="How many queries the label stands for; see weighted of an "
        "estimate. Without a sampling it is then targeted.",
    )


class ImportBody(fields.Input):
    """An import as JSON."""

    items: list[ImportRow] = Field(description="The rows, in order.")


FIELDS = tuple(name for name in ImportRow.model_fields if name != IMAGE)


class Row(NamedTuple):
    """A row as it stands in the file, counted from 1 without a header.

    *values* has only the fields that were filled in and could be read; *errors* say
    why the others could not, and *nulls* are those that are there and empty.
    """

    number: int
    values: dict[str, Any]
    errors: tuple[FieldError, ...] = ()
    nulls: tuple[str, ...] = ()

    def without(self, name: str, message: str) -> "Row":
        values = {n: value for n, value in self.values.items() if n != name}
        errors = (*self.errors, FieldError(name, message))
        return self._replace(values=values, errors=errors)


class Piece(NamedTuple):
    """Rows that follow on each other, by column, with None for an empty cell."""

    first: int
    names: list[str]
    values: list[list[Any]]
    # Without a header each row answers for names of its own.
    has_header: bool = True
    has_comma: bool = False
    is_strict: bool = False
    # The errors and nulls of rows that have some, by the number of the row; of a piece
    # without columns all rows are here.
    odd: Mapping[int, tuple[tuple[FieldError, ...], tuple[str, ...]]] = NO_ODD

    @property
    def size(self) -> int:
        return len(self.values[0]) if self.values else len(self.odd)

    def part(self, start: int, end: int) -> "Piece":
        first, most = self.first + start, self.first + end
        odd = {n: one for n, one in self.odd.items() if first <= n < most}
        values = [column[start:end] for column in self.values]
        return self._replace(first=first, values=values, odd=odd)

    def types(self, name: str) -> set[type]:
        return set(map(type, self.values[self.names.index(name)]))

    def rows(self) -> list[Row]:
        """Return them row by row, with None left out."""
        lines = zip(*self.values, strict=True) if self.values else [()] * self.size
        found = []
        for number, line in enumerate(lines, self.first):
            cells = zip(self.names, line, strict=True)
            values = {name: one for name, one in cells if one is not None}
            found.append(Row(number, values, *self.odd.get(number, ())))
        return found

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column; ValueError where one could not be read."""
        if any(errors for errors, _ in self.odd.values()):
            raise ValueError("a row could not be read")
        return dict(zip(self.names, self.values, strict=True))


def cut_rows(given: Sequence[Row], **flags: bool) -> Iterator[Piece]:
    """Yield *given* by the names they have, in pieces that are mostly filled."""
    names: dict[str, None] = {}
    some: list[Row] = []
    filled = 0
    for row in given:
        more = row.values.keys() - names
        cells = (len(names) + len(more)) * (len(some) + 1)
        most = min(8 * _PIECE_CELLS, max(_SPARSE_CELLS, 8 * filled))
        if some and cells > most:
            # Rows of JSON may each have names of their own.
            yield _piece_of(some, names, flags)
            names, some, filled = {}, [], 0
        if more or not some:
            names |= dict.fromkeys(row.values)
        some.append(row)
        filled += len(row.values)
    if some:
        yield _piece_of(some, names, flags)


def _piece_of(
    some: Sequence[Row], names: Mapping[str, None], flags: Mapping[str, bool]
) -> Piece:
    odd = {
        row.number: (row.errors, row.nulls)
        for row in some
        if row.errors or row.nulls or not names
    }
    values = [[row.values.get(name) for row in some] for name in names]
    how = {"has_header": False, **flags}
    return Piece(some[0].number, list(names), values, **how, odd=odd)


def read_given(values: list[Any], read: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Return *values* with all that are not None put through *read* at once."""
    if None not in values:
        return read(values)
    given = [value for value in values if value is not None]
    right = iter(read(given)) if given else iter(())
    return [None if value is None else next(right) for value in values]


def piece_rows(columns: int) -> int:
    return max(1, min(PIECE_ROWS, _PIECE_CELLS // max(1, columns)))


def wrong_file(message: str) -> InvalidInputError:
    return InvalidInputError.of("file", message)


def check_empty_lines(number: int) -> None:
    """Raise InvalidInputError for more empty lines than any file of rows has."""
    if number > _MOST_EMPTY_LINES:
        raise wrong_file(f"it has more than {_MOST_EMPTY_LINES:,} empty lines")


def refuse_many_columns() -> NoReturn:
    raise wrong_file(f"it has more than {MOST_COLUMNS:,} columns")


def iter_pieces(rows: Iterable[Row], *, is_strict: bool = False) -> Iterator[Piece]:
    iterator = iter(rows)
    while given := list(islice(iterator, PIECE_ROWS)):
        yield from cut_rows(given, is_strict=is_strict)


def iter_tables(
    names: Sequence[str], lines: Iterable[Sequence[Any]]
) -> Iterator[Piece]:
    """Cut *lines*, each as long as *names*, into pieces; the first may be empty."""
    iterator, first = iter(lines), 1
    most = piece_rows(len(names))
    while (given := list(islice(iterator, most))) or first == 1:
        columns = [list(one) for one in zip(*given, strict=True)] or [[] for _ in names]
        yield Piece(first, list(names), columns)
        first += len(given)
        if not given:
            return


def jsonl_pieces(stream: BinaryIO) -> Iterator[Piece]:
    """Read one JSON object a line, piece by piece; blank lines do not count."""
    number = size = empty = 0
    rows: list[Row] = []
    while line := stream.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise InvalidInputError.of(
                "body", f"row {number + 1} is longer than {LONGEST_ROW:,} bytes"
            )
        if not line.strip():
            empty += 1
            check_empty_lines(empty)
            continue
        number += 1
        size += len(line)
        try:
            rows.append(_object_row(number, load_json(line)))
        except ValueError as error:
            said: str | bytes = line
            with suppress(UnicodeDecodeError):
                said = line.decode().strip()
            message = f"{show(said)} is not right: {error}"
            rows.append(Row(number, {}).without("row", message))
        if len(rows) == PIECE_ROWS or size >= PIECE_BYTES:
            yield from cut_rows(rows)
            rows, size = [], 0
    yield from cut_rows(rows)


def iter_items(body: Any) -> Iterator[Row]:
    """Read the rows of a parsed ``{"items": [...]}``, or of an export as it is."""
    if not isinstance(body, dict) or not isinstance(body.get("items"), list):
        raise InvalidInputError.of("items", 'is required: {"items": [{…}, …]}')
    for name in body:
        is_end = name == "next" and body[name] is None
        if name != "items" and not is_end:
            raise InvalidInputError.of(
                show_name(name), "is not a known field beside items"
            )
    yield from iter_objects(body["items"])


def iter_objects(items: Iterable[Any]) -> Iterator[Row]:
    for number, item in enumerate(items, start=1):
        yield _object_row(number, item)


def _object_row(number: int, item: Any) -> Row:
    if not isinstance(item, dict):
        return Row(number, {}).without(
            "row", f"{show(item)} is not right: it must be a JSON object"
        )
    # A null means the same as a field left out, as it does in a CSV cell.
    values = {name: value for name, value in item.items() if value is not None}
    return Row(number, values, (), tuple(item.keys() - values.keys()))


def unknown_columns(names: Iterable[str], known: Collection[str]) -> list[FieldError]:
    """Return an error for each of *names* that is not *known*."""
    message = f"is not a known column; known columns: {', '.join(known)}"
    return [
        FieldError(show_name(name), message)
        for name in dict.fromkeys(names)
        if name not in known
    ]


def refuse_columns(wrong: Sequence[FieldError]) -> NoReturn:
    """Raise InvalidInputError that names the first columns that are *wrong*.

    A header of a megabyte has room for more than anybody reads.
    """
    more = len(wrong) - _MOST_NAMED
    named = list(wrong[:_MOST_NAMED])
    if more > 0:
        named.append(FieldError("columns", f"{more:,} more are wrong"))
    raise InvalidInputError(named)
