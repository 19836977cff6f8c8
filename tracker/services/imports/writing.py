"""An import in two passes: the first checks the whole file, the second writes it.

The first writes nothing.  The second writes in short transactions, so that others wait
for a piece of rows at most, and see its rows at once.  Rows are known by their keys: a
piece that is written again adds nothing.
"""

import gc
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from sys import getsizeof
from typing import IO, Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.evidence.units import Elected
from tracker.services.imports import contradictions, row_keys
from tracker.services.imports.checking import Columns, RowReader
from tracker.services.imports.reading.choices import Mapping
from tracker.services.imports.reading.files import RowFile, load_mapping, save_mapping
from tracker.services.imports.reading.mapping import MappedRows
from tracker.services.imports.reading.rows import JUDGE, PIECE_ROWS, Row
from tracker.services.imports.reports import Outcome, RejectedImportError, pack_report
from tracker.services.imports.row_writer import RowWriter
from tracker.storage import dialect
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, hold_open, list_versions
from tracker.storage.estimates.pending import count_groups_again
from tracker.storage.imports import DONE, FileImport, note_batches, note_file
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.storage.queries.waiting import find_waiting_by_keys
from tracker.words import INPUT, REJECT, SKIP

# What is written in less time than a person notices.
LARGE_BYTES = 2**18
Reads = Callable[[], AbstractContextManager[Session]]
# About as much as 40,000 short rows take.
_BYTES_IN_MEMORY = 2**24
# One in so many values is measured; none is longer than a note.
_WEIGHED = 16
_INSTANTS = {"asked_at", "labelled_at"}
_ROWS_ON_SQLITE = 1_000


@dataclass(frozen=True, slots=True)
class CheckedPiece:
    """Rows that are valid by themselves, and the number of the last row read."""

    good: Columns
    end: int
    # The inputs of those that are stored, by key.
    stored: dict[str, str | None]

    def is_new(self) -> bool:
        return self.good.brings_queries() and not self.stored

    def cut(self, most: int) -> Iterator["CheckedPiece"]:
        """Yield parts of at most so many rows."""
        for start in range(0, len(self.good), most):
            places = range(len(self.good))
            part = self.good.pick([start <= one < start + most for one in places])
            is_last = start + most >= len(self.good)
            yield replace(
                self, good=part, end=self.end if is_last else part.numbers[-1]
            )


class _Spool:
    """Pieces, in memory while they are few, and then in a temporary file."""

    def __init__(self) -> None:
        self._held: list[CheckedPiece] = []
        self._bytes_held = 0
        self._file: IO[str] | None = None

    def add(self, piece: CheckedPiece) -> None:
        if self._bytes_held < _BYTES_IN_MEMORY:
            self._held.append(piece)
            values = piece.good.values
            # The size of a dictionary does not include its values.
            if "metadata" in values:
                self._bytes_held += 3 * len(_dump(piece))
            else:
                some = (sum(map(getsizeof, one[::_WEIGHED])) for one in values.values())
                self._bytes_held += _WEIGHED * sum(some)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below.
        self._file.write(_dump(piece) + "\n")

    def __iter__(self) -> Iterator[CheckedPiece]:
        yield from self._held
        if self._file is None:
            return
        self._file.seek(0)
        for line in self._file:
            numbers, values, end, stored = json.loads(line)
            for name in _INSTANTS & values.keys():
                said = values[name]
                values[name] = [one and datetime.fromisoformat(one) for one in said]
            yield CheckedPiece(Columns(numbers, values), end, stored)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _dump(piece: CheckedPiece) -> str:
    good = piece.good
    kept = [list(good.numbers), good.values, piece.end, piece.stored]
    return json.dumps(kept, default=datetime.isoformat)


