"""Folding new labels into the running counts, and the snapshots on the way.

It goes in two steps, so that nothing is locked while intervals are computed:
``compute_fold`` reads one snapshot of the database and computes, ``store_fold``
claims the detector's next revision and writes everything in one transaction, or
nothing if another worker was faster.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.estimates import (
    STORED_METHODS,
    ScopeEstimate,
    estimate_scopes,
)
from tracker.services.tallies import Point, Tally
from tracker.storage.counts import (
    count_pending_queries,
    load_counts,
    store_counts,
)
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.job_runs import JobRun, add_job_run
from tracker.storage.labels import iter_pending_labels
from tracker.storage.leases import end_lease
from tracker.storage.pending import (
    advance_revision,
    delete_batches,
    first_id,
    list_pending_batches,
)
from tracker.storage.snapshots import add_intervals, add_snapshots


class StaleFoldError(ConflictError):
    """Another worker has folded these labels; what was computed is thrown away."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Work done for a detector and not stored yet."""

    detector_id: int
    revision: int
    confidence_level: float
    batches: list[int]
    labels: int
    tallies: dict[int, Tally]
    intervals: dict[int, list[tuple[int, str, list[ScopeEstimate]]]]

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
    queries = count_pending_queries(session, detector.id, batches)
    for version_id, number in queries.items():
        tallies[version_id].queries += number
    labels = 0
    starts = {first_id(batch) for batch in batches}
    with closing(iter_pending_labels(session, detector.id, batches)) as rows:
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
            version_id: list(_estimate_points(detector.classes, tally.points, level))
            for version_id, tally in tallies.items()
        },
    )


def _estimate_points(
    classes: Sequence[str], points: Sequence[Point], level: float
) -> Iterator[tuple[int, str, list[ScopeEstimate]]]:
    """Yield the estimates of each method with the number of the point."""
    for method in STORED_METHODS:
        chosen = [i for i, point in enumerate(points) if method in point.methods]
        if not chosen:
            continue
        correct = [points[i].correct for i in chosen]
        labelled = [points[i].labelled for i in chosen]
        rows = estimate_scopes(classes, correct, labelled, method, level)
        for number, scopes in zip(chosen, rows, strict=True):
            yield number, method, scopes


def _load_tallies(session: Session, detector: Detector) -> dict[int, Tally]:
    versions = list_versions(session, detector.id)
    counts = load_counts(session, [version.id for version in versions])
    positions = {name: i for i, name in enumerate(detector.classes)}
    return {
        version.id: Tally(
            counts[version.id], version.next_checkpoint, version.next_joint, positions
        )
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
    end_lease(session, fold.detector_id)
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
        version.next_joint = tally.next_joint
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
                "snapshot_id": snapshot_ids[number],
                "method": method,
                "position": position,
                "correct": scope.correct,
                "labelled": scope.labelled,
                "accuracy": scope.accuracy,
                "low": scope.low,
                "high": scope.high,
            }
            for number, method, scopes in fold.intervals[version.id]
            for position, scope in enumerate(scopes)
        ],
    )
