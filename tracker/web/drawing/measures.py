"""What a page says beside the accuracy of a class: precision, and what is confused."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import score
from tracker.services.evidence.measure import Measure
from tracker.shapes import Score
from tracker.words import PRECISION


@dataclass(frozen=True, slots=True)
class Pair:
    """A label and the wrong class that was predicted for it."""

    label: str
    predicted: str
    number: int


def list_pairs(estimate: Estimate) -> list[Pair]:
    """Return what is taken for what, the most frequent first."""
    pairs = [
        Pair(label, predicted, number)
        for label, row in estimate.confusion.items()
        for predicted, number in row.items()
        if predicted != label and number
    ]
    return sorted(pairs, key=lambda pair: -pair.number)


def read_precision(estimate: Estimate) -> Sequence[Score]:
    """Return how often a prediction of each class is right, by the same method."""
    found = [
        Measure(PRECISION, one.name).count_right(estimate.confusion)
        for one in estimate.classes
    ]
    right, said = ([one[side][0] for one in found] for side in (0, 1))
    return score([right], [said], estimate.method, estimate.shown_level)[0][1:]
