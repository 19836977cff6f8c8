"""The running counts of slices: while the job folds labels in, and of one value."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.projections import Place, Projection, VersionFold
from tracker.services.evidence.measure import read_measure, spread
from tracker.services.evidence.random_queue import hash_to_unit
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Change, Counts, pool
from tracker.storage.estimates.counts import count_pending_labels
from tracker.storage.estimates.projections import Kept, load_projections
from tracker.storage.estimates.slices import EVIDENCE, SLICE, SLICED, list_counted
from tracker.storage.queries.finding import Condition, Metadata
from tracker.words import NO_VALUE

# So many values of a key are told apart; the rest are one slice.
MOST_VALUES = 500
OTHER = "(other)"
_LONGEST_VALUE = 200
# So many labels are put in an order of their own at once.
_MOST_WAITING = 20_000
_SPECIAL = frozenset({OTHER, NO_VALUE})


def read_value(details: Mapping[str, Any], name: str) -> str:
    """Return which slice of the key *name* a query with these metadata is in.

    Numbers and truth values are written as ``where=`` finds them.
    """
    value = details.get(name)
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        value = int(value) if value.is_integer() else repr(value)
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
        return OTHER
    return value


# Each key reads its value of the metadata of the same change.
@lru_cache(maxsize=1024)
def _parse_details(text: str | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {} if text is None else json.loads(text)
    return found


class SliceCounts(Projection):
    """The slices of a version by one of the keys that its detector declares.

    Only the slices that are touched are read and written, so that a label costs the
    same with five slices and with five hundred.
    """

    is_of_slice = True

    def __init__(self, fold: VersionFold, key: str = "") -> None:
        super().__init__(fold, key)
        self._measure = read_measure(fold.detector.measure)
        # By what is compared: of the balanced accuracy each class by itself.
        self._watches: dict[str, stats.SliceWatch] = {}
        # How many values there are, stored ones included.
        self._values = 0
        self._touched: set[str] = set()
        self._compared: set[tuple[str, str]] = set()
        self._evidence: Evidence = {}
        # The labels of this fold that are not compared yet.
        self._labels: list[tuple[Any, ...]] = []
        self.worse: list[dict[str, Any]] = []

    @classmethod
    def numbers(cls, place: Place, kept: Kept) -> dict[str, int]:
        """Return the counts of a slice by class."""
        name, value = place
        if not name.startswith(SLICE):
            return {}
        part = f"slice {value} by metadata.{name.removeprefix(SLICE)}"
        numbers = {f"{part}, queries": kept.state["queries"]}
        for cell, number in Counts.load(kept.state["counts"]).cells.items():
            title = f"{part}, {cell.standing} label {cell.label} of {cell.predicted}"
            numbers[title] = number
        return numbers

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the slices that *changes* touch, and of the rest."""
        values, pairs = {OTHER}, set()
        for change in changes:
            value = read_value(_parse_details(change.metadata), self.key)
            values.add(value)
            name = self._compare(change)
            if name is not None:
                pairs |= {(name, value), (name, OTHER)}
        return {
            (SLICED, self.key),
            *((SLICE + self.key, value) for value in values),
            *((EVIDENCE + self.key, _dump_key(*pair)) for pair in pairs),
        }

    def _compare(self, change: Change) -> str | None:
        added, removed, live = change.added, change.removed, self.fold.live
        if added is None or not added.is_scored(live):
            return None
        # The evidence takes each label as it was first given: what was multiplied in
        # stays, since the promise is about that.
        if removed is not None and removed.is_scored(live):
            return None
        return self._measure.compared(added.label, added.predicted)

    def load(self, rows: Mapping[Place, Kept]) -> None:
        """Continue from the slices that were asked for, and from their evidence."""
        whole = rows.get((SLICED, self.key))
        if whole is not None:
            self._values = whole.state["values"]
            for name, counted in whole.state["compared"].items():
                self._watches[name] = stats.SliceWatch({"all": counted, "slices": {}})
        for (place, key), kept in rows.items():
            if place == SLICE + self.key:
                self.rows[key] = kept.state | {
                    "counts": Counts.load(kept.state["counts"])
                }
            elif place == EVIDENCE + self.key:
                name, value = json.loads(key)
                self._watches[name].restore(value, json.loads(kept.memory or ""))

    def add(self, change: Change) -> None:
        """Count a query, or a label and no longer the one that it replaces."""
        value = self._touch(read_value(_parse_details(change.metadata), self.key))
        self._touched.add(value)
        row = self.rows[value]
        if change.is_query:
            row["queries"] += 1
            return
        row["counts"].count_label(change)
        name = self._compare(change)
        if name is not None and change.added is not None:
            self._compared.add((name, value))
            is_right = change.added.label == change.added.predicted
            # Labels that came at once, in a file, may be sorted by what is right, which
            # no evidence survives: they are taken by the day on which they were asked,
            # those of a day in a random order.
            rank = hash_to_unit(self.fold.detector.queue_seed, change.id)
            place = change.created_at, change.day, rank
            self._labels.append((*place, name, value, is_right))
            if len(self._labels) >= _MOST_WAITING:
                self._compare_waiting()

    def _compare_waiting(self) -> None:
        for *_, name, value, is_right in sorted(self._labels):
            watch = self._watches.setdefault(name, stats.SliceWatch())
            watch.add(value, is_right)
        self._labels.clear()

    def _touch(self, value: str) -> str:
        """Return the value of the slice for *value*, which is there from then on."""
        if value in self.rows:
            return value
        # Two are no values of the metadata, and do not count among them.
        if value not in _SPECIAL and self._values >= MOST_VALUES:
            return self._touch(OTHER)
        self.rows[value] = {"queries": 0, "counts": Counts(), "is_told": False}
        self._values += value not in _SPECIAL
        return value

    def close(self, rows: Callable[[str], Sequence[Kept]]) -> None:
        """Find which slices are shown to be worse and were not told of yet."""
        self._compare_waiting()
        self._evidence = {
            (name, value): one
            for name, watch in self._watches.items()
            for value, one in watch.evidence().items()
        }
        if self.fold.is_new:
            self._remember_told(rows)
        # Below the threshold of the last of Holm's steps nothing can be told.
        if not any(one.worse_peak >= 2.0 for one in self._evidence.values()):
            return
        found = dict(self._evidence)
        if not self.fold.is_new:
            for kept in rows(EVIDENCE + self.key):
                name, value = json.loads(kept.key)
                found.setdefault((name, value), as_evidence(kept))
        judged = judge_compared(
            found,
            self.fold.detector.confidence_level,
            slices=MOST_VALUES + 2,
            measures=len(self._measure.list_compared(self.fold.classes)),
        )
        for value, row in self.rows.items():
            worse = join_states(judged.get(value, {}))
            if worse.state == "worse" and not row["is_told"]:
                row["is_told"] = True
                first = worse.worse_in[0]
                self.worse.append(self._describe(first, value, row["counts"]))

    def _remember_told(self, rows: Callable[[str], Sequence[Kept]]) -> None:
        """Tell of no slice once more in a recount, unless the measure is another."""
        told = [one for one in rows(SLICED) if one.key == self.key]
        if told and told[0].state["measure"] == self.fold.detector.measure:
            for kept in rows(SLICE + self.key):
                if kept.key in self.rows:
                    self.rows[kept.key]["is_told"] = kept.state["is_told"]

    def _describe(self, name: str, value: str, counts: Counts) -> dict[str, Any]:
        cells = counts.select(self.fold.live).confusion
        (correct,), (labelled,) = read_measure(name).count_right(
            spread(cells, self.fold.classes)
        )
        return {
            "by": f"metadata.{self.key}",
            "value": value,
            "measure": name,
            "correct": correct,
            "labelled": labelled,
        }

    def dump(self) -> dict[Place, Kept]:
        """Return the slices that were touched, their evidence, and the sums of all."""
        if not self._touched:
            return {}
        states = {name: watch.dump() for name, watch in self._watches.items()}
        whole = {
            "measure": self.fold.detector.measure,
            "compared": {name: one["all"] for name, one in states.items()},
            "values": self._values,
        }
        found = {(SLICED, self.key): Kept(self.key, whole)}
        for value in self._touched:
            row = self.rows[value]
            shown = row | {"counts": row["counts"].dump()}
            found[SLICE + self.key, value] = Kept(value, shown)
        for name, value in self._compared:
            key = _dump_key(name, value)
            memory = json.dumps(states[name]["slices"][value])
            state = self._evidence[name, value]._asdict()
            found[EVIDENCE + self.key, key] = Kept(key, state, memory)
        return found


