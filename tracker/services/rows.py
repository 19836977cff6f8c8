"""Reading the rows of an imported file, one after the other, whatever its format."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, Protocol

from tracker.errors import FieldError, InvalidInputError
from tracker.services.fields import show, show_name

FIELDS = (
    "key",
    "input",
    "predicted",
    "confidence",
    "version",
    "asked_at",
    "metadata",
    "image_url",
    "label",
    "sampling",
    "note",
    "labelled_at",
)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# How many rows are read and written together.
PIECE_ROWS = 2_000
LONGEST_ROW = 2**24


class Row(NamedTuple):
    """A row as it stands in the file, counted from 1 without a header.

    *values* has only the fields that were filled in and could be read; *errors* say
    why the others could not.
    """

    number: int
    values: dict[str, Any]
    errors: tuple[FieldError, ...] = ()

    def without(self, name: str, message: str) -> "Row":
        """Return it without the field *name*, which could not be read."""
        values = {n: value for n, value in self.values.items() if n != name}
        return Row(self.number, values, (*self.errors, FieldError(name, message)))


class Piece(Protocol):
    """Some rows that follow on each other, to be looked at one by one or by column."""

    @property
    def first(self) -> int:
        """The number of the first row."""

    def rows(self) -> list[Row]:
        """Return them row by row."""

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column, None where a row says nothing.

        Raises ValueError where a row has to be looked at by itself.
        """


class RowPiece(NamedTuple):
    """Rows that were read one by one."""

    given: list[Row]

    @property
    def first(self) -> int:
        """The number of the first row."""
        return self.given[0].number

    def rows(self) -> list[Row]:
        """Return them row by row."""
        return self.given

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column; ValueError where one could not be read."""
        if any(row.errors for row in self.given):
            raise ValueError("a row could not be read")
        items = [row.values for row in self.given]
        names = set().union(*items)
        return {name: [item.get(name) for item in items] for name in names}


def read_given(values: list[Any], read: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Return *values* with all that are not None put through *read* at once."""
    if None not in values:
        return read(values)
    given = [value for value in values if value is not None]
    right = iter(read(given)) if given else iter(())
    return [None if value is None else next(right) for value in values]


def iter_pieces(rows: Iterable[Row]) -> Iterator[Piece]:
    """Read the next few thousand *rows*, again and again."""
    iterator = iter(rows)
    while given := list(islice(iterator, PIECE_ROWS)):
        yield RowPiece(given)


def with_metadata(row: Row) -> Row:
    """Return *row* with the text of its metadata read, or its error."""
    metadata = row.values.get("metadata")
    if isinstance(metadata, str):
        try:
            row.values["metadata"] = load_json(metadata)
        except ValueError as error:
            message = f"{show(metadata)} is not right: a JSON object ({error})"
            return row.without("metadata", message)
    return row


def iter_jsonl(stream: BinaryIO) -> Iterator[Row]:
    """Read one JSON object a line; blank lines do not count."""
    number = 0
    while line := stream.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise InvalidInputError.of(
                "body", f"row {number + 1} is longer than {LONGEST_ROW:,} bytes"
            )
        if line.strip():
            number += 1
            yield _json_row(number, line)


def _json_row(number: int, line: bytes) -> Row:
    try:
        return _object_row(number, load_json(line))
    except ValueError as error:
        text = line.decode(errors="replace").strip()
        message = f"{show(text)} is not right: {error}"
        return Row(number, {}).without("row", message)


def iter_json(stream: BinaryIO) -> Iterator[Row]:
    """Read ``{"items": [...]}``, the whole of it at once."""
    try:
        body = load_json(stream.read())
    except ValueError as error:
        raise InvalidInputError.of("body", f"it is not JSON: {error}") from error
    yield from iter_items(body)


def iter_items(body: Any) -> Iterator[Row]:
    """Read the rows of a parsed ``{"items": [...]}``."""
    if not isinstance(body, dict) or not isinstance(body.get("items"), list):
        raise InvalidInputError.of("items", 'is required: {"items": [{…}, …]}')
    for name in body:
        if name != "items":
            raise InvalidInputError.of(
                show_name(name), "is not a known field beside items"
            )
    for number, item in enumerate(body["items"], start=1):
        yield _object_row(number, item)


def _object_row(number: int, item: Any) -> Row:
    if not isinstance(item, dict):
        return Row(number, {}).without(
            "row", f"{show(item)} is not right: a JSON object"
        )
    # A null means the same as a field left out, as it does in a CSV cell.
    return Row(
        number, {name: value for name, value in item.items() if value is not None}
    )


def iter_parquet(stream: BinaryIO, *, fields: Sequence[str] = FIELDS) -> Iterator[Row]:
    """Read a Parquet file with columns named as the *fields*, piece by piece."""
    # Heavy and optional: it is loaded for those who import Parquet.
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInputError.of(
            "file", "Parquet needs the extra parquet: pip install tracker[parquet]"
        ) from error
    try:
        file = pq.ParquetFile(stream)
        unknown = [name for name in file.schema_arrow.names if name not in fields]
        if unknown:
            raise InvalidInputError.of(
                show_name(unknown[0]),
                f"is not a known column; there are: {', '.join(fields)}",
            )
        number = 0
        for batch in file.iter_batches(batch_size=5_000):
            columns = [_arrow_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                number += 1
                item = dict(zip(batch.schema.names, cells, strict=True))
                yield with_metadata(_object_row(number, item))
    except pa.ArrowException as error:
        raise InvalidInputError.of("file", f"it is not Parquet: {error}") from error


def _arrow_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, as text where Python has none like them.

    So it is with the year 10000 and with a nanosecond, which the field then refuses.
    """
    # Whoever has a column has loaded it already.
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    try:
        values: list[Any] = column.cast(kind).to_pylist()
    except (ValueError, OverflowError):
        return [_arrow_value(value, kind) for value in column]
    return values


def _arrow_value(value: Any, kind: Any) -> Any:
    try:
        return value.cast(kind).as_py()
    except (ValueError, OverflowError):
        # Arrow's own text of a year with six digits names another one.
        return f"{value.value} {value.type}"


def load_json(text: str | bytes) -> Any:
    """Parse strict JSON: no NaN or Infinity, no key twice, UTF-8 only.

    Raises ValueError for anything else, also for nesting too deep to parse.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 ({error.reason})") from error
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_repeated,
            parse_float=_parse_float,
        )
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no text") from error
    return value


def _parse_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {show(twice)} stands twice in one object")
    return values
