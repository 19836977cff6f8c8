"""Projections: what is kept of the changes of a version, and how a change moves it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, ClassVar, TypeVar

from tracker import stats
from tracker.services.evidence import populations
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import (
    FIRST_LABELS,
    STATED,
    Arrival,
    Cell,
    Change,
    Counts,
    Shares,
    labels_of_shares,
)
from tracker.storage.estimates.projections import CELLS, DAYS, KNOWN, Kept
from tracker.storage.estimates.thresholds import CONFIDENCES, Bin, Bins, key_of
from tracker.words import STANDINGS, STORED_METHODS, UNCLEAR

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
        detector: Detector,
        kinds: Sequence[type["Projection"]],
        cut_by: Sequence[str] = (),
        *,
        is_new: bool = False,
    ) -> None:
        """Begin with one projection of each of *kinds*, which may build on others."""
        self.detector = detector
        self.classes = list(detector.classes)
        self.positions = {name: place for place, name in enumerate(self.classes)}
        self.label_sampling = detector.label_sampling
        self.live = populations.standings_of(populations.LIVE, self.label_sampling)
        self.cut_by = cut_by
        self.is_new = is_new
        self.queries = self.labels = 0
        self.last_label_at: datetime | None = None
        # The places whose rows were asked for.
        self.known: set[Place] = set()
        self.projections: list[Projection] = []
        self._of: dict[type[Projection], Projection] = {}
        for kind in kinds:
            for key in cut_by if kind.is_of_slice else [""]:
                self._of[kind] = one = kind(self, key)
                self.projections.append(one)
        self._takers = [one.add for one in self.projections]

    def of(self, kind: type[_P]) -> _P:
        found: Any = self._of[kind]
        return found  # type: ignore[no-any-return]

    def missing(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the rows that *changes* need, and mark them as known."""
        if self.is_new:
            return set()
        wanted = set().union(*(one.keys(changes) for one in self.projections))
        wanted -= self.known
        self.known |= wanted
        return wanted

    def add(self, change: Change) -> None:
        for take in self._takers:
            take(change)
        if change.created_at is not None:
            self.labels += 1
            self.last_label_at = change.created_at

    def dump(self) -> dict[Place, Kept]:
        found: dict[Place, Kept] = {}
        for one in self.projections:
            found |= one.dump()
        return found


