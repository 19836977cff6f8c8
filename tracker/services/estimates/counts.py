"""The counts that every estimate follows from, and the recount that checks them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates.counts import (
    VersionCounts,
    count_pending_labels,
    count_window,
    load_counts,
)
from tracker.storage.estimates.logged import count_logged, recount_queries


def current_counts(
    session: Session, versions: Collection[Version]
) -> dict[int, VersionCounts]:
    """Return the counts of each version, including the waiting labels."""
    stored = load_counts(session, [version.id for version in versions])
    waiting = count_pending_labels(session, {one.detector_id for one in versions})
    counts = {
        version.id: VersionCounts(
            stored[version.id],
            version.unstated,
            version.repeats,
            version.corrections,
            version.last_label_at,
        )
        for version in versions
    }
    return {
        version_id: pool([one, waiting[version_id]]) if version_id in waiting else one
        for version_id, one in counts.items()
    }


def pool(parts: Iterable[VersionCounts]) -> VersionCounts:
    """Return the sum of *parts*, without the cells that come to nothing."""
    total = VersionCounts()
    for part in parts:
        for cell, number in part.cells.items():
            total.cells[cell] = total.cells.get(cell, 0) + number
        total.unstated += part.unstated
        total.repeats += part.repeats
        total.corrections += part.corrections
        instants = (total.last_label_at, part.last_label_at)
        total.last_label_at = max((one for one in instants if one), default=None)
    total.cells = {cell: number for cell, number in total.cells.items() if number}
    return total


@dataclass(frozen=True, slots=True)
class Difference:
    """A running count that a recount contradicts."""

    version: str
    # What was counted.
    what: str
    running: int
    recounted: int


def compare_with_recount(session: Session, detector: Detector) -> list[Difference]:
    """Recount every label of *detector* and return where the counts differ.

    The recount goes by the current label of each query, the running counts went
    by the history of labels: two ways that must meet.
    """
    versions = list_versions(session, detector.id)
    running = current_counts(session, versions)
    recounted = count_window(session, detector.id, since=None, until=None)
    logged = count_logged(session, versions)
    queries = recount_queries(session, detector.id)
    found: list[Difference] = []
    for version in versions:
        mine = running[version.id]
        theirs = recounted.get(version.id, VersionCounts())
        numbers = {
            f"label {cell.label}, predicted {cell.predicted}": (
                mine.cells.get(cell, 0),
                theirs.cells.get(cell, 0),
            )
            for cell in sorted(mine.cells.keys() | theirs.cells.keys())
        }
        numbers["repeats"] = mine.repeats, theirs.repeats
        numbers["queries"] = logged[version.id], queries.get(version.id, 0)
        found += [
            Difference(version.name, what, *both)
            for what, both in numbers.items()
            if both[0] != both[1]
        ]
    return found
