"""The events of a fold: first queries, drift alarms, verdicts and worse slices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.slices.slice_counts import Slices
from tracker.services.estimates.stream.drift import Drifting
from tracker.services.estimates.stream.fold import Fold
from tracker.services.telling.events import (
    DRIFT,
    FIRST_SEEN,
    SLICE_WORSE,
    VERDICT,
    Look,
    VerdictChange,
    find_last_verdicts,
    follow_verdict,
    tell,
)
from tracker.storage.detectors import Detector, Version
from tracker.storage.telling.events import Event
from tracker.words import DECIDING_METHOD


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
                    Look(
                        points[number].correct,
                        points[number].labelled,
                        scores[0].low,
                        scores[0].high,
                        points[number].stretch,
                    )
                    for number, method, scores in fold.intervals[version_id]
                    if method == DECIDING_METHOD
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
            # An alarm may be what ends a verdict, so it is told first.
            if Drifting in fold.kinds:
                alarms = folded.of(Drifting).watch.alarms
                told += [(DRIFT, alarm.dump()) for alarm in alarms]
            verdicts = self.verdicts.get(version_id, ())
            told += [(VERDICT, one.dump()) for one in verdicts]
            if Slices in fold.kinds:
                told += [(SLICE_WORSE, worse) for worse in folded.of(Slices).worse]
            if told:
                detector = session.get_one(Detector, fold.detector_id)
                for kind, data in told:
                    tell(session, kind, detector, at=at, version=version, data=data)
