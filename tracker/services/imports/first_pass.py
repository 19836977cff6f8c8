"""The first pass of an import: read, map and check all rows, and write nothing."""

import gc
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from sys import getsizeof
from typing import IO, Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.evidence.units import Elected
from tracker.services.imports.checking import Columns, RowReader
from tracker.services.imports.contradictions import (
    Contradictions,
    Election,
    Names,
    brings_input,
    with_groups,
)
from tracker.services.imports.reading.mapping import MappedPiece, MappedRows, Piece
from tracker.services.imports.reading.rows import Row, iter_pieces, read_given
from tracker.services.imports.reports import Outcome
from tracker.services.imports.row_keys import (
    Keyless,
    find_earlier,
    key_prefix,
    keys_of,
    without_known,
)
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.words import INPUT

Reads = Callable[[], AbstractContextManager[Session]]
# About as much as 40,000 short rows take.
_BYTES_IN_MEMORY = 2**24
# One value in so many is weighed; none is longer than a note.
_WEIGHED = 16
_INSTANTS = {"asked_at", "labelled_at"}


@dataclass(frozen=True, slots=True)
class CheckedPiece:
    """Rows that are right in themselves, and the number of the last one read."""

    good: Columns
    end: int
    # The inputs of those that are stored, by key.
    stored: Mapping[str, str | None]

    def is_new(self) -> bool:
        return self.good.brings_queries() and not self.stored

    def plain(self) -> Columns | None:
        """Return its rows, if they are new, without inputs and of one labeler."""
        good = self.good
        if not self.is_new():
            return None
        return good if good.values.keys().isdisjoint((INPUT, "labeler")) else None


class _Spool:
    """Pieces, in memory while they are few, and then in a temporary file."""

    def __init__(self) -> None:
        self._held: list[CheckedPiece] = []
        self._bytes_held = 0
        self._file: IO[str] | None = None

    def add(self, piece: CheckedPiece) -> None:
        if self._bytes_held < _BYTES_IN_MEMORY:
            self._held.append(piece)
            self._bytes_held += _weigh(piece)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below.
        self._file.write(_dump(piece) + "\n")

    def __iter__(self) -> Iterator[CheckedPiece]:
        yield from self._held
        if self._file is None:
            return
        self._file.seek(0)
        yield from map(_load, self._file)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _dump(piece: CheckedPiece) -> str:
    good = piece.good
    kept = [list(good.numbers), good.values, piece.end, piece.stored]
    return json.dumps(kept, default=datetime.isoformat)


def _load(line: str) -> CheckedPiece:
    numbers, values, end, stored = json.loads(line)
    for name in _INSTANTS & values.keys():
        values[name] = read_given(values[name], _parse_instants)
    return CheckedPiece(Columns(numbers, values), end, stored)


def _parse_instants(texts: list[Any]) -> list[Any]:
    return list(map(datetime.fromisoformat, texts))


def _weigh(piece: CheckedPiece) -> int:
    """Return about how many bytes the rows of *piece* take."""
    # What is in a dictionary, its own size does not tell.
    if "metadata" in piece.good.values:
        return 3 * len(_dump(piece))
    some = (values[::_WEIGHED] for values in piece.good.values.values())
    return _WEIGHED * sum(sum(map(getsizeof, values)) for values in some)


@dataclass(slots=True)
class Checked:
    """The rows of a file after the first pass, and what is wrong with the others."""

    keyless: Keyless
    outcome: Outcome = field(default_factory=Outcome)
    # Whether a key stands in several rows.
    repeats_keys: bool = False
    # Which query of each group is to count.
    elected: Elected = field(default_factory=Elected)
    _spool: _Spool = field(default_factory=_Spool)
    # The numbers of rows that contradict others.
    _bad: set[int] = field(default_factory=set)

    def close(self) -> None:
        self._spool.close()

    def pieces(self, *, after: int = 0) -> Iterator[CheckedPiece]:
        """Yield the pieces with good rows behind the row *after*."""
        for piece in self._spool:
            if piece.end <= after:
                continue
            good = piece.good
            if self._bad:
                good = good.pick([one not in self._bad for one in good.numbers])
            if good is piece.good and len(good):
                yield piece
            elif len(good):
                yield replace(piece, good=good)


@contextmanager
def checked(  # noqa: PLR0913 - what is checked, and how it is read.
    reads: Reads,
    detector: Detector,
    rows: Iterable[Row] | MappedRows,
    by: By,
    *,
    digest: str,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Checked]:
    """Check all *rows* against the database and each other, for the block.

    The database is asked in transactions that *reads* opens, one for each piece.
    Raises InvalidInputError where the columns make no sense.
    """
    found = Checked(Keyless(key_prefix(digest)))
    try:
        _FirstPass(reads, detector, by, digest, found).run(rows, on_progress)
        yield found
    finally:
        found.close()


