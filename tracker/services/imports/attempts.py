"""An attempt of a worker at an import, inside the worker's transactions."""

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, cast

from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.services.by import Actor, By
from tracker.services.detectors import get_open_detector
from tracker.services.imports.background import pack_report
from tracker.services.imports.images import ImageFiles, store_images
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reports import Outcome, RejectedImportError
from tracker.services.imports.staging import Stage, Writes
from tracker.services.imports.writing import Staged, import_file, stage_file
from tracker.services.sandbox.limits import MOST_UNPACKED
from tracker.services.tasks import dump_error
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageStore
from tracker.storage.imports import files as storage
from tracker.storage.imports.files import (
    DONE,
    FAILED,
    REJECTED,
    Ending,
    Progress,
)
from tracker.storage.imports.import_pieces import PieceFile, measure_pieces
from tracker.storage.tasks import (
    CLEARING,
    Task,
    check_held,
    enqueue,
    finish,
    hold,
)

Reads = Callable[[], AbstractContextManager[Session]]


class MissingFileError(TrackerError):
    """The file is not there as a whole."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A file that is being imported."""

    detector: Detector
    by: By
    on_error: str
    file: RowFile
    # How many bytes of rows there are, and of images, which were stored before.
    _size: int
    _images_bytes: int

    def progress(self, rows: int) -> Progress:
        """Return how far it is after so many rows."""
        read = min(self.file.bytes_read, self._size)
        return Progress(rows, self._images_bytes + read)

    def carry_out(
        self, session: Session, on_progress: Callable[[Progress], None]
    ) -> Outcome:
        """Import the file; the caller ends the import in the same transaction.

        Raises InvalidInputError or ConflictError where the file or the detector does
        not allow it; the transaction must then be rolled back.
        """
        return import_file(
            session,
            self.detector,
            self.file,
            self.by,
            on_error=self.on_error,
            on_progress=lambda rows: on_progress(self.progress(rows)),
        )

    def stage(
        self, writes: Writes, stage: Stage, on_progress: Callable[[Progress], None]
    ) -> Staged:
        """Write the rows where nobody sees them; raises what ``carry_out`` does."""
        return stage_file(
            writes,
            self.detector,
            self.file,
            self.by,
            stage,
            on_error=self.on_error,
            on_progress=lambda rows: on_progress(self.progress(rows)),
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
    file_import = storage.find_import(session, int(task.key))
    assert file_import is not None
    if measure_pieces(session, file_import.id) != file_import.bytes:
        raise MissingFileError
    size = file_import.bytes
    if choices.images_from is not None:
        size = choices.images_from
    pieces = PieceFile(reads, file_import.id, size)
    # What the actor may do was asked when the file came in.
    actor = Actor(file_import.actor, None, file_import.actor_kind)
    return Attempt(
        get_open_detector(session, dump_id("det", file_import.detector_id)),
        By(actor, at, file_import.address),
        file_import.on_error,
        RowFile(
            file_import.format,
            file_import.sha256,
            io.BufferedReader(pieces),
            choices=choices,
            most_unpacked=most_unpacked,
        ),
        size,
        file_import.bytes - size,
    )


def take_images(
    import_id: int,
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
        file_import = storage.find_import(session, import_id)
        assert file_import is not None
        choices = Choices(**(file_import.choices or {}))
        if choices.images_from is None:
            return choices
        if measure_pieces(session, file_import.id) != file_import.bytes:
            raise MissingFileError
        detector = get_open_detector(session, dump_id("det", file_import.detector_id))
    assert store is not None
    whole, rows = (
        io.BufferedReader(PieceFile(reads, import_id, size))
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


def end_import(
    session: Session, task: Task, ending: Ending, progress: Progress, *, at: datetime
) -> None:
    """End an import; raises LostTaskError if another worker has taken it.

    Another task deletes its file, in pieces.
    """
    row = hold(session, task)
    _end(session, task, ending, progress, at)
    finish(session, row)


def fail_import(session: Session, task: Task, error: str, at: datetime) -> None:
    """End an import that failed for good, for the caller who gives up its task."""
    text = f"it failed {task.attempts} times, at last with {error}; nothing was written"
    _end(session, task, Ending(FAILED, error=dump_error(text)), Progress(), at)


def _end(
    session: Session, task: Task, ending: Ending, progress: Progress, at: datetime
) -> None:
    storage.finish_import(session, int(task.key), ending, progress, at=at)
    enqueue(session, CLEARING, task.key, due_at=at)


def done(report: Outcome) -> Ending:
    """Return the end of an import that was carried out."""
    return Ending(DONE, pack_report(report))


def rejected(error: TrackerError) -> Ending:
    """Return the end of an import that the file or the detector does not allow."""
    report = None
    if isinstance(error, RejectedImportError):
        found = error.report
        # What was added before the first bad row was met is rolled back.
        report = pack_report(
            Outcome(rows=found.rows, bad_rows=found.bad_rows, errors=found.errors)
        )
    return Ending(REJECTED, report, dump_error(str(error)))


def gone() -> Ending:
    """Return the end of an import whose file is not there."""
    return Ending(
        FAILED,
        error="its file is not in the database, which a backup leaves out; nothing was "
        "written: send the file again",
    )
