"""A file of rows, and how its name, its media type or its bytes say what it is."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import SEEK_END
from pathlib import PurePath
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.documents import NO_COLUMNS, document_pieces
from tracker.services.imports.reading.kinds import (
    GZIP,
    LARGE_DOCUMENT,
    LARGEST_DOCUMENT,
    guess_format,
    load_piece,
    load_value,
    read_pieces,
)
from tracker.services.imports.reading.mapping import MappedRows
from tracker.services.imports.reading.rows import RawPiece
from tracker.services.imports.saved import load_mapping
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.sandbox.readers import reading
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
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xml": "xml",
    ".eval": "xlsx",
    ".zip": "xlsx",
    ".manifest": "jsonl",
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
    "application/zip": None,
}
# What is as small is read by the process that got it, if it is text.
SMALL = 2**20
_TEXTS = {"csv", "jsonl", "json"}
# These have values that JSON has not.
_TYPED = {"parquet", "arrow", "xlsx"}


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
    _place: list[int] = field(default_factory=lambda: [0], repr=False, compare=False)

    @property
    def size(self) -> int:
        return self.stream.seek(0, SEEK_END)

    @property
    def bytes_read(self) -> int:
        return self._place[0]

    def read_by(self, choices: Choices) -> "RowFile":
        return replace(self, choices=choices)

    def rows(self, detector: Detector) -> MappedRows:
        """Read the rows from the first one on, as fields of a query of *detector*."""
        notes: list[str] = []
        choices = self.choices.join(load_mapping(detector))
        table = {"sheet": choices.sheet, "header_row": choices.header_row}
        pieces = self.pieces(notes, choices.remembered | choices.columns, table)
        return MappedRows(pieces, detector, choices, notes=notes)

    def pieces(
        self,
        notes: list[str],
        columns: Mapping[str, str] = NO_COLUMNS,
        table: Mapping[str, Any] = NO_COLUMNS,
    ) -> Generator[RawPiece]:
        """Read the rows by the names of the columns; see ``read_pieces``."""
        if self.document is not None:
            yield from document_pieces(self.document, columns, notes)
            return
        read: Callable[..., Iterator[RawPiece]] = partial(
            read_apart, on_read=self._note
        )
        if self._is_read_here():
            self._note(self.size)
            read = read_pieces
        yield from read(
            self.format,
            self.stream,
            notes,
            most_unpacked=self.most_unpacked,
            columns=columns,
            table=table,
        )

    def _is_read_here(self) -> bool:
        """Whether it is a small text, which takes no process of its own."""
        if self.format not in _TEXTS or self.size > SMALL:
            return False
        self.stream.seek(0)
        return self.stream.read(2) != GZIP

    def _note(self, place: int) -> None:
        self._place[0] = place


def read_apart(  # noqa: PLR0913 - how it is read.
    kind: str,
    stream: BinaryIO,
    notes: list[str],
    *,
    most_unpacked: int = MOST_UNPACKED,
    columns: Mapping[str, str] = NO_COLUMNS,
    table: Mapping[str, Any] = NO_COLUMNS,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[RawPiece]:
    """Read a file in a process of its own, which it may end; see ``read_pieces``."""
    hook = load_value if kind in _TYPED else None
    options: dict[str, Any] = {"most_unpacked": most_unpacked, "columns": dict(columns)}
    options["table"] = dict(table)
    with reading("rows", stream, kind=kind, **options) as reader:
        while True:
            (piece, new, place), _ = reader.answer(hook)
            notes += new
            if on_read is not None:
                on_read(place)
            if piece is None:
                return
            yield load_piece(piece)


def open_named(
    stream: BinaryIO, name: str, *, most_unpacked: int = MOST_UNPACKED
) -> RowFile:
    """Return the file of that *name*, in the format that its bytes say.

    Raises InvalidInputError for JSON that is too large.
    """
    suffix = PurePath(name.lower().removesuffix(_PACKED)).suffix
    guessed = guess_format(stream)
    # Of texts alone the name says more: JSON may be one line of JSON Lines.
    kind = BY_SUFFIX.get(suffix, guessed) if guessed in _TEXTS else guessed
    stream.seek(0)
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    file = RowFile(kind, digest, stream, most_unpacked=most_unpacked)
    if kind == "json" and file.size > LARGEST_DOCUMENT:
        raise InvalidInputError.of("file", LARGE_DOCUMENT)
    return file
