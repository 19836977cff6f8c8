"""Each kind of file read as raw pieces, here or in a process of its own.

Nothing of the database is loaded here: see services/sandbox/readers.py.
"""

import base64
import gzip
import io
import numbers
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from os import SEEK_CUR
from types import NoneType
from typing import Any, BinaryIO, cast
from xml.parsers import expat

from tracker.errors import InvalidInputError
from tracker.services.fields import load_json
from tracker.services.imports.reading import rows, tables
from tracker.services.imports.reading.documents import NO_COLUMNS, document_pieces
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.shapes import read_records
from tracker.services.sandbox.channel import (
    BROKEN_ZIP,
    Channel,
    SharedFile,
    Unpacked,
    allow_time,
    dump,
    refusing,
)
from tracker.services.wording import show_reason

HEADER = "header.json"
_PIECE = 2**20
# How inspect_ai packs the parts of a log.
_ZSTANDARD = 93
_LOCAL_HEADER = 30
# Seconds of processor time for each piece; even a large one takes a hundredth of them.
_SECONDS_EACH = 10


def read_log(stream: BinaryIO, unpacked: Unpacked) -> dict[str, Any]:
    """Return a log as its JSON has it, with the samples one after the other."""

    def load(name: str) -> Any:
        content = _read_part(stream, archive, name)
        unpacked.add(len(content))
        if len(content) > rows.LONGEST_ROW:
            raise rows.wrong_file(f"{name} is longer than {rows.LONGEST_ROW:,} bytes")
        return load_json(content)

    kinds = TypeError, ValueError, *BROKEN_ZIP
    broken = refusing("it is not a log of inspect_ai", *kinds)
    with broken, zipfile.ZipFile(stream) as archive:
        names = [n for n in archive.namelist() if n.startswith("samples/")]
        return {**load(HEADER), "samples": [load(name) for name in names]}


def _read_part(stream: BinaryIO, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return what a zip file has of *name*, up to a byte more than a row may have."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        with archive.open(name) as part:
            return part.read(rows.LONGEST_ROW + 1)
    # Heavy, and only for these: Python itself unpacks it from 3.14 on.
    import pyarrow as pa  # noqa: PLC0415

    # The name and what follows it may be longer here than in the list of all.
    stream.seek(info.header_offset + _LOCAL_HEADER - 4)
    sizes = [int.from_bytes(stream.read(2), "little") for _ in range(2)]
    stream.seek(sum(sizes), SEEK_CUR)
    packed = io.BytesIO(stream.read(min(info.compress_size, rows.LONGEST_ROW)))
    try:
        unpacked = pa.CompressedInputStream(packed, "zstd")
        return bytes(unpacked.read(rows.LONGEST_ROW + 1))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error


class _Tags:
    """The tags of images, as "CVAT for images" has them, as labels by name."""

    def __init__(self) -> None:
        self._parser = tables.parse_xml("its XML has entities, which are not read")
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._name: str | None = None
        self._labels: list[str] = []
        self._found: list[rows.Row] = []
        self._number = 0
        self._is_cvat = False

    def rows(self, stream: BinaryIO) -> Iterator[rows.Row]:
        with refusing("it is not XML", expat.ExpatError):
            while content := stream.read(_PIECE):
                self._parser.Parse(content)
                yield from self._found
                self._found.clear()
            self._parser.Parse(b"", True)
        if not self._is_cvat:
            raise rows.wrong_file(
                "it is not of CVAT, whose annotations are the only XML read"
            )

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "annotations":
                self._is_cvat = True
            case "image":
                self._name, self._labels = attributes.get("name"), []
            case "tag" if self._name is not None:
                self._labels.append(attributes.get("label", ""))

    def _end(self, name: str) -> None:
        if name != "image" or not self._labels:
            return
        self._number += 1
        row = rows.Row(self._number, {"input": self._name, "label": self._labels[0]})
        if len(self._labels) > 1:
            message = f"it has {len(self._labels)} tags; it must have one"
            row = row.without("label", message)
        self._found.append(row)


# A document is parsed as a whole, which takes many times its size in memory; the
# other kinds are read row by row.
LARGEST_DOCUMENT = 32 * 2**20
LARGE_DOCUMENT = "too large for JSON; send JSON Lines instead"
GZIP = b"\x1f\x8b"
_WHOLE = {"parquet", "arrow", "xlsx"}
_BEGINNINGS = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "xlsx",
    b"ARRO": "arrow",
    b"\xff\xff\xff\xff": "arrow",
}
# A value that JSON does not have, by the name of its type; no name of a column is so.
_TYPE = "\0"


