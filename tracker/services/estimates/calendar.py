"""Accuracy by the calendar: proved changes, and the labels that count since the last.

Everything follows from counts by the day on which queries were asked, so the order in
which labels arrive changes nothing.  The fold keeps what it found of each version; an
estimate takes that, or computes it with the labels that wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.intervals import Claim, bound
from tracker.services.estimates.missing import (
    ASIDE,
    NOTHING,
    Awaited,
    Missing,
    add_aside,
    bound_missing,
    find_awaited,
    is_all,
)
from tracker.services.evidence.measure import Measure, Right, read_measure
from tracker.services.evidence.populations import LIVE, standings_of
from tracker.services.fields import Instant
from tracker.services.wording import dump_instant
from tracker.shapes import Accuracy, Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates import projections as storage
from tracker.storage.estimates.cells import Counts, day_in, pool
from tracker.storage.estimates.counts import count_pending_days
from tracker.storage.estimates.replay import count_known_days
from tracker.storage.queries.finding import find_first_asked
from tracker.words import BALANCED, OVERALL, PRECISION, RECALL, UNCLEAR

Cells = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Counts by standing, label and prediction, as they are kept."""

# The instant of a change that no event told yet.
_UNTOLD = datetime.max.replace(tzinfo=UTC)
_Ints = NDArray[np.int64]
_Both = tuple[_Ints, _Ints]


class BeforeChange(Accuracy):
    """The accuracy before a change, on average over the labelled queries."""

    labels: int


class AccuracyChange(Shape):
    """A proved change of the accuracy, dated by when queries were asked."""

    state: Literal["dropped", "rose"] = Field(
        description="Said falsely of a version with a chance of at most half of the "
        "error each, over its whole life and all numbers together."
    )
    measure: str = Field(
        description="What changed: the detector's measure, or recall:CLASS."
    )
    since: date = Field(description="The likeliest day, in the workspace's time zone.")
    since_from: date = Field(
        description="If there was one change, it came on this day or later."
    )
    since_to: date = Field(description="And on this day or earlier.")
    before: BeforeChange = Field(
        description="The average from the change before this one, if any; its "
        "interval holds by itself."
    )
    reference: float | None = Field(
        default=None,
        description="The stated reference that the average since then is below; null "
        "where it is compared with the average before.",
    )
    at: Instant = Field(description="When it was first told, or now.")


class Terms(NamedTuple):
    """What a detector says that its calendar depends on."""

    classes: tuple[str, ...]
    measure: str
    promises: int
    level: float
    label_sampling: str | None
    reference: float | None
    time_zone: str

    @classmethod
    def of(cls, detector: Detector, level: float | None = None) -> "Terms":
        """Return the terms of a detector, at another confidence level if given."""
        return cls(
            tuple(detector.classes),
            detector.measure,
            1 + len(detector.also),
            detector.confidence_level if level is None else level,
            detector.label_sampling,
            detector.reference,
            detector.time_zone,
        )

    @property
    def basis(self) -> list[Any]:
        """The terms as they are kept beside what was found by them."""
        return [len(self.classes), *self[1:]]


class Now(NamedTuple):
    """What counts now of a version: all of it, or queries asked since a change."""

    birth: int
    change: AccuracyChange | None = None
    # The days of all changes in turn.
    starts: tuple[date, ...] = ()
    # Those asked since the change; None: all of the version.
    counts: Counts | None = None
    # The last day that counts, None for today, and where every query gets its label
    # those until then that have none, and all until today; None for too many.
    until: date | None = None
    awaited: Missing | None = NOTHING
    awaited_in_all: Missing | None = NOTHING

    @property
    def since(self) -> date | None:
        """The first day that counts; None for all, be they below a reference."""
        if self.change is None or not self.change.before.labels:
            return None
        return self.change.since

    def level(self, confidence_level: float) -> float:
        """Return the level of an interval of these labels.

        At it the intervals since every day, of which the results pick one, hold
        together at *confidence_level*.
        """
        since = None if self.since is None else self.since.toordinal()
        return stats.level_since(confidence_level, since, self.birth)


