"""An attempt of a worker at an import, inside the worker's transactions."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, cast

from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.services.by import Actor, By
from tracker.services.detectors import get_open_detector
from tracker.services.imports.background import (
    FAILED_FILE_KEPT,
    has_file,
    unpack_report,
)
from tracker.services.imports.first_pass import Reads, checked
from tracker.services.imports.images import ImageFiles, store_images
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reports import Outcome, RejectedImportError, pack_report
from tracker.services.imports.writing import SecondPass, Written
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.tasks import dump_error
from tracker.storage.base import Key, dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import add_batch
from tracker.storage.images import ImageStore
from tracker.storage.imports import files as storage
from tracker.storage.imports.files import (
    DONE,
    FAILED,
    REJECTED,
    Ending,
    FileImport,
    Progress,
)
from tracker.storage.imports.import_pieces import PieceFile, note_batches
from tracker.storage.tasks import (
    CLEARING,
    Task,
    advance,
    check_held,
    enqueue,
    finish,
    hold,
)
from tracker.words import SKIP


class MissingFileError(TrackerError):
    """The file is not there as a whole."""


def describe_rows_done(file_import: FileImport) -> str:
    """Return in words how far an import came that did not end."""
    done, rows = file_import.rows_done, file_import.rows
    if not done:
        return "nothing was written"
    of = "" if rows is None else f" of {rows:,}"
    return f"{done:,}{of} rows were written, and it can be resumed"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A file that is being imported."""

    detector: Detector
    by: By
    on_error: str
    file: RowFile
    # What earlier attempts have written.
    written: Written
    _reads: Reads
    # How many bytes of rows there are, and of images, which were stored before.
    _size: int
    _images_bytes: int

    def progress(self, rows_read: int, rows: int | None = None) -> Progress:
        """Return how far it is; *rows* are all there are, once that is known."""
        read = min(self.file.bytes_read, self._size)
        if rows is not None:
            read = self._size
        return Progress(rows_read, self._images_bytes + read, rows)

    @contextmanager
    def checked(self, on_progress: Callable[[Progress], None]) -> Iterator[SecondPass]:
        """Check the file, and give what writes the rows that are not written yet.

        Raises InvalidInputError where the file does not allow it.
        """
        with checked(
            self._reads,
            self.detector,
            self.file.rows(self.detector),
            self.by,
            digest=self.file.sha256,
            on_progress=lambda rows: on_progress(self.progress(rows)),
        ) as found:
            rows = found.outcome.rows
            on_progress(self.progress(rows, rows))
            yield SecondPass(
                found,
                self.detector,
                self.file.sha256,
                self.by,
                self.written,
                skips=self.on_error == SKIP,
            )


def begin_attempt(  # noqa: PLR0913 - as the worker says it.
    session: Session,
    task: Task,
    reads: Reads,
    *,
    at: datetime,
    choices: Choices,
    most_unpacked: int = MOST_UNPACKED,
) -> Attempt:
    """Open the file of an import, which is read in transactions that *reads* opens.

    *choices* say how it is read, and are what ``take_images`` returned.

    Raises LostTaskError where another worker is at it, MissingFileError, and
    ConflictError for a detector that was archived.
    """
    check_held(session, task)
    file_import = session.get_one(FileImport, task.row)
    if not has_file(session, file_import):
        raise MissingFileError
    size = file_import.bytes
    if choices.images_from is not None:
        size = choices.images_from
    pieces = PieceFile(reads, task.row, size)
    # What the actor may do was asked when the file came in.
    actor = Actor(file_import.actor, None, file_import.actor_kind)
    return Attempt(
        get_open_detector(session, dump_id("det", file_import.detector_id)),
        By(actor, at, file_import.address).credit(choices.labeler),
        file_import.on_error,
        RowFile(
            file_import.format,
            file_import.sha256,
            io.BufferedReader(pieces),
            choices=choices,
            most_unpacked=most_unpacked,
        ),
        Written(unpack_report(file_import) or Outcome(), file_import.rows_done),
        reads,
        size,
        file_import.bytes - size,
    )


