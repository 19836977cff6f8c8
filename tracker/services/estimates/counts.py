"""The counts that every estimate follows from: what is kept, with what waits."""

from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo

from sqlalchemy.orm import Session

from tracker.services.evidence.populations import (
    POPULATIONS,
    Standings,
    choose_population,
    compared_standings,
    standings_of,
)
from tracker.services.wording import invalid
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, day_in, midnight_in, pool
from tracker.storage.estimates.counts import count_pending_labels, count_window
from tracker.storage.estimates.projections import load_counts, sum_days
from tracker.storage.queries.finding import Between
from tracker.words import UNSTATED

_BEGINNING, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def current_counts(
    session: Session, versions: Collection[Version]
) -> dict[int, Counts]:
    """Return the counts of each version, including the waiting labels."""
    counts = load_counts(session, versions)
    waiting = count_pending_labels(session, {one.detector_id for one in versions})
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
) -> Counts:
    """Count the labelled queries of *versions* asked from *since* to before *until*.

    Whole days are sums of the running counts, and of labels that wait for the job.
    The queries themselves are counted of what is left of the first and the last day.
    """
    ids = [version.id for version in versions]

    def count(since: datetime | None, until: datetime | None) -> list[Counts]:
        found = count_window(session, detector.id, since=since, until=until)
        return [found[one] for one in ids if one in found]

    zone = detector.zone
    first = None if since is None else _next_midnight(since, zone)
    last = None if until is None else midnight_in(day_in(until, zone), zone)
    if (first or _BEGINNING) >= (last or _END):
        return pool(count(since, until))
    whole = Between("asked_at", first, below=last).test(session)
    waiting = count_pending_labels(session, [detector.id], [whole])
    parts = [waiting[one] for one in ids if one in waiting]
    days = first and day_in(first, zone), last and day_in(last, zone)
    parts.append(sum_days(session, versions, since=days[0], until=days[1]))
    if since != first:
        parts += count(since, first)
    if until != last:
        parts += count(last, until)
    return pool(parts)


def _next_midnight(instant: datetime, zone: tzinfo) -> datetime:
    """Return the first midnight that is not before an instant."""
    day = day_in(instant, zone)
    begun = midnight_in(day, zone)
    if begun == instant:
        return begun
    return _END if day == date.max else midnight_in(day + timedelta(days=1), zone)


def pick_population(
    detector: Detector,
    counts: Counts,
    wanted: str | None = None,
    *,
    is_pooled: bool = False,
) -> tuple[str, Standings]:
    """Return a population and its standings: the one *wanted*, else by the counts.

    Where versions are pooled, the random label of an input counts for the version that
    was drawn, which may not be the one that it was given to.

    Raises InvalidInputError for a population that there is not.
    """
    if wanted is not None and wanted not in POPULATIONS:
        known = ", ".join(POPULATIONS)
        raise invalid("population", wanted, f"it must be one of {known}")
    word = detector.label_sampling
    chosen = wanted or choose_population(word, lambda some: counts.count(some) > 0)
    if is_pooled and chosen != UNSTATED:
        return chosen, compared_standings(word)
    return chosen, standings_of(chosen, word)


def find_standings(
    session: Session, detector: Detector, versions: Iterable[Version]
) -> Standings:
    counts = current_counts(session, list(versions))
    return pick_population(detector, pool(counts.values()))[1]