@dataclass(slots=True)
class Calendar:
    """The calendar of a version as it is found again."""

    terms: Terms
    birth: date
    # What was kept of it before, {} at first.
    state: Mapping[str, Any]
    # Of all days, with the labels of the fold.
    days: Mapping[date, Cells]
    shares: tuple[float, ...] | None
    changes: list[AccuracyChange] = field(default_factory=list)
    # Where every query gets its label, those without one, and the day of the first.
    awaited: Sequence[Awaited] | None = None
    waits_from: date = date.max
    now: Now = field(init=False)
    # The counts and the interval of the measure by what counts now.
    right: Right = field(init=False)
    interval: tuple[float, float] = field(init=False)
    _table: "_Table" = field(init=False)

    def find_now(self, at: datetime = _UNTOLD) -> None:
        """Find the changes, told *at* an instant, and the labels that count now."""
        self._table = _tabulate(self.days, self.terms)
        self.changes = [_date(self.state, one) for one in self._find(at)]
        last = self.changes[-1] if self.changes else None
        starts = tuple(one.since for one in self.changes)
        now = self.now = Now(self.birth.toordinal(), last, starts)
        if now.since is not None:
            self.now = now._replace(counts=_pool(self.days, now.since))

    def _find(self, at: datetime) -> Iterator[AccuracyChange]:
        terms, birth, until = self.terms, self.birth, self.waits_from
        if self.awaited is not None:
            aside = (day for day, one in self.days.items() if one.keys() & ASIDE)
            until = min([until, *aside])
        # Labels that come first may be of mistakes: only days that have all of them
        # prove a change.
        is_whole = self._table.days < until.toordinal()
        table = _Table(*(one[is_whole] for one in self._table))
        start: int | None = None
        key = tuple(one.tobytes() for one in table)
        for one in _prove(key, terms, birth, self.shares):
            measure = read_measure(terms.measure)
            if one.scope is not None:
                measure = Measure(RECALL, terms.classes[one.scope])
            counts = table.sum(measure, terms.classes, start or 0, one.since)
            try:
                outer = stats.level_since(terms.level, start, birth.toordinal())
                level = stats.level_since(outer, one.since, start or birth.toordinal())
            except ValueError:
                # The level would be too high, and nothing is known.
                low, high = 0.0, 1.0
            else:
                shares = self.shares if measure.kind == BALANCED else None
                low, high = bound(*counts, level, shares)
            parts = [k / n for k, n in zip(*counts, strict=True) if n]
            yield AccuracyChange(
                state=one.direction,
                measure=str(measure),
                since=date.fromordinal(one.since),
                since_from=date.fromordinal(one.since_from),
                since_to=date.fromordinal(one.since_to),
                reference=one.reference,
                before=BeforeChange(
                    accuracy=sum(parts) / len(parts) if all(counts[1]) else None,
                    low=low,
                    high=high,
                    labels=sum(counts[1]),
                ),
                at=at,
            )
            start = one.since

    def find_claim(self) -> Claim:
        """Find what counts now; return the claim that decides."""
        self.find_now()
        self.settle()
        claim = self._claim(self.now)
        self.right = claim.right, claim.counted
        return claim

    def _claim(self, now: Now) -> Claim:
        measure, classes = read_measure(self.terms.measure), self.terms.classes
        first = (now.since or date.min).toordinal()
        end = (now.until or date.max).toordinal() + 1
        right = self._table.sum(measure, classes, first, end)
        level = now.level(stats.shared_level(self.terms.level, self.terms.promises))
        return Claim(*right, self.shares if measure.kind == BALANCED else None, level)

    def settle(self) -> None:
        """Choose what counts where every query gets its label, and bound it.

        It is all that counts now, or only queries that are old enough to have their
        label: those of which the bounds are narrowest.  All hold.
        """
        if self.awaited is None:
            return
        measure = read_measure(self.terms.measure)
        now = self.now._replace(awaited_in_all=self.awaited[0][1])
        parts = []
        for until, unlabelled in self.awaited:
            some = _pool(self.days, now.since, until)
            missing = add_aside(unlabelled, some)
            is_whole = now.since is None and until is None
            part = now._replace(
                counts=None if is_whole else some, until=until, awaited=missing
            )
            claim = self._claim(part)
            bounds = bound_missing(claim, measure, self.terms.classes, missing)
            parts.append((part, bounds))
            if not until and missing is not None and not sum(missing.values()):
                parts = parts[-1:]
                break
        self.now, self.interval = min(parts, key=lambda one: one[1][1] - one[1][0])

    def list_untold(self, at: datetime) -> list[AccuracyChange]:
        """Return the changes that were told of no day that they may be of."""
        untold = [one for one in self.changes if one.at == _UNTOLD]
        return [one.model_copy(update={"at": at}) for one in untold]

    def dump(self, at: datetime) -> storage.Kept:
        """Return the row to store, with the changes that are told now."""
        told = [*self.state.get("told", ())]
        for one in self.list_untold(at):
            days = (one.since_from.isoformat(), one.since_to.isoformat())
            told.append([one.state, one.measure, *days, dump_instant(at)])
        now, (low, high) = self.now, self.interval
        # By predicted class, which may be unknown and is no name in JSON then.
        awaited, in_all = (
            None if some is None else [[*one] for one in some.items()]
            for some in (now.awaited, now.awaited_in_all)
        )
        state = {
            "basis": self.terms.basis,
            "birth": self.birth.isoformat(),
            "told": told,
            "change": now.change and _date({"told": told}, now.change).dump(),
            "starts": [day.isoformat() for day in now.starts],
            "counts": now.counts and now.counts.dump(),
            "until": now.until and now.until.isoformat(),
            "awaited": awaited,
            "awaited_in_all": in_all,
            "low": low,
            "high": high,
        }
        return storage.Kept("", state)