class Projection(ABC):
    """A projection of the changes of one version.

    The fold asks for the *keys* that some changes touch, has the rows under them
    loaded, adds each change, and dumps the rows that are to be stored.
    """

    name: ClassVar[str]
    # What a row is loaded into and dumped from.
    row: ClassVar[Any]
    # Whether there is one for each key that slices are cut by.
    is_of_slice = False
    # The slices that are to be told of.
    worse: Sequence[dict[str, Any]] = ()

    def __init__(self, fold: VersionFold, key: str = "") -> None:
        self.fold, self.key = fold, key
        self.rows: dict[str, Any] = {}

    def keys(self, changes: Sequence[Change]) -> set[Place]:  # noqa: ARG002
        """Return the places of the rows that *changes* touch."""
        return {(self.name, "")}

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the rows at the places that were asked for, if any."""
        for (name, key), kept in rows.items():
            if name == self.name:
                self.rows[key] = self.row.load(kept.state)

    @abstractmethod
    def add(self, change: Change) -> None:
        """Take the next change."""

    def close(self, rows: Callable[[str], Sequence[Kept]]) -> None:  # noqa: B027
        """Take note that there are no more changes; *rows* returns all of a name."""

    def dump(self) -> dict[Place, Kept]:
        return {
            (self.name, key): Kept(key, row.dump()) for key, row in self.rows.items()
        }


class Tally:
    """The labels of one population by class."""

    def __init__(self, population: str, fold: VersionFold) -> None:
        self.population = population
        self.standings = populations.standings_of(population, fold.label_sampling)
        self._positions = fold.positions
        self.correct = [0] * len(fold.classes)
        self.labelled = [0] * len(fold.classes)
        self.predicted = [0] * len(fold.classes)
        self.scored = self.unclear = 0

    def count(self, cell: Cell, step: int) -> None:
        """Count so many labels of a cell more."""
        if cell.label == UNCLEAR:
            self.unclear += step
            return
        position = self._positions[cell.label]
        self.scored += step
        self.labelled[position] += step
        if cell.predicted in self._positions:
            self.predicted[self._positions[cell.predicted]] += step
        if cell.predicted == cell.label:
            self.correct[position] += step


class Cells(Projection):
    """The running counts of a version, in all and by class."""

    name, row = CELLS, Counts

    def __init__(self, fold: VersionFold, key: str = "") -> None:
        super().__init__(fold, key)
        self.counts = self.rows[""] = Counts()
        self._tallies = {name: Tally(name, fold) for name in populations.POPULATIONS}
        self._takers = {
            standing: [
                one for one in self._tallies.values() if standing in one.standings
            ]
            for standing in STANDINGS
        }
        self._targeted = populations.targeted_standings(fold.label_sampling)
        self.targeted = 0

    @property
    def tally(self) -> Tally:
        for one in self._tallies.values():
            if one.scored or one.unclear:
                return one
        return self._tallies[populations.LIVE]

    def load(self, rows: Mapping[Place, Kept]) -> None:
        super().load(rows)
        if (CELLS, "") in rows:
            self.counts = self.rows[""]
            for cell, number in self.counts.cells.items():
                self._count(cell, number)

    def add(self, change: Change) -> None:
        """Count a label in all, by population, and for the shares of the classes."""
        self.counts.count_label(change)
        label, before = change.added, change.removed
        if before is not None:
            self._count(before, -1)
        if label is None:
            return
        self._count(label, 1)
        shares, live = self.counts.shares, self.fold.live
        if shares is None:
            detector, at = self.fold.detector, change.created_at
            stated, since = detector.class_shares, detector.class_shares_at
            shares = Shares(FIRST_LABELS, {})
            # What is stated after a label was seen may have been chosen by it.
            if stated is not None and since and at and since < at:
                shares = Shares(STATED, dict(stated), is_frozen=True)
            self.counts.shares = shares
        # A correction counts no query a second time.
        is_first = before is None or not before.is_scored(live)
        if is_first and not shares.is_frozen and label.is_scored(live):
            shares.by_class[label.label] = shares.by_class.get(label.label, 0) + 1

    @property
    def shares(self) -> tuple[float, ...] | None:
        """What `anytime` bets on for live labels; None before that is frozen."""
        shares = self.counts.shares
        return None if shares is None else shares.of(self.fold.classes)

    def _count(self, cell: Cell, step: int) -> None:
        for one in self._takers[cell.standing]:
            one.count(cell, step)
        if cell.standing in self._targeted and cell.label != UNCLEAR:
            self.targeted += step


class Days(Projection):
    """The counts of a version by the day on which queries were asked."""

    name, row = DAYS, Counts

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        days = {change.day for change in changes}
        return {(DAYS, day.isoformat()) for day in days if day is not None}

    def add(self, change: Change) -> None:
        if change.day is not None:
            day = change.day.isoformat()
            counts = self.rows.get(day)
            if counts is None:
                counts = self.rows[day] = Counts()
            counts.count_label(change)


class Known(Projection):
    """What the labels of each day changed, to know what was known at an instant."""

    name, row = KNOWN, Arrival

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        instants = {at for one in changes for at in (one.created_at, one.removed_at)}
        days = {at.date() for at in instants if at is not None}
        return {(KNOWN, day.isoformat()) for day in days}

    def add(self, change: Change) -> None:
        """Count a change on the days on which its labels came."""
        added = change.added, change.created_at, 1
        removed = change.removed, change.removed_at, -1
        for cell, instant, step in (added, removed):
            if cell is None or instant is None:
                continue
            day = instant.date().isoformat()
            row = self.rows.get(day)
            if row is None:
                row = self.rows[day] = Arrival(change.id, change.id, instant, instant)
            counts: Counts = row.at(change, instant)
            counts.add(cell, step)
            counts.corrections += change.is_correction if step < 0 else 0


class Confidences(Projection):
    """The queries and labels of a version by the confidence of the prediction."""

    name, row = CONFIDENCES, Bins

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        steps = {change.step for change in changes}
        return {(CONFIDENCES, key_of(step)) for step in steps if step is not None}

    def at(self, step: int) -> Bin:
        bins: Bins = self.rows.setdefault(key_of(step), Bins())
        return bins.setdefault(step, Bin())

    def add(self, change: Change) -> None:
        if change.step is not None:
            if change.added is not None:
                self.at(change.step).count(change.added, 1)
            if change.removed is not None:
                self.at(change.step).count(change.removed, -1)


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a version at the moment of a snapshot."""

    kind: str
    population: str
    correct: tuple[int, ...]
    labelled: tuple[int, ...]
    predicted: tuple[int, ...]
    unclear: int
    targeted: int
    methods: tuple[str, ...]
    # How frequent the classes are taken to be; see `balanced_anytime`.
    shares: tuple[float, ...] | None = None


