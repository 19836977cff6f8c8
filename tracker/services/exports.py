"""Writing rows as CSV, Excel, JSON, JSON Lines or Parquet.

Workbooks are written here because XlsxWriter and openpyxl write 16 digits of a number,
which changes every fourth one; an export must be imported again to the last bit.
"""

import csv
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any
from xml.sax.saxutils import escape

from tracker.services.wording import check_one_of, invalid

# The limit of a sheet, without the line of column names.
_MOST_ROWS = 2**20 - 1
_TOO_LONG = "an Excel sheet ends after {:,} rows; use csv or parquet"
# Characters that XML cannot hold, and texts that look like their escapes.
_UNWRITABLE = re.compile(
    "_(?=x[0-9A-Fa-f]{4}_)|[\x00-\x08\x0b\x0c\x0d\x0e-\x1f\ufffe\uffff]"
)
_SHEET = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    "<sheetData>"
)
_NAMES = "http://schemas.openxmlformats.org"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_NAMES}/package/2006/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
    '<Override PartName="/xl/worksheets/sheet1.xml" '
    f'ContentType="{_TYPE}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_NAMES}/package/2006/relationships">'
    f'<Relationship Id="rId1" Type="{_NAMES}/officeDocument/2006/relationships/'
    'officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_NAMES}/spreadsheetml/2006/main" '
    f'xmlns:r="{_NAMES}/officeDocument/2006/relationships"><sheets>'
    '<sheet name="Tracker" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": "<Relationships "
    f'xmlns="{_NAMES}/package/2006/relationships"><Relationship Id="rId1" '
    f'Type="{_NAMES}/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
}


def write_workbook(
    columns: Sequence[str], chunks: Iterable[list[dict[str, Any]]]
) -> Generator[bytes]:
    """Yield a workbook of texts and numbers, so that Excel runs none as a formula."""
    name, written = "xl/worksheets/sheet1.xml", 0
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in _PARTS.items():
                archive.writestr(part, _XML + content)
            with archive.open(name, "w", force_zip64=True) as sheet:
                sheet.write((_SHEET + _line(columns)).encode())
                for chunk in chunks:
                    written += len(chunk)
                    if written > _MOST_ROWS:
                        raise invalid("format", "xlsx", _TOO_LONG.format(_MOST_ROWS))
                    lines = (_line([row[name] for name in columns]) for row in chunk)
                    sheet.write("".join(lines).encode())
                sheet.write(b"</sheetData></worksheet>")
        yield from _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(2**16):
        yield piece


def _line(values: Sequence[Any]) -> str:
    cells = []
    for value in values:
        if value is None:
            cells.append("<c/>")
        elif isinstance(value, bool):
            cells.append(f'<c t="b"><v>{value:d}</v></c>')
        elif isinstance(value, int | float):
            cells.append(f"<c><v>{value!r}</v></c>")
        else:
            text = _UNWRITABLE.sub(lambda it: f"_x{ord(it[0]):04X}_", str(value))
            text = f'<t xml:space="preserve">{escape(text)}</t>'
            cells.append(f'<c t="inlineStr"><is>{text}</is></c>')
    return f"<row>{''.join(cells)}</row>"


MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# The media types in the OpenAPI document, without their encoding.
FILE_TYPES = tuple(name.partition(";")[0] for name in MEDIA_TYPES.values())
_CHUNK = 2_000
# Formats that gain nothing from larger chunks send their first piece soon.
_SMALL_CHUNK = 200
# Spreadsheets run a cell that begins like this as a formula.  Import removes the
# quote.
_FORMULA = re.compile(r"'*[=+\-@\t\r\uff1d]")
# The first characters of such cells, for a quick check.
_SUSPECT = frozenset("'=+-@\t\r\uff1d")
# The CSV writer writes None as nothing and floats in full.
_PLAIN = {type(None), int, float}
_WORDS = {type(None), str}
_encode = json.JSONEncoder(ensure_ascii=False).encode
_FLOATS = {
    *("accuracy", "low", "high", "confidence_level", "confidence"),
    *("validation", "training", "no_information"),
    *("share", "chance", "times_average"),
}
_INTEGERS = {
    *("correct", "draw", "labelled", "labels", "queries", "round"),
    *("stratum", "stratum_weight", "weight_left"),
}

Rows = Iterable[dict[str, Any]]


def check_format(name: str) -> None:
    check_one_of("format", name, MEDIA_TYPES)


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
        # By column, which is half the work: most have one type of value.
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
    # JSON text does not begin like a formula.
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
    # Heavy, so imported only for Parquet.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    types = dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_FLOATS, pa.float64())
    types |= {name: pa.bool_() for name in columns if name.startswith("is_")}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema) as writer:
            for chunk in _chunks(rows):
                table = pa.Table.from_pylist(_flat_rows(chunk), schema=schema)
                writer.write_table(table)
        yield from _read(file)


def _chunks(rows: Rows, of: int = _CHUNK) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, of)):
        yield chunk