def take_images(
    key: Key,
    reads: Reads,
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
        file_import = session.get_one(FileImport, key)
        choices = Choices(**(file_import.choices or {}))
        if choices.images_from is None:
            return choices
        if not has_file(session, file_import):
            raise MissingFileError
        detector = get_open_detector(session, dump_id("det", file_import.detector_id))
    assert store is not None
    whole, rows = (
        io.BufferedReader(PieceFile(reads, key, size))
        for size in (file_import.bytes, choices.images_from)
    )
    images_bytes = file_import.bytes - choices.images_from

    def note(done: int, total: int) -> None:
        on_progress(Progress(0, images_bytes * done // total))

    file = RowFile(
        file_import.format,
        file_import.sha256,
        rows,
        choices=choices,
        most_unpacked=most_unpacked,
    )
    # An archive is read from its end, whatever stands before it.
    images = ImageFiles({}, cast("BinaryIO", whole))
    return store_images(file, detector, images, store, on_progress=note).choices


def note_written(session: Session, task: Task, written: Written) -> None:
    """Note a piece in its transaction; raises LostTaskError if the task is lost."""
    advance(session, hold(session, task))
    storage.change_import(
        session,
        task.row,
        rows=written.outcome.rows,
        rows_done=written.rows_done,
        report=pack_report(written.outcome),
    )
    note_batches(session, task.row, written.batches)


def end_import(
    session: Session,
    task: Task,
    ending: Ending,
    progress: Progress | None,
    *,
    at: datetime,
) -> None:
    """End an import; raises LostTaskError if another worker has taken it.

    Another task deletes its file, in pieces; one that failed keeps it for a while.
    """
    row = hold(session, task)
    _end(session, task, ending, progress, at)
    finish(session, row)


def fail_import(session: Session, task: Task, error: str, at: datetime) -> None:
    """End an import that failed for good, for the caller who gives up its task."""
    found = session.get_one(FileImport, task.row)
    text = f"it failed {task.attempts} times, at last with {error}; "
    text += describe_rows_done(found)
    _end(session, task, Ending(FAILED, error=dump_error(text)), None, at)


def _end(
    session: Session,
    task: Task,
    ending: Ending,
    progress: Progress | None,
    at: datetime,
) -> None:
    storage.finish_import(session, task.row, ending, progress, at=at)
    if task.detector_id is not None:
        # What waited for the end of the file is found by a fold, be it an empty one.
        add_batch(session, task.detector_id, created_at=at)
    due_at = at + FAILED_FILE_KEPT if ending.state == FAILED else at
    enqueue(session, CLEARING, task.key, detector_id=task.detector_id, due_at=due_at)


def finish_import(
    session: Session,
    task: Task,
    second: SecondPass,
    progress: Progress,
    *,
    at: datetime,
) -> Ending:
    """Write the last piece of an import and end it."""
    written = second.finish(session)
    note_written(session, task, written)
    ending = Ending(DONE)
    end_import(session, task, ending, progress, at=at)
    return ending


def refuse_import(
    session: Session,
    task: Task,
    error: TrackerError,
    progress: Progress,
    *,
    at: datetime,
) -> Ending:
    """End an import that the file or the detector does not allow."""
    found = session.get_one(FileImport, task.row)
    if found.rows_done:
        text = f"{error}; {describe_rows_done(found)}"
        ending = Ending(FAILED, error=dump_error(text))
    else:
        ending = _rejected(error)
    end_import(session, task, ending, progress, at=at)
    return ending


def _rejected(error: TrackerError) -> Ending:
    report = None
    if isinstance(error, RejectedImportError):
        found = error.report
        # What the last piece added before a conflict is rolled back.
        report = pack_report(
            Outcome(rows=found.rows, bad_rows=found.bad_rows, errors=found.errors)
        )
    return Ending(REJECTED, report, dump_error(str(error)))


def gone() -> Ending:
    """Return the end of an import whose file is not there."""
    return Ending(
        FAILED,
        error="its file is not in the database, which a backup leaves out: send it "
        "again, which adds what is missing",
    )
