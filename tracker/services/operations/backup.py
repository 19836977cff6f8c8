"""Backup and restore: one file with everything, the same format for both databases.

It is a zip of ``manifest.json``, every table as JSON Lines and the images.  Its last
bytes, the comment of the zip, are the hash of all bytes before them.  It is restored
into an empty database, each row checked before it is written.
"""

import hashlib
import hmac
import json
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services import detectors, fields
from tracker.services.estimates.weeks import Cut
from tracker.services.images import MEDIA_TYPES
from tracker.services.queries.queries import NewTags
from tracker.services.sandbox.channel import BROKEN_ZIP
from tracker.services.sandbox.readers import reading
from tracker.services.telling.webhooks import EventTypes
from tracker.services.wording import describe_errors, show, show_name
from tracker.settings import TimeZone
from tracker.storage.base import TextList, UtcDateTime
from tracker.storage.detectors import list_detectors
from tracker.storage.dialect import gather_statistics
from tracker.storage.images import ImageStore, is_whole, sync_folder
from tracker.storage.operations import backup as storage
from tracker.storage.operations.schema import head_revision
from tracker.storage.queries.finding import index_metadata
from tracker.words import KEY_ROLES, ROLES, UNCLEAR

_FORMAT = 1
_MANIFEST = "manifest.json"
_SEAL_BYTES = 64
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

    def _add_table(self, session: Session, table: sa.Table) -> TableEntry:
        digest = hashlib.sha256()
        written = 0
        with (
            # Closed before the session: on a full disk the cursor would outlive it.
            closing(storage.iter_table(session, table)) as rows,
            self._archive.open(_member_of(table.name), "w", force_zip64=True) as member,
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
            format=_FORMAT,
            revision=head_revision(),
            created_at=created_at,
            tables=self._tables,
            images=len(self._images) - len(missing),
            missing_images=missing,
        )
        self._archive.writestr(_MANIFEST, manifest.model_dump_json(indent=1))
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
                archive.comment = b"0" * _SEAL_BYTES
            seal = _compute_seal(file, key)
            file.seek(-_SEAL_BYTES, os.SEEK_END)
            file.write(seal)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _compute_seal(file: IO[Any], key: str) -> bytes:
    """Return the hash of *file* without its last bytes, where the hash goes.

    With a *key* it is a signature, HMAC-SHA256 (RFC 2104).
    """
    left = file.seek(0, os.SEEK_END) - _SEAL_BYTES
    file.seek(0)
    digest = hmac.new(key.encode(), digestmod="sha256") if key else hashlib.sha256()
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest().encode()


def _member_of(table: str) -> str:
    return f"tables/{table}.jsonl"


# The name of an image, and that of its member.
_NAME = re.compile(rf"[0-9a-f]{{64}}\.({'|'.join(MEDIA_TYPES)})")
_IMAGE = re.compile(f"images/{_NAME.pattern}")
# Columns with a class of the detector, and whether they may hold UNCLEAR.
_ANSWERS = {"predicted": False, "judged": False, "label": True, "answer": True}


def _json_of(kind: Any) -> Any:
    """Return the type of JSON text whose value is *kind*."""
    validate = TypeAdapter(kind).validate_python

    # Neighbouring queries often have the same metadata.
    @lru_cache(maxsize=256)
    def check(text: str) -> str:
        validate(fields.load_json(text), strict=True)
        return text

    return Annotated[str, AfterValidator(check)]


def _check_image_name(value: str) -> str:
    # The name becomes a path.
    if not _NAME.fullmatch(value):
        raise ValueError("it must be the name of an image")
    return value


_Text = Annotated[str, AfterValidator(fields.check_text)]
_ImageName = Annotated[str, AfterValidator(_check_image_name)]
_MetadataText = _json_of(fields.Metadata)
_Role: Any = Literal[ROLES]
_AddedClass = Annotated[tuple[fields.ClassName, fields.Instant], Field(strict=False)]

