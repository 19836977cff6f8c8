"""What a row of an import says of a query that is known, or of an input."""

from collections.abc import Iterable, Mapping
from typing import Any

from tracker.errors import InvalidInputError
from tracker.services.fields import dump_metadata
from tracker.services.wording import show

# What a row says of a known key must be what is known; its version and metadata are
# stored in another form.
_COMPARED = (
    "input",
    "predicted",
    "confidence",
    "version_id",
    "asked_at",
    "metadata",
    "image",
    "image_url",
)
_IMAGES = {"image", "image_url"}


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
    for column, value in given.items():
        if value is None or value == query[column]:
            continue
        if column == "input" and query["input"] is None:
            continue
        # What an image was is not known any more once it is erased.
        if column in _IMAGES and query["image_erased_at"] is not None:
            continue
        name, stored = column, query[column]
        if column == "version_id":
            names = {number: name for name, number in versions.items()}
            name, stored = "version", names[stored]
        raise InvalidInputError.of(
            name,
            f"the query with the key {show(key)} has {show(stored)}, not "
            f"{show(item[name])}",
        )
    return given["input"] is not None and query["input"] is None


class Stated:
    """Which label the rows of an import state of each input: one for all of them."""

    def __init__(self) -> None:
        """Nothing is stated yet."""
        # Of a name its hash is enough, and a file may have millions.
        self._labels: dict[int, str] = {}

    def check(self, name: str | None, label: str | None) -> None:
        """Note a label; raises InvalidInputError where another row contradicts it."""
        if name is None or label is None:
            return
        stated = self._labels.setdefault(hash(name), label)
        if stated != label:
            raise InvalidInputError.of(
                "label",
                f"the input {show(name)} occurs twice, with {show(stated)} and then "
                f"with {show(label)}; queries with the same input share one label",
            )

    def agree(self, stated: Iterable[tuple[str | None, str | None]]) -> bool:
        """Note labels of inputs; false where one contradicts another."""
        try:
            for name, label in stated:
                self.check(name, label)
        except InvalidInputError:
            return False
        return True
