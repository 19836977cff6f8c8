"""A backup: one file with everything, the same format for both databases.

It is a zip of ``manifest.json``, every table as JSON Lines and the images.  Its last
bytes, the comment of the zip, are the hash of all bytes before them.
"""

import hashlib
import hmac
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Table
from sqlalchemy.orm import Session

from tracker.storage.images import ImageStore, is_whole, sync_folder
from tracker.storage.operations import backup as storage
from tracker.storage.operations.schema import head_revision

FORMAT = 1
MANIFEST = "manifest.json"
SEAL_BYTES = 64
_PIECE = 2**20
_ROWS = 5_000
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat
).encode
OnProgress = Callable[[str, int], None]


class TableEntry(BaseModel):
    """The entry of a table in the manifest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    columns: list[str]
    rows: int = Field(ge=0)
    sha256: str
    # The last id that the database assigned; its row may be deleted.
    last_id: int | None = Field(ge=1, lt=2**63)


class Manifest(BaseModel):
    """The manifest of a backup; each image is named by its own hash."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int
    revision: str
    created_at: datetime
    tables: list[TableEntry]
    images: int = Field(ge=0)
    missing_images: list[str]


class BackupWriter:
    """Writes a backup: first the tables, then the images, at last the manifest."""

    def __init__(self, archive: zipfile.ZipFile, on_progress: OnProgress) -> None:
        self._archive = archive
        self._on_progress = on_progress
        self._tables: list[TableEntry] = []
        self._images: list[str] = []

    def add_tables(self, session: Session) -> None:
        for table in storage.list_tables():
            self._tables.append(self._add_table(session, table))
        self._images = sorted(storage.iter_image_names(session))

    def _add_table(self, session: Session, table: Table) -> TableEntry:
        digest = hashlib.sha256()
        written = 0
        with (
            # Closed before the session: on a full disk the cursor would outlive it.
            closing(storage.iter_table(session, table)) as rows,
            self._archive.open(member_of(table.name), "w", force_zip64=True) as member,
        ):
            while chunk := list(islice(rows, _ROWS)):
                lines = "".join(f"{_encode(tuple(row))}\n" for row in chunk).encode()
                member.write(lines)
                digest.update(lines)
                written += len(chunk)
                self._on_progress(f"Writing {table.name}", len(chunk))
        return TableEntry(
            name=table.name,
            columns=[column.name for column in table.c],
            rows=written,
            sha256=digest.hexdigest(),
            last_id=storage.find_last_id(session, table),
        )

    def finish(self, images: ImageStore, *, created_at: datetime) -> Manifest:
        """Write the images of queries and the manifest, which names missing images.

        Damaged images are left out too.  Erasing deletes an image without waiting for
        the transaction of the tables, so an erased image is missing here.
        """
        missing = []
        for name in self._images:
            try:
                content = images.get(name)
            except FileNotFoundError:
                content = b""
            if not is_whole(name, content):
                missing.append(name)
                continue
            # A ZipInfo is stored uncompressed.
            self._archive.writestr(zipfile.ZipInfo(f"images/{name}"), content)
            self._on_progress("Writing images", 1)
        manifest = Manifest(
            format=FORMAT,
            revision=head_revision(),
            created_at=created_at,
            tables=self._tables,
            images=len(self._images) - len(missing),
            missing_images=missing,
        )
        self._archive.writestr(MANIFEST, manifest.model_dump_json(indent=1))
        return manifest


@contextmanager
def create_backup(
    path: Path, on_progress: OnProgress, *, key: str = ""
) -> Iterator[BackupWriter]:
    """Open a backup that is at *path*, complete, once the block ends; or is not.

    It is signed with *key*, if there is one.  Only its owner can read it, because it
    has the hashes of keys.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(
                file, "w", zipfile.ZIP_DEFLATED, compresslevel=3
            ) as archive:
                yield BackupWriter(archive, on_progress)
                archive.comment = b"0" * SEAL_BYTES
            seal = compute_seal(file, key)
            file.seek(-SEAL_BYTES, os.SEEK_END)
            file.write(seal)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def compute_seal(file: IO[Any], key: str) -> bytes:
    """Return the hash of *file* without its last bytes, where the hash goes.

    With a *key* it is a signature, HMAC-SHA256 (RFC 2104).
    """
    left = file.seek(0, os.SEEK_END) - SEAL_BYTES
    file.seek(0)
    digest = hmac.new(key.encode(), digestmod="sha256") if key else hashlib.sha256()
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest().encode()


def member_of(table: str) -> str:
    return f"tables/{table}.jsonl"
