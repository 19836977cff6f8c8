"""Rows that contradict what is stored, or other rows of their file."""

from array import array
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from itertools import pairwise
from typing import Any

from tracker.errors import InvalidInputError
from tracker.services.fields import dump_metadata
from tracker.services.imports.reading.rows import Row
from tracker.services.queries.queries import DEFAULT_VERSION
from tracker.services.wording import show
from tracker.words import NO_ANSWER

# What a row says of a known key must be what is known; its version and metadata are
# stored in another form.
_COMPARED = (
    "input",
    "group",
    "predicted",
    "confidence",
    "version_id",
    "asked_at",
    "metadata",
    "image",
    "image_url",
)
_IMAGES = {"image", "image_url"}
# What can be done where a row says another version, or has an empty prediction.
_WAYS = {
    "version_id": "; if versions answer the same test set, import each with map "
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
    """Return whether a row gives a known query the input that it has not.

    Raises InvalidInputError where the row says something else than what is known.
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


def unknown_key(key: str) -> InvalidInputError:
    """Return the error of a label whose query is not there."""
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


class Contradictions:
    """What the rows of a file say of the keys and inputs that it repeats."""

    def __init__(
        self, keys: Set[int], inputs: Set[int], asked_at: datetime, *, shares: bool
    ) -> None:
        """Begin with no row; *keys* and *inputs* are hashes of those repeated.

        *shares* says if queries with one input have one label.
        """
        self._shares = shares
        self._keys = keys
        self._inputs = inputs
        self._asked_at = asked_at
        # A number for each name, as what is compared with the database has.
        self._versions: dict[str, int] = {}
        # By key: the values of the row that brings the query, compared as above.
        self._queries: dict[str, tuple[Any, ...]] = {}
        # What the file brings for queries that are stored without an input.
        self._brought: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._opinions: dict[tuple[str, str], str] = {}
        # One label for each input, by its hash.
        self._truths: dict[int, str] = {}

    def concern(self, key: str | None, name: str | None) -> bool:
        return hash(key) in self._keys or hash(name) in self._inputs

    def check(self, row: Row, stored: Mapping[str, str | None]) -> None:
        """Compare *row* with those before it; raises InvalidInputError.

        *stored* are the inputs of the queries that are stored, by key.
        """
        key, name = row.values.get("key"), row.values.get("input")
        if key is not None and key in stored:
            name = self._check_input(key, row.values, stored[key])
        elif key is not None:
            name = self._check_query(key, row.values)
        self._check_labels(key, name, row.values)

    def _check_input(
        self, key: str, item: Mapping[str, Any], stored: str | None
    ) -> str | None:
        if stored is not None or "input" not in item:
            return stored or self._brought.get(key)
        brought = self._brought.setdefault(key, item["input"])
        if brought != item["input"]:
            raise _twice(f"key {show(key)}", "input", brought, item["input"])
        return brought

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
            self._queries[key] = self._values_of(item)
        return item.get("input")

    def _values_of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        version = item.get("version", DEFAULT_VERSION)
        found = {
            **item,
            "version_id": self._versions.setdefault(version, len(self._versions)),
            "asked_at": item.get("asked_at", self._asked_at),
        }
        if "metadata" in item:
            found["metadata"] = dump_metadata(item["metadata"])
        return tuple(found.get(column) for column in _COMPARED)

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
                raise _twice(f"key {show(key)}", "label", self._labels[key], label)
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


def _twice(what: str, field: str, first: str, then: str) -> InvalidInputError:
    return InvalidInputError.of(
        field,
        f"the {what} occurs twice, with {show(first)} and then with {show(then)}; "
        f"keep one {field}",
    )
