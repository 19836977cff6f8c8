"""Reading the rows of an Excel workbook."""

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.rows import TablePiece, iter_tables

# A sheet is held in memory as a whole; a small file can hold very much.
_LARGEST_UNPACKED = 512 * 2**20


def excel_pieces(stream: BinaryIO, notes: list[str]) -> Iterator[TablePiece]:
    """Read the first sheet that is not empty; its first row names the columns.

    Empty rows do not count.  Raises InvalidInputError for what is no workbook.
    """
    # Loaded for those who import a workbook.
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415

    try:
        _check_size(stream)
        book = CalamineWorkbook.from_filelike(stream)
        for name in book.sheet_names:
            lines = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            filled = [line for line in lines if any(cell != "" for cell in line)]
            if filled:
                if len(book.sheet_names) > 1:
                    notes.append(
                        f"the sheet {name} was read, one of {len(book.sheet_names)}"
                    )
                return _read_sheet(filled)
    except (CalamineError, zipfile.BadZipFile) as error:
        raise InvalidInputError.of(
            "file", f"it is not an Excel file: {error}"
        ) from error
    raise InvalidInputError.of("file", "the workbook is empty")


def _check_size(stream: BinaryIO) -> None:
    with zipfile.ZipFile(stream) as packed:
        size = sum(one.file_size for one in packed.infolist())
    stream.seek(0)
    if size > _LARGEST_UNPACKED:
        raise InvalidInputError.of("file", "too large for Excel; send CSV instead")


def _read_sheet(filled: list[list[Any]]) -> Iterator[TablePiece]:
    names = [_cell(cell) for cell in filled[0]]
    return iter_tables(
        ["" if name is None else str(name) for name in names],
        ([_cell(cell) for cell in line] for line in filled[1:]),
    )


def _cell(value: Any) -> Any:
    """Return a cell as it was typed in: a whole number is no float, no text is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value == "" else value
