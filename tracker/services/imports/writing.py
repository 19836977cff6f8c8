"""The second pass of an import: write what was checked, in short transactions.

Each piece of rows is one transaction, so that others wait for a piece at most, and see
its rows at once.  Every row is told by its key, so that a piece that is written again
adds nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.imports.first_pass import (
    Checked,
    CheckedPiece,
    checked,
    without_collector,
)
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.mapping import MappedRows
from tracker.services.imports.reading.rows import Row
from tracker.services.imports.reports import Outcome, RejectedImportError, pack_report
from tracker.services.imports.row_keys import note_keyless
from tracker.services.imports.row_writer import RowWriter
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, hold_open
from tracker.storage.dialect import commit_without_waiting, forget_plans
from tracker.storage.estimates.pending import count_groups_again
from tracker.storage.imports.files import DONE, FileImport
from tracker.storage.imports.import_pieces import note_batches
from tracker.words import REJECT, SKIP

# What is written in less time than a person notices.
LARGE_BYTES = 2**18
CarryOut = Callable[[Session], Outcome]
# Opens a transaction for some work, and tries it again where that can help.
Run = Callable[[Callable[[Session], "Written"]], "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """What an import has added so far, and the row after which it goes on."""

    outcome: Outcome = field(default_factory=Outcome)
    rows_done: int = 0
    # The batches of the last piece.
    batches: tuple[int, ...] = ()


Note = Callable[[Session, Written], None]


class SecondPass:
    """Writes the rows of one file that the first pass found right."""

    def __init__(  # noqa: PLR0913 - what is written, for whom and from where.
        self,
        found: Checked,
        detector: Detector,
        digest: str,
        by: By,
        written: Written | None = None,
        *,
        skips: bool = False,
    ) -> None:
        """Go on after what is *written*.

        Raises RejectedImportError if nothing is, and a row is bad and it does not skip.
        """
        self.written = Written() if written is None else written
        self._found = found
        self._detector = detector
        self._digest = digest
        self._by = by
        if not self.written.rows_done and found.outcome.bad_rows and not skips:
            raise RejectedImportError(found.outcome)
        if not skips:
            # They were right when the first piece was written.
            found.outcome.conflicts = found.outcome.bad_rows
        self._skips = skips
        pieces = found.pieces(after=self.written.rows_done)
        # One piece is held back, to be written with the end of the import.
        self._last: CheckedPiece | None = next(pieces, None)
        self._rest = pieces
        # All batches so far.
        self.batches: list[int] = []
        # Whether all rows are written in one transaction, and so all or none.
        self._is_one = not self.written.rows_done

    @property
    def rows(self) -> int:
        return self._found.outcome.rows

    def write(
        self, run: Run, note: Note | None = None, *, guesses: bool = True
    ) -> Iterator[Written]:
        """Write all pieces but the last, and yield what is written after each.

        *run* opens the transaction of a piece, in which *note* is called.  If it
        *guesses*, a piece of keys that were new is first written without looking for
        them again, and *run* has to try again after an IntegrityError.  Raises
        ConflictError for a detector that was archived meanwhile; what was written
        before stays.
        """
        for following in self._rest:
            piece, self._last, self._is_one = self._last, following, False
            assert piece is not None
            are_new = guesses and not self._found.repeats_keys and piece.is_new()
            self.written = run(self._work(piece, note, are_new=are_new))
            self.batches += self.written.batches
            yield self.written

    def _work(
        self, piece: CheckedPiece, note: Note | None, *, are_new: bool
    ) -> Callable[[Session], Written]:
        tries = iter((are_new,))

        def work(session: Session) -> Written:
            # The last piece waits for the disk, and brings all of them there.
            commit_without_waiting(session)
            written = self._write_piece(session, piece, are_new=next(tries, False))
            self._hold_open(session)
            if note is not None:
                note(session, written)
            return written

        return work

    def _write_piece(
        self, session: Session, piece: CheckedPiece, *, are_new: bool = False
    ) -> Written:
        forget_plans(session)
        prefix, elected = self._found.keyless.prefix, self._found.elected
        writer = RowWriter(session, self._detector, prefix, self._by, elected)
        with without_collector():
            writer.write(piece.good, are_new=are_new)
        return Written(
            self.written.outcome.plus(writer.report, rows=self.rows),
            piece.end,
            tuple(writer.batches),
        )

    def _hold_open(self, session: Session) -> None:
        """Keep the detector open; raises ConflictError if it was archived meanwhile."""
        now, was = hold_open(session, self._detector.id), self._detector
        if (now.group_by, now.label_sampling) != (was.group_by, was.label_sampling):
            # The rows were written with the groups of before.
            count_groups_again(session, was.id, created_at=self._by.at)

    def finish(self, session: Session) -> Written:
        """Write the last piece, and return what the whole import came to.

        Raises ConflictError for a detector that was archived meanwhile, and, where
        this is the only piece and it does not skip, RejectedImportError for a row that
        met a conflict; the caller's transaction must then be rolled back.
        """
        written = self.written
        if self._last is not None:
            written = self._write_piece(session, self._last)
            self.batches += written.batches
        outcome = self._found.outcome.after(written.outcome)
        if outcome.bad_rows and self._is_one and not self._skips:
            raise RejectedImportError(outcome)
        self._hold_open(session)
        note_keyless(session, self._detector.id, self._digest, self._found.keyless)
        if outcome.has_changed:
            told = {"sha256": self._digest, **outcome.counts}
            self._by.record(session, "imported", self._detector.name, **told)
        self.outcome = outcome
        return Written(outcome, self.rows, written.batches)


@contextmanager
def importing(  # noqa: PLR0913 - what is imported, by whom and how.
    database: Database,
    detector: str,
    file: RowFile,
    by: By,
    *,
    on_error: str = REJECT,
    on_read: Callable[[int], None] | None = None,
    on_written: Callable[[int, int], None] | None = None,
) -> Iterator[CarryOut]:
    """Check *file*, write all pieces but the last, and give what writes that one.

    A file of one piece is so written in the caller's transaction alone.  *on_read* is
    told how many rows are checked, *on_written* how many of how many are written.

    Raises RejectedImportError, with every bad row, before anything is written.
    """
    with database.read() as session:
        found = get_open_detector(session, detector)
    by = by.credit(file.choices.labeler)
    with checked(
        database.read,
        found,
        file.rows(found),
        by,
        digest=file.sha256,
        on_progress=on_read,
    ) as rows:
        second = SecondPass(rows, found, file.sha256, by, skips=on_error == SKIP)
        for written in second.write(database.run_piece):
            if on_written is not None:
                on_written(written.rows_done, second.rows)

        def carry_out(session: Session) -> Outcome:
            outcome = second.finish(session).outcome
            if outcome.has_changed:
                outcome.import_id = _note_import(session, found, file, by, second)
            return outcome

        yield carry_out
    database.settle(is_large=file.size >= LARGE_BYTES)


def _note_import(
    session: Session, detector: Detector, file: RowFile, by: By, second: SecondPass
) -> int:
    """Note an import that no worker carried out, so that it can be undone."""
    noted = FileImport(
        detector_id=detector.id,
        format=file.format,
        on_error=REJECT,
        sha256=file.sha256,
        bytes=file.size,
        actor=by.actor.name,
        actor_kind=by.actor.kind,
        address=by.address,
        created_at=by.at,
        started_at=by.at,
        finished_at=by.at,
        state=DONE,
        rows=second.rows,
        rows_read=second.rows,
        rows_done=second.rows,
        bytes_read=file.size,
        report=pack_report(second.outcome),
    )
    session.add(noted)
    session.flush()
    note_batches(session, (detector.id, noted.id), second.batches)
    return noted.id


def import_rows(  # noqa: PLR0913 - what is imported, by whom and how.
    session: Session,
    detector: Detector,
    rows: Iterable[Row] | MappedRows,
    by: By,
    *,
    digest: str,
    skip_bad_rows: bool = False,
) -> Outcome:
    """Add the queries and labels in *rows*, all in the caller's transaction.

    The same rows again add nothing.  A known key with another label is a
    correction, with another prediction an error.  Rows without a key are told
    apart by *digest*, a hash of the file, and their number.

    Raises RejectedImportError, with every bad row, unless *skip_bad_rows*; the
    caller's transaction must then be rolled back.
    """

    def run(work: Callable[[Session], Written]) -> Written:
        return work(session)

    with checked(
        lambda: nullcontext(session), detector, rows, by, digest=digest
    ) as found:
        second = SecondPass(found, detector, digest, by, skips=skip_bad_rows)
        for _ in second.write(run, guesses=False):
            pass
        return second.finish(session).outcome