@dataclass(slots=True)
class Checked:
    """The valid rows of a file after the first pass, and the errors of the others."""

    reads: Reads
    detector: Detector
    digest: str
    by: By
    keyless: row_keys.Keyless
    outcome: Outcome = field(default_factory=Outcome)
    # Whether a key stands in several rows.
    repeats_keys: bool = False
    # Which query of each group is to count.
    elected: Elected = field(default_factory=Elected)
    _spool: _Spool = field(default_factory=_Spool)
    # The numbers of rows that contradict others.
    _bad: set[int] = field(default_factory=set)
    _keys: contradictions.Names = field(default_factory=contradictions.Names)
    _inputs: contradictions.Names = field(default_factory=contradictions.Names)
    # Whether a row labels a key that is not stored; an earlier row may add it.
    _has_unknown: bool = False

    def close(self) -> None:
        self._spool.close()

    def pieces(self, *, after: int = 0) -> Iterator[CheckedPiece]:
        """Yield the pieces that have valid rows after row *after*."""
        for piece in self._spool:
            numbers = piece.good.numbers
            good = piece.good.pick(
                [one > after and one not in self._bad for one in numbers]
            )
            if len(good):
                yield replace(piece, good=good)

    def check(self, rows: MappedRows, on_progress: Callable[[int], None]) -> None:
        """Compare the rows with what is stored, and then with each other."""
        report = self.outcome
        # Whether its rows, or queries that they label, may have groups.
        has_groups = self.detector.groups is not None
        with self.reads() as session:
            versions = [v.name for v in list_versions(session, self.detector.id)]
        reader = RowReader(self.detector, versions, report)
        with without_collector():
            with rows.pieces() as pieces:
                for piece in pieces:
                    good = reader.read(piece)
                    self.keyless.add(good)
                    good = contradictions.with_groups(good, self.detector)
                    if not report.rows:
                        continue
                    has_groups = has_groups or "group" in good.values
                    report.note_values(piece.noted)
                    self._compare_with_stored(good, report.rows)
                    on_progress(report.rows)
            if self.keyless.hashes:
                self._go_on(rows.choices.rows)
            self._compare_repeated()
            if has_groups:
                self._elect()
        report.note_file(rows.plan.renamed(), rows.notes, rows.plan.warnings())
        report.put_in_order()
        self._keys = self._inputs = contradictions.Names()

    def _go_on(self, which: str | None) -> None:
        """Compare the rows again if the file continues an earlier one without keys."""
        with self.reads() as session:
            earlier = row_keys.find_earlier(
                session, self.detector.id, self.digest, self.keyless, which
            )
        if earlier is None:
            return
        self.keyless.prefix = earlier.prefix
        self._keys, self._inputs = contradictions.Names(), contradictions.Names()
        self._has_unknown = False
        spool, self._spool = self._spool, _Spool()
        with closing(spool):
            for piece in spool:
                read = piece.good
                # What judges say of a row is no part of it: it may be new.
                judged = {
                    number
                    for name, said in read.values.items()
                    if name.startswith(JUDGE)
                    for number, one in zip(read.numbers, said, strict=True)
                    if one is not None
                }
                good = read.pick(
                    [n in judged or not earlier.has(n) for n in read.numbers]
                )
                self.outcome.unchanged += len(read) - len(good)
                self._compare_with_stored(good, piece.end)
        earlier.complete()

    def _compare_with_stored(self, good: Columns, end: int) -> None:
        keys = row_keys.keys_of(good, self.keyless.prefix)
        with self.reads() as session:
            known = find_queries_by_key(session, self.detector.id, keys)
            there = list_versions(session, self.detector.id) if known else ()
            versions = {version.name: version.id for version in there}
            waiting = {}
            if "key" in good.values:
                waiting = find_waiting_by_keys(session, self.detector.id, keys)
        stored: dict[str, str | None] = {}
        if known or waiting or None in good.get("predicted"):
            kept = []
            for key, row in zip(keys, good.rows(), strict=True):
                query = known.get(key)
                try:
                    if query is None and key in waiting and "predicted" in row.values:
                        contradictions.check_completion(key, waiting[key], row.values)
                        stored[key] = waiting[key].input
                    elif query is not None:
                        has = query._mapping
                        contradictions.brings_input(key, has, row.values, versions)
                        stored[key] = query.input
                    elif "predicted" not in row.values:
                        self._has_unknown = True
                    kept.append(True)
                except InvalidInputError as error:
                    self._refuse(row, error)
                    kept.append(False)
            good = good.pick(kept)
        keys, names = good.get("key"), good.get("input")
        self._keys.add(keys)
        self._inputs.add(names)
        # A row without an input has the input of its stored query.
        if stored:
            self._inputs.add(
                stored.get(key)
                for key, name in zip(keys, names, strict=True)
                if name is None and key is not None
            )
        self._spool.add(CheckedPiece(good, end, stored))

    def _refuse(self, row: Row, error: InvalidInputError) -> None:
        self.keyless.forget(row.number)
        self.outcome.add_error(row.number, error.errors)

    def _compare_repeated(self) -> None:
        keys, inputs = self._keys.find_repeated(), self._inputs.find_repeated()
        self.repeats_keys = bool(keys)
        shares = self.detector.label_of == INPUT
        found = contradictions.Contradictions(keys, inputs, self.by.at, shares)
        for piece in self._spool if keys or inputs or self._has_unknown else ():
            for row in piece.good.rows():
                try:
                    found.check(row, piece.stored)
                except InvalidInputError as error:
                    self._bad.add(row.number)
                    self._refuse(row, error)

    def _elect(self) -> None:
        election = contradictions.Election(self.detector, self.elected)
        prefix = self.keyless.prefix
        for piece in self.pieces():
            is_plain = piece.good.values.keys().isdisjoint((INPUT, "labeler"))
            if is_plain and piece.is_new() and not self.repeats_keys:
                election.look_at_new(piece.good, prefix)
                continue
            with self.reads() as session:
                election.look(session, piece.good, prefix)
        for piece in self.pieces() if election.waiting else ():
            election.look_again(piece.good.rows(), piece.stored)