def list_now(
    session: Session,
    versions: Mapping[Version, tuple[Detector, tuple[float, ...] | None]],
    *,
    at: datetime,
    level: float | None = None,
    known_at: datetime | None = None,
) -> dict[int, Now]:
    """Return what counts now of each version, or what counted at *known_at*."""
    zones = {one.id: one.zone for one, _ in versions.values()}
    waiting = count_pending_days(session, zones)
    kept = storage.load_states(session, versions)
    found: dict[int, Now] = {}
    for version, (detector, shares) in versions.items():
        terms = Terms.of(detector, level)
        state = kept.get(version.id, {}).get((storage.CALENDAR, ""), {})
        new, rows = waiting.get(version.id, {}), {}
        if known_at is not None:
            place = (detector.id, version.id, detector.zone)
            new = count_known_days(session, *place, known_at)
            told = state.get("told", ())
            told = [one for one in told if datetime.fromisoformat(one[-1]) <= known_at]
            state = {**state, "told": told} if state else state
        elif not new and state.get("basis") == terms.basis:
            found[version.id] = _load(state)
            continue
        else:
            rows = storage.load_states(session, [version], (storage.DAYS,)).get(
                version.id, {}
            )
        days = add_days({day: one for (_, day), one in rows.items()}, new)
        birth = find_birth(session, version, state, detector.zone)
        calendar = Calendar(terms, birth, state, days, shares)
        if is_all(detector) and known_at is not None:
            # What had no label then is not kept.
            calendar.awaited, calendar.waits_from = [(None, None)], date.min
        elif is_all(detector):
            last = Counts(last_label_at=version.last_label_at)
            last_at = pool([last, *new.values()]).last_label_at or at
            awaited = find_awaited(session, detector, version, last_at)
            calendar.awaited, calendar.waits_from = awaited
        calendar.find_now(at)
        calendar.settle()
        found[version.id] = calendar.now
    return found


def add_days(
    kept: Mapping[str, Mapping[str, Any]], new: Mapping[date, Counts]
) -> dict[date, Cells]:
    """Return the cells of each day, those that are *kept* with *new* ones."""
    days: dict[date, Cells] = {
        date.fromisoformat(day): state["cells"] for day, state in kept.items()
    }
    for day, counts in new.items():
        state = kept.get(day.isoformat())
        parts = [counts] if state is None else [Counts.load(state), counts]
        days[day] = pool(parts).dump()["cells"]
    return days


def load_days(
    session: Session, detector: Detector, version: Version
) -> dict[date, Counts]:
    """Return the counts of each day asked, with those of waiting labels."""
    kept = storage.load_by_name(session, [detector.id], storage.DAYS, [version.id])
    waiting = count_pending_days(session, {detector.id: detector.zone})
    cells = add_days(kept.get(version.id, {}), waiting.get(version.id, {}))
    return {
        day: Counts.load({"cells": some, "corrections": 0})
        for day, some in cells.items()
    }


def find_birth(
    session: Session, version: Version, state: Mapping[str, Any], zone: tzinfo
) -> date:
    """Return the earliest asked day known when the first label came, which is kept."""
    if state:
        return date.fromisoformat(state["birth"])
    return day_in(find_first_asked(session, version) or version.created_at, zone)


