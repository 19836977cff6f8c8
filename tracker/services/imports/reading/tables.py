"""Reading the rows of CSV, an Excel workbook, or a Parquet or Arrow file."""

import codecs
import csv
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO
from xml.parsers import expat

from tracker.errors import InvalidInputError
from tracker.services.imports.reading import rows
from tracker.services.imports.reading.column_names import find_header, role_of
from tracker.services.sandbox.channel import BROKEN_ZIP, Unpacked, refusing
from tracker.services.wording import show, show_name

ARROW_FILE = b"ARROW1"
_MOST_CELLS = 100_000_000
# A sheet is held in memory as one rectangle, however few of its cells are filled.
_MOST_IN_SHEET = 5_000_000
_MOST_PARTS = 10_000
# So many rows or lines may be titles above the columns.
_LOOKED_AT = 20
# Other kinds of workbook that the library reads; nobody bounds their cells.
_OTHER_KINDS = {"content.xml", "xl/workbook.bin"}
_PIECE = 2**20
_DIGITS = "0123456789"
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# An exported text that a spreadsheet would take for a formula got a quote in
# front; see services/exports.py.
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r\uff1d]")
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16"}


def csv_pieces(
    stream: BinaryIO, notes: list[str], header_row: int | None
) -> Iterator[rows.Piece]:
    """Read CSV with a header line: UTF-8 or UTF-16, comma, semicolon, tab, bar.

    What is not UTF-8 is read as Latin-1, and that is said in *notes*.
    """
    csv.field_size_limit(rows.LONGEST_ROW)
    start = stream.read(2)
    stream.seek(0)
    encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = io.TextIOWrapper(stream, encoding=encoding, newline="", errors=_LATIN)
    _seen.latin = False
    reader = _Reader(text, header_row, notes)
    try:
        yield from reader.pieces()
        if _seen.latin:
            notes.append("the file is not UTF-8 and was read as Latin-1")
    except UnicodeDecodeError as error:
        raise InvalidInputError.of(
            "body", f"it is not {_NAMES[text.encoding]} text; save it as UTF-8"
        ) from error
    except csv.Error as error:
        # The rest is advice to programmers.
        what = str(error).partition(" - ")[0]
        raise InvalidInputError.of(
            "body", f"row {reader.row} is not CSV: {what}"
        ) from error
    finally:
        # The caller opened the stream and closes it, now and then before this.
        if not stream.closed:
            text.detach()


@dataclass(slots=True)
class _Reader:
    """Cuts a text into pieces of rows, none of which takes more than it may."""

    text: io.TextIOWrapper
    header_row: int | None
    notes: list[str]
    row: int = 1
    # Lines that were looked at and are no titles.
    _held: list[str] = field(default_factory=list)
    # Characters since the row began.
    _size: int = 0

    def pieces(self) -> Iterator[rows.Piece]:
        header, delimiter = self._read_header()
        has_comma = delimiter == ";"
        yield rows.Piece(1, header, [[] for _ in header], has_comma=has_comma)
        lines: list[list[str]] = []
        size = empty = 0
        for cells in csv.reader(self._lines(), delimiter=delimiter, strict=True):
            if not cells or cells == [""]:
                self._size = 0
                empty += 1
                rows.check_empty_lines(empty)
                continue
            lines.append(cells)
            self.row += 1
            size += self._size
            self._size = 0
            if len(lines) == rows.PIECE_ROWS or size >= rows.PIECE_BYTES:
                first = self.row - len(lines)
                yield from cut_lines(first, header, lines, has_comma=has_comma)
                lines, size = [], 0
        if lines:
            first = self.row - len(lines)
            yield from cut_lines(first, header, lines, has_comma=has_comma)

    def _read_header(self) -> tuple[list[str], str]:
        first = self._readline()
        if first.lower().startswith("sep=") and len(first.strip()) == 5:
            first = self._readline()
        if not first.strip():
            raise InvalidInputError.of(
                "body", "the file is empty; its first line must name the columns"
            )
        if "\0" in first:
            raise InvalidInputError.of("body", "it is not a text file")
        above = self._find_titles(first)
        header = _cells(above[-1])
        if len(above[-1]) >= rows.LONGEST_ROW or len(header) > rows.MOST_COLUMNS:
            rows.refuse_many_columns()
        if self.header_row is None and _is_row(header, self._held):
            self._held.insert(0, above[-1])
            self.notes.append("the first line names no columns, which are numbered")
            header = [f"{rows.COLUMN}{number}" for number, _ in enumerate(header, 1)]
        for title in above[:-1]:
            if title.strip():
                self.notes.append(f"the row {show(title.strip())} as a title above")
        return header, _delimiter(above[-1])

    def _find_titles(self, first: str) -> list[str]:
        if self.header_row is None and any(map(role_of, _cells(first))):
            return [first]
        lines = [first]
        most = self.header_row or _LOOKED_AT
        while len(lines) < most and (line := self._readline()):
            lines.append(line)
        if self.header_row is not None:
            return lines
        filled = [line for line in lines if line.strip()]
        place = find_header(list(map(_cells, filled)))
        end = lines.index(filled[place]) + 1
        self._held = lines[end:]
        return lines[:end]

    def _readline(self) -> str:
        return self.text.readline(rows.LONGEST_ROW + 1)

    def _lines(self) -> Iterator[str]:
        # Not the iteration of the text: it takes a line of any length.
        while line := self._held.pop(0) if self._held else self._readline():
            self._size += len(line)
            if self._size > rows.LONGEST_ROW:
                raise InvalidInputError.of(
                    "body",
                    f"row {self.row} is longer than {rows.LONGEST_ROW:,} characters",
                )
            yield line


