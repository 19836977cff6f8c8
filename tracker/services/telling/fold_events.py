"""The events of a fold: first queries, changes, verdicts and worse slices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.calendar import Calendar
from tracker.services.estimates.fold import Fold
from tracker.services.estimates.slices.slice_counts import Slices
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
from tracker.storage.detectors import Detector, Version
from tracker.storage.telling.events import Event
from tracker.words import CHANGE_EVENTS


class FoldEvents:
    """Listens to some folds, and adds the events of each when it is stored."""

    def __init__(self) -> None:
        """Begin before the folds are read."""
        self._last: dict[int, Event] = {}
        self.verdicts: dict[int, VerdictChange] = {}

    def load(self, session: Session, folds: Sequence[Fold]) -> None:
        """Read the last verdicts of versions that may have another."""
        seen = [
            version_id
            for fold in folds
            if fold.target is not None
            for version_id in fold.calendars
        ]
        self._last = dict(find_last_verdicts(session, seen)) if seen else {}

    def follow(self, folds: Sequence[Fold]) -> None:
        """Find where the verdict of a version with a target changes."""
        for fold in folds:
            if fold.target is None:
                continue
            for version_id, calendar in fold.calendars.items():
                last = self._last.get(version_id)
                look = _look(calendar)
                found = follow_verdict(look, fold.target, fold.level, last)
                if found is not None:
                    self.verdicts[version_id] = found

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
            # A change may be what ends a verdict, so it is told first.
            calendar = fold.calendars.get(version_id)
            if calendar is not None:
                changes = calendar.list_untold(at)
                told += [(CHANGE_EVENTS[one.state], one.dump()) for one in changes]
            if version_id in self.verdicts:
                told.append((VERDICT, self.verdicts[version_id].dump()))
            if Slices in fold.kinds:
                told += [(SLICE_WORSE, worse) for worse in folded.of(Slices).worse]
            if told:
                detector = session.get_one(Detector, fold.detector_id)
                for kind, data in told:
                    tell(session, kind, detector, at=at, version=version, data=data)


def _look(calendar: Calendar) -> Look:
    """Return the counts and the interval of the detector's measure by what is now."""
    low, high = calendar.interval
    since = calendar.now.since
    return Look(
        *calendar.right,
        low,
        high,
        calendar.shares if len(calendar.right[1]) > 1 else None,
        calendar.terms.measure,
        None if since is None else since.isoformat(),
    )