Evidence = Mapping[tuple[str, str], stats.SliceEvidence]
"""The evidence by what is compared and the value of the slice."""


class Joined(NamedTuple):
    """What is shown of a slice, and in which of the measures that are compared."""

    state: stats.SliceState
    likely: Literal["better", "worse"] | None
    worse_in: list[str]
    better_in: list[str]


NO_EVIDENCE = stats.SliceEvidence(0, 0, 0.0, 0.0, 0.0, 0.0)


def _dump_key(name: str, value: str) -> str:
    return json.dumps([name, value], ensure_ascii=False)


def as_evidence(kept: Kept) -> stats.SliceEvidence:
    return stats.SliceEvidence(**kept.state)


def judge_compared(
    evidence: Evidence, level: float, *, slices: int, measures: int
) -> dict[str, dict[str, stats.SliceJudgement]]:
    """Return what is shown of each slice in each measure that is compared.

    All together, by a rule that is wrong of any of them with a chance of at most the
    error of the level, for so many slices and measures as there may be.
    """
    found: dict[str, dict[str, stats.SliceJudgement]] = {}
    judged = stats.judge_slices(
        list(evidence.values()), level, room_for=slices * measures
    )
    for (name, value), one in zip(evidence, judged, strict=True):
        found.setdefault(value, {})[name] = one
    return found


