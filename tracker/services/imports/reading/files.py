"""A file of rows, and how its name, its media type or its bytes say what it is."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import SEEK_END
from pathlib import PurePath
from typing import Any, BinaryIO

from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError
from tracker.services.by import By
from tracker.services.imports.reading import kinds
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.choices import Mapping as SavedMapping
from tracker.services.imports.reading.documents import NO_COLUMNS, document_pieces
from tracker.services.imports.reading.mapping import MappedRows
from tracker.services.imports.reading.rows import Piece
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.sandbox.readers import reading
from tracker.services.wording import show
from tracker.storage.detectors import Detector
from tracker.words import UNCLEAR

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
# Smaller texts are read by the process that received them.
SMALL = 2**20
_TEXTS = {"csv", "jsonl", "json"}
# Formats with types that JSON lacks.
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
        return MappedRows(pieces, detector, choices, notes)

    def pieces(
        self,
        notes: list[str],
        columns: Mapping[str, str] = NO_COLUMNS,
        table: Mapping[str, Any] = NO_COLUMNS,
    ) -> Generator[Piece]:
        """Read the rows by the names of the columns; see ``read_pieces``."""
        if self.document is not None:
            yield from document_pieces(self.document, columns, notes)
            return
        read: Callable[..., Iterator[Piece]] = partial(read_apart, place=self._place)
        if self.format in _TEXTS and self.size <= SMALL:
            self.stream.seek(0)
            # A small text takes no process of its own.
            if self.stream.read(2) != kinds.GZIP:
                self._place[0] = self.size
                read = kinds.read_pieces
        yield from read(
            self.format,
            self.stream,
            notes,
            most_unpacked=self.most_unpacked,
            columns=dict(columns),
            table=dict(table),
        )


def read_apart(
    kind: str, stream: BinaryIO, notes: list[str], *, place: list[int], **options: Any
) -> Iterator[Piece]:
    """Read a file in a process of its own, which it may end; see ``read_pieces``.

    How far it was read is noted in *place*.
    """
    hook = kinds.load_value if kind in _TYPED else None
    with reading("rows", stream, kind=kind, **options) as reader:
        while True:
            (piece, new, place[0]), _ = reader.answer(hook)
            notes += new
            if piece is None:
                return
            *fields, odd = piece
            found = {
                number: (tuple(FieldError(*one) for one in errors), tuple(nulls))
                for number, errors, nulls in odd
            }
            yield Piece(*fields)._replace(odd=found)


def open_named(
    stream: BinaryIO, name: str, *, most_unpacked: int = MOST_UNPACKED
) -> RowFile:
    """Return the file of that *name*, in the format that its bytes say.

    Raises InvalidInputError for JSON that is too large.
    """
    suffix = PurePath(name.lower().removesuffix(_PACKED)).suffix
    guessed = kinds.guess_format(stream)
    # Of texts alone the name says more: JSON may be one line of JSON Lines.
    kind = BY_SUFFIX.get(suffix, guessed) if guessed in _TEXTS else guessed
    stream.seek(0)
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    file = RowFile(kind, digest, stream, most_unpacked=most_unpacked)
    if kind == "json" and file.size > kinds.LARGEST_DOCUMENT:
        raise InvalidInputError.of("file", kinds.LARGE_DOCUMENT)
    return file


def load_mapping(detector: Detector) -> SavedMapping:
    """Return the mapping saved with a detector, an empty one if there is none."""
    return SavedMapping(**(detector.import_mapping or {}))


def save_mapping(
    session: Session, detector: Detector, mapping: SavedMapping, by: By
) -> SavedMapping:
    """Replace the saved mapping with *mapping* and return it; an empty one removes it.

    Raises InvalidInputError for a class that the detector does not have.
    """
    known = (*detector.classes, UNCLEAR)
    wrong = [
        FieldError(
            "class", f"{show(name)}, for {show(value)}, is not a class of the detector"
        )
        for value, name in mapping.classes.items()
        if name not in known
    ]
    if wrong:
        raise InvalidInputError(wrong)
    found = mapping.model_dump(exclude_defaults=True) or None
    if found != detector.import_mapping:
        detector.import_mapping = found
        session.flush()
        by.record(session, "import mapping saved", detector.name, **(found or {}))
    return mapping
