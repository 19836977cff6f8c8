"""Other measures than the accuracy of a class: overall accuracy, precision and F1."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from tracker import stats, words
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import score
from tracker.services.evidence.measure import Measure, parse_measure, read_measure
from tracker.services.fields import Instant
from tracker.shapes import Accuracy, OfClass, Score, Shape

# What is added for all classes at once; a measure that can have a target also by name.
_OF_ALL = words.RECALL, words.PRECISION, words.F1
MeasureWord = Literal["recall", "precision", "overall", "f1"]
# What the job keeps beside the accuracies of the classes, by the method exact.
KEPT_MEASURES = words.OVERALL, words.PRECISION, words.F1

_OF_CLASSES = (
    "of the macro average the mean of the bounds at a share of the error for each class"
)
_OF_PRECISION = f"the interval of the right ones among the predicted; {_OF_CLASSES}"
_OF_F1 = (
    "the interval of the share that has a class as label and as prediction, among the "
    f"queries that have it as either, mapped to F1; {_OF_CLASSES}"
)


class Bounds(Shape):
    """Bounds on an accuracy by the truth, not by the labels."""

    low: float
    high: float


class ClassErrors(OfClass):
    """How often a label of a class is wrong, and the accuracy of the class."""

    drawn: int = Field(description="Labels of the class that were drawn and counted.")
    different: int = Field(
        description="Those that were given differently the second time."
    )
    truth: Bounds | None = Field(
        description="The accuracy of the class, by the truth; null without an answer "
        "by someone trusted."
    )


class LabelErrors(Shape):
    """What labels given again, blind, tell about all labels."""

    frozen_at: Instant = Field(
        description="The bounds are of the labels that there were then."
    )
    queries: int = Field(description="How many labels those are.")
    drawn: int = Field(description="Labels drawn by chance to be given again.")
    answered: int = Field(description="Those that were given again.")
    counted: int = Field(
        description="Those drawn before the first one without an answer, or without "
        "a trusted one."
    )
    different: int = Field(description="Counted labels that were given differently.")
    trusted: bool = Field(
        description="Whether only answers by people who are trusted count."
    )
    assumption: str = Field(description="What error_high assumes of label errors.")
    error_high: float = Field(
        description="At most this share of the labels is wrong, at the confidence "
        "level of the estimate."
    )
    classes: list[ClassErrors]
    overall: Bounds | None = Field(
        description="The accuracy over all classes by the truth, of the set, where "
        "that can be told; like all bounds by the truth it holds at every look, and is "
        "null without an answer by someone trusted."
    )
    balanced: Bounds | None = Field(
        description="The balanced accuracy by the truth, of the set."
    )
    process: Bounds | None = Field(
        description="The chance that a query like those of the set is answered right, "
        "where one that cannot be told is not."
    )


class ClassPrecision(OfClass):
    """How often a prediction of a class is right: correct / predicted."""

    correct: int
    predicted: int = Field(
        description="The number of labelled queries with this prediction."
    )
    precision: float | None = Field(
        description="null without a prediction of the class."
    )
    low: float
    high: float


class MacroPrecision(Shape):
    """The mean of the precisions of all classes."""

    precision: float | None = Field(description="null while one of them has none.")
    low: float
    high: float


class Precision(Shape):
    """The precision of each class, and their mean."""

    combination: str = Field(description="How the intervals are made, in words.")
    classes: list[ClassPrecision]
    macro: MacroPrecision


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


class Measured(Score):
    """A measure that can have a target, with its counts and its interval."""

    measure: str


class MeasuredEstimate(Estimate):
    """An estimate with another measure beside the accuracies of the classes."""

    sentence: str = Field(
        default="",
        description="The first sentence of the detector's page; empty where the "
        "estimate is of some labels only, or neither decides nor is by `anytime`.",
    )
    measured: Measured | None = Field(
        default=None,
        description="With measure=balanced, overall, recall:CLASS or precision:CLASS: "
        "that one, by the method of the estimate.",
    )

    overall: Score | None = Field(
        default=None,
        description="With measure=overall: correct / labelled over all classes.",
    )
    precision: Precision | None = Field(
        default=None, description="With measure=precision."
    )
    f1: F1 | None = Field(default=None, description="With measure=f1.")
    label_errors: LabelErrors | None = Field(
        default=None,
        description="How often labels are wrong, by those given a second time; null "
        "while there are none, and for anything but all labels of one version.",
    )

    @property
    def left_out(self) -> str:
        """The labels that are not counted, in words; empty where all are."""
        counts = {
            "unclear": self.unclear,
            "disputed": self.disputed_left_out,
            "targeted": self.targeted_left_out,
            "unstated": self.unstated_left_out,
            "replayed": self.replayed_left_out,
            "of repeated inputs": self.repeats_left_out,
            "of groups that count by another query": self.grouped_left_out,
        }
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)

    def dump(self) -> dict[str, Any]:
        """Return it as it stands in JSON, without what nobody asked for."""
        found = super().dump()
        absent = {"measured", *KEPT_MEASURES} - self.model_fields_set
        return {name: value for name, value in found.items() if name not in absent}


def count_trials(
    measure: str,
    correct: Sequence[int],
    labelled: Sequence[int],
    predicted: Sequence[int],
) -> list[int]:
    """Return of how many queries the *correct* ones of each class are counted.

    Of precision they are those *predicted* as it, of F1 those that have it as label
    or prediction, of overall accuracy those *labelled* with it.
    """
    match measure:
        case "precision":
            return list(predicted)
        case "f1":
            counts = zip(correct, labelled, predicted, strict=True)
            return [n + m - k for k, n, m in counts]
    return list(labelled)


def add_measure(
    estimate: Estimate, measure: str, label_errors: LabelErrors | None = None
) -> MeasuredEstimate:
    """Return *estimate* with *measure*; raises InvalidInputError for an unknown one."""
    found = dict(estimate, label_errors=label_errors)
    if measure in {words.PRECISION, words.F1}:
        found[measure] = _build_each(estimate, measure)
    elif measure != words.RECALL:
        named = parse_measure(measure, estimate.confusion, others=_OF_ALL)
        named_score = score_named(estimate, named)
        found["measured"] = Measured(measure=measure, **dict(named_score))
        if measure == words.OVERALL:
            found[measure] = named_score
    made = MeasuredEstimate(**found)
    # The level and what is missing of it, which its model does not copy.
    for name in Estimate.__private_attributes__:
        setattr(made, name, getattr(estimate, name))
    return made


def score_named(estimate: Estimate, measure: Measure) -> Score:
    """Return *measure*, by the method and the confidence level of *estimate*."""
    if measure.kind == words.BALANCED:
        return estimate.whole
    if measure.of is None:
        return estimate.bound(score_estimate(estimate, words.OVERALL)[0], measure)
    place = [*estimate.confusion].index(measure.of)
    if measure.kind == words.PRECISION:
        return list_precisions(estimate)[place]
    return Score.from_row(estimate.classes[place])


def list_precisions(estimate: Estimate) -> list[Score]:
    _, *each = score_estimate(estimate, words.PRECISION)
    return estimate.bound_classes(each, words.PRECISION)


def score_own(estimate: Estimate, measure: str) -> Accuracy:
    """Return the detector's own *measure*, by what decides where anything does."""
    found = estimate.decision or estimate.bounded
    return Accuracy.from_row(found or score_named(estimate, read_measure(measure)))