class Checkpoints(Projection):
    """The moments at which snapshots are taken, with their counts.

    The counts alone decide when, so the same labels make the same checkpoints however
    they arrived.
    """

    name = CHECKPOINTS

    def __init__(self, fold: VersionFold, key: str = "") -> None:
        super().__init__(fold, key)
        self.points: list[Point] = []
        self._next = self._next_joint = 0
        # The population of the last snapshot, and the word that it went by; None
        # before the first one.
        self._basis: list[str | None] | None = None
        self._is_recorded = True
        # The last day on which runs ended, and how many did.
        self._runs: tuple[str, int] = ("", 0)

    def load(self, rows: Mapping[Place, Kept]) -> None:
        if (CHECKPOINTS, "") in rows:
            state = rows[CHECKPOINTS, ""].state
            self._next, self._next_joint = state["next"], state["next_joint"]
            self._basis, self._runs = state["basis"], state["runs"]
            self._is_recorded = state["is_recorded"]

    def add(self, change: Change) -> None:
        """Take a snapshot where the change makes a checkpoint."""
        tally = self.fold.of(Cells).tally
        # A label that is not scored may leave the estimate to another population.
        basis = [tally.population, self.fold.label_sampling]
        is_other = self._basis is not None and self._basis != basis
        if not is_other and not change.moves(tally.standings):
            return
        self._is_recorded = False
        scored = tally.scored
        if not is_other and DENSE_CHECKPOINTS < scored < self._next:
            return
        self._record("checkpoint")
        # ceil(1.01 * scored) in whole numbers, the same on every machine.
        self._next = max(DENSE_CHECKPOINTS + 1, -(-101 * scored // 100))

    def freeze_shares(self) -> None:
        """Freeze the class shares once there are enough labels, for new points too."""
        shares = self.fold.of(Cells).counts.shares
        if shares is None or shares.is_frozen:
            return
        if shares.labels >= labels_of_shares(len(self.fold.classes)):
            shares.is_frozen = True
            parts = shares.of(self.fold.classes)
            self.points = [
                replace(one, shares=parts)
                if one.population == populations.LIVE
                else one
                for one in self.points
            ]

    def find_run_due(self, last_label_at: datetime) -> datetime | None:
        """Return when a snapshot of where the labels ended is due; None: never."""
        if self._is_recorded:
            return None
        due = last_label_at + QUIET
        day, number = self._runs
        if day == due.date().isoformat() and number >= _MOST_RUNS:
            return datetime.combine(due.date() + timedelta(days=1), time(), UTC)
        return due

    def end_run(self, at: datetime) -> None:
        """Take a snapshot of where the labels ended, if any was ever scored."""
        if self._basis is None and not self.fold.of(Cells).tally.scored:
            return
        today = at.date().isoformat()
        day, number = self._runs
        self._runs = (today, number + 1 if day == today else 1)
        self._record("run")

    def _record(self, kind: str) -> None:
        cells = self.fold.of(Cells)
        tally = cells.tally
        basis = [tally.population, self.fold.label_sampling]
        if basis != self._basis:
            # Other labels are counted from the first of them on.
            self._basis = basis
            self._next = self._next_joint = 0
        methods: tuple[str, ...] = STORED_METHODS
        if stats.joint_is_costly(tally.labelled):
            if kind == "checkpoint" and tally.scored >= self._next_joint:
                self._next_joint = -(-_JOINT_GROWTH * tally.scored // 100)
            else:
                methods = tuple(name for name in methods if name != "joint")
        self.points.append(
            Point(
                kind,
                tally.population,
                tuple(tally.correct),
                tuple(tally.labelled),
                tuple(tally.predicted),
                tally.unclear,
                cells.targeted,
                methods,
                cells.shares if tally.population == populations.LIVE else None,
            )
        )
        self._is_recorded = True

    def dump(self) -> dict[Place, Kept]:
        """Return the only row."""
        state = {
            "next": self._next,
            "next_joint": self._next_joint,
            "basis": self._basis,
            "is_recorded": self._is_recorded,
            "runs": self._runs,
        }
        return {(CHECKPOINTS, ""): Kept("", state)}
