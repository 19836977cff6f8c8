"""The running counts of slices while the job folds labels in."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker.services.telling.events import SLICE_WORSE, tell
from tracker.stats import SliceEvidence, SliceWatch, judge_slices
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.counts import Cell, changes_scored, read_change
from tracker.storage.estimates.slices import (
    find_slice_key,
    list_slice_values,
    list_slices,
    load_slices,
    store_slices,
)
from tracker.storage.labelling.labels import CountedLabel
from tracker.words import NO_VALUE

# So many values of a key are told apart; the rest are one slice.
MOST_VALUES = 500
OTHER = "(other)"
_LONGEST_VALUE = 200
_SPECIAL = frozenset({OTHER, NO_VALUE})
# So many labels are held back, so that the slices they touch are read at once.
_AT_ONCE = 1_000


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


def parse_details(text: str | None) -> Mapping[str, Any]:
    """Return the metadata of a query, none being an empty mapping."""
    found: Mapping[str, Any] = {} if text is None else json.loads(text)
    return found


@dataclass(frozen=True, slots=True)
class WorseSlice:
    """A slice that has been shown to be worse than the others."""

    version_id: int
    data: dict[str, Any]


class _Change(NamedTuple):
    """What a label does to a slice; with neither label it is a new query."""

    value: str
    new: Cell | None
    old: Cell | None


class SliceTally:
    """The slices of a detector by the keys *names*, while labels are folded in.

    Only the slices that are touched are read and written, so that a label costs the
    same with five slices and with five hundred.  With *is_new* nothing is read: they
    are counted from the first label.
    """

    def __init__(
        self, session: Session, names: Sequence[str], *, is_new: bool = False
    ) -> None:
        """Start from the stored counts."""
        self._session = session
        self.names = list(names)
        self._is_new = is_new
        self._keys: dict[tuple[int, str], _KeyTally] = {}
        self._held: dict[tuple[int, str], list[_Change]] = {}
        self._holds = 0

    def add_query(self, version_id: int, metadata: str | None) -> None:
        """Count a query with these metadata."""
        self._hold(version_id, metadata, None, None)

    def fold(self, row: CountedLabel) -> None:
        """Count a label in, and the one that it replaces out."""
        new, old = read_change(row)
        if changes_scored(new, old):
            self._hold(row.version_id, row.metadata, new, old)

    def _hold(
        self, version_id: int, metadata: str | None, new: Cell | None, old: Cell | None
    ) -> None:
        details = parse_details(metadata)
        for name in self.names:
            change = _Change(read_value(details, name), new, old)
            self._held.setdefault((version_id, name), []).append(change)
        self._holds += 1
        if self._holds == _AT_ONCE:
            self._release()

    def _release(self) -> None:
        for (version_id, name), changes in self._held.items():
            self._find(version_id, name).take(changes)
        self._held.clear()
        self._holds = 0

    def _find(self, version_id: int, name: str) -> "_KeyTally":
        found = self._keys.get((version_id, name))
        if found is None:
            found = _KeyTally(self._session, version_id, name, is_new=self._is_new)
            self._keys[version_id, name] = found
        return found

    def finish(self, level: float) -> "SliceChanges":
        """Return the rows to store and the events to send."""
        self._release()
        changes = SliceChanges(self.names, [], [], [])
        for key in self._keys.values():
            key.finish(level, changes)
        return changes


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """The rows of keys and slices to write, and the events to send."""

    names: list[str]
    keys: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    worse: list[WorseSlice]

    def store(self, session: Session, detector: Detector, *, at: datetime) -> None:
        """Write the rows, and tell of the slices that are worse now."""
        store_slices(session, self.keys, self.rows)
        for one in self.worse:
            version = session.get_one(Version, one.version_id)
            tell(session, SLICE_WORSE, detector, at=at, version=version, data=one.data)


class _KeyTally:
    """The slices of one version by one key."""

    def __init__(
        self, session: Session, version_id: int, name: str, *, is_new: bool
    ) -> None:
        self._session = session
        self._version_id = version_id
        self._name = name
        self._is_new = is_new
        self._rows: dict[str, dict[str, Any]] = {}
        stored = None if is_new else find_slice_key(session, version_id, name)
        counted = [0, 0] if stored is None else [stored.correct, stored.labelled]
        self._watch = SliceWatch({"all": counted, "slices": {}})
        self._values: set[str] = set()
        # A recount tells of no slice once more.
        self._told: set[str] = set()
        if stored is not None:
            self._values = list_slice_values(session, version_id, name)
        elif is_new:
            rows = list_slices(session, version_id, name)
            self._told = {row.value for row in rows if row.is_told}

    def take(self, changes: Sequence[_Change]) -> None:
        """Take changes in their order, after reading what they touch in one go."""
        self._load({change.value for change in changes})
        for value, new, old in changes:
            row = self._touch(value)
            if new is None and old is None:
                row["queries"] += 1
            else:
                self._change(row, new, old)

    def _change(self, row: dict[str, Any], new: Cell | None, old: Cell | None) -> None:
        if old is not None and old.is_scored:
            _count(row["counts"], old, -1)
        if new is None:
            return
        if new.is_scored:
            _count(row["counts"], new, 1)
        # The evidence takes each label as it was first given: what was multiplied in
        # stays, since the promise is about that.
        if new.is_scored and not (old is not None and old.is_scored):
            self._watch.add(row["value"], new.label == new.predicted)

    def _touch(self, value: str) -> dict[str, Any]:
        found = self._rows.get(value)
        if found is not None:
            return found
        # Two are no values of the metadata, and do not count among them.
        if value not in _SPECIAL and len(self._values - _SPECIAL) >= MOST_VALUES:
            self._load({OTHER})
            return self._touch(OTHER)
        row = {
            "value": value,
            "queries": 0,
            "counts": {},
            "is_told": value in self._told,
        }
        self._rows[value] = row
        self._values.add(value)
        return row

    def _load(self, values: set[str]) -> None:
        wanted = (values & self._values) - self._rows.keys()
        if not wanted:
            return
        for row in load_slices(self._session, self._version_id, self._name, wanted):
            parts = json.loads(row.state)
            if parts:
                self._watch.restore(row.value, parts)
            self._rows[row.value] = {
                "value": row.value,
                "queries": row.queries,
                "counts": {name: list(pair) for name, pair in row.counts.items()},
                "is_told": row.is_told,
            }

    def finish(self, level: float, changes: SliceChanges) -> None:
        place = {"version_id": self._version_id, "name": self._name}
        state = self._watch.dump()
        correct, labelled = state["all"]
        evidence = self._watch.evidence()
        told = self._find_worse(level, evidence)
        for value, row in self._rows.items():
            found = evidence.get(value, _NO_EVIDENCE)
            if value in told and not row["is_told"]:
                row["is_told"] = True
                changes.worse.append(self._describe(value, row))
            changes.rows.append(
                {
                    **place,
                    **row,
                    "worse": found.worse,
                    "better": found.better,
                    "worse_peak": found.worse_peak,
                    "better_peak": found.better_peak,
                    "state": json.dumps(state["slices"].get(value, [])),
                }
            )
        changes.keys.append(place | {"correct": correct, "labelled": labelled})

    def _find_worse(
        self, level: float, evidence: Mapping[str, SliceEvidence]
    ) -> set[str]:
        """Return the slices that are worse, by a rule that errs but rarely in a life.

        As many hypotheses are allowed for as there can ever be slices of the key.
        """
        # Below the threshold of the last of Holm's steps nothing can be told.
        if not any(one.worse_peak >= 2.0 for one in evidence.values()):
            return set()
        found = dict(evidence)
        if not self._is_new:
            for row in list_slices(self._session, self._version_id, self._name):
                found.setdefault(row.value, as_evidence(row))
        judged = judge_slices(list(found.values()), level, room_for=MOST_VALUES + 2)
        return {
            value
            for value, one in zip(found, judged, strict=True)
            if one.state == "worse"
        }

    def _describe(self, value: str, row: Mapping[str, Any]) -> WorseSlice:
        correct, labelled = sum_counts(row["counts"])
        data = {
            "by": f"metadata.{self._name}",
            "value": value,
            "correct": correct,
            "labelled": labelled,
        }
        return WorseSlice(self._version_id, data)


_NO_EVIDENCE = SliceEvidence(0, 0, 0.0, 0.0, 0.0, 0.0)


def _count(counts: dict[str, list[int]], cell: Cell, step: int) -> None:
    pair = counts.setdefault(cell.label, [0, 0])
    pair[0] += step * (cell.predicted == cell.label)
    pair[1] += step


def sum_counts(counts: Mapping[str, Sequence[int]]) -> tuple[int, int]:
    """Return how many labels of a slice are right, and how many there are."""
    pairs = counts.values()
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def as_evidence(row: Any) -> SliceEvidence:
    """Return the counts and the evidence of a stored slice."""
    return SliceEvidence(
        *sum_counts(row.counts), row.worse, row.better, row.worse_peak, row.better_peak
    )
