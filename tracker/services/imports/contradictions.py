"""Choose the query of a group that counts, and find rows that contradict each other."""

from array import array
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.evidence import units
from tracker.services.evidence.populations import population_of
from tracker.services.evidence.random_queue import rank_key, rank_member
from tracker.services.evidence.standing import (
    choose_query_sampling,
    stand,
    taken_sampling,
)
from tracker.services.fields import dump_metadata
from tracker.services.imports.checking import Columns
from tracker.services.imports.reading.rows import Row
from tracker.services.imports.row_keys import keys_of
from tracker.services.queries.queries import DEFAULT_VERSION
from tracker.services.wording import show
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.labelling.inputs import find_truths
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.storage.queries.waiting import WaitingQuery
from tracker.words import INPUT, NO_ANSWER, RANDOM, UNSTATED

# What a row says of a known key must be what is known; its version and metadata are
# stored in another form.
_COMPARED = (
    *("input", "group", "predicted", "confidence", "version_id", "asked_at"),
    *("metadata", "image", "image_url"),
)
_IMAGES = {"image", "image_url"}
# What can be done where a row says another version, or has an empty prediction.
_WAYS = {
    "version_id": "; if versions answer the same test set, import each with --map "
    "input=id",
    NO_ANSWER: "; send labels of known queries without the column of predictions",
}
_NEVER_ERASED = {"erased_at": None, "image_erased_at": None}
_SORTED_AT_ONCE = 2**20


def brings_input(
    key: str,
    query: Mapping[str, Any],
    item: Mapping[str, Any],
    versions: Mapping[str, int],
) -> bool:
    """Return whether a row gives an input to a known query that has none.

    Raises InvalidInputError if the row contradicts the stored query.
    """
    if query["erased_at"] is not None:
        raise InvalidInputError.of(
            "key", f"the query with the key {show(key)} was erased"
        )
    given = {column: item.get(column) for column in _COMPARED}
    if "metadata" in item:
        given["metadata"] = dump_metadata(item["metadata"])
    if "version" in item:
        given["version_id"] = versions.get(item["version"], -1)
    if not item.get("is_group_given"):
        # It is from the metadata, which are compared.
        given["group"] = None
    for column, value in given.items():
        if value is None or value == query[column]:
            continue
        if column == "input" and query["input"] is None:
            continue
        # What an image was is not known any more once it is erased.
        if column in _IMAGES and query["image_erased_at"] is not None:
            continue
        name, stored = column, query[column]
        way = _WAYS.get(value if column == "predicted" else column, "")
        if column == "version_id":
            names = {number: name for name, number in versions.items()}
            name, stored = "version", names[stored]
        raise InvalidInputError.of(
            name,
            f"the query with the key {show(key)} has {show(stored)}, not "
            f"{show(item[name])}{way}",
        )
    return given["input"] is not None and query["input"] is None


