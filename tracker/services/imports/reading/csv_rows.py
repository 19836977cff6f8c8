"""Reading the rows of a CSV file, a few thousand at a time."""

import codecs
import csv
import io
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.rows import (
    FIELDS,
    LONGEST_ROW,
    MOST_COLUMNS,
    PIECE_BYTES,
    PIECE_ROWS,
    Row,
    check_empty_lines,
    refuse_columns,
    refuse_many_columns,
    unknown_columns,
)
from tracker.services.wording import show

_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# An exported text that a spreadsheet would take for a formula got a quote in
# front; see services/exports.py.
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r\uff1d]")
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16"}


class CsvPiece(NamedTuple):
    """Lines of a CSV file that follow on each other, cut into cells."""

    first: int
    names: list[str]
    lines: list[list[str]]
    has_comma: bool = False
    has_header: bool = True
    is_strict: bool = False

    def rows(self) -> list[Row]:
        """Return them row by row."""
        return [
            _read_row(number, self.names, cells)
            for number, cells in enumerate(self.lines, start=self.first)
        ]

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column; ValueError where one could not be read."""
        columns = zip(*self.lines, strict=True)
        return {
            name: _read_column(column)
            for name, column in zip(self.names, columns, strict=True)
        }


class CsvRows:
    """The rows of CSV with a header line: UTF-8 or UTF-16, comma, semicolon, tab, bar.

    Each column is one of the *fields*, if these are given.  They are read once, and
    InvalidInputError is raised where the file as a whole makes no sense.  What is not
    UTF-8 is read as Latin-1, and that is said in *notes*.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        fields: Sequence[str] | None = None,
        notes: list[str] | None = None,
    ) -> None:
        """Prepare to read *stream*, which the caller closes."""
        self._stream = stream
        self._fields = fields
        self._notes = [] if notes is None else notes

    def __iter__(self) -> Iterator[Row]:
        """Read row by row."""
        for piece in self.pieces():
            yield from piece.rows()

    def pieces(self) -> Iterator[CsvPiece]:
        """Read the next few thousand rows, again and again."""
        csv.field_size_limit(LONGEST_ROW)
        stream = self._stream
        text = io.TextIOWrapper(
            stream, encoding=_encoding(stream), newline="", errors=_LATIN
        )
        _seen.latin = False
        reader = _Reader(text, self._fields)
        try:
            yield from reader.pieces()
            if _seen.latin:
                self._notes.append("the file is not UTF-8 and was read as Latin-1")
        except UnicodeDecodeError as error:
            raise InvalidInputError.of(
                "body",
                f"it is not {_NAMES[text.encoding]} text; save it as UTF-8",
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

    def __init__(self, text: io.TextIOWrapper, fields: Sequence[str] | None) -> None:
        self._text = text
        self._fields = fields
        # Characters since the row began.
        self._size = 0
        # The number of the row that is being read.
        self.row = 1

    def pieces(self) -> Iterator[CsvPiece]:
        header, delimiter = _read_header(self._text, self._fields)
        has_comma = delimiter == ";"
        yield CsvPiece(1, header, [], has_comma)
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
                yield CsvPiece(self.row - len(lines), header, lines, has_comma)
                lines, size = [], 0
        if lines:
            yield CsvPiece(self.row - len(lines), header, lines, has_comma)

    def _lines(self) -> Iterator[str]:
        # Not the iteration of the text: it takes a line of any length.
        while line := self._text.readline(LONGEST_ROW + 1):
            self._size += len(line)
            if self._size > LONGEST_ROW:
                raise InvalidInputError.of(
                    "body",
                    f"row {self.row} is longer than {LONGEST_ROW:,} characters",
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


def _read_header(
    lines: io.TextIOWrapper, fields: Sequence[str] | None
) -> tuple[list[str], str]:
    first = lines.readline(LONGEST_ROW)
    if first.lower().startswith("sep=") and len(first.strip()) == 5:
        first = lines.readline(LONGEST_ROW)
    if not first.strip():
        names = ", ".join(fields or FIELDS)
        raise InvalidInputError.of(
            "body",
            f"the file is empty; its first line must name the columns: {names}",
        )
    if "\0" in first:
        raise InvalidInputError.of("body", "it is not a text file")
    delimiter = max(_DELIMITERS, key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]
    if len(first) >= LONGEST_ROW or len(header) > MOST_COLUMNS:
        refuse_many_columns()
    if fields is None:
        return header, delimiter
    header = [name.casefold() for name in header]
    if wrong := unknown_columns(header, fields):
        refuse_columns(wrong)
    for name in header:
        if header.count(name) > 1:
            raise InvalidInputError.of(name, "occurs twice among the columns")
    return header, delimiter


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


def with_number(row: Row, name: str) -> Row:
    """Return *row* with the text of *name* read as a number, or its error."""
    cell = row.values[name]
    if not _NUMBER.fullmatch(cell):
        message = (
            f"{show(cell)} is not right: it must be a number from 0 to 1, such as 0.97"
        )
        return row.without(name, message)
    row.values[name] = float(cell)
    return row


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
