"""Reading the rows of a CSV file, a few thousand at a time."""

import codecs
import csv
import io
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.column_names import find_header, role_of
from tracker.services.imports.reading.rows import (
    COLUMN,
    LONGEST_ROW,
    MOST_COLUMNS,
    PIECE_BYTES,
    PIECE_ROWS,
    RawPiece,
    Row,
    RowPiece,
    TablePiece,
    check_empty_lines,
    refuse_many_columns,
)
from tracker.services.wording import show

_DELIMITERS = ",;\t|"
# So many lines may be titles above the columns.
_LOOKED_AT = 20
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# An exported text that a spreadsheet would take for a formula got a quote in
# front; see services/exports.py.
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r\uff1d]")
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16"}


def csv_pieces(
    stream: BinaryIO, notes: list[str], header_row: int | None
) -> Iterator[RawPiece]:
    """Read CSV with a header line: UTF-8 or UTF-16, comma, semicolon, tab, bar.

    What is not UTF-8 is read as Latin-1, and that is said in *notes*.
    """
    csv.field_size_limit(LONGEST_ROW)
    text = io.TextIOWrapper(
        stream, encoding=_encoding(stream), newline="", errors=_LATIN
    )
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


class _Reader:
    """Cuts a text into pieces of rows, none of which takes more than it may."""

    def __init__(
        self, text: io.TextIOWrapper, header_row: int | None, notes: list[str]
    ) -> None:
        self._text = text
        self._header_row = header_row
        self._notes = notes
        # Lines that were looked at and are no titles.
        self._held: list[str] = []
        # Characters since the row began.
        self._size = 0
        # The number of the row that is being read.
        self.row = 1

    def pieces(self) -> Iterator[RawPiece]:
        header, delimiter = self._read_header()
        has_comma = delimiter == ";"
        yield TablePiece(1, header, [[] for _ in header], has_comma=has_comma)
        lines: list[list[str]] = []
        size = empty = 0
        for cells in csv.reader(self._lines(), delimiter=delimiter, strict=True):
            if not cells or cells == [""]:
                self._size = 0
                empty += 1
                check_empty_lines(empty)
                continue
            lines.append(cells)
            self.row += 1
            size += self._size
            self._size = 0
            if len(lines) == PIECE_ROWS or size >= PIECE_BYTES:
                yield cut_lines(
                    self.row - len(lines), header, lines, has_comma=has_comma
                )
                lines, size = [], 0
        if lines:
            yield cut_lines(self.row - len(lines), header, lines, has_comma=has_comma)

    def _read_header(self) -> tuple[list[str], str]:
        """Read the names of the columns, below the titles that stand above them."""
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
        if len(above[-1]) >= LONGEST_ROW or len(header) > MOST_COLUMNS:
            refuse_many_columns()
        if self._header_row is None and _is_row(header, self._held):
            self._held.insert(0, above[-1])
            self._notes.append("the first line names no columns, which are numbered")
            header = [f"{COLUMN}{number}" for number, _ in enumerate(header, 1)]
        for title in above[:-1]:
            if title.strip():
                self._notes.append(f"the row {show(title.strip())} as a title above")
        return header, _delimiter(above[-1])

    def _find_titles(self, first: str) -> list[str]:
        """Return the lines down to the one that names the columns."""
        if self._header_row is None and any(map(role_of, _cells(first))):
            return [first]
        lines = [first]
        most = self._header_row or _LOOKED_AT
        while len(lines) < most and (line := self._readline()):
            lines.append(line)
        if self._header_row is not None:
            return lines
        filled = [line for line in lines if line.strip()]
        place = find_header(list(map(_cells, filled)))
        end = lines.index(filled[place]) + 1
        self._held = lines[end:]
        return lines[:end]

    def _readline(self) -> str:
        return self._text.readline(LONGEST_ROW + 1)

    def _lines(self) -> Iterator[str]:
        # Not the iteration of the text: it takes a line of any length.
        while line := self._held.pop(0) if self._held else self._readline():
            self._size += len(line)
            if self._size > LONGEST_ROW:
                raise InvalidInputError.of(
                    "body", f"row {self.row} is longer than {LONGEST_ROW:,} characters"
                )
            yield line


def _encoding(stream: BinaryIO) -> str:
    start = stream.read(2)
    stream.seek(0)
    return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _read_latin(error: UnicodeError) -> tuple[str, int]:
    """Return bytes that are not UTF-8 as Latin-1, as Windows writes it."""
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
) -> RawPiece:
    """Return lines by column, or one by one where a line has other cells."""
    if all(len(cells) == len(names) for cells in lines):
        columns = [_read_column(column) for column in zip(*lines, strict=True)]
        return TablePiece(first, names, columns, has_comma=has_comma)
    rows = [_read_row(n, names, cells) for n, cells in enumerate(lines, start=first)]
    return RowPiece(rows, has_header=True, has_comma=has_comma)


def _read_row(number: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) != len(header):
        message = f"the row has {len(cells)} cells, but the header has {len(header)}"
        return Row(number, {}).without("row", message)
    return Row(
        number,
        {
            name: _without_quote(cell)
            for name, cell in zip(header, cells, strict=True)
            if cell
        },
    )


def _without_quote(cell: str) -> str:
    return cell[1:] if _QUOTED_FORMULA.match(cell) else cell


def _read_column(cells: Sequence[str]) -> list[Any]:
    """Return what the *cells* of a column hold, as ``_read_row`` does for a row."""
    values: list[Any] = list(cells)
    if "'" in "".join(cells):
        values = [_without_quote(cell) for cell in cells]
    if "" in values:
        values = [value or None for value in values]
    return values
