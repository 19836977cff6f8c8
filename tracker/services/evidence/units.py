"""Groups: queries that are one piece of evidence, of which one is scored.

The frames of an event, the turns of a session, a question that is asked several times:
their mistakes come together, and intervals hold what they promise only if each such
*group* counts once.  Within a version and a population it counts by its *unit*: the
query of lowest rank among those that have an answer, a label or UNCLEAR, when the group
first has one.  Answers that come at once, as in a file, are one batch.  Later answers
never move the unit.  If they could, somebody who labels one more frame wherever the
first was wrong would raise the accuracy.

Given the batch, the lowest of independent uniform ranks falls on each member alike,
whatever it shows.  So units are independent where groups are.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.evidence import populations
from tracker.services.evidence.random_queue import group_span, rank_member
from tracker.storage.labelling.inputs import find_firsts as find_first_inputs
from tracker.storage.labelling.inputs import has_erased
from tracker.storage.queries import groups as storage
from tracker.words import REPLAYED

Place = tuple[int, str, str]
"""A version, a group and a population."""
# The queue asks for nothing more of a group that has a unit in one of them.
_ASKED_FOR = (populations.LIVE, REPLAYED)
# What a detector's ``group_by`` begins with.
METADATA = "metadata."
_LONGEST_NAME = 200


class Elected:
    """The query of lowest rank of each group that a file answers, kept by hashes."""

    def __init__(self) -> None:
        self._lowest: dict[int, tuple[float, int]] = {}
        # The names of the versions by id, as far as there are any yet.
        self.versions: Mapping[int, str] = {}

    def vote(
        self, version: str, group: str, population: str, rank: float, name: str | int
    ) -> None:
        """Note that a query of that *rank* and *name* has an answer in the file."""
        key = hash((version, group, population))
        known = self._lowest.get(key)
        if known is None or rank < known[0]:
            self._lowest[key] = rank, hash(name)

    def find(self, place: Place) -> int | None:
        """Return the hash of the unit's name, None if the file answers none of it."""
        version_id, group, population = place
        key = hash((self.versions.get(version_id), group, population))
        known = self._lowest.get(key)
        return None if known is None else known[1]


