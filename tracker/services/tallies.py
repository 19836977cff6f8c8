"""The running counts of a version while labels are folded in, and its checkpoints."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tracker import stats
from tracker.services.estimates import STORED_METHODS
from tracker.services.fields import UNCLEAR
from tracker.storage.counts import Cell

# Up to here each label makes a checkpoint; from here each hundredth part more.
DENSE_CHECKPOINTS = 100
# Where joint intervals are costly, they wait for this many percent more labels.
_JOINT_GROWTH = 105


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a version at the moment of a snapshot."""

    kind: str
    correct: tuple[int, ...]
    labelled: tuple[int, ...]
    unclear: int
    targeted: int
    methods: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """The running counts of one version while labels are folded in."""

    cells: dict[Cell, int]
    next_checkpoint: int
    next_joint: int
    positions: dict[str, int]
    queries: int = 0
    corrections: int = 0
    last_label_at: datetime | None = None
    changed: set[Cell] = field(default_factory=set)
    points: list[Point] = field(default_factory=list)
    correct: list[int] = field(init=False)
    labelled: list[int] = field(init=False)
    unclear: int = 0
    targeted: int = 0
    is_recorded: bool = True

    def __post_init__(self) -> None:
        """Sum up the cells by class."""
        self.correct = [0] * len(self.positions)
        self.labelled = [0] * len(self.positions)
        for cell, number in self.cells.items():
            self._count(cell, number)

    def fold(self, row: Any) -> None:
        """Count a label in, and the one that it replaces out."""
        new = Cell(row.label, row.predicted, row.sampling == "targeted")
        self._change(new, 1)
        is_scored = new.label != UNCLEAR and not new.is_targeted
        if row.old_label is not None:
            old = Cell(row.old_label, row.predicted, row.old_sampling == "targeted")
            self._change(old, -1)
            self.corrections += 1
            is_scored = is_scored or (old.label != UNCLEAR and not old.is_targeted)
            is_scored = is_scored and old != new
        self.last_label_at = row.created_at
        if is_scored:
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
            self.labelled[position] += step
            if cell.predicted == cell.label:
                self.correct[position] += step

    def _checkpoint(self) -> None:
        scored = sum(self.labelled)
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
                self.unclear,
                self.targeted,
                self._choose_methods(kind),
            )
        )
        self.is_recorded = True

    def _choose_methods(self, kind: str) -> tuple[str, ...]:
        # The counts alone decide, and only at checkpoints, so that the same labels
        # store the same rows however they arrived.
        if not stats.joint_is_costly(self.labelled):
            return STORED_METHODS
        scored = sum(self.labelled)
        if kind == "checkpoint" and scored >= self.next_joint:
            self.next_joint = -(-_JOINT_GROWTH * scored // 100)
            return STORED_METHODS
        return tuple(method for method in STORED_METHODS if method != "joint")
