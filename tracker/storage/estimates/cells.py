"""Cells and changes of them: queries counted by standing, label and prediction."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any, Literal, NamedTuple

from tracker.words import UNCLEAR, WITHDRAWN

# Where the class shares that `anytime` bets on come from.
SharesSource = Literal["stated", "first_labels"]
STATED: SharesSource = "stated"
FIRST_LABELS: SharesSource = "first_labels"


def labels_of_shares(classes: int) -> int:
    """Return how many labels say how frequent so many classes are.

    Of rare ones among many classes a hundred labels hold one or two.
    """
    return max(100, min(20 * classes, 1_000))


# Steps from a confidence of 0 to 1.
STEPS = 1000

Standings = frozenset[str]
"""The standings whose labels count together: those of a population."""


class Cell(NamedTuple):
    """A cell of the confusion counts of one version."""

    standing: str
    label: str
    predicted: str

    def is_scored(self, standings: Standings) -> bool:
        return self.standing in standings and self.label != UNCLEAR


def day_in(instant: datetime, zone: tzinfo) -> date:
    """Return the day of an *instant* in a time zone."""
    if zone is UTC:
        return instant.date()
    try:
        return instant.astimezone(zone).date()
    except OverflowError:
        # At an end of the calendar, beyond which there is no day.
        return instant.date()


def midnight_in(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


class Change(NamedTuple):
    """A label that was given, replaced or taken over; without cells, a new query."""

    detector_id: int
    version_id: int
    id: int
    replaces_id: int | None = None
    # The day on which the query was asked, in the zone of the detector's days.
    day: date | None = None
    added: Cell | None = None
    removed: Cell | None = None
    is_correction: bool = False
    created_at: datetime | None = None
    metadata: str | None = None
    # Of the confidence of its query, one of STEPS.
    step: int | None = None
    # When both labels were there; the clock may have been set back between them.
    removed_at: datetime | None = None

    @property
    def is_query(self) -> bool:
        return self.created_at is None

    def moves(self, standings: Standings) -> bool:
        """Return whether it changes the accuracy of a population."""
        now, before = (
            cell.label if cell is not None and cell.is_scored(standings) else None
            for cell in (self.added, self.removed)
        )
        return now != before


@dataclass(frozen=True, slots=True)
class Selection:
    """The confusion counts of a population."""

    # (label, predicted) and how many.
    confusion: Mapping[tuple[str, str], int]
    # Of each prediction the labels that say the question cannot be answered.
    unclear: Mapping[str, int]

    def by_class(self, classes: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return how many of each of *classes* are correct, and labelled."""
        labelled = dict.fromkeys(classes, 0)
        for (label, _), number in self.confusion.items():
            labelled[label] += number
        correct = [self.confusion.get((name, name), 0) for name in classes]
        return correct, [*labelled.values()]


@dataclass(slots=True)
class Shares:
    """How frequent the classes of a version are taken to be.

    They are stated by the owner before its first label, or the classes of its first
    labels.  They are used once they are frozen, and never change from then on, so that
    the intervals hold after every label.
    """

    source: SharesSource
    by_class: dict[str, float]
    is_frozen: bool = False

    @property
    def labels(self) -> int:
        return 0 if self.source == STATED else int(sum(self.by_class.values()))

    def of(self, classes: Sequence[str]) -> tuple[float, ...] | None:
        """Return the part of each of *classes*; None while they may not be used.

        A class that was added later has the least.
        """
        if not self.is_frozen:
            return None
        if self.source == STATED:
            least = min(self.by_class.values())
            shares = [self.by_class.get(name, least) for name in classes]
        else:
            # Each class may have had one more, so none is taken to be impossible.
            shares = [self.by_class.get(name, 0.0) + 1.0 for name in classes]
        whole = math.fsum(shares)
        return tuple(share / whole for share in shares)


