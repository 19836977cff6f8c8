"""Which query of each group is to count, of those that the rows of a file answer.

All answered rows of a file are one batch, whatever pieces it is written in, so that
the first pass has to know the lowest rank before the second one writes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.evidence.populations import population_of
from tracker.services.evidence.ranks import rank_member
from tracker.services.evidence.standing import choose_sampling, stand, taken_sampling
from tracker.services.evidence.units import Elected, find_firsts, name_group
from tracker.services.imports.checking import Columns
from tracker.services.imports.reading.rows import Row
from tracker.services.imports.row_keys import keys_of
from tracker.services.queries.queries import DEFAULT_VERSION
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.labelling.inputs import find_truths
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.words import INPUT, RANDOM, UNSTATED

_NEW = {"label": None, "standing": None, "is_replayed": False}


def with_groups(good: Columns | list[Row], detector: Detector) -> Columns | list[Row]:
    """Return rows with their groups: those given, else what the metadata name."""
    by = detector.group_by
    if isinstance(good, list):
        for row in good:
            _name(row.values, by)
        return good
    groups = good.values.get("group")
    metadata = None if by is None else good.values.get("metadata")
    if groups is None and metadata is None:
        return good
    given = good.get("group")
    found: dict[str, list[Any]] = {}
    found["is_group_given"] = [None if one is None else True for one in given]
    found["group"] = [
        name_group(by, values) if one is None else one
        for one, values in zip(given, good.get("metadata"), strict=True)
    ]
    filled = {name: some for name, some in found.items() if any(some)}
    return Columns(good.first, {**good.values, **filled})


def _name(values: dict[str, Any], group_by: str | None) -> None:
    if "group" in values:
        values["is_group_given"] = True
    elif (group := name_group(group_by, values.get("metadata"))) is not None:
        values["group"] = group


def have_groups(good: Columns | list[Row]) -> bool:
    if isinstance(good, Columns):
        return "group" in good.values
    return any("group" in row.values for row in good)


class Election:
    """Looks at the good rows of a file piece by piece, and then once more."""

    def __init__(self, detector: Detector, elected: Elected) -> None:
        self._detector = detector
        self._elected = elected
        # Where and with which rank queries of an input would count once it is labelled.
        self._waiting: dict[int, list[tuple[str, str, float]]] = {}
        # The new queries without a label, to which a later row may give one.
        self._unlabelled: dict[str, dict[str, Any]] = {}
        # Of each version the inputs that it was put to.
        self._seen: set[int] = set()

    def look(self, session: Session, rows: list[Row], prefix: str) -> None:
        """Take the rows of a piece, each without a key named by *prefix*."""
        keys = keys_of(rows, prefix)
        known = find_queries_by_key(session, self._detector.id, keys)
        versions = {v.name: v.id for v in list_versions(session, self._detector.id)}
        names = {number: name for name, number in versions.items()}
        inputs = [
            row.values["input"]
            for key, row in zip(keys, rows, strict=True)
            if key not in known and "input" in row.values and "group" in row.values
        ]
        firsts, _ = find_firsts(session, self._detector, inputs)
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
                    self._answer(query, item.get("sampling"))
            elif query["input"] in truths:
                truth = truths[query["input"]]
                self._vote(query, *taken_sampling(query, truth.sampling))
            elif query["label"] is None:
                self._unlabelled.setdefault(key, query)
                self._wait(query)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

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
            for version, group, rank in self._waiting.get(hash(name), ()):
                base = stand(sampling, is_replayed=True)
                self._note(version, group, base, rank)

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

    def _answer(self, query: Mapping[str, Any], said: str | None) -> None:
        is_replayed = query["is_replayed"] and said != RANDOM
        self._vote(query, choose_sampling(query, said), is_replayed)

    def _wait(self, query: Mapping[str, Any]) -> None:
        if query["input"] is None:
            return
        rank = rank_member(self._detector.queue_seed, query)
        found = query["version"], query["group"], rank
        self._waiting.setdefault(hash(query["input"]), []).append(found)

    def _vote(self, query: Mapping[str, Any], sampling: str, is_replayed: bool) -> None:
        rank = rank_member(self._detector.queue_seed, query)
        base = stand(sampling, is_replayed=is_replayed)
        self._note(query["version"], query["group"], base, rank)

    def _note(self, version: str, group: str, base: str, rank: float) -> None:
        population = population_of(base, self._detector.label_sampling)
        if population is not None:
            self._elected.vote(version, group, population, rank)