def _read_latin(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError) or error.encoding.startswith("utf-16"):
        raise error
    _seen.latin = True
    wrong = error.object[error.start : error.end]
    return wrong.decode("cp1252", errors="replace"), error.end


_LATIN = "tracker.latin"
# Whether the file that this thread reads had bytes that are not UTF-8.
_seen = threading.local()
codecs.register_error(_LATIN, _read_latin)


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _cells(line: str) -> list[str]:
    cells = next(csv.reader([line], delimiter=_delimiter(line)), [])
    return [cell.strip() for cell in cells]


def _is_row(cells: list[str], lines: Sequence[str]) -> bool:
    """Return whether the first line of a table is a row: it says what others do.

    Columns that pandas numbers have a header.
    """
    if cells == list(map(str, range(len(cells)))) or any(map(role_of, cells)):
        return False
    below = [row for line in lines if len(row := _cells(line)) == len(cells)]
    return any(
        cell and (_NUMBER.fullmatch(cell) or any(cell == row[place] for row in below))
        for place, cell in enumerate(cells)
    )


def cut_lines(
    first: int, names: list[str], lines: list[list[str]], *, has_comma: bool
) -> Iterator[rows.Piece]:
    """Yield lines by column, with an error for each line that has other cells."""
    if all(len(cells) == len(names) for cells in lines):
        columns = [_read_cells(column) for column in zip(*lines, strict=True)]
        yield rows.Piece(first, names, columns, has_comma=has_comma)
        return
    found = []
    for number, cells in enumerate(lines, start=first):
        if len(cells) == len(names):
            # Empty ones too: they say which columns there are.
            read = zip(names, _read_cells(cells), strict=True)
            found.append(rows.Row(number, dict(read)))
        else:
            message = f"the row has {len(cells)} cells, but the header has {len(names)}"
            found.append(rows.Row(number, {}).without("row", message))
    yield from rows.cut_rows(found, has_header=True, has_comma=has_comma)


def _read_cells(cells: Sequence[str]) -> list[Any]:
    values: list[Any] = list(cells)
    if "'" in "".join(cells):
        values = [one[1:] if _QUOTED_FORMULA.match(one) else one for one in cells]
    if "" in values:
        values = [value or None for value in values]
    return values


