"""Writing folds: counts, snapshots, events and the run, in the caller's transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.tallies import StaleFoldError, Tally
from tracker.services.operations.fold_scores import dump_scores
from tracker.services.operations.recompute import Fold
from tracker.services.telling.events import DRIFT, FIRST_SEEN, VERDICT, tell
from tracker.storage.detectors import Detector, Version, load_versions
from tracker.storage.estimates.counts import store_counts
from tracker.storage.estimates.days import store_days
from tracker.storage.estimates.drift import store_watches
from tracker.storage.estimates.pending import advance_revisions, delete_batches
from tracker.storage.estimates.snapshots import (
    add_intervals,
    add_measures,
    add_snapshots,
)
from tracker.storage.operations.job_runs import JobRun, add_job_runs
from tracker.storage.tasks import RECOMPUTE, withdraw
from tracker.words import EXACT


def store_folds(
    session: Session,
    folds: Sequence[Fold],
    *,
    worker: str,
    computed_at: datetime,
    seconds: float,
) -> None:
    """Write folds that took so many *seconds* each.

    Raises StaleFoldError if another worker was faster with one of them; the caller
    rolls all of them back.
    """
    if not advance_revisions(session, {one.detector_id: one.revision for one in folds}):
        raise StaleFoldError("another worker has folded these labels")
    batches = [batch for one in folds for batch in one.batches]
    if delete_batches(session, batches) != len(batches):
        raise StaleFoldError("another worker has taken these batches")
    withdraw(session, RECOMPUTE, *(str(one.detector_id) for one in folds))
    runs = [
        JobRun(
            detector_id=one.detector_id,
            worker=worker,
            started_at=computed_at,
            seconds=seconds,
            outcome="done",
            batches=len(one.batches),
            labels=one.labels,
            snapshots=one.snapshots,
            error=None,
        )
        for one in folds
    ]
    run_ids = add_job_runs(session, runs)
    changed = {
        version_id: tally
        for one in folds
        for version_id, tally in one.tallies.items()
        if tally.changed or tally.queries or tally.repeats
    }
    _store_counts(session, changed)
    store_days(session, [row for one in folds for row in one.days])
    versions = load_versions(session, changed)
    _store_points(session, folds, versions, run_ids, computed_at)
    for one in folds:
        for version_id, tally in one.tallies.items():
            if version_id in changed:
                version = versions[version_id]
                _tell(session, one, version, tally, at=computed_at)
                _advance(version, tally)
        if one.slices.rows:
            detector = session.get_one(Detector, one.detector_id)
            one.slices.store(session, detector, at=computed_at)
    session.flush()


def _store_counts(session: Session, changed: Mapping[int, Tally]) -> None:
    counts = {
        version_id: {cell: tally.cells[cell] for cell in tally.changed}
        for version_id, tally in changed.items()
    }
    store_counts(session, counts)
    states = {
        version_id: tally.watch.dump()
        for version_id, tally in changed.items()
        if tally.watch.has_changed
    }
    store_watches(session, states)


def _advance(version: Version, tally: Tally) -> None:
    version.sequence += len(tally.points)
    version.queries += tally.queries
    version.corrections += tally.corrections
    version.unstated += tally.unstated
    version.repeats += tally.repeats
    version.next_checkpoint = tally.next_checkpoint
    version.next_joint = tally.next_joint
    version.last_label_at = tally.last_label_at or version.last_label_at


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


def _store_points(
    session: Session,
    folds: Sequence[Fold],
    versions: Mapping[int, Version],
    run_ids: Sequence[int],
    computed_at: datetime,
) -> None:
    """Write the snapshots of all versions, and the rows of each."""
    chosen = [
        (one, run_id, versions[version_id], tally.points)
        for one, run_id in zip(folds, run_ids, strict=True)
        for version_id, tally in one.tallies.items()
        if tally.points
    ]
    if not chosen:
        return
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
            for fold, run_id, version, points in chosen
            for number, point in enumerate(points, start=1)
        ],
    )
    formulas = {name: stats.get_method(name).formula for name in stats.METHODS}
    intervals: list[dict[str, Any]] = []
    measures: list[dict[str, Any]] = []
    left = iter(snapshot_ids)
    for fold, _, version, points in chosen:
        its = list(islice(left, len(points)))
        intervals += [
            {"method": method, "formula": formulas[method], **row}
            for method, row in dump_scores(its, fold.intervals[version.id])
        ]
        measures += [
            {"measure": measure, "formula": formulas[EXACT], **row}
            for measure, row in dump_scores(its, fold.measures[version.id])
        ]
    add_intervals(session, intervals)
    add_measures(session, measures)
