"""Files that are made to exhaust who reads them: each is small, or made piece by piece.

Each generator writes one file; ``FILES`` says how it is named and what must be said.
"""

import gzip
import io
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tracker.services.exports import write_workbook

MIB = 2**20
_XML = '<?xml version="1.0" encoding="UTF-8"?>'
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SHEET = "xl/worksheets/sheet1.xml"
_HEADER = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>predicted</t></is></c>'
    '<c r="B1" t="inlineStr"><is><t>label</t></is></c></row>'
)


def workbook(sheet: str | Iterator[str], **parts: str | Iterator[str]) -> bytes:
    """A workbook with this inside of its sheet, and parts that replace its others."""
    whole = io.BytesIO(b"".join(write_workbook(["predicted"], [])))
    output = io.BytesIO()
    with (
        zipfile.ZipFile(whole) as source,
        zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            if name != _SHEET and name not in parts:
                target.writestr(name, source.read(name))
        for name, content in {_SHEET: sheet, **parts}.items():
            with target.open(name, "w", force_zip64=True) as part:
                for piece in [content] if isinstance(content, str) else content:
                    part.write(piece.encode())
    return output.getvalue()


def sheet(rows: str, more: str = "") -> str:
    return (
        f'{_XML}<worksheet xmlns="{_SHEETS}">{more}<sheetData>{_HEADER}{rows}'
        "</sheetData></worksheet>"
    )


def far_cell(place: str = "XFD1048576") -> bytes:
    row = place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return workbook(sheet(f'<row r="{row}"><c r="{place}"><v>1</v></c></row>'))


def far_cells_without_numbers() -> bytes:
    """A row as wide as there are columns, and the last row, as positions alone say."""
    wide = f"<row>{'<c><v>1</v></c>' * 16_384}</row>"
    return workbook(sheet(f'{wide}<row r="1048576"><c><v>1</v></c></row>'))


def far_cell_of_another_prefix() -> bytes:
    text = sheet('<row r="9"><c r="xfd1048576"><v>1</v></c></row>')
    for name in ("worksheet", "sheetData", "row", "c", "v"):
        text = text.replace(f"<{name} ", f"<x:{name} ").replace(
            f"<{name}>", f"<x:{name}>"
        )
        text = text.replace(f"</{name}>", f"</x:{name}>")
    return workbook(text.replace("xmlns=", "xmlns:x="))


def far_empty_cell() -> bytes:
    """It is harmless: people give whole columns a style."""
    rows = (
        '<row r="2"><c r="A2" t="inlineStr"><is><t>YES</t></is></c></row>'
        '<row r="1048576"><c r="XFD1048576" s="0"/></row>'
    )
    return workbook(sheet(rows, '<dimension ref="A1:XFD1048576"/>'))


def merged_giants() -> bytes:
    text = sheet('<row r="2"><c r="A2" t="inlineStr"><is><t>YES</t></is></c></row>')
    merges = '<mergeCell ref="A1:XFD1048576"/>' * 100_000
    return workbook(
        text.replace("</worksheet>", f"<mergeCells>{merges}</mergeCells></worksheet>")
    )


def shared_text() -> bytes:
    """One text of 32,000 characters in each of a million cells."""
    row = "<row>" + '<c t="s"><v>0</v></c>' * 2 + "</row>"
    text = f'{_XML}<sst xmlns="{_SHEETS}"><si><t>{"x" * 32_000}</t></si></sst>'
    return workbook(
        sheet(row * 500_000),
        **{
            "xl/sharedStrings.xml": text,
            "xl/_rels/workbook.xml.rels": _RELATIONS,
            "[Content_Types].xml": _TYPES,
        },
    )


_NAMES = "http://schemas.openxmlformats.org"
_RELATIONS = (
    f'{_XML}<Relationships xmlns="{_NAMES}/package/2006/relationships">'
    + "".join(
        f'<Relationship Id="rId{number}" Target="{target}" '
        f'Type="{_NAMES}/officeDocument/2006/relationships/{kind}"/>'
        for number, (kind, target) in enumerate(
            [
                ("worksheet", "worksheets/sheet1.xml"),
                ("sharedStrings", "sharedStrings.xml"),
                ("styles", "styles.xml"),
            ],
            start=1,
        )
    )
    + "</Relationships>"
)
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_TYPES = (
    f'{_XML}<Types xmlns="{_NAMES}/package/2006/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    + "".join(
        f'<Override PartName="/xl/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in [
            ("workbook", "sheet.main"),
            ("worksheets/sheet1", "worksheet"),
            ("sharedStrings", "sharedStrings"),
            ("styles", "styles"),
        ]
    )
    + "</Types>"
)


