"""Writing rows out as an Excel workbook of one sheet, a few thousand at a time.

XlsxWriter and openpyxl write 16 digits of a number, which changes every fourth one;
what is exported here is imported again to the last bit.
"""

import re
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import IO, Any
from xml.sax.saxutils import escape

from tracker.services.wording import invalid

# A sheet has no more lines, one of which names the columns.
_MOST_ROWS = 2**20 - 1
# What XML cannot hold, and what would be read as standing for that.
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
    """Yield a workbook whose first line names the *columns*.

    Texts are texts to Excel, so that none is run as a formula.  Raises
    InvalidInputError for more rows than a sheet has.
    """
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in _PARTS.items():
                archive.writestr(name, _XML + content)
            with archive.open(
                "xl/worksheets/sheet1.xml", "w", force_zip64=True
            ) as sheet:
                _write_sheet(sheet, columns, chunks)
        file.seek(0)
        while piece := file.read(2**16):
            yield piece


def _write_sheet(
    sheet: IO[bytes], columns: Sequence[str], chunks: Iterable[list[dict[str, Any]]]
) -> None:
    sheet.write(_SHEET.encode())
    sheet.write(_line(columns).encode())
    written = 0
    for chunk in chunks:
        written += len(chunk)
        if written > _MOST_ROWS:
            raise invalid(
                "format",
                "xlsx",
                f"a sheet of Excel ends after {_MOST_ROWS:,} rows; take csv or parquet",
            )
        lines = (_line([row[column] for column in columns]) for row in chunk)
        sheet.write("".join(lines).encode())
    sheet.write(b"</sheetData></worksheet>")


def _line(values: Sequence[Any]) -> str:
    return f"<row>{''.join(_cells(values))}</row>"


def _cells(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if value is None:
            yield "<c/>"
        elif isinstance(value, bool):
            yield f'<c t="b"><v>{value:d}</v></c>'
        elif isinstance(value, int | float):
            yield f"<c><v>{value!r}</v></c>"
        else:
            text = escape(_UNWRITABLE.sub(_escape, str(value)))
            yield f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


def _escape(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):04X}_"
