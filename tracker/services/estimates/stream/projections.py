"""Projections: what is kept of the changes of a version, and how a change moves it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeVar

from tracker import stats
from tracker.services.estimates.stream.points import Point, Stretch
from tracker.storage.estimates.cells import Cell, Change, Counts
from tracker.storage.estimates.projections import CELLS, DAYS, Kept
from tracker.words import STORED_METHODS, TARGETED, UNCLEAR, UNSTATED

Place = tuple[str, str]
"""The name of a projection and a key."""

# Up to here each label makes a checkpoint; from here each hundredth part more.
DENSE_CHECKPOINTS = 100
# Where joint intervals are costly, they wait for this many percent more labels.
_JOINT_GROWTH = 105
CHECKPOINTS = "checkpoints"
# After so long without a label a version gets a snapshot of where its labels ended, on
# one day so many times.
QUIET = timedelta(seconds=10)
_MOST_RUNS = 24
_P = TypeVar("_P", bound="Projection")


class VersionFold:
    """The projections of one version while changes are folded in.

    A *new* one begins with nothing, whatever is stored.
    """

    def __init__(
        self,
        classes: Sequence[str],
        level: float,
        kinds: Sequence[type["Projection"]],
        cut_by: Sequence[str] = (),
        *,
        is_new: bool = False,
    ) -> None:
        """Begin with one projection of each of *kinds*, which may build on others."""
        self.classes = list(classes)
        self.positions = {name: place for place, name in enumerate(self.classes)}
        self.level = level
        self.cut_by = cut_by
        self.is_new = is_new
        self.queries = self.labels = 0
        self.corrections = 0
        self.last_label_at: datetime | None = None
        # The labels since the last alarm, if something watches for one.
        self.find_stretch: Callable[[], Stretch | None] = lambda: None
        self._known: set[Place] = set()
        self._of: dict[type[Projection], Projection] = {}
        for kind in kinds:
            self._of[kind] = kind(self)
        self._takers = [one.add for one in self._of.values()]

    def of(self, kind: type[_P]) -> _P:
        """Return the projection of that *kind*."""
        found: Any = self._of[kind]
        return found  # type: ignore[no-any-return]

    def missing(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the rows that *changes* need, and mark them as known."""
        if self.is_new:
            return set()
        wanted = set().union(*(one.keys(changes) for one in self._of.values()))
        wanted -= self._known
        self._known |= wanted
        return wanted

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the stored *rows*."""
        for one in self._of.values():
            one.load(rows)

    def add(self, change: Change) -> None:
        """Take the next change."""
        for take in self._takers:
            take(change)
        if change.created_at is not None:
            self.labels += 1
            self.corrections += change.is_correction
            self.last_label_at = change.created_at

    def close(self, rows: Callable[[str], Sequence[Kept]]) -> None:
        """Take note that there are no more changes."""
        for one in self._of.values():
            one.close(rows)

    def dump(self) -> dict[Place, Kept]:
        """Return the rows to store."""
        found: dict[Place, Kept] = {}
        for one in self._of.values():
            found |= one.dump()
        return found


class Projection:
    """A projection of the changes of one version.

    The fold asks for the *keys* that some changes touch, has the rows under them
    loaded, adds each change, and dumps the rows that are to be stored.
    """

    def __init__(self, fold: VersionFold) -> None:
        """Begin with nothing."""
        self.fold = fold

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the rows that *changes* touch."""
        raise NotImplementedError

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the rows at the places that were asked for, if any."""
        raise NotImplementedError

    def add(self, change: Change) -> None:
        """Take the next change."""
        raise NotImplementedError

    def close(self, rows: Callable[[str], Sequence[Kept]]) -> None:
        """Take note that there are no more changes; *rows* returns all of a name."""

    def dump(self) -> dict[Place, Kept]:
        """Return the rows to store."""
        raise NotImplementedError

    @classmethod
    def owns(cls, name: str) -> bool:
        """Return whether rows under *name* are its own and hold counts."""
        raise NotImplementedError

    @classmethod
    def numbers(cls, place: Place, kept: Kept) -> dict[str, int]:
        """Return the counts in a row, each under the words for it."""
        raise NotImplementedError


def name_counts(counts: Counts) -> dict[str, int]:
    """Return the number in each cell under the words for it."""
    numbers = {
        f"{'targeted ' * (cell.sampling == TARGETED)}label {cell.label}, "
        f"predicted {cell.predicted}"
        f"{', sampling unstated' * (cell.sampling == UNSTATED)}": number
        for cell, number in counts.cells.items()
    }
    return numbers | {"repeats": counts.repeats, "corrections": counts.corrections}


class Cells(Projection):
    """The running counts of a version, in all and by class."""

    def __init__(self, fold: VersionFold) -> None:
        """Begin without a label."""
        super().__init__(fold)
        self.counts = Counts()
        self.correct = [0] * len(fold.classes)
        self.labelled = [0] * len(fold.classes)
        self.predicted = [0] * len(fold.classes)
        self.scored = self.unclear = self.left_out = 0

    def keys(self, changes: Sequence[Change]) -> set[Place]:  # noqa: ARG002
        """Return the place of the only row."""
        return {(CELLS, "")}

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the stored counts."""
        if (CELLS, "") in rows:
            self.counts = Counts.load(rows[CELLS, ""].state)
            for cell, number in self.counts.cells.items():
                self._count(cell, number)

    def add(self, change: Change) -> None:
        """Count a label, and no longer the one that it replaces."""
        self.counts.take(change)
        if change.added is not None:
            self._count(change.added, 1)
        if change.removed is not None:
            self._count(change.removed, -1)

    def _count(self, cell: Cell, step: int) -> None:
        if cell.is_scored:
            position = self.fold.positions[cell.label]
            self.scored += step
            self.labelled[position] += step
            self.predicted[self.fold.positions[cell.predicted]] += step
            if cell.predicted == cell.label:
                self.correct[position] += step
        elif cell.label == UNCLEAR:
            self.unclear += step
        else:
            self.left_out += step

    def dump(self) -> dict[Place, Kept]:
        """Return the only row."""
        return {(CELLS, ""): Kept("", self.counts.dump())}

    @classmethod
    def owns(cls, name: str) -> bool:
        """Return whether *name* is that of the running counts."""
        return name == CELLS

    @classmethod
    def numbers(cls, place: Place, kept: Kept) -> dict[str, int]:  # noqa: ARG003
        """Return the count of each cell."""
        return name_counts(Counts.load(kept.state))


