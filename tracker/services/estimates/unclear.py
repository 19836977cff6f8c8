"""In which bounds the accuracy lies if unclear answers had been right or wrong."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field

from tracker.services.estimates.decision import bound
from tracker.services.evidence.measure import Measure, read_measure, spread
from tracker.shapes import Shape
from tracker.stats import Interval, completed_interval, count_unanswered
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import Counts, Standings
from tracker.words import DISPUTED, OVERALL, PRECISION, RECALL

# Bounds are shown where more than this part of the answers is unclear.
_FEW = 0.05


class UnclearBounds(Shape):
    """The bounds of a measure however unclear and disputed queries would have come out.

    They hold at every look, as those of a decision do.
    """

    measure: str
    low: float
    high: float
    answers: int = Field(description="Unclear and disputed ones.")


def bound_unclear(
    detector: Detector,
    counts: Counts,
    standings: Standings,
    level: float,
    shares: tuple[float, ...] | None,
) -> UnclearBounds | None:
    """Return the bounds of the detector's measure, None where few are unclear."""
    found = counts.select(standings)
    unclear = dict(found.unclear)
    for cell, number in counts.cells.items():
        if cell.standing == DISPUTED:
            unclear[cell.predicted] = unclear.get(cell.predicted, 0) + number
    answers = sum(unclear.values())
    if answers <= _FEW * (answers + sum(found.confusion.values())):
        return None
    measure = read_measure(detector.measure)
    right, counted = measure.count_right(spread(found.confusion, detector.classes))
    wrong, more = _count_missing(measure, detector.classes, unclear)

    def interval(k: npt.ArrayLike, n: npt.ArrayLike, level: float) -> Interval:
        some, of = (tuple(np.asarray(one).tolist()) for one in (k, n))
        low, high = bound(some, of, level, shares)
        return Interval(np.asarray(low), np.asarray(high))

    bounds = completed_interval(
        interval,
        right,
        counted,
        level,
        wrong=wrong,
        right=more,
    )
    return UnclearBounds(
        measure=str(measure),
        low=float(bounds.low),
        high=float(bounds.high),
        answers=answers,
    )


def _count_missing(
    measure: Measure, classes: Sequence[str], unclear: Mapping[str, int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return how many may be wrong and right at most, of each number counted."""
    answers = sum(unclear.values())
    if measure.kind == OVERALL:
        return [answers], [answers]
    if measure.kind == PRECISION:
        predicted = unclear.get(measure.of or "", 0)
        return [predicted], [predicted]
    wrong, right = count_unanswered([unclear.get(name, 0) for name in classes])
    # What got no answer, or one that is no class, may be of any class, and is wrong.
    wrong = wrong + (answers - right.sum())
    if measure.kind == RECALL:
        place = classes.index(measure.of or "")
        return [int(wrong[place])], [int(right[place])]
    return wrong.tolist(), right.tolist()
