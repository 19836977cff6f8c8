"""The running counts of a version while labels are folded in, and its checkpoints."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tracker import stats
from tracker.errors import ConflictError
from tracker.services.estimates.drift import Stretch, Watch
from tracker.storage.estimates.counts import (
    Cell,
    changes_scored,
    is_unstated,
    read_change,
)
from tracker.storage.estimates.days import DayChanges
from tracker.storage.estimates.pending import first_id
from tracker.storage.labelling.labels import CountedLabel
from tracker.words import STORED_METHODS, UNCLEAR

# Up to here each label makes a checkpoint; from here each hundredth part more.
DENSE_CHECKPOINTS = 100
# Where joint intervals are costly, they wait for this many percent more labels.
_JOINT_GROWTH = 105


class StaleFoldError(ConflictError):
    """Another worker has folded these labels; this result is discarded."""


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a version at the moment of a snapshot."""

    kind: str
    correct: tuple[int, ...]
    labelled: tuple[int, ...]
    predicted: tuple[int, ...]
    unclear: int
    targeted: int
    methods: tuple[str, ...]
    stretch: Stretch | None


@dataclass(slots=True)
class Tally:
    """The running counts of one version while labels are folded in."""

    cells: dict[Cell, int]
    next_checkpoint: int
    next_joint: int
    positions: dict[str, int]
    watch: Watch
    queries: int = 0
    corrections: int = 0
    unstated: int = 0
    repeats: int = 0
    last_label_at: datetime | None = None
    changed: set[Cell] = field(default_factory=set)
    days: DayChanges = field(default_factory=lambda: defaultdict(int))
    points: list[Point] = field(default_factory=list)
    correct: list[int] = field(init=False)
    labelled: list[int] = field(init=False)
    predicted: list[int] = field(init=False)
    scored: int = 0
    unclear: int = 0
    targeted: int = 0
    is_recorded: bool = True

    def __post_init__(self) -> None:
        """Sum up the cells by class."""
        self.correct = [0] * len(self.positions)
        self.labelled = [0] * len(self.positions)
        self.predicted = [0] * len(self.positions)
        for cell, number in self.cells.items():
            self._count(cell, number)

    def fold(self, row: CountedLabel) -> None:
        """Count a label in, and the one that it replaces out."""
        new, old = read_change(row)
        day = row.asked_at.date()
        self.days[day, row.label, row.predicted, row.sampling, row.is_repeat] += 1
        if row.old_label is not None:
            assert row.old_sampling is not None
            was = row.old_label, row.predicted, row.old_sampling
            self.days[day, *was, bool(row.old_is_repeat)] -= 1
        self.repeats += row.is_repeat - bool(row.old_is_repeat)
        if new is not None:
            self._change(new, 1)
            self.unstated += is_unstated(row.label, row.sampling)
            if row.old_label is not None:
                self.corrections += row.old_label != row.label
            elif new.is_scored:
                self.watch.add(
                    self.positions[row.label],
                    is_right=row.predicted == row.label,
                    mark=self.scored,
                )
        if old is not None:
            self._change(old, -1)
            self.unstated -= is_unstated(old.label, row.old_sampling)
        self.last_label_at = row.created_at
        if changes_scored(new, old):
            self.is_recorded = False
            self._checkpoint()

    def finish(self) -> None:
        """Record where the run ended, if that is between two checkpoints."""
        if not self.is_recorded:
            self._record("run")

    def _change(self, cell: Cell, step: int) -> None:
        self.cells[cell] = self.cells.get(cell, 0) + step
        self.changed.add(cell)
        self._count(cell, step)

    def _count(self, cell: Cell, step: int) -> None:
        if cell.label == UNCLEAR:
            self.unclear += step
        elif cell.is_targeted:
            self.targeted += step
        else:
            position = self.positions[cell.label]
            self.scored += step
            self.labelled[position] += step
            if cell.predicted in self.positions:
                self.predicted[self.positions[cell.predicted]] += step
            if cell.predicted == cell.label:
                self.correct[position] += step

    def _checkpoint(self) -> None:
        scored = self.scored
        if DENSE_CHECKPOINTS < scored < self.next_checkpoint:
            return
        self._record("checkpoint")
        # ceil(1.01 * scored) in whole numbers, the same on every machine.
        self.next_checkpoint = max(DENSE_CHECKPOINTS + 1, -(-101 * scored // 100))

    def _record(self, kind: str) -> None:
        self.points.append(
            Point(
                kind,
                tuple(self.correct),
                tuple(self.labelled),
                tuple(self.predicted),
                self.unclear,
                self.targeted,
                self._choose_methods(kind),
                self.watch.stretch,
            )
        )
        self.is_recorded = True

    def _choose_methods(self, kind: str) -> tuple[str, ...]:
        # The counts alone decide, and only at checkpoints, so that the same labels
        # store the same rows however they arrived.
        if not stats.joint_is_costly(self.labelled):
            return STORED_METHODS
        scored = self.scored
        if kind == "checkpoint" and scored >= self.next_joint:
            self.next_joint = -(-_JOINT_GROWTH * scored // 100)
            return STORED_METHODS
        return tuple(method for method in STORED_METHODS if method != "joint")


def in_order_of_replacement(
    rows: Iterable[CountedLabel], waiting: Container[int]
) -> Iterator[CountedLabel]:
    """Hold a label back until the one that it replaces has gone before.

    A long import draws its ids when it begins, so it may replace a label with a
    higher id that was committed meanwhile.  *waiting* are the first ids of the
    batches being folded: a replaced label of another batch is counted already.
    """
    held: dict[int, list[CountedLabel]] = {}
    for row in rows:
        replaced = row.replaces_id
        if (
            replaced is not None
            and replaced > row.id
            and _batch_start(replaced) in waiting
        ):
            held.setdefault(replaced, []).append(row)
            continue
        if not held:
            yield row
            continue
        free = [row]
        while free:
            following = free.pop()
            yield following
            free.extend(held.pop(following.id, ()))


def _batch_start(row_id: int) -> int:
    return first_id(row_id // first_id(1))
