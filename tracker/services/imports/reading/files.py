"""A file of rows, and how its name, its media type or its bytes say what it is."""

import gzip
import hashlib
import io
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import SEEK_END
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.csv_rows import CsvRows
from tracker.services.imports.reading.documents import document_pieces
from tracker.services.imports.reading.excel import excel_pieces
from tracker.services.imports.reading.limits import MOST_UNPACKED, Unpacked
from tracker.services.imports.reading.mapping import MappedRows
from tracker.services.imports.reading.rows import (
    RawPiece,
    jsonl_pieces,
    parquet_pieces,
)
from tracker.services.strict_json import load_json
from tracker.services.wording import show_reason
from tracker.storage.detectors import Detector

BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
_PACKED = ".gz"
# What the name of a file may end in.
SUFFIXES = (*BY_SUFFIX, _PACKED)
# What the API takes besides a JSON document, which it parses itself; of what has no
# name here the bytes say what it is.
BY_MEDIA_TYPE = {
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-ndjson": "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/gzip": None,
    "application/octet-stream": None,
}
# A document is parsed as a whole, which takes many times its size in memory; the
# other kinds are read row by row.
LARGEST_DOCUMENT = 32 * 2**20
_LARGE_DOCUMENT = "too large for JSON; send JSON Lines instead"
_MAGIC = b"\x1f\x8b"
_BEGINNINGS = {b"PAR1": "parquet", b"PK\x03\x04": "xlsx"}


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows that has arrived as a whole, and the hash of its bytes."""

    format: str
    sha256: str
    stream: BinaryIO
    # A JSON document that was parsed when it was checked, and is not parsed again.
    document: Any = None
    choices: Choices = DEFAULT
    # How many bytes it may unpack to.
    most_unpacked: int = MOST_UNPACKED

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.stream.seek(0, SEEK_END)

    def read_by(self, choices: Choices) -> "RowFile":
        """Return the same file, to be read as the choices say."""
        return replace(self, choices=choices)

    def rows(self, detector: Detector) -> MappedRows:
        """Read the rows from the first one on, as fields of a query of *detector*."""
        notes: list[str] = []
        return MappedRows(self._pieces(notes), detector, self.choices, notes=notes)

    def _pieces(self, notes: list[str]) -> Iterator[RawPiece]:
        if self.document is not None:
            yield from document_pieces(self.document)
            return
        unpacked = Unpacked(self.most_unpacked)
        self.stream.seek(0)
        if self.stream.read(2) != _MAGIC:
            self.stream.seek(0)
            yield from _read(self.format, self.stream, notes, unpacked)
            return
        self.stream.seek(0)
        packed = gzip.GzipFile(fileobj=self.stream)
        try:
            with io.BufferedReader(_Counted(packed, unpacked)) as content:
                if self.format in {"parquet", "xlsx"}:
                    with tempfile.TemporaryFile() as spool:
                        shutil.copyfileobj(content, spool)
                        spool.seek(0)
                        stream = cast("BinaryIO", spool)
                        yield from _read(self.format, stream, notes, unpacked)
                else:
                    yield from _read(self.format, content, notes, unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidInputError.of(
                "file", f"it is not gzip: {show_reason(error)}"
            ) from error


class _Counted(io.RawIOBase):
    """What a packed file holds, up to as much as is allowed."""

    def __init__(self, packed: gzip.GzipFile, unpacked: Unpacked) -> None:
        super().__init__()
        self._packed = packed
        self._unpacked = unpacked
        self._furthest = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._packed.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._packed.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        content = self._packed.read(len(buffer))
        # A text is read from its start again once its encoding is known.
        further = self._packed.tell() - self._furthest
        if further > 0:
            self._furthest += further
            self._unpacked.add(further)
        buffer[: len(content)] = content
        return len(content)


def _read(
    kind: str, stream: BinaryIO, notes: list[str], unpacked: Unpacked
) -> Iterator[RawPiece]:
    match kind:
        case "csv":
            return CsvRows(stream, notes=notes).pieces()
        case "jsonl":
            return jsonl_pieces(stream)
        case "parquet":
            return parquet_pieces(stream, unpacked)
        case "xlsx":
            return excel_pieces(stream, notes, unpacked)
        case _:
            return _read_json(stream)


def _read_json(stream: BinaryIO) -> Iterator[RawPiece]:
    """Read a document, or what is one in each line."""
    text = stream.read(LARGEST_DOCUMENT + 1)
    if len(text) > LARGEST_DOCUMENT:
        raise InvalidInputError.of("file", _LARGE_DOCUMENT)
    try:
        body = load_json(text.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        if "Extra data" in str(error):
            return jsonl_pieces(io.BytesIO(text))
        raise InvalidInputError.of(
            "body", f"it is not JSON: {show_reason(error)}"
        ) from error
    return document_pieces(body)


def open_named(
    stream: BinaryIO, name: str, *, most_unpacked: int = MOST_UNPACKED
) -> RowFile:
    """Return the file of that *name*, whose end says in which format it is.

    Without a name the bytes say so.  Raises InvalidInputError for another end, and
    for JSON that is too large.
    """
    path = PurePath(name.lower())
    if path.suffix == _PACKED:
        path = path.with_suffix("")
    kind = BY_SUFFIX.get(path.suffix)
    if not name:
        kind = guess_format(stream)
    if kind is None:
        raise InvalidInputError.of(
            "file", f"its name must end in {', '.join(SUFFIXES)}"
        )
    stream.seek(0)
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    file = RowFile(kind, digest, stream, most_unpacked=most_unpacked)
    if kind == "json" and file.size > LARGEST_DOCUMENT:
        raise InvalidInputError.of("file", _LARGE_DOCUMENT)
    return file


def guess_format(stream: BinaryIO) -> str:
    """Return in which format the bytes of *stream* are."""
    stream.seek(0)
    start = stream.read(2**16)
    if start.startswith(_MAGIC):
        try:
            start = zlib.decompressobj(wbits=31).decompress(start, 2**16)
        except zlib.error:
            return "csv"
    if start[:4] in _BEGINNINGS:
        return _BEGINNINGS[start[:4]]
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
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
