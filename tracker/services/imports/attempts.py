"""An attempt of a worker at an import, inside the worker's transactions."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.services.by import Actor, By
from tracker.services.detectors import get_open_detector
from tracker.services.imports.background import has_file, pack_report, unpack_report
from tracker.services.imports.first_pass import Reads, checked
from tracker.services.imports.images import open_zip, store_images
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reports import Outcome, RejectedImportError
from tracker.services.imports.writing import SecondPass, Written
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageStore
from tracker.storage.imports import files as storage
from tracker.storage.imports.files import (
    DONE,
    FAILED,
    REJECTED,
    Claim,
    Ending,
    FileImport,
    Progress,
)
from tracker.storage.imports.import_pieces import PieceFile
from tracker.storage.imports.written import WrittenPiece, note_piece
from tracker.words import SKIP

MOST_ATTEMPTS = 3
REST_SECONDS = 5.0
_LONGEST_ERROR = 2_000


class LostImportError(TrackerError):
    """Another worker has taken over the import; this transaction is rolled back."""


class MissingFileError(TrackerError):
    """The file is not there as a whole."""


def take_import(session: Session, worker: str, *, at: datetime) -> FileImport | None:
    """Lease *worker* an import; one that has killed too many workers fails instead."""
    while (found := storage.take_import(session, worker, at=at)) is not None:
        if found.attempts <= MOST_ATTEMPTS:
            return found
        text = (
            f"the worker ended {MOST_ATTEMPTS} times while it imported the file; "
            f"{describe_rows_done(found)}"
        )
        end_import(session, claim_of(found), Ending(FAILED, error=text), None, at=at)
    return None


def describe_rows_done(file_import: FileImport) -> str:
    """Return in words how far an import came that did not end."""
    done, rows = file_import.rows_done, file_import.rows
    if not done:
        return "nothing was written"
    of = "" if rows is None else f" of {rows:,}"
    return f"{done:,}{of} rows were written, and it can be resumed"


def claim_of(file_import: FileImport) -> Claim:
    """Return the claim of the worker that has just taken *file_import* up."""
    assert file_import.worker is not None
    return Claim(file_import.id, file_import.worker, file_import.attempts)


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
    _pieces: PieceFile
    # How many bytes of rows there are, and of images, which were stored before.
    _size: int
    _images_bytes: int

    def progress(self, rows_read: int, rows: int | None = None) -> Progress:
        """Return how far it is; *rows* are all there are, once that is known."""
        read = min(self._pieces.bytes_read, self._size)
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


def begin_attempt(
    session: Session,
    claim: Claim,
    reads: Reads,
    *,
    at: datetime,
    choices: Choices,
) -> Attempt:
    """Open the file of an import, which is read in transactions that *reads* opens.

    *choices* say how it is read, and are what ``take_images`` returned.

    Raises LostImportError where another worker is at it, MissingFileError, and
    ConflictError for a detector that was archived.
    """
    if not storage.is_claimed(session, claim):
        raise LostImportError
    file_import = storage.find_import(session, claim.import_id)
    assert file_import is not None
    if not has_file(session, file_import):
        raise MissingFileError
    size = file_import.bytes
    if choices.images_from is not None:
        size = choices.images_from
    pieces = PieceFile(reads, file_import.id, size)
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
        ),
        Written(unpack_report(file_import) or Outcome(), file_import.rows_done),
        reads,
        pieces,
        size,
        file_import.bytes - size,
    )


def take_images(
    claim: Claim,
    reads: Reads,
    store: ImageStore | None,
    *,
    on_progress: Callable[[Progress], None],
) -> Choices:
    """Store the images that came with the file, and return how to read it then.

    It only reads, in transactions that *reads* opens, so that nothing waits for the
    images.  Raises MissingFileError, NotFoundError, ConflictError for a detector that
    was archived, and InvalidInputError for what is no zip file.
    """
    with reads() as session:
        file_import = storage.find_import(session, claim.import_id)
        assert file_import is not None
        choices = Choices(**(file_import.choices or {}))
        if choices.images_from is None:
            return choices
        if not has_file(session, file_import):
            raise MissingFileError
        detector = get_open_detector(session, dump_id("det", file_import.detector_id))
    assert store is not None
    whole, rows = (
        io.BufferedReader(PieceFile(reads, claim.import_id, size))
        for size in (file_import.bytes, choices.images_from)
    )
    images_bytes = file_import.bytes - choices.images_from

    def note(done: int, total: int) -> None:
        on_progress(Progress(0, images_bytes * done // total))

    file = RowFile(file_import.format, file_import.sha256, rows, choices=choices)
    # An archive is read from its end, whatever stands before it.
    images = open_zip(whole)
    return store_images(file, detector, images, store, on_progress=note).choices


def note_written(session: Session, claim: Claim, written: Written) -> None:
    """Note a piece in its transaction; raises LostImportError if it is another's."""
    piece = WrittenPiece(
        written.outcome.rows,
        written.rows_done,
        pack_report(written.outcome),
        written.batches,
    )
    if not note_piece(session, claim, piece):
        raise LostImportError