def excel_pieces(
    stream: BinaryIO,
    notes: list[str],
    unpacked: Unpacked,
    *,
    sheet: str | None = None,
    header_row: int | None = None,
) -> Iterator[rows.Piece]:
    """Read the *sheet*, else the one that names most columns as people call them.

    Empty rows do not count, unless *header_row* says which one names the columns.
    Raises InvalidInputError for what is no workbook or has too many cells, and
    TooLargeError where too much is *unpacked*.
    """
    # Loaded for those who import a workbook.
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415

    broken = CalamineError, expat.ExpatError, *BROKEN_ZIP
    with refusing("it is not an Excel file", *broken):
        _check(stream, unpacked)
        book = CalamineWorkbook.from_filelike(stream)
        if sheet not in {None, *book.sheet_names}:
            shown = ", ".join(map(show, book.sheet_names))
            raise InvalidInputError.of(
                "sheet", f"there is no sheet {show(sheet)}; there are: {shown}"
            )
        best: tuple[tuple[int, int], str, int] | None = None
        for name in book.sheet_names if sheet is None else [sheet]:
            found = _look(book.get_sheet_by_name(name).iter_rows(), header_row)
            if found is not None and (best is None or found[0] > best[0]):
                best = found[0], name, found[1]
        if best is not None:
            _, name, skipped = best
            if len(book.sheet_names) > 1:
                notes.append(
                    f"the sheet {name} was read, one of {len(book.sheet_names)}"
                )
            lines = book.get_sheet_by_name(name).iter_rows()
            filled = lines if header_row else filter(any, map(_filled, lines))
            for title in islice(filled, skipped):
                said = " ".join(str(one) for one in title if one not in {None, ""})
                notes.append(f"the row {show(said)} as a title above the columns")
            header = map(_cell, next(filled))
            columns = ["" if one is None else str(one) for one in header]
            below = filter(any, map(_filled, filled))
            return rows.iter_tables(columns, ([*map(_cell, line)] for line in below))
    raise rows.wrong_file("the workbook is empty")


def _filled(line: list[Any]) -> list[Any]:
    return [str(one) if one in {0} else one for one in line]


def _look(
    lines: Iterator[list[Any]], header_row: int | None
) -> tuple[tuple[int, int], int] | None:
    if header_row is not None:
        header = next(islice(lines, header_row - 1, None), None)
        return None if header is None else ((0, 0), header_row - 1)
    first = list(islice(filter(any, map(_filled, lines)), _LOOKED_AT))
    if not first:
        return None
    place = find_header(first)
    names = [str(one) for one in first[place] if one not in {None, ""}]
    return (sum(map(bool, map(role_of, names))), len(names)), place


def _check(stream: BinaryIO, unpacked: Unpacked) -> None:
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        names = {one.filename for one in parts}
        if not names & {"[Content_Types].xml", *_OTHER_KINDS}:
            raise rows.wrong_file(
                "it is a zip file and no workbook; send one table, and images beside "
                "it with --images"
            )
        if "xl/workbook.xml" not in names or names & _OTHER_KINDS:
            raise rows.wrong_file("it is not an Excel file; save it as .xlsx")
        if len(parts) > _MOST_PARTS:
            raise rows.wrong_file(f"the workbook has more than {_MOST_PARTS:,} parts")
        for one in parts:
            with archive.open(one) as part:
                content = part.read(_PIECE)
                is_sheet = one.filename.startswith("xl/worksheets/")
                sheet = _Sheet() if is_sheet or b"worksheet" in content else None
                while content:
                    unpacked.add(len(content))
                    if sheet is not None:
                        sheet.add(content)
                    content = part.read(_PIECE)
    stream.seek(0)


def parse_xml(refusal: str) -> expat.XMLParserType:
    """Return a parser that refuses entities, which could be anything."""

    def refuse(*_: Any) -> None:
        raise rows.wrong_file(refusal)

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    return parser


class _Sheet:
    """Where the last filled cells of a sheet are, read from its XML piece by piece."""

    def __init__(self) -> None:
        self._parser = parse_xml("it is not an Excel file: it has entities")
        self._parser.StartElementHandler = self._begin
        self._row = self._column = 0
        self._last_row = self._last_column = 0

    def add(self, content: bytes) -> None:
        """Read on; raises InvalidInputError for too many cells."""
        self._parser.Parse(content)
        if self._last_row * self._last_column > _MOST_IN_SHEET:
            raise rows.wrong_file(
                f"a sheet of the workbook reaches to row {self._last_row:,} and column "
                f"{self._last_column:,}, which is more than {_MOST_IN_SHEET:,} cells "
                "with the empty ones; delete what is far away, or send CSV instead"
            )

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        # As the library counts: what has no number comes after what is before it.
        match name.rpartition(":")[2]:
            case "c":
                place = attributes.get("r")
                if place is None:
                    self._column += 1
                else:
                    letters = place.rstrip(_DIGITS)
                    self._column = _column(letters)
                    self._row = int(place[len(letters) :] or 0)
            # An empty cell with a style has neither.
            case "v" | "is":
                self._last_row = max(self._last_row, self._row)
                self._last_column = max(self._last_column, self._column)
            case "row":
                self._row = int(attributes.get("r", self._row + 1))
                self._column = 0


