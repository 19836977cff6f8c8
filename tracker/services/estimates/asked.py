"""The history along the days on which queries were asked."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker.services.estimates.calendar import load_days
from tracker.services.estimates.counts import (
    current_counts,
    describe_shares,
    known_shares,
    pick_population,
)
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.intervals import (
    ClassCounts,
    SharesRow,
    max_snapshots,
    score,
    score_moments,
    thin_evenly,
)
from tracker.services.estimates.measures import count_trials, score_measure
from tracker.services.evidence.populations import Standings
from tracker.shapes import Score
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, midnight_in, pool
from tracker.storage.estimates.replay import count_known_days
from tracker.words import RECALL

_AT_ONCE = 100


class AskedDay(NamedTuple):
    """What labels say of all queries asked up to the end of a day."""

    asked_at: datetime
    number: int
    labels: int
    population: str
    known_at: datetime
    # Of all classes together, then of each.
    scores: Sequence[Score]


class _Sums(NamedTuple):
    """The sums of all days up to one, by class."""

    day: date
    correct: list[int]
    labelled: list[int]
    predicted: list[int]


def iter_asked_days(  # noqa: PLR0913 - every filter that the history has.
    session: Session,
    detector: Detector,
    version: Version,
    *,
    measure: str,
    method: str,
    since: datetime | None = None,
    until: datetime | None = None,
    beyond: int = 0,
    known_at: datetime | None = None,
    most: int | None = None,
) -> Iterator[AskedDay]:
    """Yield the days of a version with scored queries, each with all before it.

    Days begin in the zone of the detector.  With *known_at* labels count as they were
    known then.  At *most* so many of them are chosen evenly.
    """
    days, current = _load(session, detector, version, known_at)
    population, standings = pick_population(detector, current)
    shares = describe_shares(detector, current, standings)
    bets = None if shares is None else shares.parts
    level = method_level(method, detector.confidence_level, population)
    zone, last = detector.zone, current.last_label_at
    if last is None:
        return

    chosen: Iterator[_Sums] = (
        one
        for one in _add_up(days, detector.classes, standings)
        if one.day.toordinal() > beyond
        and (since is None or midnight_in(one.day, zone) >= since)
        and (until is None or midnight_in(one.day, zone) < until)
    )
    if most is not None:
        chosen = iter(thin_evenly(list(chosen), most))
    at_once = max_snapshots(method, len(detector.classes), of=_AT_ONCE)
    while chunk := list(islice(chosen, at_once)):
        counts = [
            ClassCounts(level, one.correct, count_trials(measure, *one[1:]))
            for one in chunk
        ]
        scored = score_moments(counts, method, partial(_score, measure, bets))
        for one, scores in zip(chunk, scored, strict=True):
            at, number = midnight_in(one.day, zone), one.day.toordinal()
            labels = sum(one.labelled)
            yield AskedDay(at, number, labels, population, last, scores)


def _score(  # noqa: PLR0913, PLR0917 - what is scored, and how.
    measure: str, bets: SharesRow, k: Any, n: Any, method: str, level: float
) -> list[list[Score]]:
    if measure == RECALL:
        return score(k, n, method, level, [bets] * len(k))
    return score_measure(measure, k, n, method, level)


def _load(
    session: Session, detector: Detector, version: Version, known_at: datetime | None
) -> tuple[dict[date, Counts], Counts]:
    """Return the counts of each day asked, and those of the whole version."""
    current = current_counts(session, [version])[version.id]
    zone = detector.zone
    if known_at is not None:
        days = count_known_days(session, detector.id, version.id, zone, known_at)
        known = pool(days.values())
        known.shares = known_shares(detector, current.shares, known)
        return days, known
    return load_days(session, detector, version), current


def _add_up(
    days: dict[date, Counts], classes: Sequence[str], standings: Standings
) -> Iterator[_Sums]:
    sums = [[0] * len(classes) for _ in range(3)]
    for day in sorted(days):
        found = days[day].select(standings)
        if not found.confusion:
            continue
        said = dict.fromkeys(classes, 0)
        for (_, name), number in found.confusion.items():
            if name in said:
                said[name] += number
        new = (*found.by_class(classes), said.values())
        sums = [
            [a + b for a, b in zip(*both, strict=True)]
            for both in zip(sums, new, strict=True)
        ]
        yield _Sums(day, *sums)
