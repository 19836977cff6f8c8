"""The counts that every estimate follows from: what is kept, with what waits."""

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.evidence import populations
from tracker.services.wording import check_one_of
from tracker.shapes import Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates import cells
from tracker.storage.estimates.counts import (
    count_pending_labels,
    count_weights,
    count_window,
)
from tracker.storage.estimates.projections import load_counts, sum_days
from tracker.storage.queries.finding import Between
from tracker.words import UNSTATED


def current_counts(
    session: Session, versions: Collection[Version]
) -> dict[int, cells.Counts]:
    """Return the counts of each version, including the waiting labels."""
    counts = load_counts(session, versions)
    waiting = count_pending_labels(session, {one.detector_id for one in versions})
    return {
        version_id: cells.pool([one, waiting[version_id]])
        if version_id in waiting
        else one
        for version_id, one in counts.items()
    }


def count_asked(
    session: Session,
    detector: Detector,
    versions: Collection[Version],
    *,
    since: datetime | None,
    until: datetime | None,
) -> cells.Counts:
    """Count the labelled queries of *versions* asked from *since* to before *until*.

    Whole days are sums that are kept.  Of the first and the last day queries are
    counted: those in the span or, where these are fewer, the others.
    """
    ids = [version.id for version in versions]

    def count(since: datetime | None, until: datetime | None) -> list[cells.Counts]:
        found = count_window(session, detector.id, since=since, until=until)
        return [found[one] for one in ids if one in found]

    zone = detector.zone
    days = [one and cells.day_in(one, zone) for one in (since, until)]
    first, last = (one and _nearest_midnight(one, zone) for one in (since, until))
    is_one_day = days[0] is not None and days[0] == days[1]
    is_broken = any(one and _is_passed_twice(one, zone) for one in (first, last))
    if is_one_day or is_broken or (first and last and first >= last):
        return cells.pool(count(since, until))
    whole = Between("asked_at", first, below=last).test(session)
    waiting = count_pending_labels(session, [detector.id], [whole])
    parts = [waiting[one] for one in ids if one in waiting]
    days = [one and cells.day_in(one, zone) for one in (first, last)]
    parts.append(sum_days(session, versions, since=days[0], until=days[1]))
    beyond = list[cells.Counts]()
    for start, end in ((since, first), (last, until)):
        if start and end and start < end:
            parts += count(start, end)
        elif start and end and start > end:
            beyond += count(end, start)
    return cells.pool([cells.pool(parts).without(cells.pool(beyond))])


def _nearest_midnight(instant: datetime, zone: tzinfo) -> datetime:
    day = cells.day_in(instant, zone)
    begun = cells.midnight_in(day, zone)
    if day == date.max:
        return begun
    end = cells.midnight_in(day + timedelta(days=1), zone)
    return begun if instant - begun <= end - instant else end


def _is_passed_twice(midnight: datetime, zone: tzinfo) -> bool:
    """Return whether clocks went back over *midnight*, into the day before it."""
    local = midnight.astimezone(zone)
    again = local.replace(fold=1).astimezone(UTC)
    if again <= midnight:
        return False
    return cells.day_in(again - timedelta(microseconds=1), zone) < local.date()


def pick_population(
    detector: Detector,
    counts: cells.Counts,
    wanted: str | None = None,
    *,
    is_pooled: bool = False,
) -> tuple[str, populations.Standings]:
    """Return a population and its standings: the one *wanted*, else by the counts.

    Where versions are pooled, the random label of an input may have been given to
    another than the version that was drawn.  Raises InvalidInputError for an unknown
    population.
    """
    if wanted is not None:
        check_one_of("population", wanted, populations.POPULATIONS)
    word = detector.label_sampling
    has_labels = (
        one
        for one in populations.POPULATIONS
        if counts.count(populations.standings_of(one, word)) > 0
    )
    # It is live where the version has a live label, and without any label.
    chosen = wanted or next(has_labels, populations.LIVE)
    if is_pooled and chosen != UNSTATED:
        return chosen, populations.compared_standings(word)
    return chosen, populations.standings_of(chosen, word)


def find_standings(
    session: Session, detector: Detector, versions: Iterable[Version]
) -> populations.Standings:
    counts = current_counts(session, list(versions))
    return pick_population(detector, cells.pool(counts.values()))[1]


class ClassShares(Shape):
    """How frequent the classes are taken to be by `anytime`.

    Were they far off, the interval would only be wider.
    """

    source: cells.SharesSource = Field(
        description="Where they come from: `class_shares` of the detector, or the "
        "classes of the first live labels: 100, or 20 for each class up to 1,000."
    )
    shares: dict[str, float] = Field(description="The part of each class.")

    @property
    def parts(self) -> tuple[float, ...]:
        return (*self.shares.values(),)


def known_shares(
    detector: Detector, shares: cells.Shares | None, known: cells.Counts
) -> cells.Shares | None:
    """Return the *shares* of the classes, if they could be used then."""
    live = populations.standings_of(populations.LIVE, detector.label_sampling)
    if shares is not None and known.scored(live) < shares.labels:
        return None
    return shares


def describe_shares(
    detector: Detector, counts: cells.Counts, standings: populations.Standings
) -> ClassShares | None:
    """Return how frequent the classes are taken to be, for the live labels alone."""
    live = populations.standings_of(populations.LIVE, detector.label_sampling)
    if counts.shares is None or standings != live:
        return None
    parts = counts.shares.of(detector.classes)
    if parts is None:
        return None
    shares = dict(zip(detector.classes, parts, strict=True))
    return ClassShares(source=counts.shares.source, shares=shares)


def find_shares(
    detector: Detector, counts: cells.Counts, standings: populations.Standings
) -> tuple[float, ...] | None:
    found = describe_shares(detector, counts, standings)
    return None if found is None else found.parts


_SAYS = (
    "a ratio of weights that nobody has checked: it has no interval, nothing is "
    "guaranteed of it, and no verdict rests on it"
)


class Weighted(Shape):
    """What labels come to that were given with a weight."""

    method: Literal["weighted"] = "weighted"
    labels: int = Field(description="The number of labels that have a weight.")
    balanced: float | None = Field(
        description="The mean of the ratios of the classes; null while a class has "
        "none."
    )
    overall: float = Field(
        description="The weight of the labels that were predicted, of that of all."
    )
    classes: dict[str, float] = Field(description="The same by the class of the label.")
    says: str = Field(default=_SAYS, description="What it is worth, in plain words.")


def get_weighted(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> Weighted | None:
    """Return the ratio of the weights of *versions*, None if no label has a weight."""
    rows = count_weights(session, detector.id, [one.id for one in versions])
    if not rows:
        return None
    names = [name for name in detector.classes if any(x.label == name for x in rows)]
    classes = {
        name: _ratio([row for row in rows if row.label == name]) for name in names
    }
    is_whole = len(classes) == len(detector.classes)
    return Weighted(
        labels=sum(row.labels for row in rows),
        balanced=math.fsum(classes.values()) / len(classes) if is_whole else None,
        overall=_ratio(rows),
        classes=classes,
    )


def _ratio(rows: Sequence[Any]) -> float:
    # Sums that are rounded once have the same bits in any order.
    weight = math.fsum(row.weight * row.labels for row in rows)
    right = math.fsum(row.weight * row.labels for row in rows if row.is_right)
    return right / weight
