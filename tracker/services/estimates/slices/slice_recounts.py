"""Counting slices from all labels: of a key declared later, and as a check."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.slices.slice_counts import SliceChanges, SliceTally
from tracker.services.estimates.tallies import StaleFoldError, in_order_of_replacement
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.counts import iter_counted_metadata
from tracker.storage.estimates.pending import advance_revisions
from tracker.storage.estimates.slices import (
    delete_slices,
    list_counted,
    list_slices,
    list_uncounted,
)
from tracker.storage.labelling.labels import iter_counted_labels


class _All:
    """Holds whatever one asks for."""

    def __contains__(self, _one: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class SliceRecount:
    """The slices of a detector counted from all its labels, and not stored yet."""

    detector_id: int
    revision: int
    changes: SliceChanges


def compute_slices(session: Session, detector: Detector) -> SliceRecount | None:
    """Count the slices by the keys that were declared since; None if none were.

    It takes what the job has folded in, and no lock: writers go on meanwhile.
    """
    names = list_uncounted(detector)
    if not names:
        return None
    return SliceRecount(
        detector.id, detector.revision, _recount(session, detector, names)
    )


def _recount(
    session: Session, detector: Detector, names: Sequence[str]
) -> SliceChanges:
    tally = SliceTally(session, names, is_new=True)
    with closing(iter_counted_metadata(session, detector.id)) as queries:
        for version_id, metadata in queries:
            tally.add_query(version_id, metadata)
    with closing(iter_counted_labels(session, detector.id)) as rows:
        for row in in_order_of_replacement(rows, _All()):
            tally.fold(row)
    return tally.finish(detector.confidence_level)


def store_slices(session: Session, recount: SliceRecount, *, at: datetime) -> None:
    """Put the slices in the place of what was stored of these keys.

    Raises StaleFoldError if labels were folded in meanwhile: count once more.
    """
    if not advance_revisions(session, {recount.detector_id: recount.revision}):
        raise StaleFoldError("labels were folded in meanwhile")
    detector = session.get_one(Detector, recount.detector_id)
    names = recount.changes.names
    delete_slices(session, detector.id, names)
    recount.changes.store(session, detector, at=at)
    counted = {*detector.counted_slices, *names}
    detector.counted_slices = [name for name in detector.slices if name in counted]


@dataclass(frozen=True, slots=True)
class SliceDifference:
    """A running count of a slice that a recount contradicts."""

    version: str
    by: str
    value: str
    running: dict[str, list[int]]
    recounted: dict[str, list[int]]


def compare_slices(session: Session, detector: Detector) -> list[SliceDifference]:
    """Recount the slices of *detector* and return where the counts differ."""
    names = list_counted(detector)
    if not names:
        return []
    recounted: dict[tuple[int, str], dict[str, Any]] = {}
    for row in _recount(session, detector, names).rows:
        by_value = recounted.setdefault((row["version_id"], row["name"]), {})
        by_value[row["value"]] = _drop_zeros(row["counts"])
    return [
        SliceDifference(version.name, name, value, mine, theirs)
        for version in list_versions(session, detector.id)
        for name in names
        for value, mine, theirs in _pair(
            list_slices(session, version.id, name),
            recounted.get((version.id, name), {}),
        )
        if mine != theirs
    ]


def _pair(
    rows: Iterable[Any], recounted: Mapping[str, Any]
) -> Iterable[tuple[str, dict[str, list[int]], dict[str, list[int]]]]:
    """Yield the counts of each slice as they run and as they are recounted."""
    running = {row.value: _drop_zeros(row.counts) for row in rows}
    for value in sorted({*running, *recounted}):
        yield value, running.get(value, {}), recounted.get(value, {})


def _drop_zeros(counts: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {name: list(pair) for name, pair in counts.items() if pair[1]}