def check_completion(key: str, waiting: WaitingQuery, item: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if a row contradicts a query that it completes."""
    stored = {name: getattr(waiting, name, None) for name in _COMPARED}
    stored |= {"metadata": waiting.details, **_NEVER_ERASED}
    stored |= {name: item.get(name) for name in ("predicted", "confidence")}
    version = {item["version"]: -1} if "version" in item else {}
    brings_input(key, stored | {"version_id": -1}, item, version)


def unknown_key(key: str) -> InvalidInputError:
    return InvalidInputError.of(
        "key", f"{show(key)} is not known; to add it as a query, give predicted"
    )


class Names:
    """The keys or inputs of a file, of which only hashes are kept: eight bytes each."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, names: Iterable[str | None]) -> None:
        self._hashes.extend(hash(name) for name in names if name is not None)

    def find_repeated(self) -> Set[int]:
        """Return the hashes of names that were noted more than once."""
        repeated: set[int] = set()
        parts = 1 + len(self._hashes) // _SORTED_AT_ONCE
        for part in range(parts):
            some: Iterable[int] = self._hashes
            if parts > 1:
                some = (one for one in some if one % parts == part)
            repeated.update(
                one for one, other in pairwise(sorted(some)) if one == other
            )
        return repeated


@dataclass(slots=True)
class Contradictions:
    """Finds rows that contradict earlier rows with the same key or input."""

    # The hashes of keys and inputs that are repeated.
    _keys: Set[int]
    _inputs: Set[int]
    _asked_at: datetime
    # Whether queries with one input have one label.
    _shares: bool
    # A number for each name, as what is compared with the database has.
    _versions: dict[str, int] = field(default_factory=dict)
    # By key: the values of the row that brings the query, compared as above.
    _queries: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # What the file brings for queries that are stored without an input.
    _brought: dict[str, str] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _opinions: dict[tuple[str, str], str] = field(default_factory=dict)
    # One label for each input, by its hash.
    _truths: dict[int, str] = field(default_factory=dict)

    def check(self, row: Row, stored: Mapping[str, str | None]) -> None:
        """Compare *row* with those before it; raises InvalidInputError.

        *stored* are the inputs of the queries that are stored, by key.
        """
        key, name = row.values.get("key"), row.values.get("input")
        of = name or stored.get(key or "")
        is_unknown = "predicted" not in row.values and key not in stored
        if not (is_unknown or hash(key) in self._keys or hash(of) in self._inputs):
            return
        if key is not None and key not in stored:
            name = self._check_query(key, row.values)
        elif key is not None:
            # As it is stored, else as the file brings it.
            brought = self._brought.get(key)
            if stored[key] is None and name is not None:
                brought = self._brought.setdefault(key, name)
                if brought != name:
                    raise _twice(key, "input", brought, name)
            name = stored[key] or brought
        self._check_labels(key, name, row.values)

    def _check_query(self, key: str, item: Mapping[str, Any]) -> str | None:
        values = self._queries.get(key)
        if values is not None:
            query = dict(zip(_COMPARED, values, strict=True), **_NEVER_ERASED)
            if brings_input(key, query, item, self._versions):
                self._queries[key] = (item["input"], *values[1:])
            name: str | None = self._queries[key][0]
            return name
        if "predicted" not in item:
            raise unknown_key(key)
        if hash(key) in self._keys:
            version = item.get("version", DEFAULT_VERSION)
            number = self._versions.setdefault(version, len(self._versions))
            found = {"asked_at": self._asked_at, **item, "version_id": number}
            if "metadata" in item:
                found["metadata"] = dump_metadata(item["metadata"])
            self._queries[key] = tuple(found.get(column) for column in _COMPARED)
        return item.get("input")

    def _check_labels(
        self, key: str | None, name: str | None, item: Mapping[str, Any]
    ) -> None:
        label, labeler = item.get("label"), item.get("labeler")
        if label is None:
            return
        if hash(key) not in self._keys:
            key = None
        if labeler is None:
            if name is not None and self._shares:
                truth = self._truths.setdefault(hash(name), label)
                if truth != label:
                    raise InvalidInputError.of(
                        "label",
                        f"the input {show(name)} occurs twice, with {show(truth)} and "
                        f"then with {show(label)}; queries with the same input share "
                        "one label",
                    )
            if key is not None and self._labels.get(key, label) != label:
                raise _twice(key, "label", self._labels[key], label)
        elif key is not None:
            said = self._opinions.setdefault((key, labeler), label)
            if said != label:
                raise InvalidInputError.of(
                    "label",
                    f"{show(labeler)} gives the same key {show(said)} and then "
                    f"{show(label)}; keep one label",
                )
        if key is not None:
            self._labels[key] = label


def _twice(key: str, name: str, first: str, then: str) -> InvalidInputError:
    said = f"with {show(first)} and then with {show(then)}; keep one {name}"
    return InvalidInputError.of(name, f"the key {show(key)} occurs twice, {said}")


_NEW = {"label": None, "standing": None, "is_replayed": False}


def with_groups(good: Columns, detector: Detector) -> Columns:
    """Return rows with their groups: those given, else what the metadata name."""
    by = detector.group_by
    groups = good.values.get("group")
    metadata = None if by is None else good.values.get("metadata")
    if groups is None and metadata is None:
        return good
    given = good.get("group")
    found: dict[str, list[Any]] = {}
    found["is_group_given"] = [None if one is None else True for one in given]
    if by is not None:
        found["group"] = [
            units.name_group(by, values) if one is None else one
            for one, values in zip(given, good.get("metadata"), strict=True)
        ]
    filled = {name: some for name, some in found.items() if any(some)}
    return Columns(good.numbers, {**good.values, **filled})


@dataclass(slots=True)
class Election:
    """Looks at the good rows of a file piece by piece, and then once more."""

    _detector: Detector
    _elected: units.Elected
    # Where and with which rank queries of an input would count once it is labelled.
    waiting: dict[int, list[tuple[str, str, float, str | int]]] = field(
        default_factory=dict
    )
    # The new queries without a label, to which a later row may give one.
    _unlabelled: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Of each version the inputs that it was put to.
    _seen: set[int] = field(default_factory=set)

    def look_at_new(self, good: Columns, prefix: str) -> None:
        """Take the rows of a piece that are all new, each with a key of its own.

        They have no inputs, and name no labelers.
        """
        if "group" not in good.values:
            return
        columns = (
            good.get("label"),
            good.get("group"),
            good.get("version", DEFAULT_VERSION),
            good.get("sampling", UNSTATED),
            keys_of(good, prefix),
        )
        word, seed = self._detector.label_sampling, self._detector.queue_seed
        populations = {one: population_of(one, word) for one in {*columns[3]}}
        for label, group, version, sampling, key in zip(*columns, strict=True):
            if label is None or group is None:
                continue
            if (population := populations[sampling]) is not None:
                rank = rank_key(seed, key)
                self._elected.vote(version, group, population, rank, key)

    def look(self, session: Session, good: Columns, prefix: str) -> None:
        """Take the rows of a piece, each without a key named by *prefix*."""
        keys, rows = keys_of(good, prefix), good.rows()
        known = find_queries_by_key(session, self._detector.id, keys)
        versions = {v.name: v.id for v in list_versions(session, self._detector.id)}
        names = {number: name for name, number in versions.items()}
        inputs = [
            row.values["input"]
            for key, row in zip(keys, rows, strict=True)
            if key not in known and "input" in row.values and "group" in row.values
        ]
        firsts, _ = units.find_firsts(session, self._detector, inputs)
        shared = inputs if self._detector.label_of == INPUT else []
        truths = find_truths(session, self._detector.id, shared) if shared else {}
        for key, row in zip(keys, rows, strict=True):
            item = row.values
            stored = known.get(key)
            if stored is not None:
                query = dict(stored._mapping, version=names[stored.version_id])
            elif "predicted" in item:
                query = self._new_query(key, item)
                place = versions.get(query["version"]), query["input"]
                query["is_repeat"] |= place in firsts
            elif key in self._unlabelled:
                query = self._unlabelled[key]
            else:
                continue
            if query["group"] is None or query["is_repeat"]:
                continue
            if "label" in item:
                if "labeler" in item or item["label"] != query["label"]:
                    said = item.get("sampling")
                    is_replayed = query["is_replayed"] and said != RANDOM
                    self._vote(query, choose_query_sampling(query, said), is_replayed)
            elif query["input"] in truths:
                truth = truths[query["input"]]
                self._vote(query, *taken_sampling(query, truth.sampling))
            elif query["label"] is None:
                self._unlabelled.setdefault(key, query)
                self._wait(query)

    def look_again(self, rows: Iterable[Row], stored: Mapping[str, str | None]) -> None:
        """Take rows of the whole file, whose labels others with the input take over."""
        if self._detector.label_of != INPUT:
            return
        for row in rows:
            item = row.values
            name = item.get("input") or stored.get(item.get("key", ""))
            if name is None or "label" not in item:
                continue
            sampling = item.get("sampling") or UNSTATED
            base = stand(sampling, is_replayed=True)
            for waiting in self.waiting.get(hash(name), ()):
                self._note(base, *waiting)

    def _new_query(self, key: str, item: Mapping[str, Any]) -> dict[str, Any]:
        version, name = item.get("version", DEFAULT_VERSION), item.get("input")
        is_repeat = False
        if name is not None and "group" in item:
            place = hash((version, name))
            is_repeat = place in self._seen
            self._seen.add(place)
        return {
            **_NEW,
            "id": None,
            "version": version,
            "key": key,
            "input": name,
            "group": item.get("group"),
            "sampling": item.get("sampling") or UNSTATED,
            "is_repeat": is_repeat,
        }

    def _wait(self, query: Mapping[str, Any]) -> None:
        if query["input"] is not None:
            name = hash(query["input"])
            self.waiting.setdefault(name, []).append(self._member(query))

    def _vote(self, query: Mapping[str, Any], sampling: str, is_replayed: bool) -> None:
        self._note(stand(sampling, is_replayed=is_replayed), *self._member(query))

    def _member(self, query: Mapping[str, Any]) -> tuple[str, str, float, str | int]:
        rank = rank_member(self._detector.queue_seed, query)
        return query["version"], query["group"], rank, units.name_member(query)

    def _note(
        self, base: str, version: str, group: str, rank: float, name: str | int
    ) -> None:
        population = population_of(base, self._detector.label_sampling)
        if population is not None:
            self._elected.vote(version, group, population, rank, name)