def end_import(
    session: Session,
    claim: Claim,
    ending: Ending,
    progress: Progress | None,
    *,
    at: datetime,
) -> None:
    """End an import; raises LostImportError if it is another's.

    Its file can be deleted afterwards, in pieces; one that failed keeps it for a while.
    """
    if not storage.finish_import(session, claim, ending, progress, at=at):
        raise LostImportError


def finish_import(
    session: Session,
    claim: Claim,
    second: SecondPass,
    progress: Progress,
    *,
    at: datetime,
) -> Ending:
    """Write the last piece of an import and end it."""
    written = second.finish(session)
    note_written(session, claim, written)
    ending = Ending(DONE)
    end_import(session, claim, ending, progress, at=at)
    return ending


def refuse_import(
    session: Session,
    claim: Claim,
    error: TrackerError,
    progress: Progress,
    *,
    at: datetime,
) -> Ending:
    """End an import that the file or the detector does not allow."""
    found = storage.find_import(session, claim.import_id)
    assert found is not None
    if found.rows_done:
        text = f"{error}; {describe_rows_done(found)}"
        ending = Ending(FAILED, error=_text(text))
    else:
        ending = _rejected(error)
    end_import(session, claim, ending, progress, at=at)
    return ending


def _rejected(error: TrackerError) -> Ending:
    report = None
    if isinstance(error, RejectedImportError):
        found = error.report
        # What the last piece added before a conflict is rolled back.
        report = pack_report(
            Outcome(rows=found.rows, bad_rows=found.bad_rows, errors=found.errors)
        )
    return Ending(REJECTED, report, _text(str(error)))


def gone() -> Ending:
    """Return the end of an import whose file is not there."""
    return Ending(
        FAILED,
        error="its file is not in the database, which a backup leaves out: send it "
        "again, which adds what is missing",
    )


def let_rest(
    session: Session,
    claim: Claim,
    error: Exception,
    progress: Progress,
    *,
    at: datetime,
) -> None:
    """Leave an import alone that failed, for a while or, after some tries, for good."""
    if claim.attempt < MOST_ATTEMPTS:
        storage.give_back(session, claim, at=at, rest_seconds=REST_SECONDS, counts=True)
        return
    reason = f"{type(error).__name__}: {error}"
    found = storage.find_import(session, claim.import_id)
    assert found is not None
    text = f"it failed {claim.attempt} times, at last with {reason}; "
    text += describe_rows_done(found)
    end_import(session, claim, Ending(FAILED, error=_text(text)), progress, at=at)


def _text(said: str) -> str:
    # PostgreSQL keeps no NUL, and neither of the databases half a surrogate pair.
    sound = said.encode(errors="replace").decode().replace("\x00", "?")
    return sound[:_LONGEST_ERROR]