@lru_cache(maxsize=16_384)
def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _cell(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value == "" else value


def parquet_pieces(stream: BinaryIO, unpacked: Unpacked) -> Iterator[rows.Piece]:
    """Read a Parquet file piece by piece, an empty one as a piece without rows.

    What it says of itself is looked at first: a few bytes can say a billion rows.
    """
    # Heavy: it is loaded for those who import Parquet.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    with refusing("it is not Parquet", pa.ArrowException):
        file = pq.ParquetFile(stream)
        if file.metadata.num_columns > rows.MOST_COLUMNS:
            rows.refuse_many_columns()
        cells = file.metadata.num_rows * file.metadata.num_columns
        if cells > _MOST_CELLS:
            raise rows.wrong_file(
                f"it has {file.metadata.num_rows:,} rows of "
                f"{file.metadata.num_columns:,} columns; "
                f"an import may have {_MOST_CELLS:,} cells"
            )
        for number in range(file.metadata.num_row_groups):
            unpacked.add(file.metadata.row_group(number).total_byte_size)
        most = rows.piece_rows(len(file.schema_arrow.names))
        batches = file.iter_batches(batch_size=most, use_threads=False)
        yield from _read_batches(file.schema_arrow, batches)


def arrow_pieces(stream: BinaryIO, unpacked: Unpacked) -> Iterator[rows.Piece]:
    """Read an Arrow file (Feather), or an Arrow stream, as ``datasets`` saves one."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, as above.

    def batches() -> Iterator[Any]:
        cells = 0
        for whole in found:
            unpacked.add(whole.nbytes)
            cells += whole.num_rows * whole.num_columns
            if cells > _MOST_CELLS:
                raise rows.wrong_file(f"it has more than {_MOST_CELLS:,} cells")
            for start in range(0, whole.num_rows, most):
                yield whole.slice(start, most)

    with refusing("it is not Arrow", pa.ArrowException):
        is_file = stream.read(len(ARROW_FILE)) == ARROW_FILE
        stream.seek(0)
        if is_file:
            file = pa.ipc.open_file(stream)
            found = map(file.get_batch, range(file.num_record_batches))
            schema = file.schema
        else:
            found = opened = pa.ipc.open_stream(stream)
            schema = opened.schema
        if len(schema.names) > rows.MOST_COLUMNS:
            rows.refuse_many_columns()
        most = rows.piece_rows(len(schema.names))
        yield from _read_batches(schema, batches())


def _read_batches(schema: Any, batches: Iterable[Any]) -> Iterator[rows.Piece]:
    names, first = schema.names, 1
    classes: dict[str, list[str]] = {}
    # What Hugging Face calls its classes, which stand as numbers.
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        said = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        classes = {
            name: [str(one) for one in feature["names"]]
            for name, feature in said.items()
            if feature.get("_type") == "ClassLabel"
        }
    yield rows.Piece(first, names, [[] for _ in names])
    for batch in batches:
        columns = [
            _as_classes(name, _arrow_values(column), classes.get(name))
            for name, column in zip(names, batch.columns, strict=True)
        ]
        yield rows.Piece(first, names, columns)
        first += batch.num_rows


def _as_classes(name: str, values: list[Any], names: list[str] | None) -> list[Any]:
    if names is None:
        return values
    wrong = {one for one in values if type(one) is int and one >= len(names)}
    if wrong:
        raise InvalidInputError.of(
            show_name(name), f"it has the class {min(wrong)}, of {len(names)} classes"
        )
    # A -1 says that there is none.
    return [
        (names[one] if one >= 0 else None) if type(one) is int else one
        for one in values
    ]


def _arrow_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, as text where Python has none like them.

    So it is with the year 10000, which the field refuses, and with a nanosecond.
    """
    # A caller that has a column has loaded it already.
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    with suppress(ValueError, OverflowError):
        return list(column.cast(kind).to_pylist())
    values: list[Any] = []
    for value in column:
        try:
            values.append(value.cast(kind).as_py())
        except (ValueError, OverflowError):
            # Arrow's own text of a year with six digits names another one.
            text = f"{value.value} {value.type}"
            if value.type.unit == "ns":
                # As text with all its digits, which the field rounds and says so.
                bare = value.cast(kind, safe=False).as_py()
                zone = "" if bare.tzinfo is None else bare.isoformat()[-6:]
                text = f"{bare:%Y-%m-%dT%H:%M:%S.%f}{value.value % 1000:03d}{zone}"
            values.append(text)
    return values
