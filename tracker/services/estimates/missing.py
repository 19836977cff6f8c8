"""Answers that are missing: bounds that hold however they would come out.

Answers may be unclear or disputed.  Where every query gets its label sooner or later
(`label_sampling` is `all`), those that have none yet are missing too, and the verdict
goes by the bounds.  For with the labels of all queries asked up to a day, intervals
hold for every such day at once; the bounds hold them, whichever labels came first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.intervals import Claim, bound_all
from tracker.services.evidence.measure import Measure, read_measure, spread
from tracker.shapes import Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, Standings, day_in, midnight_in
from tracker.storage.estimates.counts import count_awaited, list_delays
from tracker.words import DISPUTED, OPEN, OVERALL, PRECISION, TARGETED

Missing = Mapping[str | None, int]
"""How many answers are missing by predicted class, None where that is not known."""
NOTHING: Missing = MappingProxyType({})
# A query with such a label waits for one that counts.
ASIDE = frozenset({OPEN, TARGETED})

# Bounds are shown where more than this part of the answers is unclear.
_FEW = 0.05


def is_all(detector: Detector) -> bool:
    """Return whether the owner said that every query gets its label."""
    return detector.label_sampling == "all"


# Queries of a version that will get their label: those asked until a day, None for all,
# and how many, None for too many.
Awaited = tuple[date | None, Missing | None]


def find_awaited(
    session: Session, detector: Detector, version: Version, at: datetime
) -> tuple[list[Awaited], date]:
    """Return which queries have no label yet, and the day of the first of them.

    First all of them.  Then those asked until the day of the last label, which came
    *at* an instant, until the day before, and until the last day of whose queries nine
    of ten had their label by then.  It goes by the last label, and not by who looks
    when: so what is kept, and read later, is the same everywhere.
    """
    zone = detector.zone
    delays = sorted(list_delays(session, detector.id))
    usual = delays[9 * len(delays) // 10] if delays else timedelta()
    last, a_day = day_in(at, zone), timedelta(days=1)
    days = sorted({last, last - a_day, day_in(at - usual, zone) - a_day}, reverse=True)
    cuts = [midnight_in(day + a_day, zone) for day in days]
    found = count_awaited(session, version, None, cuts)
    if found is None:
        return [(None, None)], date.min
    parts = [Counter[str | None]() for _ in (None, *days)]
    first = min((day_in(asked, zone) for *_, asked in found), default=date.max)
    for predicted, cut_by, number, _ in found:
        for part in parts[: cut_by + 1]:
            part[predicted] += number
    if version.deleted:
        # Before anybody labelled them, and nobody knows of which days.
        first = date.min
        for part in parts:
            part[None] = version.deleted
    return [*zip((None, *days), parts, strict=True)], first


def add_aside(missing: Missing | None, counts: Counts) -> Missing | None:
    """Return what is *missing* with queries whose labels so far do not count."""
    if missing is None:
        return None
    found = Counter(missing)
    for cell, number in counts.cells.items():
        if cell.standing in ASIDE:
            found[cell.predicted] += number
    return found


def count_unlabelled(
    session: Session, detector: Detector, versions: Iterable[Version]
) -> Missing | None:
    """Return how many queries of *versions* will get their label; None for too many."""
    number = 0
    for version in versions if is_all(detector) else ():
        found = count_awaited(session, version, None, ())
        if found is None:
            return None
        number += version.deleted + sum(one for _, _, one, _ in found)
    return {None: number} if number else NOTHING


def bound_missing(
    claim: Claim, measure: Measure, classes: Sequence[str], missing: Missing | None
) -> tuple[float, float]:
    return bound_each_missing([claim], [measure], classes, missing)[0]


def bound_each_missing(
    claims: Sequence[Claim],
    measures: Sequence[Measure],
    classes: Sequence[str],
    missing: Missing | None,
) -> list[tuple[float, float]]:
    """Return each claim's interval if all that is *missing* were wrong, or right.

    The claims are of one level and on *measures* of one kind.
    """
    if missing is None:
        return [(0.0, 1.0)] * len(claims)
    if not missing:
        return bound_all(claims)
    _, _, shares, level = claims[0]

    def interval(k: npt.ArrayLike, n: npt.ArrayLike, level: float) -> stats.Interval:
        rows = zip(np.asarray(k).tolist(), np.asarray(n).tolist(), strict=True)
        found = bound_all([Claim(tuple(a), tuple(b), shares, level) for a, b in rows])
        return stats.Interval(*np.array(found).T)

    # Of each number counted, how many may be wrong at most, and right.
    answers, unknown = sum(missing.values()), missing.get(None, 0)
    wrong: Any = [answers]
    more = wrong
    kind = measures[0].kind
    if kind != OVERALL:
        wrong, more = stats.count_unanswered([missing.get(name, 0) for name in classes])
        # What got no answer, or one that is no class, may be of any class, and is
        # wrong.
        wrong, more = wrong + (answers - more.sum()), more + unknown
    if kind == PRECISION:
        wrong = more
    if measures[0].of is not None:
        place_of = {name: place for place, name in enumerate(classes)}
        places = [[place_of[one.of or ""]] for one in measures]
        wrong, more = wrong[places], more[places]
    right, counted, *_ = zip(*claims, strict=True)
    bounds = stats.completed_interval(
        interval, right, counted, level, wrong=wrong, right=more
    )
    return list(zip(bounds.low.tolist(), bounds.high.tolist(), strict=True))


def say_missing(missing: Missing | None) -> str:
    """Return how many queries have no label yet, in words."""
    if missing is None:
        return "too many queries have no label yet, or nobody knows how many had none"
    number = sum(missing.values())
    are = "query has" if number == 1 else "queries have"
    return f"{number:,} {are} no label yet"


class UnclearBounds(Shape):
    """The bounds of a measure however answers that are missing would have come out.

    They hold at every look, as those of a decision do.
    """

    measure: str
    low: float
    high: float
    answers: int = Field(description="Unclear and disputed ones.")
    unlabelled: int = Field(
        default=0,
        description="Queries without a label yet, of a detector whose `label_sampling` "
        "is `all`.",
    )


def bound_unclear(  # noqa: PLR0913, PLR0917 - what is counted, and what is missing.
    detector: Detector,
    counts: Counts,
    standings: Standings,
    level: float,
    shares: tuple[float, ...] | None,
    awaited: Missing | None,
) -> UnclearBounds | None:
    """Return the bounds of the measure, None if few answers are missing or too many."""
    if awaited is None:
        return None
    found = counts.select(standings)
    unclear = Counter[str | None](found.unclear)
    for cell, number in counts.cells.items():
        if cell.standing == DISPUTED:
            unclear[cell.predicted] += number
    missing = unclear + Counter(awaited)
    absent = missing.total()
    if absent <= _FEW * (absent + sum(found.confusion.values())):
        return None
    measure = read_measure(detector.measure)
    right, counted = measure.count_right(spread(found.confusion, detector.classes))
    claim = Claim(right, counted, shares if len(counted) > 1 else None, level)
    low, high = bound_missing(claim, measure, detector.classes, missing)
    return UnclearBounds(
        measure=str(measure),
        low=low,
        high=high,
        answers=unclear.total(),
        unlabelled=absent - unclear.total(),
    )
