"""Which labels an estimate counts, and what it rests on in plain words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from tracker.rounding import percents
from tracker.services.estimates.calendar import Now, list_now
from tracker.services.estimates.counts import (
    count_asked,
    current_counts,
    find_shares,
    known_shares,
    pick_population,
)
from tracker.services.estimates.decision import Span, method_level
from tracker.services.estimates.intervals import Claim, bound_all, list_claims
from tracker.services.estimates.missing import (
    NOTHING,
    Missing,
    UnclearBounds,
    is_all,
    say_missing,
)
from tracker.services.estimates.slice_counts import count_slice
from tracker.services.evidence import populations
from tracker.services.evidence.measure import read_measure
from tracker.stats import shared_level
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.estimates.counts import count_window
from tracker.storage.estimates.replay import count_known, count_known_days
from tracker.storage.queries.finding import Between, Condition, Equals
from tracker.words import DECIDING_METHOD, REPLAYED, UNSTATED


class Counted(NamedTuple):
    """The labels that an estimate counts, and of which population they are."""

    counts: Counts
    population: str
    standings: populations.Standings
    includes_targeted: bool = False
    is_pooled: bool = False
    # How many count by another version's query, where versions are pooled.
    others: int = 0
    # Whether they are all labels of one version, what counts now of them, and whether
    # that is what is shown.
    is_of_version: bool = False
    now: Now | None = None
    is_now: bool = False

    @property
    def decided(self) -> Counts:
        """The counts that a verdict goes by: those since the last change."""
        found = None if self.now is None else self.now.counts
        return self.counts if found is None else found

    @property
    def shown(self) -> Counts:
        """The counts that accuracies are of."""
        return self.decided if self.is_now else self.counts

    @property
    def span(self) -> Span | None:
        """The days of the shown counts, if they are of a version."""
        now = self.now if self.is_now else None
        if not self.is_of_version:
            return None
        return Span(since=now and now.since, until=now and now.until)

    @property
    def awaited(self) -> Missing | None:
        """The queries that will get their label, by predicted class."""
        if self.now is None or (self.now.since and not self.is_now):
            return NOTHING
        return self.now.awaited if self.is_now else self.now.awaited_in_all

    def level(self, level: float, *, is_now: bool = True) -> float:
        """Return the level of the deciding method for what counts now, or for all."""
        if is_now and self.now is not None:
            return self.now.level(level)
        if not self.is_of_version:
            return level
        return method_level(DECIDING_METHOD, level, self.population)

    def promised_level(self, detector: Detector, level: float) -> float:
        """Return the level of the deciding method for the shown counts."""
        part = shared_level(level, 1 + len(detector.also) * self.is_of_version)
        return self.level(part, is_now=self.is_now)


def choose_labels(
    detector: Detector,
    counts: Counts,
    wanted: str | None = None,
    *,
    includes_targeted: bool = False,
    is_pooled: bool = False,
) -> Counted:
    """Return which of *counts* are of the population that is *wanted*, or there."""
    population, standings = pick_population(
        detector, counts, wanted, is_pooled=is_pooled
    )
    if includes_targeted:
        standings |= populations.targeted_standings(detector.label_sampling)
    return Counted(counts, population, standings, includes_targeted, is_pooled)


def choose_now(detector: Detector, counts: Counts, now: Now | None = None) -> Counted:
    """Return what pages count: of all labels of a version, those that are *now*."""
    counted = choose_labels(detector, counts)
    return counted._replace(is_of_version=True, is_now=True, now=now)


def narrow_counts(  # noqa: PLR0913, PLR0917 - the counts, and what narrows them.
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    counted: Counted,
    filters: Mapping[str, Any],
    recent: Mapping[str, Any],
) -> Counted:
    """Return the running counts, or those of the queries that pass the *filters*.

    With anything in *recent*: of what was known then, or of the last labels.
    """
    if any(one is not None for one in recent.values()):
        known = _count_known(session, detector, versions, counted, filters, recent)
        shares = known_shares(detector, counted.counts.shares, known)
        return counted._replace(counts=replace(known, shares=shares))
    counts = counted.counts
    if any(filters.values()):
        seen = count_part(session, detector, versions, filters)
        if seen is None:
            found = count_window(session, detector.id, **filters)
            seen = pool(found[one.id] for one in versions if one.id in found)
        counts = replace(counts, cells=seen.cells)
    if not counted.is_pooled:
        return counted._replace(counts=counts)
    beside = pool(
        count_window(session, detector.id, **filters, are_others=True).values()
    )
    number = beside.count(counted.standings)
    return counted._replace(counts=counts.without(beside), others=number)


def _count_known(  # noqa: PLR0913, PLR0917 - the counts, and what narrows them.
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    counted: Counted,
    filters: Mapping[str, Any],
    last: Mapping[str, Any],
) -> Counts:
    """Count by what is kept of the days on which labels came, or by the labels."""
    at = last["known_at"]
    if at and not (last["last"] or counted.is_pooled or any(filters.values())):
        zone = detector.zone
        found = (
            count_known_days(session, detector.id, one.id, zone, at) for one in versions
        )
        return pool(counts for days in found for counts in days.values())
    ids = [one.id for one in versions]
    some = {**last, **filters, "standings": counted.standings}
    return count_known(session, detector.id, ids, **some, are_pooled=counted.is_pooled)


def count_part(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    filters: Mapping[str, Any],
) -> Counts | None:
    """Count the labelled queries that pass *filters* by what is kept of them.

    That is of days, of the slices of one declared key, and of predictions.  None where
    the queries themselves have to be read.
    """
    since, until = filters["since"], filters["until"]
    rest, predicted = list[Condition](), set[str]()
    for one in filters["where"]:
        if isinstance(one, Between) and one.column == "asked_at":
            since = max(filter(None, (since, one.low)), default=None)
            until = min(filter(None, (until, one.below)), default=None)
        elif isinstance(one, Equals) and one.column == "version_id":
            versions = [version for version in versions if version.id == one.value]
        elif isinstance(one, Equals) and one.column == "predicted":
            predicted.add(one.value)
        else:
            rest.append(one)
    found: Counts | None = None
    if not rest and (since or until):
        found = count_asked(session, detector, versions, since=since, until=until)
    elif not rest:
        found = pool(current_counts(session, versions).values())
    elif not (since or until):
        found = count_slice(session, detector, versions, rest)
    if found is None:
        return None
    cells = {
        cell: number
        for cell, number in found.cells.items()
        if predicted <= {cell.predicted}
    }
    return replace(found, cells=cells)


def date_counts(
    session: Session,
    counted: Sequence[tuple[Detector, Sequence[Version], "Counted"]],
    level: float | None,
    at: datetime,
    known_at: datetime | None = None,
) -> list["Counted"]:
    """Return what is counted with what counts now of it, or counted at *known_at*."""
    parts = {
        version: (detector, find_shares(detector, one.counts, one.standings))
        for detector, versions, one in counted
        for version in versions
        if one.is_of_version and one.population == populations.LIVE
    }
    now = {}
    if parts:
        now = list_now(session, parts, at=at, level=level, known_at=known_at)
    return [
        one._replace(now=now.get(versions[0].id) if versions else None)
        for _, versions, one in counted
    ]


def bound_ahead(counted: Iterable[tuple[Detector, Counted]]) -> None:
    """Bound the classes of many detectors at once, as their estimates find them."""
    claims: list[Claim] = []
    for detector, one in counted:
        level = one.promised_level(detector, detector.confidence_level)
        shares = find_shares(detector, one.counts, one.standings)
        counts = one.shown.select(one.standings).by_class(detector.classes)
        claims += list_claims(*counts, level, shares)
    bound_all(claims)


_CHOSEN = {
    populations.LIVE: "of its own queries, chosen at random",
    REPLAYED: "that its inputs had already",
    UNSTATED: "of queries of which nobody has said how they were chosen",
    populations.POOLED: "of several versions",
}


Unit = Literal["input", "group", "query"]


def unit_of(detector: Detector) -> Unit:
    return "input" if detector.groups is None else "group"


def say_basis(detector: Detector, population: str, labels: int, part: str = "") -> str:
    """Return whose labels count, which *part* of them, and what counts once."""
    many = f"{labels:,} label{'' if labels == 1 else 's'}"
    chosen = _CHOSEN[population]
    if population == populations.LIVE and is_all(detector):
        chosen = "of its own queries, which all get one"
    return f"{many} {chosen}{part}; each {unit_of(detector)} counts once."


def describe_basis(
    detector: Detector,
    counted: Counted,
    population: str,
    labels: int,
    unclear: UnclearBounds | None,
) -> str:
    """Return what an estimate rests on, and how far *unclear* answers could move it."""
    part = ""
    if counted.includes_targeted:
        part = ", and those of queries that somebody picked"
    elif not counted.is_of_version and population != populations.POOLED:
        part = ", of the part that was asked for"
    said = say_basis(detector, population, labels, part)
    since = counted.span and counted.span.since
    until = counted.span and counted.span.until
    if since or until:
        days = [f"since {since:%-d %b %Y}"] if since else []
        days += [f"until {until:%-d %b %Y}"] if until else []
        said = f"{said[:-1]}; asked {' '.join(days)}."
    if unclear is None:
        return said
    low, high = percents(unclear.low, unclear.high)
    missing = []
    if unclear.answers:
        are = "answer is" if unclear.answers == 1 else "answers are"
        missing.append(f"{unclear.answers:,} {are} unclear or disputed")
    if unclear.unlabelled:
        missing.append(say_missing({None: unclear.unlabelled}))
    return (
        f"{said} {' and '.join(missing)}: had all been "
        f"right or wrong, the {read_measure(unclear.measure).name} would lie between "
        f"{low} and {high} %."
    )
