"""Whether the accuracy of a version has fallen since its first labels.

The first labels of each class are its reference: what its accuracy exceeds by them,
but for a small chance, is compared with all that follow.  So an alarm says that a
version has become worse than it was, whatever its target.  After an alarm the labels
that follow are the new reference.

Labels count in the order and with the truth in which they first came.  Where many were
corrected, a replay goes through all labels in the same order with the truth of today.
It runs in the background, once so many were corrected that it costs each of them
little, and the alarms that were told stay.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.stream.points import Stretch
from tracker.services.estimates.stream.projections import (
    Cells,
    Place,
    Projection,
    VersionFold,
)
from tracker.stats import lower_bound
from tracker.stats.joint.balanced import joint_lower_bound
from tracker.stats.monitoring.drift import (
    DEFAULT_RUN,
    Alarm,
    BalancedWatch,
    ClassWatch,
)
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates.cells import Change, Counts
from tracker.storage.estimates.changes import iter_first_labels
from tracker.storage.estimates.projections import (
    Kept,
    find_projection,
    load_counts,
    store_projections,
)
from tracker.words import BALANCED

DRIFT = "drift"
REPLAY = "drift.replay"
REFERENCE_LABELS = 100
# Two watches share the promise, so each sounds half as often.
_MEAN_RUN = 2.0 * DEFAULT_RUN
# Nothing falls below an accuracy of zero, and a reference lies above it.
_LEAST_REFERENCE = 0.001
# Not watched yet; no label is compared with it.
_PLACEHOLDER = 0.5
# Of how many labels since the last alarm one has to be corrected.
_REPLAYED_PART = 100
# Where an alarm is new, that part of all labels: a replay goes through all of them.
_REPLAYED_PART_OF_ALL = _REPLAYED_PART * 100
# A round waits for so many labels of a frequent class at most.
_MOST_OF_A_ROUND = 20


@dataclass(frozen=True, slots=True)
class Drift:
    """An alarm: an accuracy has fallen below what it was known to exceed."""

    scope: str
    reference: float
    reference_labels: int
    labels: int
    since_label: int

    def dump(self) -> dict[str, Any]:
        """Return it as it stands in an event."""
        return asdict(self)


class Watch:
    """The watch of one version, label by label, each at the same small cost."""

    def __init__(
        self,
        classes: Sequence[str],
        confidence_level: float,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin, or continue from what `dump` returned."""
        self._names = list(classes)
        self._error = (1.0 - confidence_level) / 2.0
        self._stored = state
        self.alarms: list[Drift] = []
        self.has_changed = False
        self._is_awake = False
        self._sounded = 0

    def add(self, position: int, *, is_right: bool, mark: int) -> None:
        """Take the next label, of the class at *position*; *mark* is its number."""
        self._wake()
        self.has_changed = True
        self._seen[position] += 1
        self._right[position] += is_right
        if self._references[position] is None:
            self._correct[position] += is_right
            self._counted[position] += 1
            if self._counted[position] == REFERENCE_LABELS:
                self._end_reference(position)
            return
        assert self._classes is not None
        alarm = self._classes.add(position, is_right, mark)
        if self._balanced is not None:
            # It takes the label also where the first watch sounds.
            alarm = self._balanced.add(position, is_right, mark) or alarm
        if alarm is not None:
            self.alarms.append(self._describe(alarm, mark))
            self._sounded += 1
            self._begin()

    @property
    def stretch(self) -> Stretch | None:
        """The labels since the last alarm; None before the first one."""
        self._wake()
        if not self._sounded:
            return None
        return Stretch(self._sounded, tuple(self._right), tuple(self._seen))

    def _wake(self) -> None:
        # Most versions of a detector get no label when it is brought up to date.
        if not self._is_awake:
            self._begin()
            self._continue(self._stored)
            self._is_awake = True

    def _begin(self) -> None:
        size = len(self._names)
        self._correct, self._counted = [0] * size, [0] * size
        self._right, self._seen = [0] * size, [0] * size
        self._references: list[float | None] = [None] * size
        self._balanced_reference = _LEAST_REFERENCE
        self._round_of: list[int] = []
        self._classes: ClassWatch | None = None
        self._balanced: BalancedWatch | None = None

    def _continue(self, state: Mapping[str, Any] | None) -> None:
        if state is None:
            return
        # States from before alarms were counted have neither; what they lack is not
        # asked for until the next alarm.
        self._sounded = state.get("alarms", 0)
        for place, right in enumerate(state.get("right", ())):
            self._right[place] = right
        for place, kept in enumerate(state["classes"]):
            self._correct[place], self._counted[place] = kept[:2]
            self._seen[place], self._references[place] = kept[2:]
        if state["watch"]:
            self._watch_classes(state["watch"])
        # A class that came later has to get its reference first.
        if state["balanced"] and len(state["round_of"]) == len(self._names):
            self._balanced_reference = state["balanced_reference"]
            self._round_of = list(state["round_of"])
            self._watch_balanced(state["balanced"])

    def _describe(self, alarm: Alarm, mark: int) -> Drift:
        if alarm.scope is None:
            scope, reference = BALANCED, self._balanced_reference
            labels = sum(self._counted)
        else:
            scope = self._names[alarm.scope]
            reference = self._references[alarm.scope] or _LEAST_REFERENCE
            labels = self._counted[alarm.scope]
        return Drift(scope, reference, labels, mark, alarm.since)

    def _end_reference(self, position: int) -> None:
        error = self._error / len(self._names)
        low = lower_bound(self._correct[position], self._counted[position], error)
        self._references[position] = max(float(low), _LEAST_REFERENCE)
        self._watch_classes(self._classes.dump() if self._classes else None)
        if None not in self._references:
            rarest = min(self._seen)
            self._round_of = [
                min(round(seen / rarest), _MOST_OF_A_ROUND) for seen in self._seen
            ]
            together = joint_lower_bound(self._correct, self._counted, self._error)
            self._balanced_reference = max(float(together), _LEAST_REFERENCE)
            self._watch_balanced(None)

    def _watch_classes(self, state: Mapping[str, Any] | None) -> None:
        references = [one or _PLACEHOLDER for one in self._references]
        self._classes = ClassWatch(references, mean_run=_MEAN_RUN, state=state)

    def _watch_balanced(self, state: Mapping[str, Any] | None) -> None:
        self._balanced = BalancedWatch(
            self._balanced_reference, self._round_of, mean_run=_MEAN_RUN, state=state
        )

    def dump(self) -> dict[str, Any]:
        """Return the state: numbers and lists that JSON keeps to the last bit."""
        counts = (self._correct, self._counted, self._seen, self._references)
        return {
            "alarms": self._sounded,
            "right": self._right,
            "classes": [list(one) for one in zip(*counts, strict=True)],
            "watch": self._classes.dump() if self._classes else None,
            "round_of": self._round_of,
            "balanced_reference": self._balanced_reference,
            "balanced": self._balanced.dump() if self._balanced else None,
        }


