"""An attempt of a worker at an import, inside the worker's transactions."""

import io
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.services.access import Actor
from tracker.services.audit import record
from tracker.services.background_imports import pack_report
from tracker.services.detectors import get_open_detector
from tracker.services.import_formats import READERS
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.imports import import_rows
from tracker.storage import imports as storage
from tracker.storage.base import dump_id
from tracker.storage.import_pieces import PieceFile, delete_pieces, measure_pieces
from tracker.storage.imports import (
    DONE,
    FAILED,
    REJECTED,
    Claim,
    Ending,
    FileImport,
    Progress,
)

MOST_ATTEMPTS = 3
REST_SECONDS = 5.0
_LONGEST_ERROR = 2_000
_KILLED = Ending(
    FAILED,
    error=f"the worker ended {MOST_ATTEMPTS} times while it imported the file; nothing "
    "was written",
)


class LostImportError(TrackerError):
    """Another worker has taken the import over; what was written is rolled back."""


class MissingFileError(TrackerError):
    """The file is not there as a whole."""


def take_import(session: Session, worker: str, *, at: datetime) -> FileImport | None:
    """Lease *worker* an import; one that has killed too many workers fails instead."""
    while (found := storage.take_import(session, worker, at=at)) is not None:
        if found.attempts <= MOST_ATTEMPTS:
            return found
        end_import(session, claim_of(found), _KILLED, Progress(), at=at)
    return None


def claim_of(file_import: FileImport) -> Claim:
    """Return the claim of the worker that has just taken *file_import* up."""
    assert file_import.worker is not None
    return Claim(file_import.id, file_import.worker, file_import.attempts)


def carry_out(
    session: Session,
    claim: Claim,
    *,
    created_at: datetime,
    on_progress: Callable[[Progress], None],
) -> ImportReport:
    """Import the file; the caller ends the import in the same transaction.

    Raises LostImportError where another worker is at it, and MissingFileError,
    InvalidInputError or ConflictError where the file or the detector does not allow
    it; the transaction must then be rolled back.
    """
    if not storage.is_claimed(session, claim):
        raise LostImportError
    file_import = storage.find_import(session, claim.import_id)
    assert file_import is not None
    if measure_pieces(session, file_import.id) != file_import.bytes:
        raise MissingFileError
    detector = get_open_detector(session, dump_id("det", file_import.detector_id))
    file = PieceFile(session, file_import.id, file_import.bytes)

    def note(rows: int) -> None:
        on_progress(Progress(rows, min(file.bytes_read, file_import.bytes)))

    report = import_rows(
        session,
        detector,
        READERS[file_import.format](io.BufferedReader(file)),
        digest=file_import.sha256,
        labeler=file_import.actor,
        created_at=created_at,
        skip_bad_rows=file_import.on_error == "skip",
        on_progress=note,
    )
    if report.has_changed:
        _record(session, file_import, detector.name, report, happened_at=created_at)
    return report


def _record(
    session: Session,
    file_import: FileImport,
    subject: str,
    report: ImportReport,
    *,
    happened_at: datetime,
) -> None:
    record(
        session,
        Actor(file_import.actor, "editor", file_import.actor_kind),  # type: ignore[arg-type]
        "imported",
        subject,
        happened_at=happened_at,
        address=file_import.address,
        sha256=file_import.sha256,
        **report.counts,
    )


def end_import(
    session: Session, claim: Claim, ending: Ending, progress: Progress, *, at: datetime
) -> None:
    """End an import and delete its file; raises LostImportError if it is another's."""
    if not storage.finish_import(session, claim, ending, progress, at=at):
        raise LostImportError
    delete_pieces(session, claim.import_id)


def done(report: ImportReport) -> Ending:
    """Return the end of an import that was carried out."""
    return Ending(DONE, pack_report(report))


def rejected(error: TrackerError) -> Ending:
    """Return the end of an import that the file or the detector does not allow."""
    report = None
    if isinstance(error, RejectedImportError):
        found = error.report
        # What was added before the first bad row was met is rolled back.
        report = pack_report(
            ImportReport(rows=found.rows, bad_rows=found.bad_rows, errors=found.errors)
        )
    return Ending(REJECTED, report, _text(str(error)))


def gone() -> Ending:
    """Return the end of an import whose file is not there."""
    return Ending(
        FAILED,
        error="its file is not in the database, which a backup leaves out; nothing was "
        "written: send the file again",
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
    text = (
        f"it failed {claim.attempt} times, at last with {reason}; nothing was written"
    )
    end_import(session, claim, Ending(FAILED, error=_text(text)), progress, at=at)


def _text(said: str) -> str:
    # PostgreSQL keeps no NUL, and neither of the databases half a surrogate pair.
    sound = said.encode(errors="replace").decode().replace("\x00", "?")
    return sound[:_LONGEST_ERROR]
