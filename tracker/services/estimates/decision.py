"""Whether a target is met, by the interval that may be looked at at any time."""

from collections.abc import Sequence
from functools import lru_cache

from pydantic import Field

from tracker import stats
from tracker.services.estimates.intervals import MethodWord
from tracker.shapes import Shape
from tracker.words import DECIDING_METHOD, Verdict

NO_TARGET = "the detector has no target"
TARGETED = (
    "targeted labels are included, and they are no random sample of what the detector "
    "sees"
)
POOLED = (
    "the versions are pooled, and labels of several versions are no random sample of "
    "what any of them sees"
)
CHOSEN_SPAN = (
    "the span of time was chosen, or a condition, maybe after a look at what it "
    "shows, and so its "
    "labels are no random sample"
)


class Decision(Shape):
    """Whether the target is met, by the interval that may be looked at at any time."""

    verdict: Verdict = Field(description="met, missed or undecided.")
    target: float
    method: MethodWord
    low: float
    high: float
    labels_to_decide: int | None = Field(
        description="About how many more labels of queries drawn at random would "
        "decide it, if the accuracies and the shares of the classes stay as they are; "
        "0 once it is decided, null where no number can be foreseen: while a class has "
        "no label, with the estimate at the target, and beyond ten million."
    )


def decide(
    target: float,
    correct: Sequence[int],
    labelled: Sequence[int],
    confidence_level: float,
) -> Decision:
    """Compare the balanced accuracy with the target.

    It goes by the interval that holds after every label at once: one that is valid
    for a single look would in the end meet or miss any target near the truth.
    """
    low, high, more = _decide(target, tuple(correct), tuple(labelled), confidence_level)
    return Decision(
        verdict=compare_with_target(low, high, target),
        target=target,
        method=DECIDING_METHOD,
        low=low,
        high=high,
        labels_to_decide=more,
    )


def compare_with_target(low: float, high: float, target: float) -> Verdict:
    """Return whether an interval lies above *target*, below it or around it."""
    if low > target:
        return "met"
    return "missed" if high < target else "undecided"


# Pages that stay open ask again and again while nothing has changed.
@lru_cache(maxsize=1024)
def _decide(
    target: float,
    correct: tuple[int, ...],
    labelled: tuple[int, ...],
    confidence_level: float,
) -> tuple[float, float, int | None]:
    bounds = stats.balanced_interval(
        DECIDING_METHOD, correct, labelled, confidence_level
    )
    low, high = float(bounds.low), float(bounds.high)
    if low > target or high < target:
        return low, high, 0
    more = stats.labels_to_decide(correct, labelled, target, confidence_level)
    return low, high, None if more is None else sum(more)
