"""Reading a backup: checked to the last byte before anything is written."""

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.backup import (
    FORMAT,
    MANIFEST,
    SEAL_BYTES,
    Manifest,
    OnProgress,
    TableEntry,
    compute_seal,
    member_of,
)
from tracker.services.images import MEDIA_TYPES
from tracker.storage import backup as storage
from tracker.storage.base import UtcDateTime
from tracker.storage.images import ImageStore
from tracker.storage.schema import head_revision

_PIECE = 2**20
_ROWS = 5_000
_IMAGE = re.compile(rf"images/([0-9a-f]{{64}})\.({'|'.join(MEDIA_TYPES)})")
# What the library raises where a zip contradicts itself.
_SIGNS_OF_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)


class BackupReader:
    """A backup whose every member is what the manifest says."""

    def __init__(
        self, archive: zipfile.ZipFile, manifest: Manifest, on_progress: OnProgress
    ) -> None:
        """Read from *archive*, which ``open_backup`` has checked."""
        self._archive = archive
        self.manifest = manifest
        self._on_progress = on_progress

    def write_images(self, images: ImageStore) -> None:
        """Store every image; one that is there already is left as it is."""
        for name in _image_members(self._archive):
            images.put(self._archive.read(name), name.rpartition(".")[2])
            self._on_progress("Writing images", 1)

    def write_tables(self, session: Session) -> None:
        """Insert every row with its id, and go on counting where the backup was.

        Raises ConflictError unless the database is empty.
        """
        storage.lock_tables(session)
        check_is_empty(session)
        entries = {entry.name: entry for entry in self.manifest.tables}
        for table in storage.list_tables():
            for rows in self._iter_chunks(table):
                storage.add_table_rows(session, table, rows)
                self._on_progress(f"Writing {table.name}", len(rows))
            last_id = entries[table.name].last_id
            if last_id is not None:
                storage.set_last_id(session, table, last_id)
        storage.gather_statistics(session)

    def _iter_chunks(self, table: Table) -> Iterator[list[Sequence[Any]]]:
        instants = [
            place
            for place, column in enumerate(table.c)
            if isinstance(column.type, UtcDateTime)
        ]
        with self._archive.open(member_of(table.name)) as lines:
            while chunk := list(islice(lines, _ROWS)):
                rows = [json.loads(line) for line in chunk]
                for row in rows:
                    for place in instants:
                        if row[place] is not None:
                            row[place] = datetime.fromisoformat(row[place])
                yield rows


@contextmanager
def open_backup(path: Path, on_progress: OnProgress) -> Iterator[BackupReader]:
    """Open the backup at *path* after a check of all that is in it.

    Raises InvalidInputError for a file that is damaged, no backup at all, or one
    of another format or revision than this program's.
    """
    _check_seal(path)
    with _named_damage(), zipfile.ZipFile(path) as archive:
        manifest = _read_manifest(archive)
        _check_members(archive, manifest)
        for entry in manifest.tables:
            _check_table(archive, entry, on_progress)
        for name in _image_members(archive):
            if hashlib.sha256(archive.read(name)).hexdigest() not in name:
                raise _damaged(f"{name} is not what its name says")
            on_progress("Checking images", 1)
    with zipfile.ZipFile(path) as archive:
        yield BackupReader(archive, manifest, on_progress)


def check_is_empty(session: Session) -> None:
    """Raise ConflictError if any table holds a row."""
    filled = storage.find_filled_table(session)
    if filled is not None:
        raise ConflictError(
            f"the database is not empty: the table {filled} holds rows, and a backup "
            "is not mixed with what is there. Name an empty database in "
            "TRACKER_DATABASE_URL; nothing was written"
        )


def _check_seal(path: Path) -> None:
    with path.open("rb") as file:
        seal = compute_seal(file)
        file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_BYTES))
        if file.read() != seal:
            raise _damaged("its last bytes do not fit the others")


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    said = json.loads(archive.read(MANIFEST))
    # A later format may have a manifest of another shape, so this comes first.
    for name, mine in (("format", FORMAT), ("revision", head_revision())):
        if said[name] != mine:
            raise InvalidInputError.of(
                "FILE",
                f"the backup is of {name} {said[name]}, this program of {mine}: "
                "restore it with the version of the program that made it, then "
                "upgrade; nothing was written",
            )
    return Manifest.model_validate_json(json.dumps(said))


def _check_members(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    tables = {table.name: [c.name for c in table.c] for table in storage.list_tables()}
    if {entry.name: entry.columns for entry in manifest.tables} != tables:
        raise _damaged("its tables are not those of this program")
    images = _image_members(archive)
    expected = [MANIFEST, *map(member_of, tables), *images]
    strange = set(archive.namelist()) - set(expected)
    if strange:
        raise _damaged(f"it holds {min(strange)!r}, which is no part of a backup")
    if sorted(expected) != sorted(archive.namelist()) or len(images) != manifest.images:
        raise _damaged("a part is missing or stands there twice")


def _check_table(
    archive: zipfile.ZipFile, entry: TableEntry, on_progress: OnProgress
) -> None:
    digest = hashlib.sha256()
    rows = 0
    with archive.open(member_of(entry.name)) as member:
        while piece := member.read(_PIECE):
            digest.update(piece)
            rows += piece.count(b"\n")
            on_progress(f"Checking {entry.name}", piece.count(b"\n"))
    if (digest.hexdigest(), rows) != (entry.sha256, entry.rows):
        raise _damaged(f"the table {entry.name} is not what the manifest says")


def _image_members(archive: zipfile.ZipFile) -> list[str]:
    # The names come from the file and become paths, so nothing but a hash passes.
    return [name for name in archive.namelist() if _IMAGE.fullmatch(name)]


@contextmanager
def _named_damage() -> Iterator[None]:
    try:
        yield
    except _SIGNS_OF_DAMAGE as error:
        raise _damaged(str(error) or type(error).__name__) from error


def _damaged(reason: str) -> InvalidInputError:
    return InvalidInputError.of(
        "FILE", f"it is damaged or no backup: {reason}; nothing was written"
    )