class Units:
    """The units of groups, as one transaction finds and chooses them."""

    def __init__(
        self, session: Session, detector: Any, elected: Elected | None = None
    ) -> None:
        self._session = session
        self._detector = detector
        self._elected = Elected() if elected is None else elected
        # The lowest ranks among what this transaction answers besides.
        self._lowest: dict[Place, float] = {}
        self._held: set[str] = set()
        self._units: dict[Place, int] = {}
        # The units chosen since, by version and group, whose others are not asked for.
        self._chosen: dict[tuple[int, str], int] = {}

    def missing(self, groups: Iterable[str | None]) -> set[str]:
        return {name for name in groups if name is not None} - self._held

    def read(self, groups: Iterable[str | None]) -> None:
        """Read the units of *groups*, which nobody else can change meanwhile."""
        names = self.missing(groups)
        if not names:
            return
        self._held |= names
        detector = self._detector
        erased = {erased_name(detector.queue_seed, name): name for name in names}
        found = storage.find_units(self._session, detector.id, erased)
        for group, number, version_id, sampling, is_replayed in found:
            base = populations.base_standing(sampling, is_replayed=is_replayed)
            population = populations.population_of(base, detector.label_sampling)
            if population is not None:
                name = erased.get(group, group)
                self._units[version_id, name, population] = number

    def elect(self, members: Iterable[tuple[Mapping[str, Any], str, bool]]) -> None:
        """Let the lowest of *members*, answered now, be the unit of each new group."""
        for query, sampling, is_replayed in members:
            base = populations.base_standing(sampling, is_replayed=is_replayed)
            population = populations.population_of(base, self._detector.label_sampling)
            if query["group"] is None or query["is_repeat"] or population is None:
                continue
            place = query["version_id"], query["group"], population
            rank = rank_member(self._detector.queue_seed, query)
            self._lowest[place] = min(rank, self._lowest.get(place, rank))

    def place(self, query: Mapping[str, Any], base: str) -> bool:
        """Return whether *query* counts for its group, now that it is answered.

        *base* is its standing apart from the group and from others' answers.
        """
        number, group = int(query["id"]), query["group"]
        now = populations.population_of(base, self._detector.label_sampling)
        for population in populations.POPULATIONS:
            place = query["version_id"], group, population
            # Chance has drawn it since, and moved it from one population to another.
            if population != now and self._units.get(place) == number:
                del self._units[place]
        if now is None:
            return True
        place = query["version_id"], group, now
        unit = self._units.get(place)
        if unit is None and not self._waits_for_another(query, place):
            unit = self._choose(place, number)
        return unit == number

    def place_new(self, place: Place, number: int, name: str) -> bool:
        """Return what `place` does of a query that a file brings with its answer."""
        if place in self._units or self._elected.find(place) not in {None, hash(name)}:
            return False
        self._choose(place, number)
        return True

    def _choose(self, place: Place, number: int) -> int:
        self._units[place] = number
        if place[2] in _ASKED_FOR:
            self._chosen[place[:2]] = number
        return number

    def is_spent(self, query: Mapping[str, Any]) -> bool:
        """Return whether another query of its group counts, or is going to."""
        for population in _ASKED_FOR:
            place = query["version_id"], query["group"], population
            unit = self._units.get(place)
            if unit is None and self._waits_for_another(query, place):
                return True
            if unit not in {None, query["id"]}:
                return True
        return False

    def write(self) -> None:
        """Take what is not asked for any more out of the random queue."""
        rows = []
        for (version_id, group), number in self._chosen.items():
            low, high = group_span(self._detector.queue_seed, group)
            row = {"version_id": version_id, "group": group, "unit": number}
            rows.append(row | {"low": low, "high": high})
        self._chosen = {}
        if rows:
            storage.end_waiting(self._session, self._detector.id, rows)

    def _waits_for_another(self, query: Mapping[str, Any], place: Place) -> bool:
        elected = self._elected.find(place)
        if elected is not None:
            return elected != hash(name_member(query))
        lowest, seed = self._lowest.get(place), self._detector.queue_seed
        return lowest is not None and rank_member(seed, query) != lowest


def name_member(query: Mapping[str, Any]) -> str | int:
    """Return what a query is told apart by while a file is read that may bring it."""
    name: str | int = query["id"] if query["key"] is None else query["key"]
    return name


def name_group(group_by: str | None, metadata: Any) -> str | None:
    """Return the group that *metadata* name where a detector groups by them."""
    if group_by is None or not isinstance(metadata, Mapping):
        return None
    value = metadata.get(group_by.removeprefix(METADATA))
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str) or not value:
        return None
    if len(value) <= _LONGEST_NAME:
        return value
    digest = blake2b(value.encode(), digest_size=16).hexdigest()
    return f"{value[: _LONGEST_NAME - len(digest) - 1]} {digest}"


def erased_name(seed: str, name: str) -> str:
    """Return what is kept of a group or an input that was erased: it stays spent."""
    digest = blake2b(f"{seed}:{name}".encode(), digest_size=16).hexdigest()
    return f"erased:{digest}"


def find_firsts(
    session: Session, detector: Any, inputs: Iterable[str]
) -> tuple[set[tuple[int, str]], set[str]]:
    """Return of each version, by its id, which of *inputs* were put to it.

    And of these the inputs of labelled queries that were erased since.
    """
    given, names = [*dict.fromkeys(inputs)], dict[str, str]()
    if has_erased(session, detector.id):
        names = {erased_name(detector.queue_seed, name): name for name in given}
    found = find_first_inputs(session, detector.id, [*given, *names])
    firsts = {(version_id, names.get(name, name)) for version_id, name in found}
    return firsts, {names[name] for _, name in found if name in names}