def million_styles() -> bytes:
    styles = (
        f'{_XML}<styleSheet xmlns="{_SHEETS}"><cellXfs>'
        + '<xf numFmtId="14" fontId="0"/>' * 1_000_000
        + "</cellXfs></styleSheet>"
    )
    row = '<row r="2"><c r="A2" t="inlineStr"><is><t>YES</t></is></c></row>'
    return workbook(
        sheet(row),
        **{
            "xl/styles.xml": styles,
            "xl/_rels/workbook.xml.rels": _RELATIONS,
            "[Content_Types].xml": _TYPES,
        },
    )


def zip_bomb(size: int = 400 * MIB) -> bytes:
    """A sheet that is blank for most of its length."""
    return workbook(
        (" " * MIB for _ in range(size // MIB)) if size else iter(()),
    )


def entity_bomb() -> bytes:
    entities = "".join(
        f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 100}">' for n in range(9)
    )
    return workbook(f"{_XML}<!DOCTYPE worksheet [{entities}]>" + sheet("")[len(_XML) :])


def many_parts() -> bytes:
    return workbook(sheet(""), **{f"xl/{number}": "" for number in range(10_001)})


def other_workbook() -> bytes:
    """An Excel file that is not, and a table of OpenDocument with repeated cells."""
    names = "urn:oasis:names:tc:opendocument:xmlns"
    content = (
        f'{_XML}<office:document-content xmlns:office="{names}:office:1.0" '
        f'xmlns:table="{names}:table:1.0"><office:body><office:spreadsheet>'
        '<table:table table:name="t"><table:table-row '
        'table:number-rows-repeated="1048576"><table:table-cell '
        'table:number-columns-repeated="16384" office:value-type="float" '
        'office:value="1"/></table:table-row></table:table></office:spreadsheet>'
        "</office:body></office:document-content>"
    )
    return workbook(
        "",
        **{
            "content.xml": content,
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        },
    )


def packed(pieces: Iterator[bytes]) -> bytes:
    output = io.BytesIO()
    with gzip.GzipFile(fileobj=output, mode="wb", mtime=0) as file:
        for piece in pieces:
            file.write(piece)
    return output.getvalue()


def empty_lines(size: int) -> Iterator[bytes]:
    yield b"predicted\nYES\n"
    for _ in range(size // MIB):
        yield b"\n" * MIB


def one_field(size: int) -> Iterator[bytes]:
    yield b'predicted,label\n"'
    for _ in range(size // MIB):
        yield b"x" * MIB
    yield b'",YES\n'


def one_row_of_lines(size: int) -> Iterator[bytes]:
    """A row whose cells each hold the end of a line."""
    yield b"predicted\n"
    for _ in range(size // MIB):
        yield b'"\n",' * (MIB // 4)


def parquet(table: pa.Table, **options: Any) -> bytes:
    output = io.BytesIO()
    pq.write_table(table, output, **options)
    return output.getvalue()


def many_nulls(rows: int = 10**9) -> bytes:
    """Columns that say nothing, a billion times, in some thousand bytes."""
    output = io.BytesIO()
    schema = pa.schema({"predicted": pa.string(), "label": pa.string()})
    piece = pa.table([pa.nulls(10**6, pa.string())] * 2, schema=schema)
    with pq.ParquetWriter(output, schema) as writer:
        for _ in range(rows // 10**6):
            writer.write_table(piece, row_group_size=10**6)
    return output.getvalue()


def dictionary_bomb(size: int = 8 * MIB, rows: int = 10_000) -> bytes:
    """One long text that every row names."""
    indices = pa.array([0] * rows, pa.int32())
    text = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * size]))
    return parquet(pa.table({"predicted": text}), compression="zstd")


def huge_row_group(size: int = 600 * MIB) -> bytes:
    table = pa.table({"predicted": ["x" * MIB] * (size // MIB)})
    return parquet(table, compression="zstd", use_dictionary=False)


def deep_json(depth: int = 10**6) -> bytes:
    return b"[" * depth


def json_of_lists(size: int = 30 * MIB) -> bytes:
    """Many times its size, once it is parsed."""
    return b'{"items":[' + b"[]," * (size // 3) + b"[]]}"


def json_of_one_key(size: int = 30 * MIB) -> bytes:
    return b'{"' + b"x" * size + b'":[1]}'


def json_of_keys(number: int = 10**6) -> bytes:
    """Each row has a column of its own."""
    return b"".join(b'{"%d":1}\n' % n for n in range(number))


class Hostile(NamedTuple):
    """A file, how it is named, and what is said of it."""

    name: str
    make: Callable[[], bytes]
    said: str
    is_too_large: bool = False


# No check knows these: they die of their reader's limits.
DEADLY = {
    "shared text": Hostile("x.xlsx", shared_text, "too much memory or processor time"),
    "dictionary bomb": Hostile("x.parquet", dictionary_bomb, "640 MiB of memory"),
}
LARGE = {
    "JSON of lists": Hostile("x.json", json_of_lists, "640 MiB of memory"),
    "JSON of one key": Hostile("x.json", json_of_one_key, "longer than 4,194,304"),
    "a billion nulls": Hostile("x.parquet", many_nulls, "may have 100,000,000 cells"),
    "huge row group": Hostile("x.parquet", huge_row_group, "unpacked", True),
    "400 MB of empty lines": Hostile(
        "x.csv.gz", lambda: packed(empty_lines(400 * MIB)), "1,000,000 empty lines"
    ),
    "a field of 600 MB": Hostile(
        "x.csv.gz", lambda: packed(one_field(600 * MIB)), "longer than 4,194,304"
    ),
}
# Each takes less than a second to make.
SMALL = {
    "far cell": Hostile(
        "x.xlsx", far_cell, "reaches to row 1,048,576 and column 16,384"
    ),
    "cell in the last column": Hostile(
        "x.xlsx",
        lambda: far_cell("XFD20000"),
        "reaches to row 20,000 and column 16,384",
    ),
    "far cells without numbers": Hostile(
        "x.xlsx", far_cells_without_numbers, "reaches to row 1,048,576"
    ),
    "far cell of another prefix": Hostile(
        "x.xlsx", far_cell_of_another_prefix, "reaches to row 1,048,576"
    ),
    "entity bomb": Hostile("x.xlsx", entity_bomb, "it has entities"),
    "many parts": Hostile("x.xlsx", many_parts, "more than 10,000 parts"),
    "other workbook": Hostile("x.xlsx", other_workbook, "it is not an Excel file"),
    "zip bomb": Hostile("x.xlsx", zip_bomb, "unpacked it has more than", True),
    "empty lines": Hostile(
        "x.csv.gz", lambda: packed(empty_lines(40 * MIB)), "1,000,000 empty lines"
    ),
    "empty lines of JSON": Hostile(
        "x.jsonl.gz", lambda: packed(empty_lines(40 * MIB)), "1,000,000 empty lines"
    ),
    "one field": Hostile(
        "x.csv.gz", lambda: packed(one_field(40 * MIB)), "longer than 4,194,304"
    ),
    "one row of lines": Hostile(
        "x.csv.gz", lambda: packed(one_row_of_lines(40 * MIB)), "longer than 4,194,304"
    ),
    "one line of JSON": Hostile(
        "x.jsonl.gz", lambda: packed(one_field(40 * MIB)), "longer than 4,194,304"
    ),
    "gzip bomb of Parquet": Hostile(
        "x.parquet.gz", lambda: packed(empty_lines(300 * MIB)), "unpacked", True
    ),
    "many nulls": Hostile(
        "x.parquet", lambda: many_nulls(10**8), "an import may have 100,000,000 cells"
    ),
    "many columns": Hostile(
        "x.csv", lambda: b"a" + b",a" * 20_000 + b"\n", "more than 16,384 columns"
    ),
    "deep JSON": Hostile("x.json", deep_json, "nested too deeply"),
    "JSON of keys": Hostile("x.jsonl", json_of_keys, "more than 16,384 columns"),
}