@contextmanager
def checked(
    reads: Reads,
    detector: Detector,
    file: RowFile,
    by: By,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Checked]:
    """Check all rows of *file* against the database and each other, for the block.

    The database is asked in transactions that *reads* opens, one for each piece.
    Raises InvalidInputError where the columns make no sense.
    """
    keyless = row_keys.Keyless(row_keys.key_prefix(file.sha256))
    with closing(Checked(reads, detector, file.sha256, by, keyless)) as found:
        found.check(file.rows(detector), on_progress)
        yield found


@contextmanager
def without_collector() -> Iterator[None]:
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


def most_rows(database: Database) -> int:
    """Return how many rows are written at once: on SQLite all others wait for them."""
    return _ROWS_ON_SQLITE if database.is_sqlite else PIECE_ROWS


CarryOut = Callable[[Session], Outcome]
# Opens a transaction for some work, and tries it again where that can help.
Run = Callable[[Callable[[Session], "Written"]], "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """What an import has added so far, and the row after which it goes on."""

    outcome: Outcome = field(default_factory=Outcome)
    rows_done: int = 0
    batches: tuple[int, ...] = ()


Note = Callable[[Session, Written], None]


class SecondPass:
    """Writes the rows of one file that the first pass found right."""

    def __init__(
        self, found: Checked, written: Written | None = None, *, skips: bool = False
    ) -> None:
        """Go on after what is *written*.

        Raises RejectedImportError if nothing is, and a row is bad and it does not skip.
        """
        self.written = written or Written()
        self._found = found
        self.detector = found.detector
        self._by = found.by
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
        self.batches: list[int] = []
        # Whether all rows are written in one transaction, and so all or none.
        self._is_one = not self.written.rows_done
        # Whether the first try of a piece takes its keys for new.
        self._are_new = False

    @property
    def rows(self) -> int:
        return self._found.outcome.rows

    def write(
        self, run: Run, note: Note = lambda *_: None, *, most: int = PIECE_ROWS
    ) -> Iterator[Written]:
        """Write all pieces but the last, and yield what is written after each.

        *run* opens a transaction for at most so many rows, in which *note* is called.
        Keys that were new are first written without looking for them again, and *run*
        has to try again after an IntegrityError.  Raises ConflictError for a detector
        that was archived meanwhile; what was written before stays.
        """
        for following in self._rest:
            whole, self._last, self._is_one = self._last, following, False
            assert whole is not None
            are_new = not self._found.repeats_keys and whole.is_new()
            for piece in whole.cut(most):
                self._are_new = are_new
                self.written = run(partial(self._work, piece, note))
                self.batches += self.written.batches
                yield self.written

    def _work(self, piece: CheckedPiece, note: Note, session: Session) -> Written:
        # The last piece waits for the disk, and brings all of them there.
        dialect.commit_without_waiting(session)
        are_new, self._are_new = self._are_new, False
        written = self._write_piece(session, piece, are_new=are_new)
        self._hold_open(session)
        note(session, written)
        return written

    def _write_piece(
        self, session: Session, piece: CheckedPiece, *, are_new: bool = False
    ) -> Written:
        dialect.forget_plans(session)
        prefix, elected = self._found.keyless.prefix, self._found.elected
        writer = RowWriter(session, self.detector, prefix, self._by, elected)
        with without_collector():
            writer.write(piece.good, are_new=are_new)
        return Written(
            self.written.outcome.plus(writer.report, rows=self.rows),
            piece.end,
            tuple(writer.batches),
        )

    def _hold_open(self, session: Session) -> None:
        """Keep the detector open; raises ConflictError if it was archived meanwhile."""
        now, was = hold_open(session, self.detector.id), self.detector
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
        digest = self._found.digest
        keyless = self._found.keyless
        if any(keyless.hashes):
            own = digest[:16], keyless.prefix, keyless.hashes
            note_file(session, self.detector.id, *own)
        if outcome.has_changed:
            told = {"sha256": digest, **outcome.counts}
            self._by.record(session, "imported", self.detector.name, **told)
        self.outcome = outcome
        return Written(outcome, self.rows, written.batches)


@dataclass(frozen=True, slots=True)
class Order:
    """A file to be imported: into which detector, by whom and how."""

    detector: str
    file: RowFile
    by: By
    on_error: str = REJECT
    # Whether how the file is read is saved for the next files of the detector.
    saves_mapping: bool = False

    def save(self, session: Session) -> None:
        if self.saves_mapping:
            detector = get_open_detector(session, self.detector)
            choices = self.file.choices.join(load_mapping(detector))
            found = {name: getattr(choices, name) for name in Mapping.model_fields}
            found["columns"] = choices.remembered | choices.columns
            save_mapping(session, detector, Mapping(**found), self.by)

    def to_row(self, detector: Detector, **more: Any) -> FileImport:
        """Return it as it is stored, with what *more* says of it."""
        said = {
            "detector_id": detector.id,
            "format": self.file.format,
            "on_error": self.on_error,
            "sha256": self.file.sha256,
            "bytes": self.file.size,
            "actor": self.by.actor.name,
            "actor_kind": self.by.actor.kind,
            "address": self.by.address,
            "created_at": self.by.at,
        }
        return FileImport(**said | more)


@contextmanager
def importing(
    database: Database,
    order: Order,
    *,
    on_read: Callable[[int], None] = lambda _: None,
    on_written: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[CarryOut]:
    """Check a file, write all pieces but the last, and give what writes that one.

    A file of one piece is so written in the caller's transaction alone.  *on_read* is
    told how many rows are checked, *on_written* how many of how many are written.

    Raises RejectedImportError, with every bad row, before anything is written.
    """
    file = order.file
    with database.read() as session:
        detector = get_open_detector(session, order.detector)
    by = order.by.credit(file.choices.labeler)
    with checked(database.read, detector, file, by, on_read) as rows:
        second = SecondPass(rows, skips=order.on_error == SKIP)
        for written in second.write(database.run_piece, most=most_rows(database)):
            on_written(written.rows_done, second.rows)

        def carry_out(session: Session) -> Outcome:
            outcome = second.finish(session).outcome
            if outcome.has_changed:
                # So that it can be undone, as those that a worker carries out.
                noted = order.to_row(
                    second.detector,
                    on_error=REJECT,
                    started_at=order.by.at,
                    finished_at=order.by.at,
                    state=DONE,
                    report=pack_report(outcome),
                    bytes_read=file.size,
                    **dict.fromkeys(("rows", "rows_read", "rows_done"), second.rows),
                )
                session.add(noted)
                session.flush()
                note_batches(session, (detector.id, noted.id), second.batches)
                outcome.import_id = noted.id
            order.save(session)
            return outcome

        yield carry_out
    database.settle(is_large=file.size >= LARGE_BYTES)
