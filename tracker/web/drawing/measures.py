"""Overall accuracy, precision and F1 as pages show them, with counts and interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.charts.words import accuracy, bounds
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import score_estimate
from tracker.shapes import Accuracy, Score
from tracker.web.drawing.readings import MOST_ROWS, Reading, read
from tracker.web.drawing.words import narrow, number
from tracker.words import EXACT, F1, OVERALL, PRECISION


@dataclass(frozen=True, slots=True)
class ClassLine:
    """The other measures of one class."""

    name: str
    precision: Reading
    f1: Reading


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one version by their exact intervals."""

    overall: Reading
    macro_precision: str
    macro_f1: str
    lines: Sequence[ClassLine]
    left_out: int


def read_measures(estimate: Estimate) -> Measures:
    """Return the other measures for the counts of *estimate*."""
    counted = estimate.model_copy(update={"method": EXACT})
    overall = score_estimate(counted, OVERALL)[0]
    macro_precision, *precisions = score_estimate(counted, PRECISION)
    macro_f1, *f1s = score_estimate(counted, F1)
    rows = list(zip(estimate.confusion, precisions, f1s, strict=True))
    return Measures(
        overall=read(overall, name="Overall", tone=0),
        macro_precision=_say(macro_precision),
        macro_f1=_say(macro_f1),
        lines=[
            ClassLine(name, read(precision, name="", tone=0), _read_f1(f1))
            for name, precision, f1 in rows[:MOST_ROWS]
        ],
        left_out=len(rows[MOST_ROWS:]),
    )


def _read_f1(score: Score) -> Reading:
    counts = f"{number(score.correct)} of {number(score.labelled)}"
    shown = Accuracy(accuracy=score.accuracy, low=score.low, high=score.high)
    return Reading("", 0, shown, f"{counts} labelled or predicted so")


def _say(score: Accuracy) -> str:
    low, high = bounds(score)
    said = accuracy(score)
    within = f"[{low}\N{EN DASH}{high} %]"
    return narrow(within if said is None else f"{said} {within}")