class Drifting(Projection):
    """The watch of a version, as a projection of its first labels."""

    def __init__(self, fold: VersionFold) -> None:
        """Begin to watch."""
        super().__init__(fold)
        self.watch = Watch(fold.classes, fold.level)
        fold.find_stretch = lambda: self.watch.stretch

    def keys(self, changes: Sequence[Change]) -> set[Place]:  # noqa: ARG002
        """Return the place of the only row."""
        return {(DRIFT, "")}

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the stored state."""
        if (DRIFT, "") in rows:
            state = rows[DRIFT, ""].state
            self.watch = Watch(self.fold.classes, self.fold.level, state)

    def add(self, change: Change) -> None:
        """Take the label of the change, if it is scored and its query's first."""
        added = change.added
        if change.is_first and added is not None and added.is_scored:
            self.watch.add(
                self.fold.positions[added.label],
                is_right=added.predicted == added.label,
                mark=self.fold.of(Cells).scored,
            )

    def dump(self) -> dict[Place, Kept]:
        """Return the only row, once there are labels."""
        if not self.watch.has_changed:
            return {}
        return {(DRIFT, ""): Kept("", self.watch.dump())}


@dataclass(frozen=True, slots=True)
class Replay:
    """The alarms of a version by the labels that were current at so many corrections.

    *alarms* has for each what an event of it says.
    """

    corrections: int
    labels: int
    alarms: list[dict[str, Any]]


def find_replay(session: Session, version: Version) -> Replay | None:
    """Return the last replay of a version; None before there were many corrections."""
    replay = find_projection(session, version, REPLAY)
    return None if replay is None else Replay(**replay)


def compute_replays(session: Session, detector: Detector) -> dict[int, Replay]:
    """Return the replays that are due, by version."""
    versions = list_versions(session, detector.id)
    counts = load_counts(session, versions)
    corrected = [one for one in versions if counts[one.id].corrections]
    return {
        one.id: _replay(session, detector, one, counts[one.id].corrections)
        for one in corrected
        if _is_due(session, one, counts[one.id])
    }


def _is_due(session: Session, version: Version, counts: Counts) -> bool:
    state = find_projection(session, version, DRIFT)
    if state is None:
        return False
    replay = find_replay(session, version)
    new = counts.corrections - (0 if replay is None else replay.corrections)
    since_alarm = sum(seen for _, _, seen, _ in state["classes"])
    return (
        new * _REPLAYED_PART > since_alarm
        and new * _REPLAYED_PART_OF_ALL > counts.scored
    )


def _replay(
    session: Session, detector: Detector, version: Version, corrections: int
) -> Replay:
    watch = Watch(detector.classes, detector.confidence_level)
    positions = {name: place for place, name in enumerate(detector.classes)}
    number = 0
    with closing(iter_first_labels(session, detector.id, version.id)) as rows:
        for number, row in enumerate(rows, start=1):
            watch.add(
                positions[row.label], is_right=row.predicted == row.label, mark=number
            )
    alarms = [alarm.dump() for alarm in watch.alarms]
    return Replay(corrections, number, alarms)


def store_replays(
    session: Session, detector_id: int, replays: Mapping[int, Replay]
) -> None:
    """Store the replays in place of earlier ones."""
    rows = {
        (detector_id, version_id, REPLAY, ""): Kept("", asdict(replay))
        for version_id, replay in replays.items()
    }
    store_projections(session, rows)
