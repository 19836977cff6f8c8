"""Overall accuracy, precision and F1 as pages show them, with counts and interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.charts.words import bounds
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import add_measure
from tracker.shapes import Accuracy, Score
from tracker.web.drawing.readings import MOST_ROWS, Reading, read
from tracker.web.drawing.words import narrow, number
from tracker.words import EXACT


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
    macro: str
    lines: Sequence[ClassLine]
    left_out: int


def read_measures(estimate: Estimate) -> Measures:
    """Return the other measures for the counts of *estimate*."""
    counted = estimate.model_copy(update={"method": EXACT})
    overall = add_measure(counted, "overall").overall
    precision = add_measure(counted, "precision").precision
    f1 = add_measure(counted, "f1").f1
    assert overall is not None
    assert precision is not None
    assert f1 is not None
    pairs = list(zip(precision.classes, f1.classes, strict=True))
    lines = []
    for exact, mean in pairs[:MOST_ROWS]:
        score = Score(
            correct=exact.correct,
            labelled=exact.predicted,
            accuracy=exact.precision,
            low=exact.low,
            high=exact.high,
        )
        both = Accuracy(accuracy=mean.f1, low=mean.low, high=mean.high)
        either = mean.labelled + mean.predicted - mean.correct
        counts = f"{number(mean.correct)} of {number(either)} labelled or predicted so"
        reading = Reading("", 0, both, counts)
        lines.append(ClassLine(exact.name, read(score, name="", tone=0), reading))
    macro = Accuracy(accuracy=f1.macro.f1, low=f1.macro.low, high=f1.macro.high)
    return Measures(
        overall=read(overall, name="Overall", tone=0),
        macro=_say(macro),
        lines=lines,
        left_out=len(pairs) - len(lines),
    )


def _say(score: Accuracy) -> str:
    low, high = bounds(score)
    said = "" if score.accuracy is None else f"{100 * score.accuracy:.1f} % "
    return narrow(f"{said}[{low}\N{EN DASH}{high} %]")