_TYPES: dict[str, Any] = {
    "accounts.name": fields.KeyName,
    "accounts.role": _Role,
    "api_keys.name": fields.KeyName,
    "api_keys.role": Literal[KEY_ROLES],
    **{
        f"detectors.{name}": field.rebuild_annotation()
        for name, field in detectors.NewDetector.model_fields.items()
    },
    "detectors.added_classes": list[_AddedClass],
    "detectors.counted_slices": fields.SliceNames,
    "detectors.production_version": fields.VersionName,
    "device_settings.metadata": _MetadataText,
    "versions.name": fields.VersionName,
    "webhooks.events": EventTypes,
    "waiting_queries.input": fields.Key,
    "waiting_queries.version": fields.VersionName,
    "waiting_queries.metadata": _MetadataText,
    "waiting_queries.image": _ImageName,
    "audits.name": fields.StudyName,
    "audit_schedules.name": fields.StudyName,
    "audit_schedules.every": Cut,
    "audit_schedules.time_zone": TimeZone,
    "audits.confidence_level": fields.Level,
    "queries.key": fields.Key,
    "queries.input": fields.Key,
    "queries.confidence": fields.Probability,
    "queries.metadata": _MetadataText,
    "queries.image": _ImageName,
    "queries.image_url": fields.ImageUrl,
    "queries.tags": _json_of(NewTags.model_fields["tags"].rebuild_annotation()),
    "snapshots.confidence_level": fields.Level,
    "studies.name": fields.StudyName,
    "studies.version": fields.VersionName,
    "studies.note": fields.Note,
    "labels.sampling": fields.Sampling,
    "labels.note": fields.Note,
    "judgements.judge": fields.Key,
    "judgements.explanation": fields.Note,
    "rechecks.note": fields.Note,
    "gold_answers.sampling": fields.Sampling,
    "gold_answers.note": fields.Note,
}

# By the type of a column; the first match counts, so narrower types come first.
_KINDS: dict[Any, Any] = {
    UtcDateTime: fields.Instant,
    sa.Boolean: bool,
    sa.Float: float,
    sa.SmallInteger: Annotated[int, Field(ge=-(2**15), lt=2**15)],
    sa.BigInteger: Annotated[int, Field(ge=-(2**63), lt=2**63)],
    sa.Integer: Annotated[int, Field(ge=-(2**31), lt=2**31)],
    sa.Text: _Text,
}


class RowChecker:
    """Checks the rows of all tables, each table after those it refers to."""

    def __init__(self) -> None:
        self._classes: dict[int, frozenset[str]] = {}

    def of_table(self, table: sa.Table) -> Callable[[bytes], str | None]:
        """Return a function that returns the error of a line of *table*, if any."""
        names = [column.name for column in table.c]
        types: Any = tuple(map(_type_of, table.c))
        validate = TypeAdapter[Any](
            Annotated[tuple[types], FailFast()],
            config=ConfigDict(strict=True, allow_inf_nan=False),
        ).validate_python
        # Indexes, not names: the check runs for every row.
        whose = names.index("detector_id") if "detector_id" in names else None
        answers = [place for place, name in enumerate(names) if name in _ANSWERS]

        def check(line: bytes) -> str | None:
            row = _parse_row(line, len(names))
            if row is None:
                return "is not a row of that table"
            try:
                validate(row)
            except ValidationError as error:
                place = error.errors(include_url=False)[0]["loc"][0]
                return f"has {names[int(place)]} {describe_errors(error)[0].message}"
            if table.name == "detectors":
                known = dict(zip(names, row, strict=True))
                self._classes[known["id"]] = frozenset(known["classes"])
            if whose is None or not answers:
                return None
            classes = self._classes.get(row[whose], frozenset())
            for place in answers:
                if row[place] is not None and row[place] not in classes:
                    name = names[place]
                    if row[place] != UNCLEAR or not _ANSWERS[name]:
                        said = show(row[place])
                        return f"has {name} {said}, not a class of its detector"
            return None

        return check


