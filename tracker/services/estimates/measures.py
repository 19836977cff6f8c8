"""Other measures than the accuracy of a class: overall accuracy, precision and F1."""

import math
from typing import Any, Literal

from pydantic import Field

from tracker import stats
from tracker.services.estimates.estimate import Estimate, OfClass
from tracker.services.labelling.label_errors import LabelErrors
from tracker.shapes import Score, Shape
from tracker.stats.measures import (
    f1_intervals,
    f1_scores,
    macro_f1_interval,
    overall_interval,
    precision_intervals,
)

Measure = Literal["recall", "precision", "overall", "f1"]

_OF_F1 = (
    "the interval of the share that has a class as label and as prediction, among the "
    "queries that have it as either, mapped to F1; of the macro F1 the mean of the "
    "bounds at a share of the error for each class"
)


class ClassPrecision(OfClass):
    """How often a prediction of a class is right: correct / predicted."""

    correct: int
    predicted: int = Field(
        description="The number of labelled queries with this prediction."
    )
    precision: float | None = Field(description="null without a prediction of it.")
    low: float
    high: float


class Precision(Shape):
    """The precision of each class."""

    combination: str = Field(description="How the intervals are made, in words.")
    classes: list[ClassPrecision]


class MacroF1(Shape):
    """The mean of the F1 scores of all classes."""

    f1: float | None = Field(description="null while one of them has none.")
    low: float
    high: float


class ClassF1(OfClass):
    """The harmonic mean of precision and recall of a class."""

    correct: int
    labelled: int
    predicted: int
    f1: float | None = Field(description="null while the class never occurred.")
    low: float
    high: float


class F1(Shape):
    """The F1 score of each class, and their mean."""

    combination: str = Field(description="How the intervals are made, in words.")
    classes: list[ClassF1]
    macro: MacroF1


class MeasuredEstimate(Estimate):
    """An estimate with another measure beside the accuracies of the classes."""

    overall: Score | None = Field(
        default=None, description="With measure=overall: the right ones of all labels."
    )
    precision: Precision | None = Field(
        default=None, description="With measure=precision."
    )
    f1: F1 | None = Field(default=None, description="With measure=f1.")
    label_errors: LabelErrors | None = Field(
        default=None,
        description="How often labels are wrong, by those given a second time; null "
        "while there is none, and for anything but all labels of one version.",
    )

    def dump(self) -> dict[str, Any]:
        """Return it as it stands in JSON, without what nobody asked for."""
        found = super().dump()
        absent = {"overall", "precision", "f1"} - self.model_fields_set
        return {name: value for name, value in found.items() if name not in absent}


def add_measure(
    estimate: Estimate, measure: Measure, label_errors: LabelErrors | None = None
) -> MeasuredEstimate:
    """Return *estimate* with *measure*, by its method and confidence level."""
    found = dict(estimate, label_errors=label_errors)
    match measure:
        case "overall":
            found["overall"] = _build_overall(estimate)
        case "precision":
            found["precision"] = _build_precision(estimate)
        case "f1":
            found["f1"] = _build_f1(estimate)
    return MeasuredEstimate(**found)


def _count_predicted(estimate: Estimate) -> list[int]:
    rows = estimate.confusion.values()
    return [sum(row.get(name, 0) for row in rows) for name in estimate.confusion]


def _build_overall(estimate: Estimate) -> Score:
    low, high = overall_interval(
        estimate.correct,
        estimate.labelled,
        estimate.confidence_level,
        method=estimate.method,
    )
    right = sum(estimate.correct)
    return Score(
        correct=right,
        labelled=estimate.labels,
        accuracy=stats.class_accuracy(right, estimate.labels),
        low=float(low),
        high=float(high),
    )


def _build_precision(estimate: Estimate) -> Precision:
    names, correct = list(estimate.confusion), estimate.correct
    predicted = _count_predicted(estimate)
    low, high = precision_intervals(
        correct, predicted, estimate.confidence_level, method=estimate.method
    )
    rows = zip(names, correct, predicted, low.tolist(), high.tolist(), strict=True)
    return Precision(
        combination=f"{estimate.method}: the interval of the right ones among the "
        "predicted",
        classes=[
            ClassPrecision(
                name=name,
                correct=k,
                predicted=n,
                precision=stats.class_accuracy(k, n),
                low=lower,
                high=upper,
            )
            for name, k, n, lower, upper in rows
        ],
    )


def _build_f1(estimate: Estimate) -> F1:
    names, method = list(estimate.confusion), estimate.method
    counts = estimate.correct, estimate.labelled, _count_predicted(estimate)
    level = estimate.confidence_level
    low, high = f1_intervals(*counts, level, method=method)
    least, most = macro_f1_interval(*counts, level, method=method)
    scores = [None if math.isnan(one) else one for one in f1_scores(*counts).tolist()]
    known = [one for one in scores if one is not None]
    rows = zip(names, *counts, scores, low.tolist(), high.tolist(), strict=True)
    return F1(
        combination=f"{method}: {_OF_F1}",
        classes=[
            ClassF1(
                name=name,
                correct=k,
                labelled=n,
                predicted=m,
                f1=score,
                low=lower,
                high=upper,
            )
            for name, k, n, m, score, lower, upper in rows
        ],
        macro=MacroF1(
            f1=math.fsum(known) / len(known) if len(known) == len(scores) else None,
            low=float(least),
            high=float(most),
        ),
    )
