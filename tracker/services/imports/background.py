"""Imports that a worker carries out: their files stored, tried, and looked at later."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any, BinaryIO, cast

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.clock import Clock
from tracker.errors import ConflictError, TrackerError, UnavailableError
from tracker.services.by import Actor, By
from tracker.services.detectors import get_open_detector
from tracker.services.fields import Instant
from tracker.services.imports import reports, writing
from tracker.services.imports.images import store_images
from tracker.services.imports.inspecting import inspect
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import RowFile, load_mapping
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.tasks import dump_error
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage import imports as storage
from tracker.storage import tasks
from tracker.storage.base import Key, dump_id, parse_id
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import add_batch
from tracker.storage.images import ImageStore
from tracker.storage.imports import FileImport, PieceFile, Progress
from tracker.storage.tasks import CLEARING, IMPORT, Task
from tracker.words import REJECT, SKIP, OnErrorWord, one_of

# Megabytes of a file, which are gone within some milliseconds.
_DELETED_AT_ONCE = 4
# A megabyte takes far less to be stored.
_ARRIVES_WITHIN = timedelta(seconds=60)
# How long the file of an import that failed is kept, to be resumed.
_FAILED_FILE_KEPT = timedelta(days=7)
# The share of reading and checking in the time of an import.
_CHECKING_PERCENT = 30
_GONE = (
    "its file is not in the database, which a backup leaves out: send it again, which "
    "adds what is missing"
)


class MissingFileError(TrackerError):
    """The file is missing, or incomplete."""


class Import(Shape):
    """A background import and its progress."""

    id: str = Field(description="imp_ and a number.")
    detector: str = Field(description="The id of the detector.")
    state: Annotated[str, one_of(storage.STATES)] = Field(
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
    report: reports.ImportReport | None = Field(
        description="What was added so far; complete once the import is done or was "
        "rejected because of its rows."
    )
    error: str | None = Field(description="Why it was rejected or failed.")


def check_first(
    session: Session, order: writing.Order, images: BinaryIO | None
) -> None:
    """Refuse what is plainly wrong with a file before it is stored for a worker.

    Raises InvalidInputError for what is wrong with the file as a whole, and of a
    document, which was parsed already, for what is wrong with its rows.
    """
    file, detector = order.file, get_open_detector(session, order.detector)
    if images is not None:
        # The column that names them is none of the unknown ones.
        file = file.read_by(file.choices.model_copy(update={"images": {}}))
    with file.rows(detector).pieces() as pieces:
        next(pieces, None)
    if file.document is not None and order.on_error == REJECT and images is None:
        report = inspect(file, detector=detector).report
        if report.bad_rows:
            raise reports.RejectedImportError(report)


def add_import(
    session: Session,
    order: writing.Order,
    images: BinaryIO | None = None,
    *,
    arrived: Key | None = None,
) -> FileImport:
    """Store a file and its *images* for a worker, unless they *arrived* before.

    Once the caller's transaction is committed the import runs, whatever process dies.
    """
    file_import = _new_import(session, order, images)
    if arrived is not None:
        _keep_arriving(session, arrived, at=order.by.at)
        tasks.withdraw(session, CLEARING, str(arrived[1]))
        file_import.id = arrived[1]
        file_import.bytes = storage.measure_pieces(session, arrived)
        file_import = session.merge(file_import)
    else:
        session.add(file_import)
        session.flush()
        for position, content in enumerate(_cut_pieces(order, images)):
            storage.add_piece(session, _key_of(file_import), position, content)
            file_import.bytes += len(content)
    session.flush()
    _enqueue(session, IMPORT, _key_of(file_import), order.by.at)
    order.save(session)
    return file_import


def _cut_pieces(order: writing.Order, images: BinaryIO | None) -> Iterator[bytes]:
    return storage.cut_pieces(*filter(None, [order.file.stream, images]))


def _enqueue(
    session: Session, kind: str, key: Key, due_at: datetime, *, replaces: bool = False
) -> None:
    detector_id, import_id = key
    tasks.enqueue(
        session,
        kind,
        str(import_id),
        detector_id=detector_id,
        due_at=due_at,
        replaces=replaces,
    )


def _key_of(file_import: FileImport) -> Key:
    return file_import.detector_id, file_import.id


def _keep_arriving(session: Session, key: Key, *, at: datetime) -> None:
    """Put off the task that deletes a file of which nothing more arrives."""
    if not storage.is_arriving(session, key):
        raise UnavailableError("the file took too long to arrive: send it again")
    _enqueue(session, CLEARING, key, at + _ARRIVES_WITHIN, replaces=True)


def _new_import(
    session: Session, order: writing.Order, images: BinaryIO | None
) -> FileImport:
    detector, file = get_open_detector(session, order.detector), order.file
    choices = file.choices.join(load_mapping(detector))
    if images is not None:
        choices = choices.model_copy(update={"images_from": file.size, "images": None})
    said = choices.model_dump(exclude_defaults=True)
    return order.to_row(detector, choices=said, bytes=0)


def size_of(order: writing.Order, images: BinaryIO | None) -> int:
    """Return how many bytes a file has together with its *images*."""
    return order.file.size + (0 if images is None else images.seek(0, io.SEEK_END))


@contextmanager
def arriving(
    database: Database, order: writing.Order, images: BinaryIO | None, *, clock: Clock
) -> Iterator[Key | None]:
    """Store much in pieces that let others write to SQLite in between.

    Give the key for ``add_import``, None where the file is left to that.  Nobody sees
    the import before, and what is not taken up at the end of the block is deleted.
    """
    if not database.is_sqlite or size_of(order, images) < writing.LARGE_BYTES:
        yield None
        return
    with database.write() as session:
        file_import = _new_import(session, order, images)
        file_import.bytes = storage.STILL_ARRIVING
        session.add(file_import)
        session.flush()
        key = _key_of(file_import)
        _keep_arriving(session, key, at=clock())
    try:
        for position, content in enumerate(_cut_pieces(order, images)):
            with database.write() as session:
                _keep_arriving(session, key, at=clock())
                storage.add_piece(session, key, position, content)
        yield key
    finally:
        clear_arriving(database.write, key)


def clear_arriving(writes: writing.Reads, key: Key) -> bool:
    """Delete a file that will not arrive any more, with its import and its task.

    False, and nothing is done, if it has arrived.
    """
    with writes() as session:
        is_over = storage.give_up_arriving(session, key)
    if is_over:
        delete_file(writes, key)
        with writes() as session:
            storage.delete_import(session, key)
            tasks.withdraw(session, CLEARING, str(key[1]))
    return is_over


def delete_file(writes: writing.Reads, key: Key) -> None:
    """Delete the file of an import, some pieces at a time."""
    is_left = True
    while is_left:
        with writes() as session:
            is_left = storage.delete_some_pieces(session, key, limit=_DELETED_AT_ONCE)


def has_file(session: Session, file_import: FileImport) -> bool:
    return storage.measure_pieces(session, _key_of(file_import)) == file_import.bytes


@contextmanager
def attempting(  # noqa: PLR0913 - what a worker has.
    task: Task,
    reads: writing.Reads,
    store: ImageStore | None,
    *,
    clock: Clock,
    on_progress: Callable[[Progress], None],
    most_unpacked: int = MOST_UNPACKED,
) -> Iterator[writing.SecondPass]:
    """Check the file of an import, and give what writes the rows not written yet.

    The file is read in transactions that *reads* opens.  Raises LostTaskError where
    another worker is at it, MissingFileError, NotFoundError, ConflictError for a
    detector that was archived, and InvalidInputError where the file does not allow it.
    """
    choices = take_images(
        task.row, reads, store, on_progress=on_progress, most_unpacked=most_unpacked
    )
    with reads() as session:
        tasks.hold(session, task, locks=False)
        file_import, detector = _look_up(session, task.row)
        file = _opened(file_import, reads, choices, most_unpacked)
        size = file.size
    # What the actor may do was asked when the file came in.
    actor = Actor(file_import.actor, None, file_import.actor_kind)
    by = By(actor, clock(), file_import.address).credit(choices.labeler)
    outcome = unpack_report(file_import) or reports.Outcome()
    written = writing.Written(outcome, file_import.rows_done)

    def note(rows: int) -> None:
        # The images were stored before.
        read = file_import.bytes - size + min(file.bytes_read, size)
        on_progress({"rows_read": rows, "bytes_read": read})

    with writing.checked(reads, detector, file, by, note) as found:
        rows = found.outcome.rows
        done = {"rows_read": rows, "bytes_read": file_import.bytes, "rows": rows}
        on_progress(done)
        yield writing.SecondPass(found, written, skips=file_import.on_error == SKIP)


def _look_up(session: Session, key: Key) -> tuple[FileImport, Detector]:
    file_import = session.get_one(FileImport, key)
    if not has_file(session, file_import):
        raise MissingFileError
    detector_id = dump_id("det", file_import.detector_id)
    return file_import, get_open_detector(session, detector_id)


def _opened(
    file_import: FileImport, reads: writing.Reads, choices: Choices, most_unpacked: int
) -> RowFile:
    size = file_import.bytes if choices.images_from is None else choices.images_from
    return RowFile(
        file_import.format,
        file_import.sha256,
        io.BufferedReader(PieceFile(reads, _key_of(file_import), size)),
        choices=choices,
        most_unpacked=most_unpacked,
    )


def take_images(
    key: Key,
    reads: writing.Reads,
    store: ImageStore | None,
    *,
    on_progress: Callable[[Progress], None],
    most_unpacked: int = MOST_UNPACKED,
) -> Choices:
    """Store the images that came with the file, and return how to read it then.

    It only reads, in transactions that *reads* opens, so that nothing waits for the
    images.  Raises MissingFileError, NotFoundError, ConflictError for a detector that
    was archived, and InvalidInputError for what is no zip file.
    """
    with reads() as session:
        choices = Choices(**(session.get_one(FileImport, key).choices or {}))
        if choices.images_from is None:
            return choices
        file_import, detector = _look_up(session, key)
    assert store is not None
    images_bytes = file_import.bytes - choices.images_from

    def note(done: int, total: int) -> None:
        on_progress({"rows_read": 0, "bytes_read": images_bytes * done // total})

    # An archive is read from its end, whatever stands before it.
    whole = io.BufferedReader(PieceFile(reads, key, file_import.bytes))
    images = cast("BinaryIO", whole)
    file = _opened(file_import, reads, choices, most_unpacked)
    return store_images(file, detector, images, store, on_progress=note).choices


def note_written(session: Session, task: Task, written: writing.Written) -> None:
    """Note a piece in its transaction; raises LostTaskError if the task is lost."""
    tasks.advance(session, tasks.hold(session, task))
    storage.change_import(
        session,
        task.row,
        rows=written.outcome.rows,
        rows_done=written.rows_done,
        report=reports.pack_report(written.outcome),
    )
    storage.note_batches(session, task.row, written.batches)


def finish_import(
    session: Session,
    task: Task,
    second: writing.SecondPass,
    progress: Progress,
    *,
    at: datetime,
) -> str:
    """Write the last piece of an import and end it; raises LostTaskError."""
    note_written(session, task, second.finish(session))
    return _end_task(session, task, at, **progress | {"state": storage.DONE})


def refuse_import(
    session: Session,
    task: Task,
    error: TrackerError,
    progress: Progress,
    *,
    at: datetime,
) -> str:
    """End an import that cannot go on; raises LostTaskError."""
    found = session.get_one(FileImport, task.row)
    said: dict[str, Any] = {"state": storage.FAILED}
    if isinstance(error, MissingFileError):
        said["error"] = _GONE
    elif found.rows_done:
        said["error"] = dump_error(f"{error}; {_describe_rows_done(found)}")
    else:
        said = {"state": storage.REJECTED, "error": dump_error(str(error))}
        if isinstance(error, reports.RejectedImportError):
            # What the last piece added before a conflict is rolled back.
            bad, errors = error.report.bad_rows, error.report.errors
            outcome = reports.Outcome(
                rows=error.report.rows, bad_rows=bad, errors=errors
            )
            said["report"] = reports.pack_report(outcome)
    return _end_task(session, task, at, **progress | said)


def fail_import(session: Session, task: Task, error: str, at: datetime) -> None:
    """End an import that failed for good, for the caller who gives up its task."""
    found = session.get_one(FileImport, task.row)
    text = f"it failed {task.attempts} times, at last with {error}; "
    text += _describe_rows_done(found)
    _end(session, task, at, state=storage.FAILED, error=dump_error(text))


def _describe_rows_done(file_import: FileImport) -> str:
    done, rows = file_import.rows_done, file_import.rows
    if not done:
        return "nothing was written"
    of = "" if rows is None else f" of {rows:,}"
    return f"{done:,}{of} rows were written, and it can be resumed"


def _end_task(session: Session, task: Task, at: datetime, **said: Any) -> str:
    row = tasks.hold(session, task)
    state = _end(session, task, at, **said)
    tasks.finish(session, row)
    return state


def _end(session: Session, task: Task, at: datetime, *, state: str, **said: Any) -> str:
    """End an import, and let another task delete its file, a failed one's later.

    Without a report, the report of its last piece stays.
    """
    ended = {"state": state, "finished_at": at, "error": None} | said
    storage.change_import(session, task.row, **ended)
    detector_id, _ = task.row
    # An empty batch makes a fold look at what waited for the end of the file.
    add_batch(session, detector_id, created_at=at)
    due_at = at + _FAILED_FILE_KEPT if state == storage.FAILED else at
    _enqueue(session, CLEARING, task.row, due_at)
    return state


def resume_import(session: Session, file_import: FileImport, by: By) -> FileImport:
    """Let a worker go on with an import that failed, after the last row it wrote.

    A running one is left as it is.  Raises ConflictError for one that is done or
    rejected, or whose file is gone.
    """
    get_open_detector(session, dump_id("det", file_import.detector_id))
    if file_import.finished_at is None:
        return file_import
    if file_import.state != storage.FAILED:
        raise ConflictError("only an import that failed can be resumed")
    # First, so that no worker continues to delete the file.
    tasks.withdraw(session, CLEARING, str(file_import.id))
    if not has_file(session, file_import):
        raise ConflictError(
            "the file of the import is gone: send it again, which adds what is missing"
        )
    if storage.resume_import(session, _key_of(file_import)):
        _enqueue(session, IMPORT, _key_of(file_import), by.at)
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


def unpack_report(file_import: FileImport) -> reports.Outcome | None:
    """Return what an import did and what was wrong with it, None if it is not known."""
    if file_import.report is None:
        return None
    return reports.Outcome(**file_import.report)


def percent_of(file_import: FileImport) -> int:
    """Return how far an import is."""
    if file_import.state == storage.DONE:
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
        report=None if outcome is None else reports.describe_outcome(outcome),
    )
