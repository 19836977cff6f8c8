"""Reading the rows of an imported file, one after the other, whatever its format."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from tracker.errors import FieldError, InvalidInputError
from tracker.services.fields import show

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
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# An exported text that a spreadsheet would take for a formula got a quote in
# front; see services/exports.py.
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r\uff1d]")
_NO_TEXTS = frozenset({"confidence", "metadata"})
_LONGEST_CELL = 2**24


class Row(NamedTuple):
    """A row as it stands in the file, counted from 1 without a header.

    *values* has only the fields that were filled in; *error* says why there are
    none.
    """

    number: int
    values: dict[str, Any]
    error: FieldError | None = None


def iter_csv(stream: BinaryIO, *, fields: Sequence[str] = FIELDS) -> Iterator[Row]:
    """Read CSV with a header line: UTF-8 or UTF-16, comma, semicolon, tab or bar.

    Each column is one of *fields*.  Raises InvalidInputError where the file as a
    whole makes no sense.
    """
    csv.field_size_limit(_LONGEST_CELL)
    lines = io.TextIOWrapper(stream, encoding=_encoding(stream), newline="")
    try:
        header, delimiter = _read_header(lines, fields)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        number = 0
        for cells in reader:
            if not cells or cells == [""]:
                continue
            number += 1
            yield _csv_row(number, header, cells)
    except UnicodeDecodeError as error:
        raise InvalidInputError.of(
            "body",
            f"it is not {lines.encoding} text ({error.reason}); save it as UTF-8",
        ) from error
    except csv.Error as error:
        raise InvalidInputError.of(
            "body", f"row {number + 1} is not CSV: {error}"
        ) from error
    finally:
        # The caller opened the stream and closes it, now and then before this.
        if not stream.closed:
            lines.detach()


def _encoding(stream: BinaryIO) -> str:
    start = stream.read(2)
    stream.seek(0)
    return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _read_header(
    lines: io.TextIOWrapper, fields: Sequence[str]
) -> tuple[list[str], str]:
    first = lines.readline(_LONGEST_CELL)
    if first.lower().startswith("sep=") and len(first.strip()) == 5:
        first = lines.readline(_LONGEST_CELL)
    if not first.strip():
        raise InvalidInputError.of(
            "body",
            f"the file is empty; its first line names the columns: {', '.join(fields)}",
        )
    delimiter = max(_DELIMITERS, key=first.count)
    header = [
        name.strip().casefold()
        for name in next(csv.reader([first], delimiter=delimiter))
    ]
    for name in header:
        if name not in fields:
            raise InvalidInputError.of(
                show(name)[1:-1],
                f"is not a known column; there are: {', '.join(fields)}",
            )
        if header.count(name) > 1:
            raise InvalidInputError.of(name, "stands twice among the columns")
    return header, delimiter


def _csv_row(number: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) != len(header):
        message = f"the row has {len(cells)} cells, the header {len(header)}"
        return Row(number, {}, FieldError("row", message))
    values: dict[str, Any] = dict(zip(header, cells, strict=True))
    # Most rows have neither an empty cell nor a quote, and are soon done with.
    if "" in cells or "'" in "".join(cells):
        values = {
            name: cell if cell[0] != "'" else _without_quote(name, cell)
            for name, cell in values.items()
            if cell
        }
    row = Row(number, values)
    if "confidence" in values:
        row = with_number(row, "confidence")
    return _with_metadata(row)


def with_number(row: Row, name: str) -> Row:
    """Return *row* with the text of *name* read as a number, or with its error."""
    cell = row.values[name]
    if not _NUMBER.fullmatch(cell):
        message = f"{show(cell)} is not right: a number from 0 to 1, such as 0.97"
        return Row(row.number, {}, FieldError(name, message))
    row.values[name] = float(cell)
    return row


def _without_quote(name: str, cell: str) -> str:
    is_formula = name not in _NO_TEXTS and _QUOTED_FORMULA.match(cell)
    return cell[1:] if is_formula else cell


def _with_metadata(row: Row) -> Row:
    metadata = row.values.get("metadata")
    if isinstance(metadata, str):
        try:
            row.values["metadata"] = load_json(metadata)
        except ValueError as error:
            message = f"{show(metadata)} is not right: a JSON object ({error})"
            return Row(row.number, {}, FieldError("metadata", message))
    return row


def iter_jsonl(stream: BinaryIO) -> Iterator[Row]:
    """Read one JSON object a line; blank lines do not count."""
    number = 0
    while line := stream.readline(_LONGEST_CELL + 1):
        if len(line) > _LONGEST_CELL:
            raise InvalidInputError.of(
                "body", f"row {number + 1} is longer than {_LONGEST_CELL:,} bytes"
            )
        if line.strip():
            number += 1
            yield _json_row(number, line)


def _json_row(number: int, line: bytes) -> Row:
    try:
        return _object_row(number, load_json(line))
    except ValueError as error:
        message = (
            f"{show(line[:200].decode(errors='replace').strip())} is not right: {error}"
        )
        return Row(number, {}, FieldError("row", message))


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
                show(name)[1:-1], "is not a known field beside items"
            )
    for number, item in enumerate(body["items"], start=1):
        yield _object_row(number, item)


def _object_row(number: int, item: Any) -> Row:
    if not isinstance(item, dict):
        return Row(
            number, {}, FieldError("row", f"{show(item)} is not right: a JSON object")
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
                show(unknown[0])[1:-1],
                f"is not a known column; there are: {', '.join(fields)}",
            )
        number = 0
        for batch in file.iter_batches(batch_size=5_000):
            columns = [_arrow_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                number += 1
                item = dict(zip(batch.schema.names, cells, strict=True))
                yield _with_metadata(_object_row(number, item))
    except pa.ArrowException as error:
        raise InvalidInputError.of("file", f"it is not Parquet: {error}") from error


def _arrow_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, as text where Python has none like them.

    So it is with the year 10000 and with a nanosecond, which the field then refuses.
    """
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
