"""The recount that the running counts are held against."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from tracker.services.estimates import current_counts
from tracker.storage.counts import Cell, count_window
from tracker.storage.detectors import Detector, list_versions


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