def _load(state: Mapping[str, Any]) -> Now:
    birth = date.fromisoformat(state["birth"]).toordinal()
    change, counts, until = (state[name] for name in ("change", "counts", "until"))
    awaited = (state[name] for name in ("awaited", "awaited_in_all"))
    starts = tuple(map(date.fromisoformat, state["starts"]))
    return Now(
        birth,
        change and AccuracyChange.model_validate(change),
        starts,
        counts and Counts.load(counts),
        until and date.fromisoformat(until),
        *(None if one is None else dict(one) for one in awaited),
    )


def _pool(
    days: Mapping[date, Cells], since: date | None, until: date | None = None
) -> Counts:
    return pool(
        Counts.load({"cells": cells, "corrections": 0})
        for day, cells in days.items()
        if (since or date.min) <= day <= (until or date.max)
    )


def _date(state: Mapping[str, Any], change: AccuracyChange) -> AccuracyChange:
    """Return a change with when one like it was told, of days that it may be of too."""
    for told in state.get("told", ()):
        direction, measure, since_from, since_to, _ = told
        if (
            (direction, measure) == (change.state, change.measure)
            and since_from <= change.since_to.isoformat()
            and change.since_from.isoformat() <= since_to
        ):
            return change.model_copy(update={"at": datetime.fromisoformat(told[-1])})
    return change


class _Table(NamedTuple):
    """Live labels by the day on which their queries were asked, and by class.

    Where no precision is measured, none is counted by its prediction.
    """

    days: _Ints
    right: _Ints
    labelled: _Ints
    predicted: _Ints

    def of(self, measure: Measure, classes: Sequence[str]) -> _Both:
        """Return the right and the counted ones of a measure by day."""
        if measure.kind == BALANCED:
            return self.right, self.labelled
        if measure.kind == OVERALL:
            return self.right.sum(1, keepdims=True), self.labelled.sum(1, keepdims=True)
        place = [list(classes).index(measure.of or "")]
        counted = self.predicted if measure.kind == PRECISION else self.labelled
        return self.right[:, place], counted[:, place]

    def sum(
        self, measure: Measure, classes: Sequence[str], first: int, end: int
    ) -> Right:
        """Return the right and the counted ones from the *first* day to the *end*."""
        rows = (self.days >= first) & (self.days < end)
        right, counted = (
            tuple(one[rows].sum(axis=0).tolist()) for one in self.of(measure, classes)
        )
        return right, counted


def _tabulate(days: Mapping[date, Cells], terms: Terms) -> _Table:
    positions = {name: place for place, name in enumerate(terms.classes)}
    ordered, classes = sorted(days), len(positions)
    # Lists, whose numbers Python changes several times faster than those of an array.
    right, labelled, predicted = ([0] * (len(days) * classes) for _ in range(3))
    live = standings_of(LIVE, terms.label_sampling)
    needs_predicted = read_measure(terms.measure).kind == PRECISION
    for row, day in enumerate(ordered):
        for standing in days[day].keys() & live:
            for label, said in days[day][standing].items():
                if label == UNCLEAR:
                    continue
                place = row * classes + positions[label]
                labelled[place] += sum(said.values())
                right[place] += said.get(label, 0)
                for name in said.keys() & positions.keys() if needs_predicted else ():
                    predicted[row * classes + positions[name]] += said[name]
    ordinals = np.array([day.toordinal() for day in ordered], np.int64)
    counts = [
        np.array(one, np.int64).reshape(-1, classes)
        for one in (right, labelled, predicted)
    ]
    has_some = counts[1].any(axis=1)
    return _Table(*(one[has_some] for one in (ordinals, *counts)))


# Pages ask for the changes of the same table again and again.
@lru_cache(maxsize=256)
def _prove(
    key: tuple[bytes, ...], terms: Terms, birth: date, shares: tuple[float, ...] | None
) -> tuple[stats.AccuracyChange, ...]:
    days, *counts = (np.frombuffer(one, np.int64) for one in key)
    table = _Table(days, *(one.reshape(-1, len(terms.classes)) for one in counts))
    measure = read_measure(terms.measure)
    return stats.find_changes(
        table.days,
        table.of(measure, terms.classes),
        (table.right, table.labelled),
        birth=birth.toordinal(),
        confidence_level=terms.level,
        shares=shares if measure.kind == BALANCED else None,
        reference=terms.reference,
    )
