"""The confusion matrix as a page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.rounding import rounded_share
from tracker.services.estimates.estimate import Estimate
from tracker.web.drawing.words import narrow
from tracker.words import NO_ANSWER

MOST_CLASSES = 12
_MOST_PAIRS = 15
_SHADES = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """How many of a label's queries got one prediction."""

    predicted: str
    number: int
    share: str
    shade: int
    is_correct: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A label with its cells."""

    label: str
    labelled: int
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Pair:
    """A label and the wrong class that was predicted for it."""

    label: str
    predicted: str
    number: int
    labelled: int
    share: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """The lines of few classes, or the most confused pairs of many."""

    # The classes, and NO_ANSWER where the detector gave some query no answer.
    predictions: Sequence[str]
    lines: Sequence[Line]
    pairs: Sequence[Pair]


def build_matrix(estimate: Estimate) -> Matrix:
    """Return the confusion counts of *estimate*, readable for any number of classes."""
    classes = list(estimate.confusion)
    predictions = [*classes, *([NO_ANSWER] if estimate.unanswered else [])]
    if len(classes) > MOST_CLASSES:
        return Matrix(predictions, [], _most_confused(estimate))
    lines = [_line(estimate, label, predictions) for label in classes]
    return Matrix(predictions, lines, [])


def _line(estimate: Estimate, label: str, predictions: Sequence[str]) -> Line:
    row = estimate.confusion[label]
    total = sum(row.values())
    cells = [
        Cell(
            predicted=predicted,
            number=row.get(predicted, 0),
            share=_share(row.get(predicted, 0), total),
            shade=-(-_SHADES * row.get(predicted, 0) // total) if total else 0,
            is_correct=predicted == label,
        )
        for predicted in predictions
    ]
    return Line(label, total, cells)


def _most_confused(estimate: Estimate) -> list[Pair]:
    pairs = [
        Pair(label, predicted, number, total, _share(number, total))
        for label, row in estimate.confusion.items()
        for total in [sum(row.values())]
        for predicted, number in row.items()
        if predicted != label
    ]
    return sorted(pairs, key=lambda pair: (-pair.number, pair.labelled))[:_MOST_PAIRS]


def _share(number: int, total: int) -> str:
    if not total:
        return ""
    return narrow(f"{rounded_share(number / total, 3).scaleb(2)} %")
