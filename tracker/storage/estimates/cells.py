"""Cells and changes of them: queries counted by sampling, label and prediction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

from tracker.words import RANDOM, SAMPLINGS, UNCLEAR, UNSTATED

Population = frozenset[str]
"""The samplings whose labels count together."""

# What estimates rest on, and all labels that answer the question.
SCORED: Population = frozenset({RANDOM, UNSTATED})
EVERY: Population = frozenset(SAMPLINGS)


class Cell(NamedTuple):
    """A cell of the confusion counts of one version."""

    sampling: str
    label: str
    predicted: str

    @property
    def is_scored(self) -> bool:
        """Whether its labels count for accuracy."""
        return self.label != UNCLEAR and self.sampling in SCORED


class Change(NamedTuple):
    """A label that was given, replaced or taken over; without cells, a new query.

    *added* is None for a repeat, which counts in no cell.  *removed* is the cell of
    the label before it, None for the first one and for a repeat.
    """

    detector_id: int
    version_id: int
    id: int
    replaces_id: int | None = None
    # The day in UTC on which the query was asked.
    day: date | None = None
    added: Cell | None = None
    removed: Cell | None = None
    # How many labelled queries more repeat an input: -1, 0 or 1.
    repeats: int = 0
    is_first: bool = False
    is_correction: bool = False
    created_at: datetime | None = None
    metadata: str | None = None

    @property
    def is_query(self) -> bool:
        """Whether it is a new query, without a label."""
        return self.created_at is None

    @property
    def is_scored(self) -> bool:
        """Whether it changes an accuracy."""
        added, removed = self.added, self.removed
        # Another sampling of the same population changes no accuracy.
        now = added.label if added is not None and added.is_scored else None
        before = removed.label if removed is not None and removed.is_scored else None
        return now != before


@dataclass(frozen=True, slots=True)
class Selection:
    """The confusion counts of a population, and how many labels it leaves out."""

    # (label, predicted) and how many.
    confusion: Mapping[tuple[str, str], int]
    unclear: int
    left_out: int

    def by_class(self, classes: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return how many of each of *classes* are correct, and labelled."""
        labelled = dict.fromkeys(classes, 0)
        for (label, _), number in self.confusion.items():
            labelled[label] += number
        correct = [self.confusion.get((name, name), 0) for name in classes]
        return correct, [*labelled.values()]


@dataclass(slots=True)
class Counts:
    """The counts of a version, of a day of it, or a change of them."""

    cells: dict[Cell, int] = field(default_factory=dict)
    # Labelled queries that repeat an input; they are in no cell.
    repeats: int = 0
    corrections: int = 0
    last_label_at: datetime | None = None

    @property
    def scored(self) -> int:
        """How many labels count for accuracy."""
        return sum(number for cell, number in self.cells.items() if cell.is_scored)

    @property
    def unstated(self) -> int:
        """How many scored labels have the sampling unstated."""
        return sum(self.select(frozenset({UNSTATED})).confusion.values())

    def select(self, population: Population = SCORED) -> Selection:
        """Return the sum of the cells of a *population*."""
        confusion: dict[tuple[str, str], int] = {}
        unclear = left_out = 0
        for (sampling, label, predicted), number in self.cells.items():
            if label == UNCLEAR:
                unclear += number
            elif sampling in population:
                place = label, predicted
                confusion[place] = confusion.get(place, 0) + number
            else:
                left_out += number
        return Selection(confusion, unclear, left_out)

    def add(self, cell: Cell, number: int) -> None:
        """Count so many labels more in a cell."""
        self.cells[cell] = self.cells.get(cell, 0) + number

    def take(self, change: Change) -> None:
        """Count the label of a change, and no longer the one that it replaces."""
        if change.added is not None:
            self.add(change.added, 1)
        if change.removed is not None:
            self.add(change.removed, -1)
        self.repeats += change.repeats
        self.corrections += change.is_correction

    def dump(self) -> dict[str, Any]:
        """Return the counts as JSON, equal for equal counts."""
        cells: dict[str, dict[str, dict[str, int]]] = {}
        for cell, number in sorted(self.cells.items()):
            if number:
                of_sampling = cells.setdefault(cell.sampling, {})
                of_sampling.setdefault(cell.label, {})[cell.predicted] = number
        return {
            "cells": cells,
            "repeats": self.repeats,
            "corrections": self.corrections,
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Counts":
        """Return the counts that `dump` returned."""
        cells = {
            Cell(sampling, label, predicted): number
            for sampling, of_sampling in state["cells"].items()
            for label, of_label in of_sampling.items()
            for predicted, number in of_label.items()
        }
        return cls(cells, state["repeats"], state["corrections"])


def pool(parts: Iterable[Counts]) -> Counts:
    """Return the sum of *parts*, without the cells that come to nothing."""
    total = Counts()
    for part in parts:
        for cell, number in part.cells.items():
            total.add(cell, number)
        total.repeats += part.repeats
        total.corrections += part.corrections
        instants = (total.last_label_at, part.last_label_at)
        total.last_label_at = max((one for one in instants if one), default=None)
    total.cells = {cell: number for cell, number in total.cells.items() if number}
    return total
