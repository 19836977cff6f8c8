"""Reading a backup: checked to the last byte before anything is written."""

import hashlib
import hmac
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Table
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.images import MEDIA_TYPES
from tracker.services.operations.backup import (
    FORMAT,
    MANIFEST,
    SEAL_BYTES,
    Manifest,
    OnProgress,
    compute_seal,
    member_of,
)
from tracker.services.operations.restored_rows import RowChecker
from tracker.services.sandbox.readers import reading
from tracker.services.wording import describe_errors, show, show_name
from tracker.storage.base import UtcDateTime
from tracker.storage.dialect import gather_statistics
from tracker.storage.images import ImageStore
from tracker.storage.operations import backup as storage
from tracker.storage.operations.schema import head_revision

_ROWS = 5_000
# What a backup of ten million images that are all missing would need is no backup.
_LARGEST_MANIFEST_BYTES = 16 * 2**20
_LARGEST_IMAGE_BYTES = 64 * 2**20
# Of processor time, for an image.
_SECONDS = 10
_LONGEST_ROW_BYTES = 64 * 2**20
# So many bytes of rows are written at once; most rows have a few hundred.
_CHUNK_BYTES = 4 * 2**20
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
    struct.error,
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

    def write_tables(self, session: Session) -> None:
        """Insert every row with its id, and go on counting where the backup was.

        Raises ConflictError unless the database is empty.
        """
        storage.lock_tables(session)
        check_is_empty(session)
        storage.clear_passing_tasks(session)
        entries = {entry.name: entry for entry in self.manifest.tables}
        for table in storage.list_tables():
            with _named_refusal(table):
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
        rows: list[Sequence[Any]] = []
        size = 0
        with self._archive.open(member_of(table.name)) as lines:
            for line in lines:
                row = json.loads(line)
                for place in instants:
                    if row[place] is not None:
                        row[place] = datetime.fromisoformat(row[place].upper())
                rows.append(row)
                size += len(line)
                if len(rows) == _ROWS or size >= _CHUNK_BYTES:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows

    def write_images(self, session: Session, images: ImageStore) -> None:
        """Store every image; one that is there already is left as it is.

        It comes after the rows, which may be refused, and before they are committed:
        no query is ever seen without its image.
        """
        for name in _image_members(self._archive):
            images.put(self._archive.read(name), name.rpartition(".")[2])
            storage.keep_alive(session)
            self._on_progress("Writing images", 1)


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
        _check_compression(archive)
        manifest = _read_manifest(archive)
        _check_members(archive, manifest)
        _check_tables(archive, manifest, on_progress)
        _check_images(archive, on_progress)
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


def _check_compression(archive: zipfile.ZipFile) -> None:
    for member in archive.infolist():
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _damaged(f"{show(member.filename)} is packed in another way")


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    said = json.loads(_read(archive, MANIFEST, _LARGEST_MANIFEST_BYTES))
    if not isinstance(said, dict):
        raise _damaged("its manifest is no JSON object")
    # A later format may have a manifest of another shape, so this comes first.
    for name, mine in (("format", FORMAT), ("revision", head_revision())):
        if said[name] != mine:
            raise InvalidInputError.of(
                "FILE",
                f"the backup is of {name} {show(said[name])}, this program of {mine}: "
                "restore it with the version of the program that made it, then "
                "upgrade; nothing was written",
            )
    try:
        return Manifest.model_validate_json(json.dumps(said))
    except ValidationError as error:
        wrong = describe_errors(error)[0]
        raise _damaged(f"its manifest has {wrong.field} {wrong.message}") from error


def _check_members(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    tables = {table.name: [c.name for c in table.c] for table in storage.list_tables()}
    if {entry.name: entry.columns for entry in manifest.tables} != tables:
        raise _damaged("its tables are not those of this program")
    images = _image_members(archive)
    expected = [MANIFEST, *map(member_of, tables), *images]
    strange = set(archive.namelist()) - set(expected)
    if strange:
        raise _damaged(f"it holds {show(min(strange))}, which is no part of a backup")
    if sorted(expected) != sorted(archive.namelist()) or len(images) != manifest.images:
        raise _damaged("a part is missing or stands there twice")


def _check_tables(
    archive: zipfile.ZipFile, manifest: Manifest, on_progress: OnProgress
) -> None:
    entries = {entry.name: entry for entry in manifest.tables}
    checker = RowChecker()
    for table in storage.list_tables():
        check = checker.of_table(table)
        digest = hashlib.sha256()
        rows = 0
        for line in _iter_lines(archive, table):
            digest.update(line)
            rows += 1
            if wrong := check(line):
                raise _damaged(f"row {rows:,} of {table.name} {wrong}")
            if rows % _ROWS == 0:
                on_progress(f"Checking {table.name}", _ROWS)
        entry = entries[table.name]
        if (digest.hexdigest(), rows) != (entry.sha256, entry.rows):
            raise _damaged(f"the table {table.name} is not what the manifest says")


def _iter_lines(archive: zipfile.ZipFile, table: Table) -> Iterator[bytes]:
    with archive.open(member_of(table.name)) as member:
        while line := member.readline(_LONGEST_ROW_BYTES):
            yield line


def _check_images(archive: zipfile.ZipFile, on_progress: OnProgress) -> None:
    names = _image_members(archive)
    if not names:
        return
    with reading("images", seconds=_SECONDS * len(names)) as reader:
        reader.answer()
        for name in names:
            content = _read(archive, name, _LARGEST_IMAGE_BYTES)
            if hashlib.sha256(content).hexdigest() not in name:
                raise _damaged(f"{name} is not what its name says")
            try:
                said, _ = reader.ask({"suffix": name.rpartition(".")[2]}, content)
            except InvalidInputError as error:
                raise _damaged(f"{name}: {error.errors[0].message}") from error
            if "wrong" in said:
                raise _damaged(f"{name}: {said['wrong']}")
            on_progress("Checking images", 1)


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    # Never all at once: a few bytes may unpack into gigabytes, whatever they say.
    with archive.open(name) as member:
        content = member.read(most + 1)
    if len(content) > most:
        raise _damaged(f"{name} has more than {most:,} bytes")
    return content


def _image_members(archive: zipfile.ZipFile) -> list[str]:
    # The names come from the file and become paths, so nothing but a hash passes.
    return [name for name in archive.namelist() if _IMAGE.fullmatch(name)]


@contextmanager
def _named_refusal(table: Table) -> Iterator[None]:
    try:
        yield
    except (DataError, IntegrityError) as error:
        raise _damaged(
            f"the database refuses a row of {table.name}: an id is there twice, say, "
            "or belongs to nothing"
        ) from error


@contextmanager
def _named_damage() -> Iterator[None]:
    try:
        yield
    except _SIGNS_OF_DAMAGE as error:
        raise _damaged(show_name(str(error)) or type(error).__name__) from error


def _damaged(reason: str) -> InvalidInputError:
    return InvalidInputError.of(
        "FILE", f"it is damaged or no backup: {reason}; nothing was written"
    )