@dataclass(slots=True)
class Counts:
    """The counts of a version, of a day of it, or a change of them."""

    cells: dict[Cell, int] = field(default_factory=dict)
    corrections: int = 0
    last_label_at: datetime | None = None
    # Of a version as a whole, once it has a label.
    shares: Shares | None = None

    def count(self, standings: Standings) -> int:
        return sum(n for cell, n in self.cells.items() if cell.standing in standings)

    def scored(self, standings: Standings) -> int:
        return sum(n for cell, n in self.cells.items() if cell.is_scored(standings))

    def select(self, standings: Standings) -> Selection:
        """Return the sum of the cells of a population."""
        confusion: dict[tuple[str, str], int] = {}
        unclear: dict[str, int] = {}
        for (standing, label, predicted), number in self.cells.items():
            if standing not in standings:
                continue
            if label == UNCLEAR:
                unclear[predicted] = unclear.get(predicted, 0) + number
            else:
                place = label, predicted
                confusion[place] = confusion.get(place, 0) + number
        return Selection(confusion, unclear)

    def add(self, cell: Cell, number: int) -> None:
        if cell.standing != WITHDRAWN:
            self.cells[cell] = self.cells.get(cell, 0) + number

    def count_label(self, change: Change) -> None:
        """Count the label of a change, and no longer the one that it replaces."""
        if change.added is not None:
            self.add(change.added, 1)
        if change.removed is not None:
            self.add(change.removed, -1)
        self.corrections += change.is_correction

    def without(self, others: "Counts") -> "Counts":
        cells = dict(self.cells)
        for cell, number in others.cells.items():
            cells[cell] -= number
        return replace(self, cells=cells)

    def dump(self) -> dict[str, Any]:
        """Return the counts as JSON, equal for equal counts."""
        cells: dict[str, dict[str, dict[str, int]]] = {}
        for cell, number in sorted(self.cells.items()):
            if number:
                of_standing = cells.setdefault(cell.standing, {})
                of_standing.setdefault(cell.label, {})[cell.predicted] = number
        state: dict[str, Any] = {"cells": cells, "corrections": self.corrections}
        if self.shares is not None:
            shares = self.shares
            state["shares"] = [shares.source, shares.by_class, shares.is_frozen]
        return state

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Counts":
        """Return the counts that `dump` returned."""
        cells = {
            Cell(standing, label, predicted): number
            for standing, of_standing in state["cells"].items()
            for label, of_label in of_standing.items()
            for predicted, number in of_label.items()
        }
        shares = Shares(*state["shares"]) if "shares" in state else None
        return cls(cells, state["corrections"], shares=shares)


@dataclass(slots=True)
class Arrival:
    """What the labels of one day changed, by the days of their queries."""

    # Among which ids they are, and between which instants they came.
    first: int
    last: int
    since: datetime
    until: datetime
    days: dict[date, Counts] = field(default_factory=dict)

    def at(self, change: Change, instant: datetime) -> Counts:
        """Return the counts that *change* moves, and note when it came."""
        self.first, self.last = min(self.first, change.id), max(self.last, change.id)
        self.since, self.until = min(self.since, instant), max(self.until, instant)
        assert change.day is not None
        counts = self.days.get(change.day)
        if counts is None:
            counts = self.days[change.day] = Counts()
        return counts

    def dump(self) -> dict[str, Any]:
        """Return it as JSON, equal for equal changes."""
        days = {day.isoformat(): one.dump() for day, one in sorted(self.days.items())}
        span = [one.isoformat() for one in (self.since, self.until)]
        return {"ids": [self.first, self.last], "span": span, "days": days}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Arrival":
        """Return what `dump` returned, each count with the last instant."""
        since, until = map(datetime.fromisoformat, state["span"])
        days = {
            date.fromisoformat(day): replace(Counts.load(one), last_label_at=until)
            for day, one in state["days"].items()
        }
        first, last = state["ids"]
        return cls(first, last, since, until, days)


def pool(parts: Iterable[Counts]) -> Counts:
    """Return the sum of *parts*, without the cells that come to nothing.

    The shares of classes are kept if only one part has some.
    """
    total, shares = Counts(), list[Shares]()
    for part in parts:
        if part.shares is not None:
            shares.append(part.shares)
        for cell, number in part.cells.items():
            total.add(cell, number)
        total.corrections += part.corrections
        instants = (total.last_label_at, part.last_label_at)
        total.last_label_at = max((one for one in instants if one), default=None)
    total.cells = {cell: number for cell, number in total.cells.items() if number}
    total.shares = shares[0] if len(shares) == 1 else None
    return total
