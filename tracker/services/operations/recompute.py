"""Folding new labels into the running counts, and the snapshots on the way.

It goes in two steps, so that nothing is locked while intervals are computed:
``compute_folds`` reads one snapshot of the database and computes, ``store_fold``
claims a detector's next revision and writes everything in one transaction, or
nothing if another worker was faster.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.drift import Watch
from tracker.services.estimates.slice_counts import (
    SliceChanges,
    SliceTally,
)
from tracker.services.estimates.tallies import (
    StaleFoldError,
    Tally,
    in_order_of_replacement,
)
from tracker.services.operations.fold_scores import (
    Found,
    dump_scores,
    estimate_points,
    measure_points,
)
from tracker.services.telling.events import (
    DRIFT,
    FIRST_SEEN,
    VERDICT,
    Look,
    VerdictChange,
    find_last_verdicts,
    follow_verdict,
    tell,
)
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates.counts import (
    count_pending_queries,
    iter_pending_metadata,
    load_counts,
    store_counts,
)
from tracker.storage.estimates.drift import load_watches, store_watch
from tracker.storage.estimates.pending import (
    advance_revision,
    delete_batches,
    first_id,
    list_pending_batches,
)
from tracker.storage.estimates.slices import list_counted
from tracker.storage.estimates.snapshots import (
    add_intervals,
    add_measures,
    add_snapshots,
)
from tracker.storage.labelling.labels import iter_pending_labels
from tracker.storage.operations.job_runs import JobRun, add_job_run
from tracker.storage.operations.leases import end_lease
from tracker.words import DECIDING_METHOD, EXACT


@dataclass(frozen=True, slots=True)
class Fold:
    """Work done for a detector and not stored yet."""

    detector_id: int
    revision: int
    confidence_level: float
    batches: list[int]
    labels: int
    tallies: dict[int, Tally]
    intervals: Found
    measures: Found
    verdicts: dict[int, list[VerdictChange]]
    slices: SliceChanges

    @property
    def snapshots(self) -> int:
        """How many snapshots it adds."""
        return sum(len(tally.points) for tally in self.tallies.values())

    @property
    def has_corrections(self) -> bool:
        """Whether a label was replaced."""
        return any(tally.corrections for tally in self.tallies.values())


def compute_fold(session: Session, detector: Detector) -> Fold | None:
    """Return the work that waits for *detector*, done but not stored; None if none.

    Its cost grows with the new labels, whatever is there already.
    """
    return next(iter(compute_folds(session, [detector])), None)


def compute_folds(
    session: Session, detectors: Iterable[Detector], *, below: int | None = None
) -> list[Fold]:
    """Return what ``compute_fold`` does for those of *detectors* that have work.

    Their intervals are computed together, which takes far less than one by one.
    With *below*, detectors with so many new queries or labels, or more, are left out.
    """
    every = (_tally(session, detector, below) for detector in detectors)
    found = [one for one in every if one is not None]
    intervals, measures = Found(), Found()
    for level in {one.detector.confidence_level for one in found}:
        points = {
            version_id: tally.points
            for one in found
            if one.detector.confidence_level == level
            for version_id, tally in one.tallies.items()
        }
        intervals |= estimate_points(points, level)
        measures |= measure_points(points, level)
    return [_end_fold(session, one, intervals, measures) for one in found]


@dataclass(frozen=True, slots=True)
class _Tallied:
    """The new labels of a detector, counted."""

    detector: Detector
    batches: list[int]
    labels: int
    tallies: dict[int, Tally]
    slices: SliceTally


def _tally(session: Session, detector: Detector, below: int | None) -> _Tallied | None:
    batches = list(list_pending_batches(session, detector.id))
    if not batches:
        return None
    tallies = _load_tallies(session, detector)
    queries = count_pending_queries(session, detector.id, batches)
    if below is not None and sum(queries.values()) >= below:
        return None
    for version_id, number in queries.items():
        tallies[version_id].queries += number
    slices = SliceTally(session, list_counted(detector))
    if slices.names:
        with closing(iter_pending_metadata(session, detector.id, batches)) as found:
            for version_id, metadata in found:
                slices.add_query(version_id, metadata)
    labels = 0
    starts = {first_id(batch) for batch in batches}
    pending = iter_pending_labels(
        session, detector.id, batches, has_metadata=bool(slices.names)
    )
    with closing(pending) as rows:
        for row in in_order_of_replacement(rows, starts):
            tallies[row.version_id].fold(row)
            slices.fold(row)
            labels += 1
            if labels == below:
                return None
    for tally in tallies.values():
        tally.finish()
    return _Tallied(detector, batches, labels, tallies, slices)


def _end_fold(
    session: Session, one: _Tallied, intervals: Found, measures: Found
) -> Fold:
    detector, tallies = one.detector, one.tallies
    of_these, measured = (
        {version_id: found[version_id] for version_id in tallies}
        for found in (intervals, measures)
    )
    return Fold(
        detector_id=detector.id,
        revision=detector.revision,
        confidence_level=detector.confidence_level,
        batches=one.batches,
        labels=one.labels,
        tallies=tallies,
        intervals=of_these,
        measures=measured,
        verdicts=_follow_verdicts(session, detector, tallies, of_these),
        slices=one.slices.finish(detector.confidence_level),
    )


def _follow_verdicts(
    session: Session,
    detector: Detector,
    tallies: dict[int, Tally],
    intervals: Found,
) -> dict[int, list[VerdictChange]]:
    """Return how the verdict of each version changes on the way."""
    target = detector.target
    seen = [version_id for version_id, tally in tallies.items() if tally.points]
    if target is None or not seen:
        return {}
    last = find_last_verdicts(session, seen)
    found = {}
    for version_id in seen:
        points = tallies[version_id].points
        looks = [
            Look(
                points[number].correct,
                points[number].labelled,
                scores[0].low,
                scores[0].high,
                points[number].stretch,
            )
            for number, method, scores in intervals[version_id]
            if method == DECIDING_METHOD
        ]
        found[version_id] = follow_verdict(
            looks, target, detector.confidence_level, last.get(version_id)
        )
    return found


def _load_tallies(session: Session, detector: Detector) -> dict[int, Tally]:
    versions = list_versions(session, detector.id)
    ids = [version.id for version in versions]
    counts = load_counts(session, ids)
    watches = load_watches(session, ids)
    positions = {name: i for i, name in enumerate(detector.classes)}
    return {
        version.id: Tally(
            counts[version.id],
            version.next_checkpoint,
            version.next_joint,
            positions,
            Watch.of(detector, watches.get(version.id)),
        )
        for version in versions
    }


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
        if not (tally.changed or tally.queries or tally.repeats):
            continue
        cells = {cell: tally.cells[cell] for cell in sorted(tally.changed)}
        store_counts(session, version_id, cells)
        if tally.watch.has_changed:
            store_watch(session, version_id, tally.watch.dump())
        version = session.get_one(Version, version_id)
        if tally.points:
            _store_points(session, fold, version, tally, run_id, computed_at)
        _tell(session, fold, version, tally, at=computed_at)
        version.queries += tally.queries
        version.corrections += tally.corrections
        version.unstated += tally.unstated
        version.repeats += tally.repeats
        version.next_checkpoint = tally.next_checkpoint
        version.next_joint = tally.next_joint
        version.last_label_at = tally.last_label_at or version.last_label_at
    if fold.slices.rows:
        detector = session.get_one(Detector, fold.detector_id)
        fold.slices.store(session, detector, at=computed_at)
    session.flush()


def _tell(
    session: Session, fold: Fold, version: Version, tally: Tally, *, at: datetime
) -> None:
    told: list[tuple[str, dict[str, Any] | None]] = []
    if not version.queries and tally.queries:
        told.append((FIRST_SEEN, None))
    # An alarm may be what ends a verdict, so it is told first.
    told += [(DRIFT, alarm.dump()) for alarm in tally.watch.alarms]
    told += [(VERDICT, one.dump()) for one in fold.verdicts.get(version.id, ())]
    if told:
        detector = session.get_one(Detector, fold.detector_id)
        for kind, data in told:
            tell(session, kind, detector, at=at, version=version, data=data)


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
    intervals = [
        {"method": method, "formula": stats.get_method(method).formula, **row}
        for method, row in dump_scores(snapshot_ids, fold.intervals[version.id])
    ]
    add_intervals(session, intervals)
    formula = stats.get_method(EXACT).formula
    measures = [
        {"measure": measure, "formula": formula, **row}
        for measure, row in dump_scores(snapshot_ids, fold.measures[version.id])
    ]
    add_measures(session, measures)