def read_pieces(  # noqa: PLR0913 - what is read and how.
    kind: str,
    stream: BinaryIO,
    notes: list[str],
    *,
    most_unpacked: int,
    columns: Mapping[str, str] = NO_COLUMNS,
    table: Mapping[str, Any] = NO_COLUMNS,
) -> Iterator[rows.Piece]:
    """Read *stream*, packed or not; what is to be said of it goes to *notes*.

    *columns* are by field those that were named, *table* says which sheet and which
    row names the columns.
    """
    how = _How(notes, Unpacked(most_unpacked), columns, table)
    stream.seek(0)
    is_packed = stream.read(2) == GZIP
    stream.seek(0)
    if not is_packed:
        yield from _read(kind, stream, how)
        return
    broken = refusing("it is not gzip", gzip.BadGzipFile, EOFError, zlib.error)
    packed = cast("io.RawIOBase", _Counted(stream, how.unpacked))
    with broken, io.BufferedReader(packed) as content:
        if kind in _WHOLE:
            with tempfile.TemporaryFile() as spool:
                shutil.copyfileobj(content, spool)
                spool.seek(0)
                yield from _read(kind, cast("BinaryIO", spool), how)
        else:
            yield from _read(kind, content, how)


class _Counted(gzip.GzipFile):
    """A packed file, of which no more is unpacked than is allowed."""

    def __init__(self, stream: BinaryIO, unpacked: Unpacked) -> None:
        super().__init__(fileobj=stream)
        self._unpacked = unpacked
        self._furthest = 0

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        # A text is read from its start again once its encoding is known.
        further = self.tell() - self._furthest
        if further > 0:
            self._furthest += further
            self._unpacked.add(further)
        return content


@dataclass(frozen=True, slots=True)
class _How:
    """How a file is read, and what is noted of it."""

    notes: list[str]
    unpacked: Unpacked
    columns: Mapping[str, str]
    table: Mapping[str, Any]


def _read(kind: str, stream: BinaryIO, how: _How) -> Iterator[rows.Piece]:  # noqa: PLR0911
    match kind:
        case "csv":
            return tables.csv_pieces(stream, how.notes, how.table.get("header_row"))
        case "jsonl":
            return read_records(
                rows.jsonl_pieces(stream), SHAPES, how.columns, how.notes
            )
        case "json":
            return _read_json(stream, how)
        case "parquet":
            return tables.parquet_pieces(stream, how.unpacked)
        case "arrow":
            return tables.arrow_pieces(stream, how.unpacked)
        case "xml":
            how.notes.append("the file was read as annotations of CVAT")
            return rows.iter_pieces(_Tags().rows(stream))
    names: list[str] = []
    # What is no zip file is refused as no workbook.
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(stream) as archive:
        names = [one.filename for one in archive.infolist() if not one.is_dir()]
    stream.seek(0)
    if HEADER in names:
        log = read_log(stream, how.unpacked)
        return document_pieces(log, how.columns, how.notes)
    # macOS puts something beside each file.
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) == 1:
        return _read_zipped(stream, names[0], how)
    return tables.excel_pieces(stream, how.notes, how.unpacked, **how.table)


def _read_zipped(stream: BinaryIO, name: str, how: _How) -> Iterator[rows.Piece]:
    with (
        refusing("it cannot be unpacked", *BROKEN_ZIP),
        zipfile.ZipFile(stream) as archive,
        archive.open(name) as packed,
        tempfile.TemporaryFile() as spool,
    ):
        while content := packed.read(_PIECE):
            how.unpacked.add(len(content))
            spool.write(content)
        whole = cast("BinaryIO", spool)
        kind = guess_format(whole)
        spool.seek(0)
        how.notes.append(f"the file {name} in the zip file was read")
        if kind == "xlsx":
            notes, unpacked = how.notes, how.unpacked
            yield from tables.excel_pieces(whole, notes, unpacked, **how.table)
        else:
            yield from _read(kind, whole, how)