def score_estimate(estimate: Estimate, measure: str) -> list[Score]:
    """Return what `score` does for *estimate*; in a window, for the average of it."""
    correct, level = estimate.correct, estimate.shown_level
    predicted = _count_predicted(estimate)
    trials = count_trials(measure, correct, estimate.labelled, predicted)
    method = estimate.method if estimate.window is None else stats.WINDOW_METHOD
    return score([correct], [trials], method, level, measure=measure)[0]


def _count_predicted(estimate: Estimate) -> list[int]:
    rows = estimate.confusion.values()
    return [sum(row.get(name, 0) for row in rows) for name in estimate.confusion]


def _build_each(estimate: Estimate, measure: str) -> Any:
    is_f1 = measure == words.F1
    kind: type[Shape] = F1 if is_f1 else Precision
    whole, *each = score_estimate(estimate, measure)
    if not is_f1:
        each = list_precisions(estimate)
    macro, *values = (
        {measure: one.accuracy, "low": one.low, "high": one.high}
        for one in (whole, *each)
    )
    counts = estimate.correct, estimate.labelled, _count_predicted(estimate)
    return kind.model_validate(
        {
            "combination": f"{estimate.method}: {_OF_F1 if is_f1 else _OF_PRECISION}",
            "classes": [
                {"name": name, "correct": k, "predicted": m, **value}
                | ({"labelled": n} if is_f1 else {})
                for name, value, k, n, m in zip(
                    estimate.confusion, values, *counts, strict=True
                )
            ],
            "macro": macro,
        }
    )
