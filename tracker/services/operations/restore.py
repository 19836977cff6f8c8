"""Reading a backup: checked to the last byte before anything is written."""

import hashlib
import hmac
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer, Table, Text
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.fields import is_storable
from tracker.services.images import MEDIA_TYPES
from tracker.services.operations.backup import (
    FORMAT,
    MANIFEST,
    SEAL_BYTES,
    Manifest,
    OnProgress,
    TableEntry,
    compute_seal,
    member_of,
)
from tracker.services.strict_json import load_json
from tracker.services.wording import show
from tracker.storage.base import UtcDateTime
from tracker.storage.dialect import gather_statistics
from tracker.storage.images import ImageStore
from tracker.storage.operations import backup as storage
from tracker.storage.operations.schema import head_revision

_ROWS = 5_000
# What a backup of ten million images that are all missing would need is no backup.
_LARGEST_MANIFEST_BYTES = 16 * 2**20
_LARGEST_IMAGE_BYTES = 64 * 2**20
_LONGEST_ROW_BYTES = 16 * 2**20
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(MEDIA_TYPES)})")
_IMAGE = re.compile(rf"images/([0-9a-f]{{64}})\.({'|'.join(MEDIA_TYPES)})")
# What the library raises where a zip contradicts itself.
_SIGNS_OF_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    RuntimeError,
    RecursionError,
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
        gather_statistics(session, [table.name for table in storage.list_tables()])

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
def open_backup(
    path: Path, on_progress: OnProgress, *, key: str = ""
) -> Iterator[BackupReader]:
    """Open the backup at *path* after a check of all that is in it.

    Raises InvalidInputError for a file that is damaged, no backup at all, or one
    of another format or revision than this program's.
    """
    _check_seal(path, key)
    with _named_damage(), zipfile.ZipFile(path) as archive:
        manifest = _read_manifest(archive)
        _check_members(archive, manifest)
        for entry in manifest.tables:
            _check_table(archive, entry, on_progress)
        for name in _image_members(archive):
            if archive.getinfo(name).file_size > _LARGEST_IMAGE_BYTES:
                raise _damaged(f"{name} is larger than an image may be")
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


def _check_seal(path: Path, key: str) -> None:
    with path.open("rb") as file:
        seal = compute_seal(file, key)
        file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_BYTES))
        if hmac.compare_digest(file.read(), seal):
            return
    if key:
        raise InvalidInputError.of(
            "FILE",
            "it is not signed by TRACKER_BACKUP_KEY: it was changed, signed by another "
            "key, or not at all; nothing was written",
        )
    raise _damaged(
        "its last bytes do not fit the others, or it is signed and TRACKER_BACKUP_KEY "
        "is missing"
    )


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    size = archive.getinfo(MANIFEST).file_size
    if size > _LARGEST_MANIFEST_BYTES:
        raise _damaged(
            f"its manifest has {size:,} bytes, far more than a manifest needs"
        )
    said = json.loads(archive.read(MANIFEST))
    if not isinstance(said, dict):
        raise _damaged("its manifest is no JSON object")
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
    (table,) = (one for one in storage.list_tables() if one.name == entry.name)
    checks = [_check_of(column) for column in table.c]
    with archive.open(member_of(entry.name)) as member:
        while line := member.readline(_LONGEST_ROW_BYTES):
            digest.update(line)
            rows += 1
            _check_row(entry.name, rows, checks, line)
            if rows % _ROWS == 0:
                on_progress(f"Checking {entry.name}", _ROWS)
    if (digest.hexdigest(), rows) != (entry.sha256, entry.rows):
        raise _damaged(f"the table {entry.name} is not what the manifest says")


def _check_row(
    table: str, number: int, checks: Sequence[Callable[[Any], bool]], line: bytes
) -> None:
    try:
        row = load_json(line) if line.endswith(b"\n") else None
    except ValueError:
        row = None
    if not isinstance(row, list) or len(row) != len(checks):
        raise _damaged(f"row {number:,} of {table} is no row of that table")
    for place, (value, check) in enumerate(zip(row, checks, strict=True), start=1):
        if not check(value):
            raise _damaged(
                f"row {number:,} of {table} has {show(value)} in column {place}"
            )


def _check_of(column: Column[Any]) -> Callable[[Any], bool]:
    """Return what tells whether a value may stand in *column*."""
    check = _check_of_type(column)
    return lambda value: (
        (value is None and column.nullable) or (value is not None and check(value))
    )


def _check_of_type(column: Column[Any]) -> Callable[[Any], bool]:
    if column.name == "image" and isinstance(column.type, Text):
        # It becomes a path.
        return lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value))
    return next(
        (check for kind, check in _CHECKS.items() if isinstance(column.type, kind)),
        lambda _value: True,
    )


def _is_instant(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


# A boolean is a kind of number in Python, and in no column.
_CHECKS: dict[Any, Callable[[Any], bool]] = {
    UtcDateTime: _is_instant,
    Boolean: lambda value: isinstance(value, bool),
    Float: lambda value: type(value) in {int, float} and math.isfinite(value),
    Integer: lambda value: type(value) is int and -(2**63) <= value < 2**63,
    Text: lambda value: isinstance(value, str) and is_storable(value),
}


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
