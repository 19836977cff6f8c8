"""Imports that a worker carries out: their files taken in, and looked at later."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Annotated, BinaryIO

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.clock import Clock
from tracker.errors import ConflictError, RowError, UnavailableError
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.fields import Instant
from tracker.services.imports.images import ImageFiles
from tracker.services.imports.inspecting import inspect
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reports import (
    ImportReport,
    Outcome,
    RejectedImportError,
    describe_outcome,
)
from tracker.services.imports.saved import load_mapping
from tracker.services.imports.writing import LARGE_BYTES
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage.base import Key, dump_id, parse_id
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.imports import files as storage
from tracker.storage.imports.files import (
    DONE,
    FAILED,
    STATES,
    STILL_ARRIVING,
    FileImport,
)
from tracker.storage.imports.import_pieces import (
    add_piece,
    add_pieces,
    cut_pieces,
    delete_some_pieces,
    measure_pieces,
)
from tracker.storage.tasks import CLEARING, IMPORT, enqueue, withdraw
from tracker.words import REJECT, OnErrorWord, one_of

# Megabytes of a file, which are gone within some milliseconds.
_DELETED_AT_ONCE = 4
# A megabyte takes far less to be stored.
_ARRIVES_WITHIN = timedelta(seconds=60)
# How long the file of an import that failed is kept, to be resumed.
FAILED_FILE_KEPT = timedelta(days=7)
# The share of reading and checking in the time of an import.
_CHECKING_PERCENT = 30
Writes = Callable[[], AbstractContextManager[Session]]


class Import(Shape):
    """A background import and its progress."""

    id: str = Field(description="imp_ and a number.")
    detector: str = Field(description="The id of the detector.")
    state: Annotated[str, one_of(STATES)] = Field(
        description="waiting, running, done, rejected (the file is wrong, and nothing "
        "was written) or failed (it stopped, and can be resumed)."
    )
    percent: int = Field(description="How far it is, from 0 to 100.")
    on_error: OnErrorWord = Field(description="reject or skip.")
    rows_read: int = Field(
        description="The number so far, updated about once a second."
    )
    bytes: int = Field(
        description="The size of the file in bytes, with the images beside it."
    )
    bytes_read: int = Field(
        description="The number so far, updated about once a second."
    )
    rows: int | None = Field(
        description="The number of rows of the file, once all are checked."
    )
    rows_done: int = Field(
        description="The number of rows that are written so far; bad rows and those "
        "that add nothing count."
    )
    created_at: Instant = Field(description="When the upload was complete.")
    started_at: Instant | None = Field(description="When a worker last started it.")
    finished_at: Instant | None
    report: ImportReport | None = Field(
        description="What was added so far; complete once the import is done or was "
        "rejected because of its rows."
    )
    error: str | None = Field(description="Why it was rejected or failed.")


def import_later(  # noqa: PLR0913 - what is imported, by whom and how.
    session: Session,
    detector: Detector,
    file: RowFile,
    by: By,
    *,
    images: ImageFiles | None = None,
    on_error: str = REJECT,
    arrived: Key | None = None,
) -> FileImport:
    """Store *file* for a worker to import into *detector* in the background.

    Raises InvalidInputError for what is wrong with the file as a whole, and of a
    document, which was parsed already, for what is wrong with its rows.
    """
    if images is not None:
        # The column that names them is none of the unknown ones.
        file = file.read_by(file.choices.model_copy(update={"images": {}}))
    with file.rows(detector).pieces() as pieces:
        next(pieces, None)
    if file.document is not None and on_error == REJECT and images is None:
        report = inspect(file, detector=detector).report
        if report.bad_rows:
            raise RejectedImportError(report)
    return add_import(
        session, detector, file, by, images=images, on_error=on_error, arrived=arrived
    )


def add_import(  # noqa: PLR0913 - what is imported, by whom and how.
    session: Session,
    detector: Detector,
    file: RowFile,
    by: By,
    *,
    images: ImageFiles | None = None,
    on_error: str = REJECT,
    arrived: Key | None = None,
) -> FileImport:
    """Store *file*, and behind it *images*, unless that is done and *arrived* it.

    Once the caller's transaction is committed it is imported, whatever ends before.
    """
    file_import = _new_import(detector, file, by, on_error, images)
    if arrived is not None:
        _keep_arriving(session, arrived, at=by.at)
        withdraw(session, CLEARING, str(arrived[1]))
        file_import.id = arrived[1]
        file_import.bytes = measure_pieces(session, arrived)
        file_import = session.merge(file_import)
    else:
        session.add(file_import)
        session.flush()
        with _streams(file, images) as streams:
            file_import.bytes = add_pieces(session, _key_of(file_import), *streams)
    session.flush()
    _enqueue(session, file_import, at=by.at)
    return file_import


def _enqueue(session: Session, file_import: FileImport, *, at: datetime) -> None:
    enqueue(
        session,
        IMPORT,
        str(file_import.id),
        detector_id=file_import.detector_id,
        due_at=at,
    )


def _key_of(file_import: FileImport) -> Key:
    return file_import.detector_id, file_import.id


def _keep_arriving(session: Session, key: Key, *, at: datetime) -> None:
    """Put off the task that deletes a file of which nothing more arrives."""
    if not storage.is_arriving(session, key):
        raise UnavailableError("the file took too long to arrive: send it again")
    due_at = at + _ARRIVES_WITHIN
    detector_id, import_id = key
    enqueue(
        session,
        CLEARING,
        str(import_id),
        detector_id=detector_id,
        due_at=due_at,
        replaces=True,
    )


@contextmanager
def _streams(file: RowFile, images: ImageFiles | None) -> Iterator[list[BinaryIO]]:
    if images is None:
        yield [file.stream]
        return
    with images.packed() as packed:
        yield [file.stream, packed]


def _new_import(
    detector: Detector, file: RowFile, by: By, on_error: str, images: ImageFiles | None
) -> FileImport:
    choices = file.choices.join(load_mapping(detector))
    if images is not None:
        choices = choices.model_copy(update={"images_from": file.size, "images": None})
    return FileImport(
        detector_id=detector.id,
        format=file.format,
        on_error=on_error,
        sha256=file.sha256,
        bytes=0,
        actor=by.actor.name,
        actor_kind=by.actor.kind,
        address=by.address,
        choices=choices.model_dump(exclude_defaults=True),
        created_at=by.at,
    )


@contextmanager
def arriving(  # noqa: PLR0913 - what is imported, by whom and how.
    database: Database,
    detector: str,
    file: RowFile,
    by: By,
    *,
    images: ImageFiles | None = None,
    clock: Clock,
) -> Iterator[Key | None]:
    """Store much in pieces that let others write to SQLite in between.

    Give the key for ``add_import``, None where the file is left to that.  Nobody sees
    the import before, and what is not taken up at the end of the block is deleted.
    """
    size = file.size + (images.size if images is not None else 0)
    if not database.is_sqlite or size < LARGE_BYTES:
        yield None
        return
    with _streams(file, images) as streams:
        with database.write() as session:
            found = get_open_detector(session, detector)
            file_import = _new_import(found, file, by, REJECT, images)
            file_import.bytes = STILL_ARRIVING
            session.add(file_import)
            session.flush()
            key = _key_of(file_import)
            _keep_arriving(session, key, at=clock())
        try:
            for position, content in enumerate(cut_pieces(*streams)):
                with database.write() as session:
                    _keep_arriving(session, key, at=clock())
                    add_piece(session, key, position, content)
            yield key
        finally:
            clear_arriving(database.write, key)


def clear_arriving(writes: Writes, key: Key) -> bool:
    """Delete a file that will not arrive any more, with its import and its task.

    False, and nothing is done, if it has arrived.
    """
    with writes() as session:
        is_over = storage.give_up_arriving(session, key)
    if is_over:
        delete_file(writes, key)
        with writes() as session:
            storage.delete_import(session, key)
            withdraw(session, CLEARING, str(key[1]))
    return is_over


def delete_file(writes: Writes, key: Key) -> None:
    """Delete the file of an import, some pieces at a time."""
    is_left = True
    while is_left:
        with writes() as session:
            is_left = delete_some_pieces(session, key, limit=_DELETED_AT_ONCE)


def has_file(session: Session, file_import: FileImport) -> bool:
    return measure_pieces(session, _key_of(file_import)) == file_import.bytes


def resume_import(session: Session, file_import: FileImport, by: By) -> FileImport:
    """Let a worker go on with an import that failed, after the last row it wrote.

    One that still goes on is left as it is.  Raises ConflictError for one that is done
    or rejected, or whose file is gone.
    """
    get_open_detector(session, dump_id("det", file_import.detector_id))
    if file_import.finished_at is None:
        return file_import
    if file_import.state != FAILED:
        raise ConflictError("only an import that failed can be resumed")
    # First, so that no worker goes on deleting the file.
    withdraw(session, CLEARING, str(file_import.id))
    if not has_file(session, file_import):
        raise ConflictError(
            "the file of the import is gone: send it again, which adds what is missing"
        )
    if storage.resume_import(session, _key_of(file_import)):
        _enqueue(session, file_import, at=by.at)
        by.record(session, "import resumed", dump_id("imp", file_import.id))
    session.refresh(file_import)
    return file_import


def get_import(session: Session, reference: str) -> FileImport:
    """Return the import of that id; raises NotFoundError."""
    import_id = parse_id("imp", reference)
    found = None if import_id is None else storage.find_import(session, import_id)
    if found is None:
        raise missing("import", reference)
    return found


def unpack_report(file_import: FileImport) -> Outcome | None:
    """Return what an import did and what was wrong with it, None if it is not known."""
    if file_import.report is None:
        return None
    errors = [RowError(**error) for error in file_import.report["errors"]]
    return Outcome(**{**file_import.report, "errors": errors})


def percent_of(file_import: FileImport) -> int:
    """Return how far an import is."""
    if file_import.state == DONE:
        return 100
    if file_import.rows is None:
        read = file_import.bytes_read / max(file_import.bytes, 1)
        return int(_CHECKING_PERCENT * read)
    done = file_import.rows_done / max(file_import.rows, 1)
    return int(_CHECKING_PERCENT + (100 - _CHECKING_PERCENT) * done)


def describe_import(file_import: FileImport) -> Import:
    """Return an import in the background as it is answered."""
    outcome = unpack_report(file_import)
    return Import.from_row(
        file_import,
        id=dump_id("imp", file_import.id),
        detector=dump_id("det", file_import.detector_id),
        percent=percent_of(file_import),
        report=None if outcome is None else describe_outcome(outcome),
    )