def _parse_row(line: bytes, length: int) -> tuple[Any, ...] | None:
    row = None
    with suppress(ValueError):
        row = fields.load_json(line) if line.endswith(b"\n") else None
    return tuple(row) if isinstance(row, list) and len(row) == length else None


def _type_of(column: sa.Column[Any]) -> Any:
    kind = _TYPES.get(f"{column.table.name}.{column.name}")
    if kind is None and isinstance(column.type, sa.JSON | TextList):
        kind = storage.find_json_type(column)
    if kind is None:
        found = (one for sort, one in _KINDS.items() if isinstance(column.type, sort))
        kind = next(found)
    return kind | None if column.nullable else kind


# More than any real manifest: ten million missing images would need as much.
_LARGEST_MANIFEST_BYTES = 16 * 2**20
_LARGEST_IMAGE_BYTES = 64 * 2**20
# Processor time for an image.
_SECONDS = 10
_LONGEST_ROW_BYTES = 64 * 2**20
# Bytes of rows written at once; most rows have a few hundred.
_CHUNK_BYTES = 4 * 2**20
# Errors of the library for a zip that contradicts itself.
_SIGNS_OF_DAMAGE = (*BROKEN_ZIP, KeyError, TypeError, ValueError, struct.error)


@dataclass(frozen=True, slots=True)
class BackupReader:
    """A backup whose members all match the manifest."""

    archive: zipfile.ZipFile
    manifest: Manifest
    on_progress: OnProgress

    def write(self, session: Session, images: ImageStore) -> None:
        """Write everything; raises ConflictError unless the database is empty."""
        storage.lock_tables(session)
        check_is_empty(session)
        storage.clear_passing_tasks(session)
        entries = {entry.name: entry for entry in self.manifest.tables}
        for table in storage.list_tables():
            try:
                for rows in self._iter_chunks(table):
                    storage.add_table_rows(session, table, rows)
                    self.on_progress(f"Writing {table.name}", len(rows))
            except (DataError, IntegrityError) as error:
                raise _damaged(
                    f"the database refuses a row of {table.name}: an id may be there "
                    "twice, or refer to nothing"
                ) from error
            last_id = entries[table.name].last_id
            if last_id is not None:
                storage.set_last_id(session, table, last_id)
        for detector in list_detectors(session, has_archived=True):
            index_metadata(session, detector.id, detector.counted_slices)
        gather_statistics(session, [table.name for table in storage.list_tables()])
        # After the rows, which may be refused, and before their commit: no query is
        # ever seen without its image.
        for name in _image_members(self.archive):
            images.put(self.archive.read(name), name.rpartition(".")[2])
            storage.keep_alive(session)
            self.on_progress("Writing images", 1)

    def _iter_chunks(self, table: sa.Table) -> Iterator[list[Sequence[Any]]]:
        instants = [
            place
            for place, column in enumerate(table.c)
            if isinstance(column.type, UtcDateTime)
        ]
        rows: list[Sequence[Any]] = []
        size = 0
        with self.archive.open(_member_of(table.name)) as lines:
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


