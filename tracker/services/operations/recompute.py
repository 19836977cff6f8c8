"""Folding new labels into the running counts, and the snapshots on the way.

It goes in two steps, so that nothing is locked while intervals are computed:
``compute_folds`` reads one snapshot of the database and computes, ``store_folds``
claims the next revision of each detector and writes everything in one transaction,
or nothing if another worker was faster.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.drift import Watch
from tracker.services.estimates.slices.slice_counts import SliceChanges, SliceTally
from tracker.services.estimates.tallies import (
    Tally,
    in_order_of_replacement,
)
from tracker.services.operations.fold_scores import (
    Found,
    estimate_points,
    measure_points,
)
from tracker.services.telling.events import (
    Look,
    VerdictChange,
    find_last_verdicts,
    follow_verdict,
)
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.counts import (
    count_pending_queries,
    count_pending_rows,
    iter_pending_metadata,
    load_counts,
)
from tracker.storage.estimates.days import apply_changes
from tracker.storage.estimates.drift import load_watches
from tracker.storage.estimates.pending import first_id, list_pending_batches
from tracker.storage.estimates.slices import list_counted
from tracker.storage.labelling.labels import CountedLabel, iter_pending_labels
from tracker.words import DECIDING_METHOD


@dataclass(frozen=True, slots=True)
class Fold:
    """Work done for a detector and not stored yet."""

    detector_id: int
    revision: int
    confidence_level: float
    batches: Sequence[int]
    labels: int
    tallies: dict[int, Tally]
    intervals: Found
    measures: Found
    verdicts: dict[int, list[VerdictChange]]
    slices: SliceChanges
    # Of the days on which queries with new labels were asked.
    days: list[dict[str, Any]]

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

    Read and computed together they take far less than one by one.  With *below*,
    detectors with so many new queries and labels, or more, are left out.
    """
    found = _tally(session, detectors, below)
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
    verdicts = _follow_verdicts(session, found, intervals)
    return [one.end(intervals, measures, verdicts) for one in found]


@dataclass(slots=True)
class _Tallied:
    """The new labels of a detector, counted."""

    detector: Detector
    batches: Sequence[int]
    slices: SliceTally
    tallies: dict[int, Tally] = field(default_factory=dict)
    days: list[dict[str, Any]] = field(default_factory=list)
    labels: int = 0

    def fold(self, row: CountedLabel) -> None:
        """Count a label."""
        self.tallies[row.version_id].fold(row)
        if self.slices.names:
            self.slices.fold(row)
        self.labels += 1

    def end(
        self,
        intervals: Found,
        measures: Found,
        verdicts: Mapping[int, list[VerdictChange]],
    ) -> Fold:
        """Return it with what belongs to it of all that was computed."""
        return Fold(
            detector_id=self.detector.id,
            revision=self.detector.revision,
            confidence_level=self.detector.confidence_level,
            batches=self.batches,
            labels=self.labels,
            tallies=self.tallies,
            intervals={one: intervals[one] for one in self.tallies},
            measures={one: measures[one] for one in self.tallies},
            verdicts={one: verdicts[one] for one in self.tallies if one in verdicts},
            slices=self.slices.finish(self.detector.confidence_level),
            days=self.days,
        )


def _tally(
    session: Session, detectors: Iterable[Detector], below: int | None
) -> list[_Tallied]:
    by_id = {detector.id: detector for detector in detectors}
    batches = list_pending_batches(session, by_id)
    if below is not None and batches:
        rows = count_pending_rows(session, batches)
        batches = {one: batches[one] for one in batches if rows[one] < below}
    if not batches:
        return []
    found = {
        one: _Tallied(by_id[one], some, SliceTally(session, list_counted(by_id[one])))
        for one, some in batches.items()
    }
    of_version = _load_tallies(session, found)
    for version_id, number in count_pending_queries(session, batches).items():
        of_version[version_id].tallies[version_id].queries += number
    has_metadata = False
    for detector_id, one in found.items():
        if one.slices.names:
            has_metadata = True
            its = {detector_id: one.batches}
            with closing(iter_pending_metadata(session, its)) as queries:
                for version_id, metadata in queries:
                    one.slices.add_query(version_id, metadata)
    starts = {first_id(batch) for some in batches.values() for batch in some}
    pending = iter_pending_labels(session, batches, has_metadata=has_metadata)
    with closing(pending) as labels:
        for row in in_order_of_replacement(labels, starts):
            of_version[row.version_id].fold(row)
    tallies = {
        version_id: tally
        for one in found.values()
        for version_id, tally in one.tallies.items()
    }
    for tally in tallies.values():
        tally.finish()
    changes = {version_id: tally.days for version_id, tally in tallies.items()}
    for version_id, days in apply_changes(session, changes).items():
        of_version[version_id].days += days
    return list(found.values())


def _load_tallies(
    session: Session, found: Mapping[int, _Tallied]
) -> dict[int, _Tallied]:
    """Give each its counts so far, and return which one each version belongs to."""
    versions = list_versions(session, *found)
    ids = [version.id for version in versions]
    counts = load_counts(session, ids)
    watches = load_watches(session, ids)
    for version in versions:
        one = found[version.detector_id]
        one.tallies[version.id] = Tally(
            counts[version.id],
            version.next_checkpoint,
            version.next_joint,
            {name: i for i, name in enumerate(one.detector.classes)},
            Watch.of(one.detector, watches.get(version.id)),
        )
    return {version.id: found[version.detector_id] for version in versions}


def _follow_verdicts(
    session: Session, found: Sequence[_Tallied], intervals: Found
) -> dict[int, list[VerdictChange]]:
    """Return how the verdict of each version with a target changes on the way."""
    seen = {
        version_id: (one.detector, tally.points)
        for one in found
        if one.detector.target is not None
        for version_id, tally in one.tallies.items()
        if tally.points
    }
    last = find_last_verdicts(session, list(seen)) if seen else {}
    changes = {}
    for version_id, (detector, points) in seen.items():
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
        assert detector.target is not None
        changes[version_id] = follow_verdict(
            looks, detector.target, detector.confidence_level, last.get(version_id)
        )
    return changes