class _FirstPass:
    def __init__(
        self, reads: Reads, detector: Detector, by: By, digest: str, found: Checked
    ) -> None:
        self._reads = reads
        self._detector = detector
        self._by = by
        self._digest = digest
        self._checked = found
        self._keyless = found.keyless
        self._report = found.outcome
        self._keys = Names()
        self._inputs = Names()
        # Whether its rows, or queries that they label, may have groups.
        self._has_groups = detector.groups is not None
        # Whether a row labels a key that is not stored, which an earlier row may bring.
        self._has_unknown = False

    def run(
        self,
        rows: Iterable[Row] | MappedRows,
        on_progress: Callable[[int], None] | None,
    ) -> None:
        report = self._report
        with self._reads() as session:
            versions = [v.name for v in list_versions(session, self._detector.id)]
        reader = RowReader(self._detector, versions, report)
        with without_collector():
            with _pieces(rows) as pieces:
                for piece in pieces:
                    good = reader.read(piece)
                    if isinstance(rows, MappedRows):
                        self._keyless.add(good)
                    good = with_groups(good, self._detector)
                    if not report.rows:
                        continue
                    self._has_groups = self._has_groups or "group" in good.values
                    if isinstance(piece, MappedPiece):
                        report.note_values(piece.noted)
                    self._compare_with_stored(good, report.rows)
                    if on_progress is not None:
                        on_progress(report.rows)
            if isinstance(rows, MappedRows) and self._keyless.hashes:
                self._go_on(rows.choices.rows)
            self._compare_with_each_other()
            if self._has_groups:
                self._elect()
        if isinstance(rows, MappedRows):
            report.note_file(rows.plan.renamed(), rows.notes, rows.plan.warnings())
        report.put_in_order()

    def _go_on(self, which: str | None) -> None:
        """Compare the rows once more, if they go on with those of an earlier file."""
        found = self._checked
        with self._reads() as session:
            earlier = find_earlier(
                session, self._detector.id, self._digest, self._keyless, which
            )
        if earlier is None:
            return
        self._keyless.prefix = earlier.prefix
        self._keys, self._inputs, self._has_unknown = Names(), Names(), False
        spool, found._spool = found._spool, _Spool()
        for piece in spool:
            good = without_known(piece.good, earlier)
            self._report.unchanged += len(piece.good) - len(good)
            self._compare_with_stored(good, piece.end)
        spool.close()
        earlier.complete()

    def _compare_with_stored(self, good: Columns, end: int) -> None:
        keys = keys_of(good, self._keyless.prefix)
        with self._reads() as session:
            known = find_queries_by_key(session, self._detector.id, keys)
            versions = {
                v.name: v.id
                for v in (list_versions(session, self._detector.id) if known else ())
            }
        stored: dict[str, str | None] = {}
        if known or None in good.get("predicted"):
            kept = []
            for key, row in zip(keys, good.rows(), strict=True):
                query = known.get(key)
                try:
                    if query is not None:
                        brings_input(key, query._mapping, row.values, versions)
                        stored[key] = query.input
                    elif "predicted" not in row.values:
                        self._has_unknown = True
                    kept.append(True)
                except InvalidInputError as error:
                    self._refuse(row, error)
                    kept.append(False)
            good = good.pick(kept)
        self._note_names(good, stored)
        self._checked._spool.add(CheckedPiece(good, end, stored))

    def _refuse(self, row: Row, error: InvalidInputError) -> None:
        self._keyless.forget(row.number)
        self._report.add_error(row.number, error.errors)

    def _note_names(self, good: Columns, stored: Mapping[str, str | None]) -> None:
        keys, names = good.get("key"), good.get("input")
        self._keys.add(keys)
        self._inputs.add(names)
        # A row that says nothing of the input is of that of its query.
        if stored:
            self._inputs.add(
                stored.get(key)
                for key, name in zip(keys, names, strict=True)
                if name is None and key is not None
            )

    def _compare_with_each_other(self) -> None:
        keys, inputs = self._keys.find_repeated(), self._inputs.find_repeated()
        self._checked.repeats_keys = bool(keys)
        if not (keys or inputs or self._has_unknown):
            return
        found = Contradictions(
            keys, inputs, self._by.at, shares=self._detector.label_of == INPUT
        )
        for piece in self._checked._spool:
            for row in piece.good.rows():
                key = row.values.get("key")
                name = row.values.get("input") or piece.stored.get(key or "")
                is_unknown = "predicted" not in row.values and key not in piece.stored
                if not (is_unknown or found.concern(key, name)):
                    continue
                try:
                    found.check(row, piece.stored)
                except InvalidInputError as error:
                    self._checked._bad.add(row.number)
                    self._refuse(row, error)

    def _elect(self) -> None:
        election = Election(self._detector, self._checked.elected)
        prefix = self._keyless.prefix
        for piece in self._checked.pieces():
            plain = None if self._checked.repeats_keys else piece.plain()
            if plain is not None:
                election.look_at_new(plain, prefix)
                continue
            with self._reads() as session:
                election.look(session, piece.good, prefix)
        if election.waits:
            for piece in self._checked.pieces():
                election.look_again(piece.good.rows(), piece.stored)


def _pieces(
    rows: Iterable[Row] | MappedRows,
) -> AbstractContextManager[Iterable[Piece]]:
    if isinstance(rows, MappedRows):
        return rows.pieces()
    return nullcontext(iter_pieces(rows))


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