def join_states(judged: Mapping[str, stats.SliceJudgement]) -> Joined:
    """Return what is shown of a slice: worse if it is so in any compared measure."""
    worse = [name for name, one in judged.items() if one.state == "worse"]
    better = [name for name, one in judged.items() if one.state == "better"]
    maybe = {one.likely for one in judged.values()} - {None}
    likely = maybe.pop() if len(maybe) == 1 and not (worse or better) else None
    state: stats.SliceState = "no_difference_shown"
    if worse or better:
        state = "worse" if worse else "better"
    elif all(one.state == "too_few_labels" for one in judged.values()):
        state = "too_few_labels"
    return Joined(state, likely, worse, better)


def count_slice(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    wanted: Sequence[Condition],
) -> Counts | None:
    """Count the labels of the queries that are *wanted*, with those that wait.

    None where they are no slice that is kept.
    """
    if len(wanted) != 1 or not isinstance(wanted[0], Metadata):
        return None
    one, place = wanted[0], (SLICE + wanted[0].name, wanted[0].text)
    value = one.text if one.number is None else one.number
    # The others have one value that is written in several ways.
    is_slice = read_value({one.name: value}, one.name) == one.text
    is_counted = one.name in list_counted(detector)
    if not is_slice or not is_counted or one.text in {OTHER, "null"}:
        return None
    rows = load_projections(
        session,
        [
            (detector.id, version.id, *key)
            for version in versions
            for key in (place, (SLICED, one.name))
        ],
    )
    waiting = count_pending_labels(session, [detector.id], [one.test(session)])
    parts = [waiting[v.id] for v in versions if v.id in waiting]
    for version in versions:
        row = rows.get((detector.id, version.id, *place))
        whole = rows.get((detector.id, version.id, SLICED, one.name))
        if row is not None:
            parts.append(Counts.load(row.state["counts"]))
        elif whole is not None and whole.state["values"] >= MOST_VALUES:
            return None
    return pool(parts)
