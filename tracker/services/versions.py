"""Choosing versions by name, and the version that is shown by default.

A version that only shadows another one, or is tried on old inputs, is not shown.  A
version *takes over* when it answers most of the new queries: those with an input that
no other version was put to, and those without an input, over the last 24 hours with
any.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, NotFoundError
from tracker.services.fields import is_storable
from tracker.services.wording import invalid, show
from tracker.storage import detectors as storage
from tracker.storage.estimates.pending import list_pending_batches
from tracker.storage.estimates.weeks import HourCount, count_hours
from tracker.storage.queries.queries import find_newest_version_id

_WINDOW = timedelta(hours=24)
_HOUR = "%Y-%m-%d %H"


class UnknownVersionError(NotFoundError):
    """A detector has no version of this name."""


@dataclass
class Traffic:
    """The new queries of a detector by hour, and the version that answers most."""

    version_id: int | None = None
    # The hour in which the version took over; None for the first version.
    since: datetime | None = None
    hours: dict[str, dict[int, int]] = field(default_factory=dict)

    def take(self, counts: Iterable[HourCount]) -> None:
        """Count more queries, and find the version that answers most.

        Queries before the window of 24 hours change nothing.
        """
        newest = max(self.hours, default="")
        for one in counts:
            if one.new and (not newest or one.hour > _begin_window(newest)):
                of_hour = self.hours.setdefault(one.hour, {})
                of_hour[one.version_id] = of_hour.get(one.version_id, 0) + one.new
        window: Counter[int] = Counter()
        left = deque[str]()
        for hour in sorted(self.hours):
            window.update(self.hours[hour])
            left.append(hour)
            while left[0] <= _begin_window(hour):
                window.subtract(self.hours[left.popleft()])
            if hour < newest:
                continue
            # The newest of equals.
            most, version_id = max((number, one) for one, number in window.items())
            if self.version_id is None:
                self.version_id = version_id
            elif version_id != self.version_id and 2 * most > sum(window.values()):
                self.version_id, self.since = version_id, _read_hour(hour)
        self.hours = {hour: self.hours[hour] for hour in left}

    @classmethod
    def load(cls, detector: storage.Detector) -> "Traffic":
        hours = {
            hour: {int(version_id): number for version_id, number in counts.items()}
            for hour, counts in detector.traffic
        }
        return cls(detector.shown_version_id, detector.shown_since, hours)

    def dump(self) -> dict[str, Any]:
        return {
            "shown_version_id": self.version_id,
            "shown_since": self.since,
            "traffic": [[hour, self.hours[hour]] for hour in sorted(self.hours)],
        }


def _read_hour(hour: str) -> datetime:
    return datetime.strptime(hour, _HOUR).replace(tzinfo=UTC)


def _begin_window(hour: str) -> str:
    return (_read_hour(hour) - _WINDOW).strftime(_HOUR)


def follow_traffic(
    known: Mapping[int, Traffic], counts: Iterable[HourCount]
) -> dict[int, Traffic]:
    """Return the traffic of detectors after *counts* of new queries, where any came.

    *known* is what it was before, by their ids, and is changed.
    """
    by_detector: dict[int, list[HourCount]] = {}
    for one in counts:
        if one.new:
            by_detector.setdefault(one.detector_id, []).append(one)
    for detector_id, some in by_detector.items():
        known[detector_id].take(some)
    return {detector_id: known[detector_id] for detector_id in by_detector}


def choose_versions(
    session: Session, detector: storage.Detector, name: str | None
) -> list[storage.Version]:
    """Return the versions that *name* means.

    ``*`` means all, None the shown version: the detector's production version, else the
    one that answers most new queries.
    """
    if name == "*":
        return list(storage.list_versions(session, detector.id))
    if name is None:
        return [*choose_default_versions(session, [detector]).values()]
    version = None
    if is_storable(name):
        version = storage.find_version(session, detector.id, name)
    if version is None:
        known = _show_newest(storage.list_versions(session, detector.id))
        raise UnknownVersionError(
            f"there is no version {show(name)}; there are: {known}"
        )
    return [version]


def _show_newest(versions: Sequence[storage.Version]) -> str:
    return ", ".join(show(one.name) for one in versions[-10:]) or "none yet"


def choose_two_versions(
    session: Session, detector: storage.Detector, *, old: str | None, new: str | None
) -> tuple[storage.Version, storage.Version]:
    """Return the versions named *old* and *new*.

    By default *new* is the version of the newest query and *old* the one before *new*.
    Raises InvalidInputError for a wrong name, ConflictError for fewer than two.
    """
    versions = storage.list_versions(session, detector.id)
    names = {version.name: version for version in versions}
    for place, name in (("old", old), ("new", new)):
        if name is not None and name not in names:
            known = _show_newest(versions)
            raise invalid(place, name, f"there is no such version; there are: {known}")
    if len(versions) < 2:
        raise ConflictError(
            f"the detector {show(detector.name)} has "
            f"{'only one version' if versions else 'no version yet'}; "
            "a comparison needs two"
        )
    newest = find_newest_version_id(session, detector.id)
    last = next((one for one in versions if one.id == newest), versions[-1])
    after = names[new] if new else last
    # The first version is compared with the next: queries went back to the first.
    neighbour = versions[versions.index(after) - 1 if versions[0] is not after else 1]
    before = names[old] if old else neighbour
    if before is after:
        raise invalid(
            "old" if new is None else "new",
            after.name,
            "it cannot be compared with itself",
        )
    return before, after


def choose_default_versions(
    session: Session, detectors: Sequence[storage.Detector]
) -> dict[int, storage.Version]:
    """Return what ``choose_versions`` finds for None, by the ids of detectors."""
    found = storage.list_versions(session, *(one.id for one in detectors))
    versions: dict[int, list[storage.Version]] = {one.id: [] for one in detectors}
    for version in found:
        versions[version.detector_id].append(version)
    # What is shown is stored with the first traffic; here all queries wait for the job.
    new = {
        one.id: Traffic()
        for one in detectors
        if one.production_version is None
        and one.shown_version_id is None
        and len(versions[one.id]) > 1
    }
    batches = list_pending_batches(session, new) if new else {}
    first = follow_traffic(new, count_hours(session, batches)) if batches else {}
    shown = {}
    for detector in detectors:
        mine = versions[detector.id]
        if detector.production_version is not None:
            mine = choose_versions(session, detector, detector.production_version)
        elif len(mine) > 1:
            wanted = detector.shown_version_id
            if detector.id in first:
                wanted = first[detector.id].version_id
            mine = [one for one in mine if one.id == wanted] or mine
        if mine:
            shown[detector.id] = mine[-1]
    return shown
