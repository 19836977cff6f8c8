"""Reading the rows of an Excel workbook."""

import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import IO, Any, BinaryIO
from xml.parsers import expat

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.column_names import find_header, role_of
from tracker.services.imports.reading.rows import TablePiece, iter_tables
from tracker.services.sandbox.channel import Unpacked
from tracker.services.wording import show, show_reason

# A sheet is held in memory as one rectangle, however few of its cells are filled.
_MOST_CELLS = 5_000_000
_MOST_PARTS = 10_000
# So many rows may be titles above the columns.
_LOOKED_AT = 20
# Other kinds of workbook that the library reads; nobody bounds their cells.
_OTHER_KINDS = {"content.xml", "xl/workbook.bin"}
_PIECE = 2**20
_DIGITS = "0123456789"


def excel_pieces(
    stream: BinaryIO,
    notes: list[str],
    unpacked: Unpacked,
    *,
    sheet: str | None = None,
    header_row: int | None = None,
) -> Iterator[TablePiece]:
    """Read the *sheet*, else the one that names most columns as people call them.

    Empty rows do not count, unless *header_row* says which one names the columns.
    Raises InvalidInputError for what is no workbook or has too many cells, and
    TooLargeError where too much is *unpacked*.
    """
    # Loaded for those who import a workbook.
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415

    try:
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
            return _read_sheet(next(filled), filter(any, map(_filled, filled)))
    except (
        CalamineError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        expat.ExpatError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InvalidInputError.of(
            "file", f"it is not an Excel file: {show_reason(error)}"
        ) from error
    raise InvalidInputError.of("file", "the workbook is empty")


def _filled(line: list[Any]) -> list[Any]:
    return [str(one) if one in {0} else one for one in line]


def _look(
    lines: Iterator[list[Any]], header_row: int | None
) -> tuple[tuple[int, int], int] | None:
    """Return how many columns a sheet names, first known ones, and what is above."""
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
    """Unpack each part once, and look how large the sheets are."""
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        names = {one.filename for one in parts}
        if "xl/workbook.xml" not in names or names & _OTHER_KINDS:
            raise InvalidInputError.of(
                "file", "it is not an Excel file; save it as .xlsx"
            )
        if len(parts) > _MOST_PARTS:
            raise InvalidInputError.of(
                "file", f"the workbook has more than {_MOST_PARTS:,} parts"
            )
        for one in parts:
            with archive.open(one) as part:
                _check_part(one.filename, part, unpacked)
    stream.seek(0)


def _check_part(name: str, part: IO[bytes], unpacked: Unpacked) -> None:
    sheet = None
    is_first = True
    while content := part.read(_PIECE):
        unpacked.add(len(content))
        if is_first and (name.startswith("xl/worksheets/") or b"worksheet" in content):
            sheet = _Sheet()
        is_first = False
        if sheet is not None:
            sheet.add(content)


class _Sheet:
    """Where the last filled cells of a sheet are, read from its XML piece by piece."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EntityDeclHandler = self._refuse_entity
        self._row = self._column = 0
        self._last_row = self._last_column = 0

    def add(self, content: bytes) -> None:
        """Read on; raises InvalidInputError for too many cells."""
        self._parser.Parse(content)
        if self._last_row * self._last_column > _MOST_CELLS:
            raise InvalidInputError.of(
                "file",
                f"a sheet of the workbook reaches to row {self._last_row:,} and column "
                f"{self._last_column:,}, which is more than {_MOST_CELLS:,} cells with "
                "the empty ones; delete what is far away, or send CSV instead",
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

    def _refuse_entity(self, *_: Any) -> None:
        raise InvalidInputError.of("file", "it is not an Excel file: it has entities")


@lru_cache(maxsize=16_384)
def _column(letters: str) -> int:
    """Return the number of a column, counted from 1."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _read_sheet(header: list[Any], lines: Iterator[list[Any]]) -> Iterator[TablePiece]:
    names = [_cell(cell) for cell in header]
    return iter_tables(
        ["" if name is None else str(name) for name in names],
        ([_cell(cell) for cell in line] for line in lines),
    )


def _cell(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value == "" else value
