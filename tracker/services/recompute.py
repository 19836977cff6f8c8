"""Folding new labels into the running counts, and the snapshots on the way.

It goes in two steps, so that nothing is locked while intervals are computed:
``compute_fold`` reads one snapshot of the database and computes, ``store_fold``
claims the detector's next revision and writes everything in one transaction, or
nothing if another worker was faster.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.estimates import ScopeEstimate, current_counts, estimate_scopes
from tracker.services.fields import UNCLEAR
from tracker.storage.counts import (
    Cell,
    count_pending_queries,
    count_window,
    load_counts,
    store_counts,
)
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.job_runs import JobRun, add_job_run
from tracker.storage.labels import iter_pending_labels
from tracker.storage.pending import (
    advance_revision,
    delete_batches,
    first_id,
    list_pending_batches,
)
from tracker.storage.snapshots import add_intervals, add_snapshots

# Up to here each label makes a checkpoint; from here each hundredth part more.
DENSE_CHECKPOINTS = 100
STORED_METHODS = ("exact",)


class StaleFoldError(ConflictError):
    """Another worker has folded these labels; what was computed is thrown away."""


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a version at the moment of a snapshot."""

    kind: str
    correct: tuple[int, ...]
    labelled: tuple[int, ...]
    unclear: int
    targeted: int


