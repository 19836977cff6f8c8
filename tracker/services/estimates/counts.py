"""The counts that every estimate follows from, and the recount that checks them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy.orm import Session

from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates.counts import (
    VersionCounts,
    count_pending_labels,
    count_window,
    load_counts,
)
from tracker.storage.estimates.days import sum_days
from tracker.storage.estimates.logged import count_logged, recount_queries
from tracker.storage.queries.where import Between

_BEGINNING, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


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


def count_asked(
    session: Session,
    detector: Detector,
    versions: Collection[Version],
    *,
    since: datetime | None,
    until: datetime | None,
) -> VersionCounts:
    """Count the labelled queries of *versions* asked from *since* to before *until*.

    Whole days are sums of the running counts, and of labels that wait for the job.
    The queries themselves are counted of what is left of the first and the last day.
    """
    ids = [version.id for version in versions]

    def count(since: datetime | None, until: datetime | None) -> list[VersionCounts]:
        found = count_window(session, detector.id, since=since, until=until)
        return [found[one] for one in ids if one in found]

    first = None if since is None else _next_midnight(since)
    last = None if until is None else _midnight(until)
    if (first or _BEGINNING) >= (last or _END):
        return pool(count(since, until))
    whole = Between("asked_at", first, below=last).test(session)
    waiting = count_pending_labels(session, [detector.id], [whole])
    parts = [waiting[one] for one in ids if one in waiting]
    days = sum_days(
        session, ids, since=first and first.date(), until=last and last.date()
    )
    parts += days.values()
    if since != first:
        parts += count(since, first)
    if until != last:
        parts += count(last, until)
    return pool(parts)


def _midnight(instant: datetime) -> datetime:
    return datetime.combine(instant.date(), time(), UTC)


def _next_midnight(instant: datetime) -> datetime:
    """Return the first midnight that is not before an instant."""
    day = _midnight(instant)
    if day == instant:
        return day
    return _END if day.date() == date.max else day + timedelta(days=1)


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
    by_day = sum_days(session, [version.id for version in versions])
    waiting = count_pending_labels(session, [detector.id])
    recounted = count_window(session, detector.id, since=None, until=None)
    logged = count_logged(session, versions)
    queries = recount_queries(session, detector.id)
    found: list[Difference] = []
    for version in versions:
        mine = running[version.id]
        theirs = recounted.get(version.id, VersionCounts())
        days = pool(
            some[version.id] for some in (by_day, waiting) if version.id in some
        )
        numbers = _pair(mine, theirs)
        numbers |= {f"{what}, by day": two for what, two in _pair(days, theirs).items()}
        numbers["queries"] = logged[version.id], queries.get(version.id, 0)
        found += [
            Difference(version.name, what, *both)
            for what, both in numbers.items()
            if both[0] != both[1]
        ]
    return found


def _pair(
    running: VersionCounts, recounted: VersionCounts
) -> dict[str, tuple[int, int]]:
    """Return what was counted beside what is found, by the words for it."""
    pairs = {
        f"{'targeted ' * cell.is_targeted}label {cell.label}, "
        f"predicted {cell.predicted}": (
            running.cells.get(cell, 0),
            recounted.cells.get(cell, 0),
        )
        for cell in sorted(running.cells.keys() | recounted.cells.keys())
    }
    return {
        **pairs,
        "repeats": (running.repeats, recounted.repeats),
        "labels of unstated sampling": (running.unstated, recounted.unstated),
    }