def guess_format(stream: BinaryIO) -> str:
    """Return in which format the bytes of *stream* are."""
    stream.seek(0)
    start = stream.read(2**16)
    if start.startswith(GZIP):
        try:
            start = zlib.decompressobj(wbits=31).decompress(start, 2**16)
        except zlib.error:
            return "csv"
    if start[:4] in _BEGINNINGS:
        return _BEGINNINGS[start[:4]]
    return _guess_text(start.removeprefix(b"\xef\xbb\xbf").lstrip())


def _guess_text(text: bytes) -> str:
    if text.startswith((b"<?xml", b"<annotations")):
        return "xml"
    if text.startswith(b"["):
        return "json"
    if not text.startswith(b"{"):
        return "csv"
    first, _, rest = text.partition(b"\n")
    try:
        load_json(first)
    except ValueError:
        return "json"
    return "jsonl" if rest.strip().startswith(b"{") else "json"


def _read_json(stream: BinaryIO, how: _How) -> Iterator[rows.Piece]:
    text = stream.read(LARGEST_DOCUMENT + 1)
    if len(text) > LARGEST_DOCUMENT:
        raise rows.wrong_file(LARGE_DOCUMENT)
    try:
        body = load_json(text.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        if "Extra data" in str(error):
            return _read("jsonl", io.BytesIO(text), how)
        raise InvalidInputError.of(
            "body", f"it is not JSON: {show_reason(error)}"
        ) from error
    return document_pieces(body, how.columns, how.notes)


def prepare(kind: str, **_: Any) -> None:
    """Load what is heavy, before the process copies itself for a file."""
    if kind in {"parquet", "arrow"}:
        # Heavy, and only for files of this kind.
        import pyarrow.parquet  # noqa: F401, PLC0415


def work(channel: Channel, file: SharedFile, *, kind: str, **options: Any) -> None:
    """Send the pieces of *file* with what is noted, and how far it was read."""
    notes: list[str] = []
    stream = io.BufferedReader(file, 2**18)
    for piece in read_pieces(kind, stream, notes, **options):
        for text in _dump_pieces(piece, notes, file):
            channel.send_json(text)
            allow_time(_SECONDS_EACH)
            notes.clear()
    channel.send([None, notes, file.furthest])


def _dump_pieces(
    piece: rows.Piece, notes: list[str], file: SharedFile
) -> Iterator[bytes]:
    """Return *piece* as messages of bounded size, whose values are bounded with it."""
    odd = [
        (number, [(one.field, one.message) for one in errors], nulls)
        for number, (errors, nulls) in piece.odd.items()
    ]
    text = dump([[*piece[:-1], odd], notes, file.furthest], _dump_value)
    middle = piece.size // 2
    if len(text) > rows.PIECE_BYTES and middle:
        for part in (piece.part(0, middle), piece.part(middle, piece.size)):
            yield from _dump_pieces(part, notes, file)
        return
    # A cell of CSV is a text, however long; others take many times their size.
    if len(text) > rows.LONGEST_ROW and not (
        piece.has_header
        and all(piece.types(name) <= {str, NoneType} for name in piece.names)
    ):
        raise rows.wrong_file(
            f"row {piece.first:,} is longer than {rows.LONGEST_ROW:,} bytes"
        )
    yield text


# Values of Parquet and Excel that JSON does not have, the narrower type first: how each
# is written, and read again.
_VALUES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "duration": (
        timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
    "number": (numbers.Real, float, float),
}


def _dump_value(value: Any) -> Any:
    for name, (kind, write, _) in _VALUES.items():
        if isinstance(value, kind):
            return {_TYPE: name, "is": write(value)}
    return str(value)


def load_value(said: dict[str, Any]) -> Any:
    """Return the value that an object of a message stands for, itself if for none."""
    if said.keys() == {_TYPE, "is"} and said[_TYPE] in _VALUES:
        return _VALUES[said[_TYPE]][2](said["is"])
    return said
