"""Importing many queries and labels at once, all or nothing unless told otherwise."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tracker.clock import Clock
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.imports.checking import Columns, RowReader
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.mapping import MappedPiece, MappedRows
from tracker.services.imports.reading.rows import Piece, Row, iter_pieces
from tracker.services.imports.reports import Outcome, RejectedImportError
from tracker.services.imports.row_writer import RowWriter
from tracker.services.imports.staging import (
    LARGE_BYTES,
    Stage,
    Writes,
    clear,
    clear_ended,
)
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, hold_open, list_versions
from tracker.storage.dialect import forget_plans
from tracker.words import REJECT, SKIP

CarryOut = Callable[[Session], Outcome]


def import_file(  # noqa: PLR0913 - what is imported, by whom and how.
    session: Session,
    detector: Detector,
    file: RowFile,
    by: By,
    *,
    on_error: str = REJECT,
    on_progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Add the queries and labels in *file*; see ``import_rows``."""
    report = import_rows(
        session,
        detector,
        file.rows(detector),
        by.credit(file.choices.labeler),
        digest=file.sha256,
        skip_bad_rows=on_error == SKIP,
        on_progress=on_progress,
    )
    _end(session, detector, file, by, report)
    return report


def _end(
    session: Session, detector: Detector, file: RowFile, by: By, report: Outcome
) -> None:
    hold_open(session, detector.id)
    if report.has_changed:
        told = {"sha256": file.sha256, **report.counts}
        by.record(session, "imported", detector.name, **told)


def import_rows(  # noqa: PLR0913 - what is imported, by whom and how.
    session: Session,
    detector: Detector,
    rows: Iterable[Row] | MappedRows,
    by: By,
    *,
    digest: str,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Add the queries and labels in *rows*.

    The same rows again add nothing.  A known key with another label is a
    correction, with another prediction an error.  Rows without a key are told
    apart by *digest*, a hash of the file, and their number.

    Raises RejectedImportError, with every bad row, unless *skip_bad_rows*; the
    caller's transaction must then be rolled back.
    """
    forget_plans(session)
    with closing(RowWriter(session, detector, digest, by)) as run:
        _write_all(run, rows, run.write, on_progress)
    if run.report.bad_rows and not skip_bad_rows:
        raise RejectedImportError(run.report)
    return run.report


def stage_file(  # noqa: PLR0913 - what is imported, by whom and how.
    writes: Writes,
    detector: Detector,
    file: RowFile,
    by: By,
    stage: Stage,
    *,
    on_error: str = REJECT,
    on_progress: Callable[[int], None] | None = None,
) -> "Staged":
    """Write the queries and labels in *file* where nobody sees them.

    In many transactions, which *writes* opens: it is that of ``Database.staging``.
    What is wrong with a row is said when they are shown.
    """
    with writes() as session:
        run = RowWriter(
            session, detector, file.sha256, by.credit(file.choices.labeler), stage
        )

    def write(good: Columns | list[Row]) -> None:
        with writes() as session:
            run.go_on(session)
            run.write(good)
            run.close()

    _write_all(run, file.rows(detector), write, on_progress)
    return Staged(run, detector, file, by, skips=on_error == SKIP)


@contextmanager
def importing(  # noqa: PLR0913 - what is imported, by whom and how.
    database: Database,
    detector: str,
    file: RowFile,
    by: By,
    *,
    clock: Clock,
    on_error: str = REJECT,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[CarryOut]:
    """Give what imports *file* in the caller's write.

    A large one is written into SQLite before, in pieces that let others in between,
    and that write only shows it.  What it does not show is deleted.
    """
    is_large = file.size >= LARGE_BYTES
    if not (database.is_sqlite and is_large):

        def import_now(session: Session) -> Outcome:
            found = get_open_detector(session, detector)
            return import_file(
                session, found, file, by, on_error=on_error, on_progress=on_progress
            )

        yield import_now
        if is_large:
            database.settle()
        return
    with database.read() as session:
        found = get_open_detector(session, detector)
    stage = Stage(clock)
    with database.staging() as writes:
        # A worker does so too, but there may be none.
        clear_ended(writes, at=clock())
        try:
            yield stage_file(
                writes,
                found,
                file,
                by,
                stage,
                on_error=on_error,
                on_progress=on_progress,
            ).show
        finally:
            clear(writes, stage.owner_id)
    database.settle()


@dataclass(frozen=True, slots=True)
class Staged:
    """An import of which all is written, and nothing shown yet."""

    _run: RowWriter
    _detector: Detector
    _file: RowFile
    _by: By
    skips: bool

    def show(self, session: Session) -> Outcome:
        """Show all rows from the end of the caller's transaction on.

        Raises ConflictError for a detector that was archived meanwhile, and
        RejectedImportError for rows that contradict what came in meanwhile.
        """
        report = self._run.report
        self._run.show(session)
        report.put_in_order()
        if report.bad_rows and not self.skips:
            raise RejectedImportError(report)
        _end(session, self._detector, self._file, self._by, report)
        return report


def _write_all(
    run: RowWriter,
    rows: Iterable[Row] | MappedRows,
    write: Callable[[Columns | list[Row]], None],
    on_progress: Callable[[int], None] | None,
) -> None:
    """Write all rows, and note what is wrong with some.

    Also where nothing will stay because of that: only a row that is compared with
    those before it, and with what is stored, is known to be right.
    """
    with _without_collector(), _pieces(rows) as pieces:
        for piece in pieces:
            good = run.reader.read(piece)
            if not run.report.rows:
                continue
            if isinstance(piece, MappedPiece):
                run.report.note_values(piece.noted)
            write(good)
            if on_progress is not None:
                on_progress(run.report.rows)
    if isinstance(rows, MappedRows):
        run.report.note_file(rows.plan.renamed(), rows.notes)
    run.report.put_in_order()


def check_rows(session: Session, detector: Detector, rows: MappedRows) -> None:
    """Raise RejectedImportError if a row is wrong in itself; none is compared."""
    report = Outcome()
    versions = [version.name for version in list_versions(session, detector.id)]
    reader = RowReader(detector, versions, report)
    with rows.pieces() as pieces:
        for piece in pieces:
            reader.read(piece)
    if report.bad_rows:
        raise RejectedImportError(report)


def _pieces(
    rows: Iterable[Row] | MappedRows,
) -> AbstractContextManager[Iterable[Piece]]:
    if isinstance(rows, MappedRows):
        return rows.pieces()
    return nullcontext(iter_pieces(rows))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the collector of cycles from running.

    Rows come and go in such numbers that it would look through all that the
    process has loaded, ten times in 100,000 rows, for cycles that no row makes.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
