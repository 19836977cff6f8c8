"""Logs of inspect_ai, which are zip files, and annotations of CVAT, which are XML."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from os import SEEK_CUR
from typing import Any, BinaryIO
from xml.parsers import expat

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.rows import (
    LONGEST_ROW,
    RawPiece,
    Row,
    iter_pieces,
)
from tracker.services.sandbox.limits import Unpacked
from tracker.services.strict_json import load_json
from tracker.services.wording import show_reason

HEADER = "header.json"
_SAMPLES = "samples/"
_PIECE = 2**20
# How inspect_ai packs the parts of a log.
_ZSTANDARD = 93
_LOCAL_HEADER = 30


def is_log(stream: BinaryIO) -> bool:
    """Return whether a zip file is a log of inspect_ai."""
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        names = []
    stream.seek(0)
    return HEADER in names


def read_log(stream: BinaryIO, unpacked: Unpacked) -> dict[str, Any]:
    """Return a log as its JSON has it, with the samples one after the other."""

    def load(name: str) -> Any:
        content = _read_part(stream, archive, name)
        unpacked.add(len(content))
        if len(content) > LONGEST_ROW:
            raise InvalidInputError.of(
                "file", f"{name} is longer than {LONGEST_ROW:,} bytes"
            )
        return load_json(content)

    try:
        with zipfile.ZipFile(stream) as archive:
            names = [n for n in archive.namelist() if n.startswith(_SAMPLES)]
            return {**load(HEADER), "samples": [load(name) for name in names]}
    except (
        EOFError,
        NotImplementedError,
        RuntimeError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InvalidInputError.of(
            "file", f"it is not a log of inspect_ai: {show_reason(error)}"
        ) from error


def _read_part(stream: BinaryIO, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return what a zip file has of *name*, up to a byte more than a row may have."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        with archive.open(name) as part:
            return part.read(LONGEST_ROW + 1)
    # Heavy, and only for these: Python itself unpacks it from 3.14 on.
    import pyarrow as pa  # noqa: PLC0415

    # The name and what follows it may be longer here than in the list of all.
    stream.seek(info.header_offset + _LOCAL_HEADER - 4)
    sizes = [int.from_bytes(stream.read(2), "little") for _ in range(2)]
    stream.seek(sum(sizes), SEEK_CUR)
    packed = io.BytesIO(stream.read(min(info.compress_size, LONGEST_ROW)))
    try:
        unpacked = pa.CompressedInputStream(packed, "zstd")
        return bytes(unpacked.read(LONGEST_ROW + 1))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error


def xml_pieces(stream: BinaryIO, notes: list[str]) -> Iterator[RawPiece]:
    """Read the tags of images, as "CVAT for images" has them, as labels by name."""
    reader = _Tags()
    notes.append("the file was read as annotations of CVAT")
    return iter_pieces(reader.rows(stream))


class _Tags:
    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity
        self._name: str | None = None
        self._labels: list[str] = []
        self._found: list[Row] = []
        self._number = 0
        self._is_cvat = False

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        try:
            while content := stream.read(_PIECE):
                self._parser.Parse(content)
                yield from self._found
                self._found.clear()
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise InvalidInputError.of(
                "file", f"it is not XML: {show_reason(error)}"
            ) from error
        if not self._is_cvat:
            raise InvalidInputError.of(
                "file", "it is not of CVAT, whose annotations are the only XML read"
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
        row = Row(self._number, {"input": self._name, "label": self._labels[0]})
        if len(self._labels) > 1:
            message = f"it has {len(self._labels)} tags; it must have one"
            row = row.without("label", message)
        self._found.append(row)

    def _refuse_entity(self, *_: Any) -> None:
        raise InvalidInputError.of("file", "its XML has entities, which are not read")
