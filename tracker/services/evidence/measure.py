"""The measure that a target is on: which counts it is made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tracker.services.wording import invalid
from tracker.words import BALANCED, OVERALL, PRECISION, RECALL

_KINDS = "balanced", "overall", "recall:CLASS", "precision:CLASS"
# Class counts as ``confusion[label][predicted]``.
Confusion = Mapping[str, Mapping[str, int]]


# Right ones and counted ones, of each class or of all.
Right = tuple[tuple[int, ...], tuple[int, ...]]


class Measure(NamedTuple):
    """A number that has a target: of the whole detector, or of one class."""

    kind: str
    of: str | None = None

    def __str__(self) -> str:
        return self.kind if self.of is None else f"{self.kind}:{self.of}"

    @property
    def name(self) -> str:
        """The measure in words, such as "accuracy of DEFECT"."""
        if self.kind == RECALL:
            return f"accuracy of {self.of}"
        if self.kind == PRECISION:
            return f"precision of {self.of}"
        return f"{self.kind} accuracy"

    def compared(self, label: str, predicted: str) -> str | None:
        """Return the measure in which a label is compared between slices, or None.

        Of the balanced accuracy each class is compared by itself: `recall:CLASS`.
        """
        if self.kind == BALANCED:
            return f"{RECALL}:{label}"
        told = {RECALL: label, PRECISION: predicted}.get(self.kind, self.of)
        return str(self) if told == self.of else None

    def list_compared(self, classes: Sequence[str]) -> list[str]:
        """Return all that `compared` may return."""
        if self.kind == BALANCED:
            return [f"{RECALL}:{name}" for name in classes]
        return [str(self)]

    def count_right(self, confusion: Confusion) -> Right:
        """Return how many are right of how many counted ones.

        For each class where the classes count the same, and one number else.
        """
        right = {name: row.get(name, 0) for name, row in confusion.items()}
        labelled = {name: sum(row.values()) for name, row in confusion.items()}
        if self.kind == BALANCED:
            return tuple(right.values()), tuple(labelled.values())
        if self.kind == OVERALL:
            return (sum(right.values()),), (sum(labelled.values()),)
        assert self.of is not None
        if self.kind == RECALL:
            return (right[self.of],), (labelled[self.of],)
        predicted = sum(row.get(self.of, 0) for row in confusion.values())
        return (right[self.of],), (predicted,)


def spread(
    cells: Mapping[tuple[str, str], int], classes: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Return *cells* by label and prediction as ``confusion[label][predicted]``."""
    confusion: dict[str, dict[str, int]] = {name: {} for name in classes}
    for (label, predicted), number in cells.items():
        confusion[label][predicted] = number
    return confusion


def read_measure(text: str) -> Measure:
    kind, _, of = text.partition(":")
    return Measure(kind, of or None)


def parse_measure(
    text: str,
    classes: Collection[str],
    *,
    field: str = "measure",
    others: Sequence[str] = (),
) -> Measure:
    """Return the measure that *text* names; an InvalidInputError names *others* too."""
    if text in {BALANCED, OVERALL}:
        return Measure(text)
    kind, colon, of = text.partition(":")
    if kind not in {RECALL, PRECISION} or not colon:
        *first, last = *others, *_KINDS
        raise invalid(field, text, f"it must be {', '.join(first)} or {last}")
    if of not in classes:
        known = ", ".join(list(classes)[:20])
        raise invalid(field, text, f"after {kind}: must stand a class: {known}")
    return Measure(kind, of)