@dataclass(slots=True)
class Tally:
    """The running counts of one version while labels are folded in."""

    cells: dict[Cell, int]
    next_checkpoint: int
    positions: dict[str, int]
    queries: int = 0
    corrections: int = 0
    last_label_at: datetime | None = None
    changed: set[Cell] = field(default_factory=set)
    points: list[Point] = field(default_factory=list)
    correct: list[int] = field(init=False)
    labelled: list[int] = field(init=False)
    unclear: int = 0
    targeted: int = 0
    is_recorded: bool = True

    def __post_init__(self) -> None:
        """Sum up the cells by class."""
        self.correct = [0] * len(self.positions)
        self.labelled = [0] * len(self.positions)
        for cell, number in self.cells.items():
            self._count(cell, number)

    def fold(self, row: Any) -> None:
        """Count a label in, and the one that it replaces out."""
        new = Cell(row.label, row.predicted, row.sampling == "targeted")
        self._change(new, 1)
        is_scored = new.label != UNCLEAR and not new.is_targeted
        if row.old_label is not None:
            old = Cell(row.old_label, row.predicted, row.old_sampling == "targeted")
            self._change(old, -1)
            self.corrections += 1
            is_scored = is_scored or (old.label != UNCLEAR and not old.is_targeted)
            is_scored = is_scored and old != new
        self.last_label_at = row.created_at
        if is_scored:
            self.is_recorded = False
            self._checkpoint()

    def finish(self) -> None:
        """Record where the run ended, if that is between two checkpoints."""
        if not self.is_recorded:
            self._record("run")

    def _change(self, cell: Cell, step: int) -> None:
        self.cells[cell] = self.cells.get(cell, 0) + step
        self.changed.add(cell)
        self._count(cell, step)

    def _count(self, cell: Cell, step: int) -> None:
        if cell.label == UNCLEAR:
            self.unclear += step
        elif cell.is_targeted:
            self.targeted += step
        else:
            position = self.positions[cell.label]
            self.labelled[position] += step
            if cell.predicted == cell.label:
                self.correct[position] += step

    def _checkpoint(self) -> None:
        scored = sum(self.labelled)
        if DENSE_CHECKPOINTS < scored < self.next_checkpoint:
            return
        self._record("checkpoint")
        # ceil(1.01 * scored) in whole numbers, the same on every machine.
        self.next_checkpoint = max(DENSE_CHECKPOINTS + 1, -(-101 * scored // 100))

    def _record(self, kind: str) -> None:
        self.points.append(
            Point(
                kind,
                tuple(self.correct),
                tuple(self.labelled),
                self.unclear,
                self.targeted,
            )
        )
        self.is_recorded = True


@dataclass(frozen=True, slots=True)
class Fold:
    """Work done for a detector and not stored yet."""

    detector_id: int
    revision: int
    confidence_level: float
    batches: list[int]
    labels: int
    tallies: dict[int, Tally]
    intervals: dict[int, dict[str, list[list[ScopeEstimate]]]]

    @property
    def snapshots(self) -> int:
        """How many snapshots it adds."""
        return sum(len(tally.points) for tally in self.tallies.values())


def compute_fold(session: Session, detector: Detector) -> Fold | None:
    """Return the work that waits for *detector*, done but not stored; None if none.

    Its cost grows with the new labels, whatever is there already.
    """
    batches = list(list_pending_batches(session, detector.id))
    if not batches:
        return None
    tallies = _load_tallies(session, detector)
    queries = count_pending_queries(session, detector.id, last_batch=batches[-1])
    for version_id, number in queries.items():
        tallies[version_id].queries += number
    labels = 0
    starts = {first_id(batch) for batch in batches}
    with closing(
        iter_pending_labels(session, detector.id, last_batch=batches[-1])
    ) as rows:
        for row in _in_order_of_replacement(rows, starts):
            tallies[row.version_id].fold(row)
            labels += 1
    for tally in tallies.values():
        tally.finish()
    level = detector.confidence_level
    return Fold(
        detector_id=detector.id,
        revision=detector.revision,
        confidence_level=level,
        batches=batches,
        labels=labels,
        tallies=tallies,
        intervals={
            version_id: {
                method: estimate_scopes(
                    detector.classes,
                    [point.correct for point in tally.points],
                    [point.labelled for point in tally.points],
                    method,
                    level,
                )
                for method in STORED_METHODS
            }
            for version_id, tally in tallies.items()
            if tally.points
        },
    )


def _load_tallies(session: Session, detector: Detector) -> dict[int, Tally]:
    versions = list_versions(session, detector.id)
    counts = load_counts(session, [version.id for version in versions])
    positions = {name: i for i, name in enumerate(detector.classes)}
    return {
        version.id: Tally(counts[version.id], version.next_checkpoint, positions)
        for version in versions
    }


def _in_order_of_replacement(rows: Iterable[Any], waiting: set[int]) -> Iterator[Any]:
    """Hold a label back until the one that it replaces has gone before.

    A long import draws its ids when it begins, so it may replace a label with a
    higher id that was committed meanwhile.  *waiting* are the first ids of the
    batches being folded: a replaced label of another batch is counted already.
    """
    held: dict[int, list[Any]] = {}
    for row in rows:
        replaced = row.replaces_id
        if (
            replaced is not None
            and replaced > row.id
            and _batch_start(replaced) in waiting
        ):
            held.setdefault(replaced, []).append(row)
            continue
        free = [row]
        while free:
            following = free.pop()
            yield following
            free.extend(held.pop(following.id, ()))


def _batch_start(row_id: int) -> int:
    return first_id(row_id // first_id(1))


def store_fold(
    session: Session, fold: Fold, *, worker: str, computed_at: datetime, seconds: float
) -> None:
    """Write a fold; raises StaleFoldError if another worker was faster."""
    if not advance_revision(session, fold.detector_id, seen=fold.revision):
        raise StaleFoldError("another worker has folded these labels")
    if delete_batches(session, fold.batches) != len(fold.batches):
        raise StaleFoldError("another worker has taken these batches")
    run = JobRun(
        detector_id=fold.detector_id,
        worker=worker,
        started_at=computed_at,
        seconds=seconds,
        outcome="done",
        batches=len(fold.batches),
        labels=fold.labels,
        snapshots=fold.snapshots,
        error=None,
    )
    run_id = add_job_run(session, run)
    for version_id, tally in fold.tallies.items():
        if not (tally.changed or tally.queries):
            continue
        cells = {cell: tally.cells[cell] for cell in sorted(tally.changed)}
        store_counts(session, version_id, cells)
        version = session.get_one(Version, version_id)
        if tally.points:
            _store_points(session, fold, version, tally, run_id, computed_at)
        version.queries += tally.queries
        version.corrections += tally.corrections
        version.next_checkpoint = tally.next_checkpoint
        version.last_label_at = tally.last_label_at or version.last_label_at
    session.flush()


def _store_points(  # noqa: PLR0913, PLR0917 - the parts of one write.
    session: Session,
    fold: Fold,
    version: Version,
    tally: Tally,
    run_id: int,
    computed_at: datetime,
) -> None:
    snapshot_ids = add_snapshots(
        session,
        [
            {
                "version_id": version.id,
                "sequence": version.sequence + number,
                "kind": point.kind,
                "computed_at": computed_at,
                "job_run_id": run_id,
                "confidence_level": fold.confidence_level,
                "labels": sum(point.labelled),
                "unclear": point.unclear,
                "targeted_left_out": point.targeted,
            }
            for number, point in enumerate(tally.points, start=1)
        ],
    )
    version.sequence += len(tally.points)
    add_intervals(
        session,
        [
            {
                "snapshot_id": snapshot_id,
                "method": method,
                "position": position,
                "correct": scope.correct,
                "labelled": scope.labelled,
                "accuracy": scope.accuracy,
                "low": scope.low,
                "high": scope.high,
            }
            for method, rows in fold.intervals[version.id].items()
            for snapshot_id, scopes in zip(snapshot_ids, rows, strict=True)
            for position, scope in enumerate(scopes)
        ],
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """A running count that a recount contradicts."""

    version: str
    cell: Cell
    running: int
    recounted: int


def compare_with_recount(session: Session, detector: Detector) -> list[Difference]:
    """Recount every label of *detector* and return where the counts differ.

    The recount goes by the current label of each query, the running counts went
    by the history of labels: two ways that must meet.
    """
    versions = {
        version.id: version.name for version in list_versions(session, detector.id)
    }
    running = current_counts(session, detector, list(versions))
    recounted = count_window(session, detector.id, since=None, until=None)
    return [
        Difference(name, cell, mine.get(cell, 0), theirs.get(cell, 0))
        for version_id, name in versions.items()
        for mine, theirs in [
            (running.get(version_id, {}), recounted.get(version_id, {}))
        ]
        for cell in sorted(mine.keys() | theirs.keys())
        if mine.get(cell, 0) != theirs.get(cell, 0)
    ]
