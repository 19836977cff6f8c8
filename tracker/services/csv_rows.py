"""Reading the rows of a CSV file, a few thousand at a time."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from tracker.errors import InvalidInputError
from tracker.services.fields import show, show_name
from tracker.services.rows import (
    FIELDS,
    LONGEST_ROW,
    PIECE_ROWS,
    Row,
    load_json,
    read_given,
    with_metadata,
)

_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# An exported text that a spreadsheet would take for a formula got a quote in
# front; see services/exports.py.
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r\uff1d]")
_NAMES = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16"}
_NO_TEXTS = frozenset({"confidence", "metadata"})


class CsvPiece(NamedTuple):
    """Lines of a CSV file that follow on each other, cut into cells."""

    first: int
    header: list[str]
    lines: list[list[str]]

    def rows(self) -> list[Row]:
        """Return them row by row."""
        return [
            _read_row(number, self.header, cells)
            for number, cells in enumerate(self.lines, start=self.first)
        ]

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column; ValueError where one could not be read."""
        columns = zip(*self.lines, strict=True)
        return {
            name: _read_column(name, column)
            for name, column in zip(self.header, columns, strict=True)
        }


class CsvRows:
    """The rows of CSV with a header line: UTF-8 or UTF-16, comma, semicolon, tab, bar.

    Each column is one of the *fields*.  They are read once, and InvalidInputError is
    raised where the file as a whole makes no sense.
    """

    def __init__(self, stream: BinaryIO, *, fields: Sequence[str] = FIELDS) -> None:
        """Prepare to read *stream*, which the caller closes."""
        self._stream = stream
        self._fields = fields

    def __iter__(self) -> Iterator[Row]:
        """Read row by row."""
        for piece in self.pieces():
            yield from piece.rows()

    def pieces(self) -> Iterator[CsvPiece]:
        """Read the next few thousand rows, again and again."""
        csv.field_size_limit(LONGEST_ROW)
        stream = self._stream
        text = io.TextIOWrapper(stream, encoding=_encoding(stream), newline="")
        first: int = 1
        lines: list[list[str]] = []
        try:
            header, delimiter = _read_header(text, self._fields)
            for cells in csv.reader(text, delimiter=delimiter, strict=True):
                if not cells or cells == [""]:
                    continue
                lines.append(cells)
                if len(lines) == PIECE_ROWS:
                    yield CsvPiece(first, header, lines)
                    first, lines = first + PIECE_ROWS, []
            if lines:
                yield CsvPiece(first, header, lines)
        except UnicodeDecodeError as error:
            raise InvalidInputError.of(
                "body",
                f"it is not {_NAMES[text.encoding]} text; save it as UTF-8",
            ) from error
        except csv.Error as error:
            raise InvalidInputError.of(
                "body", f"row {first + len(lines)} is not CSV: {error}"
            ) from error
        finally:
            # The caller opened the stream and closes it, now and then before this.
            if not stream.closed:
                text.detach()


def _encoding(stream: BinaryIO) -> str:
    start = stream.read(2)
    stream.seek(0)
    return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _read_header(
    lines: io.TextIOWrapper, fields: Sequence[str]
) -> tuple[list[str], str]:
    first = lines.readline(LONGEST_ROW)
    if first.lower().startswith("sep=") and len(first.strip()) == 5:
        first = lines.readline(LONGEST_ROW)
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
                show_name(name),
                f"is not a known column; there are: {', '.join(fields)}",
            )
        if header.count(name) > 1:
            raise InvalidInputError.of(name, "stands twice among the columns")
    return header, delimiter


def _read_row(number: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) != len(header):
        message = f"the row has {len(cells)} cells, the header {len(header)}"
        return Row(number, {}).without("row", message)
    row = Row(
        number,
        {
            name: _without_quote(name, cell)
            for name, cell in zip(header, cells, strict=True)
            if cell
        },
    )
    if "confidence" in row.values:
        row = with_number(row, "confidence")
    return with_metadata(row)


def with_number(row: Row, name: str) -> Row:
    """Return *row* with the text of *name* read as a number, or its error."""
    cell = row.values[name]
    if not _NUMBER.fullmatch(cell):
        message = f"{show(cell)} is not right: a number from 0 to 1, such as 0.97"
        return row.without(name, message)
    row.values[name] = float(cell)
    return row


def _without_quote(name: str, cell: str) -> str:
    is_formula = name not in _NO_TEXTS and _QUOTED_FORMULA.match(cell)
    return cell[1:] if is_formula else cell


def _read_column(name: str, cells: Sequence[str]) -> list[Any]:
    """Return what the *cells* of a column hold, as ``_read_row`` does for a row."""
    values: list[Any] = list(cells)
    if "'" in "".join(cells):
        values = [_without_quote(name, cell) for cell in cells]
    if "" in values:
        values = [value or None for value in values]
    read = _READERS.get(name)
    return values if read is None else read_given(values, read)


def _read_numbers(cells: list[str]) -> list[float]:
    if not all(map(_NUMBER.fullmatch, cells)):
        raise ValueError("not all are numbers")
    return list(map(float, cells))


_READERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "confidence": _read_numbers,
    "metadata": lambda cells: list(map(load_json, cells)),
}
