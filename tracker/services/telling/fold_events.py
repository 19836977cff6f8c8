"""The events of a fold: first queries, verdicts and worse slices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.decision import bound, share_level
from tracker.services.estimates.fold import Fold
from tracker.services.estimates.points import Point
from tracker.services.estimates.slices.slice_counts import Slices
from tracker.services.evidence.populations import LIVE
from tracker.services.telling.events import (
    FIRST_SEEN,
    SLICE_WORSE,
    VERDICT,
    Look,
    VerdictChange,
    find_last_verdicts,
    follow_verdict,
    tell,
)
from tracker.shapes import Score
from tracker.storage.detectors import Detector, Version
from tracker.storage.telling.events import Event
from tracker.words import BALANCED, DECIDING_METHOD


class FoldEvents:
    """Listens to some folds, and adds the events of each when it is stored."""

    def __init__(self) -> None:
        """Begin before the folds are read."""
        self._last: dict[int, Event] = {}
        self.verdicts: dict[int, list[VerdictChange]] = {}

    def load(self, session: Session, folds: Sequence[Fold]) -> None:
        """Read the last verdicts of versions that may have another."""
        seen = [
            version_id
            for fold in folds
            if fold.target is not None
            for version_id, points in fold.points.items()
            if points
        ]
        self._last = dict(find_last_verdicts(session, seen)) if seen else {}

    def follow(self, folds: Sequence[Fold]) -> None:
        """Find when the verdict of each version with a target changes."""
        for fold in folds:
            if fold.target is None:
                continue
            for version_id, points in fold.points.items():
                looks = [
                    _look(fold, points[number], scores[0])
                    for number, method, scores in fold.intervals[version_id]
                    # Labels that nobody vouches for, or of another version, decide
                    # nothing.
                    if method == DECIDING_METHOD and points[number].population == LIVE
                ]
                last = self._last.get(version_id)
                self.verdicts[version_id] = follow_verdict(
                    looks, fold.target, fold.level, last
                )

    def tell(
        self,
        session: Session,
        fold: Fold,
        versions: Mapping[int, Version],
        *,
        at: datetime,
    ) -> None:
        """Add the events of a fold."""
        for version_id, folded in fold.versions.items():
            version = versions[version_id]
            told: list[tuple[str, dict[str, Any] | None]] = []
            if folded.queries and not version.queries:
                told.append((FIRST_SEEN, None))
            verdicts = self.verdicts.get(version_id, ())
            told += [(VERDICT, one.dump()) for one in verdicts]
            if Slices in fold.kinds:
                told += [(SLICE_WORSE, worse) for worse in folded.of(Slices).worse]
            if told:
                detector = session.get_one(Detector, fold.detector_id)
                for kind, data in told:
                    tell(session, kind, detector, at=at, version=version, data=data)


def _look(fold: Fold, point: Point, balanced: Score) -> Look:
    """Return the counts and the interval of the detector's measure at a moment."""
    right, counted = fold.measure.pick(
        fold.classes, point.correct, point.labelled, point.predicted
    )
    low, high = balanced.low, balanced.high
    shares = point.shares if fold.measure.kind == BALANCED else None
    if fold.promises > 1 or fold.measure.kind != BALANCED:
        level = share_level(fold.level, fold.promises)
        low, high = bound(right, counted, level, shares)
    return Look(right, counted, low, high, shares)