@contextmanager
def open_backup(
    path: Path, on_progress: OnProgress, *, key: str = ""
) -> Iterator[BackupReader]:
    """Open the backup at *path* after a check of its whole content.

    Raises InvalidInputError for a file that is damaged, not a backup, or of another
    format or revision than this program's.
    """
    with path.open("rb") as file:
        seal = _compute_seal(file, key)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _SEAL_BYTES))
        is_sealed = hmac.compare_digest(file.read(), seal)
    if not is_sealed and key:
        raise InvalidInputError.of(
            "FILE",
            "it is not signed with TRACKER_BACKUP_KEY: it was changed, signed with "
            "another key, or not signed; nothing was written",
        )
    if not is_sealed:
        raise _damaged(
            "its hash does not match its content, or it is signed and "
            "TRACKER_BACKUP_KEY is missing"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(archive)
            _check_members(archive, manifest)
            _check_tables(archive, manifest, on_progress)
            _check_images(archive, on_progress)
    except _SIGNS_OF_DAMAGE as error:
        raise _damaged(show_name(str(error)) or type(error).__name__) from error
    with zipfile.ZipFile(path) as archive:
        yield BackupReader(archive, manifest, on_progress)


def check_is_empty(session: Session) -> None:
    """Raise ConflictError if any table holds a row."""
    filled = storage.find_filled_table(session)
    if filled is not None:
        raise ConflictError(
            f"the database is not empty: the table {filled} has rows. Set "
            "TRACKER_DATABASE_URL to an empty database; nothing was written"
        )


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    for member in archive.infolist():
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _damaged(f"{show(member.filename)} is packed in another way")
    said = json.loads(_read(archive, _MANIFEST, _LARGEST_MANIFEST_BYTES))
    if not isinstance(said, dict):
        raise _damaged("its manifest is not a JSON object")
    # A later format may have a manifest of another shape, so this comes first.
    for name, mine in (("format", _FORMAT), ("revision", head_revision())):
        if said[name] != mine:
            raise InvalidInputError.of(
                "FILE",
                f"the backup has {name} {show(said[name])}, this program {mine}: "
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
    expected = [_MANIFEST, *map(_member_of, tables), *images]
    strange = set(archive.namelist()) - set(expected)
    if strange:
        raise _damaged(f"it has {show(min(strange))}, which is not part of a backup")
    if sorted(expected) != sorted(archive.namelist()) or len(images) != manifest.images:
        raise _damaged("a part is missing or there twice")


def _check_tables(
    archive: zipfile.ZipFile, manifest: Manifest, on_progress: OnProgress
) -> None:
    entries = {entry.name: entry for entry in manifest.tables}
    checker = RowChecker()
    for table in storage.list_tables():
        check = checker.of_table(table)
        digest = hashlib.sha256()
        rows = 0
        with archive.open(_member_of(table.name)) as member:
            while line := member.readline(_LONGEST_ROW_BYTES):
                digest.update(line)
                rows += 1
                if wrong := check(line):
                    raise _damaged(f"row {rows:,} of {table.name} {wrong}")
                if rows % _ROWS == 0:
                    on_progress(f"Checking {table.name}", _ROWS)
        entry = entries[table.name]
        if (digest.hexdigest(), rows) != (entry.sha256, entry.rows):
            raise _damaged(f"the table {table.name} does not match the manifest")


def _check_images(archive: zipfile.ZipFile, on_progress: OnProgress) -> None:
    names = _image_members(archive)
    if not names:
        return
    with reading("images", seconds=_SECONDS * len(names)) as reader:
        reader.answer()
        for name in names:
            content = _read(archive, name, _LARGEST_IMAGE_BYTES)
            if hashlib.sha256(content).hexdigest() not in name:
                raise _damaged(f"{name}: the content does not match its hash")
            try:
                said, _ = reader.ask({"suffix": name.rpartition(".")[2]}, content)
            except InvalidInputError as error:
                raise _damaged(f"{name}: {error.errors[0].message}") from error
            if "wrong" in said:
                raise _damaged(f"{name}: {said['wrong']}")
            on_progress("Checking images", 1)


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    # In pieces: a few bytes may unpack into gigabytes, whatever the header says.
    with archive.open(name) as member:
        content = member.read(most + 1)
    if len(content) > most:
        raise _damaged(f"{name} has more than {most:,} bytes")
    return content


def _image_members(archive: zipfile.ZipFile) -> list[str]:
    # The names come from the file and become paths, so nothing but a hash passes.
    return [name for name in archive.namelist() if _IMAGE.fullmatch(name)]


def _damaged(reason: str) -> InvalidInputError:
    return InvalidInputError.of(
        "FILE", f"it is damaged or not a backup: {reason}; nothing was written"
    )