class Days(Projection):
    """The counts of a version by the day on which queries were asked."""

    def __init__(self, fold: VersionFold) -> None:
        """Begin without a day."""
        super().__init__(fold)
        self._days: dict[date, Counts] = {}

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the days of *changes*."""
        days = {change.day for change in changes}
        return {(DAYS, day.isoformat()) for day in days if day is not None}

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from stored days."""
        for (name, day), kept in rows.items():
            if name == DAYS:
                self._days[date.fromisoformat(day)] = Counts.load(kept.state)

    def add(self, change: Change) -> None:
        """Count a label on its day, and no longer the one that it replaces."""
        if change.day is not None:
            counts = self._days.get(change.day)
            if counts is None:
                counts = self._days[change.day] = Counts()
            counts.take(change)

    def dump(self) -> dict[Place, Kept]:
        """Return a row for each day."""
        texts = {day: day.isoformat() for day in self._days}
        return {
            (DAYS, texts[day]): Kept(texts[day], counts.dump())
            for day, counts in self._days.items()
        }

    @classmethod
    def owns(cls, name: str) -> bool:
        """Return whether *name* is that of days."""
        return name == DAYS

    @classmethod
    def numbers(cls, place: Place, kept: Kept) -> dict[str, int]:
        """Return the count of each cell of the day."""
        numbers = name_counts(Counts.load(kept.state))
        return {f"{what}, asked on {place[1]}": one for what, one in numbers.items()}


class Checkpoints(Projection):
    """The moments at which snapshots are taken, with their counts.

    The counts alone decide when, so the same labels make the same checkpoints however
    they arrived.
    """

    def __init__(self, fold: VersionFold) -> None:
        """Begin before the first checkpoint."""
        super().__init__(fold)
        self.points: list[Point] = []
        self._next = self._next_joint = 0
        self._is_recorded = True
        # The last day on which runs ended, and how many did.
        self._runs: tuple[str, int] = ("", 0)

    def keys(self, changes: Sequence[Change]) -> set[Place]:  # noqa: ARG002
        """Return the place of the only row."""
        return {(CHECKPOINTS, "")}

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the stored state."""
        if (CHECKPOINTS, "") in rows:
            state = rows[CHECKPOINTS, ""].state
            self._next, self._next_joint = state["next"], state["next_joint"]
            self._is_recorded = state["is_recorded"]
            self._runs = (state["runs"][0], state["runs"][1])

    def add(self, change: Change) -> None:
        """Take a snapshot where the change makes a checkpoint."""
        if not change.is_scored:
            return
        self._is_recorded = False
        scored = self.fold.of(Cells).scored
        if DENSE_CHECKPOINTS < scored < self._next:
            return
        self._record("checkpoint")
        # ceil(1.01 * scored) in whole numbers, the same on every machine.
        self._next = max(DENSE_CHECKPOINTS + 1, -(-101 * scored // 100))

    def find_due(self, last_label_at: datetime) -> datetime | None:
        """Return when a snapshot of where the labels ended is due; None: never.

        That is once there has been no label for a while, and not too often in a day.
        """
        if self._is_recorded:
            return None
        due = last_label_at + QUIET
        day, number = self._runs
        if day == due.date().isoformat() and number >= _MOST_RUNS:
            return datetime.combine(due.date() + timedelta(days=1), time(), UTC)
        return due

    def end_run(self, at: datetime) -> None:
        """Take a snapshot of where the labels ended."""
        today = at.date().isoformat()
        day, number = self._runs
        self._runs = (today, number + 1 if day == today else 1)
        self._record("run")

    def _record(self, kind: str) -> None:
        cells = self.fold.of(Cells)
        self.points.append(
            Point(
                kind,
                tuple(cells.correct),
                tuple(cells.labelled),
                tuple(cells.predicted),
                cells.unclear,
                cells.left_out,
                self._choose_methods(kind, cells),
                self.fold.find_stretch(),
            )
        )
        self._is_recorded = True

    def _choose_methods(self, kind: str, cells: Cells) -> tuple[str, ...]:
        if not stats.joint_is_costly(cells.labelled):
            return STORED_METHODS
        if kind == "checkpoint" and cells.scored >= self._next_joint:
            self._next_joint = -(-_JOINT_GROWTH * cells.scored // 100)
            return STORED_METHODS
        return tuple(method for method in STORED_METHODS if method != "joint")

    def dump(self) -> dict[Place, Kept]:
        """Return the only row."""
        state = {
            "next": self._next,
            "next_joint": self._next_joint,
            "is_recorded": self._is_recorded,
            "runs": self._runs,
        }
        return {(CHECKPOINTS, ""): Kept("", state)}
