"""Writing rows out as CSV, Excel, JSON, JSON Lines or Parquet."""

import csv
import io
import json
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tracker.services.wording import invalid
from tracker.services.workbooks import write_workbook

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# As the document of the API names them, without their encoding.
FILE_TYPES = tuple(name.partition(";")[0] for name in MEDIA_TYPES.values())
_CHUNK = 2_000
# Where nothing is gained by more at a time, a piece is ready soon.
_SMALL_CHUNK = 200
# A spreadsheet runs a cell that begins like this.  Import takes the quote off.
_FORMULA = re.compile(r"'*[=+\-@\t\r\uff1d]")
# What such a cell begins with; most do not, and are looked at no further.
_SUSPECT = frozenset("'=+-@\t\r\uff1d")
# A writer of CSV gives nothing for None, and a float in full.
_PLAIN = {type(None), int, float}
_WORDS = {type(None), str}
_encode = json.JSONEncoder(ensure_ascii=False).encode
_FLOATS = {
    *("accuracy", "low", "high", "confidence_level", "confidence"),
    *("validation", "training", "no_information"),
    *("share", "chance", "times_average"),
}
_INTEGERS = {"correct", "draw", "labelled", "labels", "queries", "round"}

Rows = Iterable[dict[str, Any]]


def check_format(name: str) -> None:
    if name not in MEDIA_TYPES:
        raise invalid("format", name, f"it must be one of {', '.join(MEDIA_TYPES)}")


def write_rows(name: str, columns: Sequence[str], rows: Rows) -> Generator[bytes]:
    """Yield *rows* in the format *name*, piece by piece."""
    check_format(name)
    if name == "csv":
        return _write_csv(columns, rows)
    if name == "jsonl":
        return _write_jsonl(rows)
    if name == "json":
        return _write_json(rows)
    if name == "xlsx":
        return write_workbook(columns, map(_flat_rows, _chunks(rows)))
    return _write_parquet(columns, rows)


def _write_csv(columns: Sequence[str], rows: Rows) -> Generator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    for chunk in _chunks(rows, of=_SMALL_CHUNK):
        # A column at a time, which is half the work: most have one kind of value.
        cells = [_cells([row[column] for row in chunk]) for column in columns]
        writer.writerows(zip(*cells, strict=True))
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def _flat_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: _flat(value) for name, value in row.items()} for row in rows]


def _flat(value: object) -> object:
    return _encode(value) if isinstance(value, dict | list) else value


def _cells(values: list[Any]) -> list[Any]:
    """Return the values of a column as they are written; the writer knows the rest."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return values
    if kinds <= _WORDS and _SUSPECT.isdisjoint([word[:1] for word in values if word]):
        return values
    return [_cell(value) for value in values]


def _cell(value: object) -> object:
    if isinstance(value, str):
        is_formula = value[:1] in _SUSPECT and _FORMULA.match(value)
        return f"'{value}" if is_formula else value
    if isinstance(value, bool):
        return "true" if value else "false"
    # In JSON nothing begins like a formula.
    return _flat(value)


def _write_jsonl(rows: Rows) -> Generator[bytes]:
    for chunk in _chunks(rows, of=_SMALL_CHUNK):
        yield "".join(f"{_dump(row)}\n" for row in chunk).encode()


def _write_json(rows: Rows) -> Generator[bytes]:
    yield b'{"items":['
    comma = ""
    for chunk in _chunks(rows, of=_SMALL_CHUNK):
        yield f"{comma}{','.join(_dump(row) for row in chunk)}".encode()
        comma = ","
    yield b'],"next":null}\n'


def _dump(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _write_parquet(columns: Sequence[str], rows: Rows) -> Generator[bytes]:
    # Heavy: it is loaded for those who export Parquet.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([(column, _arrow_type(pa, column)) for column in columns])
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema) as writer:
            for chunk in _chunks(rows):
                table = pa.Table.from_pylist(_flat_rows(chunk), schema=schema)
                writer.write_table(table)
        file.seek(0)
        while piece := file.read(2**16):
            yield piece


def _arrow_type(pa: Any, column: str) -> Any:
    if column in _INTEGERS:
        return pa.int64()
    if column in _FLOATS:
        return pa.float64()
    is_flag = column.startswith("is_")
    return pa.bool_() if is_flag else pa.string()


def _chunks(rows: Rows, of: int = _CHUNK) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, of)):
        yield chunk
