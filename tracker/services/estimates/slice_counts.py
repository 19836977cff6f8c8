"""The running counts of slices while the job folds labels in."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracker.services.estimates.projections import Place, Projection, VersionFold
from tracker.services.estimates.slice_values import MOST_VALUES, OTHER, read_value
from tracker.stats import SliceEvidence, SliceWatch, judge_slices
from tracker.storage.estimates.cells import Change, Counts, Standings
from tracker.storage.estimates.projections import Kept
from tracker.storage.estimates.slices import SLICE, SLICED
from tracker.words import NO_VALUE, OVERALL

_SPECIAL = frozenset({OTHER, NO_VALUE})


def _parse_details(text: str | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {} if text is None else json.loads(text)
    return found


class Slices(Projection):
    """The slices of a version by the keys that its detector declares.

    Only the slices that are touched are read and written, so that a label costs the
    same with five slices and with five hundred.
    """

    def __init__(self, fold: VersionFold) -> None:
        super().__init__(fold)
        self._keys = {name: _SlicesOfKey(name, fold) for name in fold.cut_by}

    @property
    def worse(self) -> list[dict[str, Any]]:
        """The slices that have been shown to be worse, as an event says it."""
        return [one for key in self._keys.values() for one in key.worse]

    def keys(self, changes: Sequence[Change]) -> set[Place]:
        """Return the places of the slices of *changes*, and of those that they fill."""
        details = [_parse_details(one.metadata) for one in changes if self._keys]
        found = set()
        for name in self._keys:
            values = {OTHER, *(read_value(one, name) for one in details)}
            found |= {(SLICED, name), *((SLICE + name, value) for value in values)}
        return found

    def load(self, rows: Mapping[Place, Kept]) -> None:
        for key in self._keys.values():
            key.load(rows)

    def add(self, change: Change) -> None:
        """Count a query, or a label and no longer the one that it replaces."""
        if self._keys:
            details = _parse_details(change.metadata)
            for name, key in self._keys.items():
                key.add(read_value(details, name), change)

    def close(self, rows: Callable[[str], Sequence[Kept]]) -> None:
        for key in self._keys.values():
            key.close(rows, self.fold.level)

    def dump(self) -> dict[Place, Kept]:
        """Return a row for each key and each slice that was touched."""
        found: dict[Place, Kept] = {}
        for key in self._keys.values():
            found |= key.dump()
        return found

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


class _SlicesOfKey:
    """The slices of one version by one key."""

    def __init__(self, name: str, fold: VersionFold) -> None:
        self._name = name
        self._live = fold.live
        self._is_new = fold.is_new
        self._rows: dict[str, dict[str, Any]] = {}
        self._watch = SliceWatch()
        # How many values there are, stored ones included.
        self._values = 0
        self._touched: set[str] = set()
        self._evidence: dict[str, SliceEvidence] = {}
        self.worse: list[dict[str, Any]] = []

    def load(self, rows: Mapping[Place, Kept]) -> None:
        whole = rows.get((SLICED, self._name))
        if whole is not None:
            state = whole.state
            counted = [state["correct"], state["labelled"]]
            self._watch = SliceWatch({"all": counted, "slices": {}})
            self._values = state["values"]
        for (name, value), kept in rows.items():
            if name == SLICE + self._name:
                parts = json.loads(kept.memory or "[]")
                if parts:
                    self._watch.restore(value, parts)
                self._rows[value] = {
                    "queries": kept.state["queries"],
                    "counts": Counts.load(kept.state["counts"]),
                    "is_told": kept.state["is_told"],
                }

    def add(self, value: str, change: Change) -> None:
        value = self._touch(value)
        self._touched.add(value)
        row = self._rows[value]
        if change.is_query:
            row["queries"] += 1
            return
        row["counts"].take(change)
        added, removed = change.added, change.removed
        if added is None or not added.is_scored(self._live):
            return
        # The evidence takes each label as it was first given: what was multiplied in
        # stays, since the promise is about that.
        if removed is None or not removed.is_scored(self._live):
            self._watch.add(value, added.label == added.predicted)

    def _touch(self, value: str) -> str:
        """Return the value of the slice for *value*, which is there from then on."""
        if value in self._rows:
            return value
        # Two are no values of the metadata, and do not count among them.
        if value not in _SPECIAL and self._values >= MOST_VALUES:
            return self._touch(OTHER)
        self._rows[value] = {"queries": 0, "counts": Counts(), "is_told": False}
        self._values += value not in _SPECIAL
        return value

    def close(self, rows: Callable[[str], Sequence[Kept]], level: float) -> None:
        self._evidence = self._watch.evidence()
        stored = rows(SLICE + self._name) if self._is_new else []
        # A recount tells of no slice once more.
        for kept in stored:
            if kept.key in self._rows:
                self._rows[kept.key]["is_told"] = kept.state["is_told"]
        # Below the threshold of the last of Holm's steps nothing can be told.
        if not any(one.worse_peak >= 2.0 for one in self._evidence.values()):
            return
        if not self._is_new:
            stored = rows(SLICE + self._name)
        for value in self._find_worse(level, [] if self._is_new else stored):
            row = self._rows.get(value)
            if row is not None and not row["is_told"]:
                row["is_told"] = True
                self.worse.append(self._describe(value, row))

    def _find_worse(self, level: float, stored: Sequence[Kept]) -> list[str]:
        """Return the slices that are worse, by a rule that errs but rarely in a life.

        As many hypotheses are allowed for as there can ever be slices of the key.
        """
        found = dict(self._evidence)
        for kept in stored:
            found.setdefault(kept.key, as_evidence(kept.state, self._live))
        judged = judge_slices(list(found.values()), level, room_for=MOST_VALUES + 2)
        pairs = zip(found, judged, strict=True)
        return [value for value, one in pairs if one.state == "worse"]

    def _describe(self, value: str, row: Mapping[str, Any]) -> dict[str, Any]:
        correct, labelled = sum_counts(row["counts"], self._live)
        return {
            "by": f"metadata.{self._name}",
            "value": value,
            "measure": OVERALL,
            "correct": correct,
            "labelled": labelled,
        }

    def dump(self) -> dict[Place, Kept]:
        if not self._touched:
            return {}
        state = self._watch.dump()
        correct, labelled = state["all"]
        whole = {"correct": correct, "labelled": labelled, "values": self._values}
        found = {(SLICED, self._name): Kept(self._name, whole)}
        for value in self._touched:
            row = self._rows[value]
            evidence = self._evidence.get(value, _NO_EVIDENCE)
            shown = {
                **row,
                "counts": row["counts"].dump(),
                "worse": evidence.worse,
                "better": evidence.better,
                "worse_peak": evidence.worse_peak,
                "better_peak": evidence.better_peak,
            }
            memory = json.dumps(state["slices"].get(value, []))
            found[SLICE + self._name, value] = Kept(value, shown, memory)
        return found


_NO_EVIDENCE = SliceEvidence(0, 0, 0.0, 0.0, 0.0, 0.0)


def sum_counts(counts: Counts, live: Standings) -> tuple[int, int]:
    """Return how many live labels of a slice are right, and how many there are."""
    confusion = counts.select(live).confusion
    right = sum(n for (label, predicted), n in confusion.items() if label == predicted)
    return right, sum(confusion.values())


def as_evidence(state: Mapping[str, Any], live: Standings) -> SliceEvidence:
    names = ("worse", "better", "worse_peak", "better_peak")
    pair = sum_counts(Counts.load(state["counts"]), live)
    return SliceEvidence(*pair, *(state[name] for name in names))
