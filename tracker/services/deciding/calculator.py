"""Intervals from counts alone, and how often they hold the truth."""

import math
from collections.abc import Sequence

from pydantic import Field

from tracker import stats
from tracker.services.estimates.intervals import MethodWord, check_method
from tracker.services.wording import invalid
from tracker.shapes import Accuracy, Score, Shape
from tracker.stats import (
    LARGEST_SET,
    MOST_LABELS,
    MOST_OUTCOMES,
    Side,
    balanced_bounds,
    balanced_coverage,
    class_bounds,
    class_coverage,
    count_likely,
    finite_set,
    keep_side,
    one_sided_level,
    only_likely,
)

MOST_CLASSES = 1000

# Of pairs of counts that are likely, in the sum for a balanced interval: one takes
# two milliseconds by `joint`, half of one by `bootstrap` and `posterior`, a tenth
# by `anytime` and a fortieth by `mid-p`.  These are done in a second or a little more.
_MOST_PAIRS = {
    "joint": 700,
    "bootstrap": 2_000,
    "posterior": 1_500,
    "anytime": 10_000,
    "mid-p": 40_000,
}

# The bootstrap of the balanced accuracy adds up every likely outcome of each class,
# and there are some ten times the root of its labels.
_MOST_BOOTSTRAP_ROOTS = 50_000


class CalculatedIntervals(Shape):
    """Intervals from counts, and how they were computed."""

    method: MethodWord
    is_guaranteed: bool = Field(
        description="Whether each interval holds the truth as often as it says, "
        "whatever the truth is."
    )
    confidence_level: float
    side: Side = Field(description="both, or the one bound that is not 0 or 1.")
    set_size: int | None
    classes: list[Score]
    balanced: Accuracy | None = Field(description="null for a single class.")


class Coverage(Shape):
    """How often an interval holds the truth, and how wide it is on average."""

    method: MethodWord
    is_guaranteed: bool
    confidence_level: float
    labelled: list[int]
    accuracy: list[float]
    holds: float = Field(description="The chance that the interval holds the truth.")
    above: float = Field(description="The chance that it lies above the truth.")
    below: float = Field(description="The chance that it lies below the truth.")
    expected_width: float


def calculate(  # noqa: PLR0913 - every choice that there is.
    correct: Sequence[int],
    labelled: Sequence[int],
    *,
    method: str = "exact",
    confidence_level: float = 0.95,
    side: Side = "both",
    set_size: int | None = None,
) -> CalculatedIntervals:
    """Return the interval of each class and, from two on, the balanced one.

    Of a single class that is part of a finite set of *set_size* queries, the
    interval is that for the whole set.
    """
    check_method(method)
    _check_counts(correct, labelled)
    level = _level_of_both(confidence_level, side)
    if set_size is not None:
        _check_set(set_size, labelled, method)
        found = finite_set(correct, labelled, set_size, level)
        low, high = keep_side(found, side)
    else:
        _check_bootstrap(labelled, method)
        low, high = class_bounds(method, correct, labelled, confidence_level, side)
    pairs = zip(correct, labelled, low.tolist(), high.tolist(), strict=True)
    return CalculatedIntervals(
        method=method,
        is_guaranteed=stats.get_method(method).is_guaranteed,
        confidence_level=confidence_level,
        side=side,
        set_size=set_size,
        classes=[
            Score(
                correct=k,
                labelled=n,
                accuracy=stats.class_accuracy(k, n),
                low=low,
                high=high,
            )
            for k, n, low, high in pairs
        ],
        balanced=_balance(correct, labelled, method, confidence_level, side),
    )


def calculate_coverage(
    labelled: Sequence[int],
    accuracy: Sequence[float],
    *,
    method: str = "exact",
    confidence_level: float = 0.95,
) -> Coverage:
    """Return how often the interval of one class, or of two balanced, is right.

    Every outcome is summed over but those with less than 1e-12 of the chance
    together, which count as right and as wide as can be.
    """
    check_method(method)
    _check_truths(labelled, accuracy)
    _check_cost(labelled, accuracy, method)
    described = stats.get_method(method)
    if len(labelled) == 1:
        interval = only_likely(described.class_interval, labelled, accuracy)
        found = class_coverage(interval, labelled[0], accuracy[0], confidence_level)
    else:
        interval = only_likely(described.balanced_interval, labelled, accuracy)
        both = labelled[0], labelled[1]
        found = balanced_coverage(interval, both, accuracy, confidence_level)
    return Coverage(
        method=method,
        is_guaranteed=described.is_guaranteed,
        confidence_level=confidence_level,
        labelled=list(labelled),
        accuracy=list(accuracy),
        holds=float(found.holds),
        above=float(found.above),
        below=float(found.below),
        expected_width=float(found.width),
    )


def _balance(
    correct: Sequence[int],
    labelled: Sequence[int],
    method: str,
    confidence_level: float,
    side: Side,
) -> Accuracy | None:
    if len(labelled) == 1:
        return None
    low, high = balanced_bounds(method, correct, labelled, confidence_level, side)
    accuracy = stats.balanced_accuracy(correct, labelled)
    return Accuracy(accuracy=accuracy, low=float(low), high=float(high))


def _check_counts(correct: Sequence[int], labelled: Sequence[int]) -> None:
    if not 1 <= len(labelled) <= MOST_CLASSES:
        raise invalid(
            "labelled",
            len(labelled),
            f"there must be 1 to {MOST_CLASSES:,} classes",
        )
    if len(correct) != len(labelled):
        message = f"it must have as many numbers as labelled, which has {len(labelled)}"
        raise invalid("correct", _listed(correct), message)
    for k, n in zip(correct, labelled, strict=True):
        if not 0 <= n <= MOST_LABELS:
            raise invalid("labelled", n, f"it must lie between 0 and {MOST_LABELS:,}")
        if not 0 <= k <= n:
            raise invalid("correct", k, f"it must lie between 0 and the {n:,} labelled")


def _check_set(set_size: int, labelled: Sequence[int], method: str) -> None:
    if len(labelled) > 1:
        raise invalid("set_size", set_size, "it needs a single class")
    if method != "exact":
        raise invalid("set_size", set_size, "it needs the method exact")
    if not max(labelled[0], 1) <= set_size <= LARGEST_SET:
        raise invalid(
            "set_size",
            set_size,
            f"it must lie between the {labelled[0]:,} labelled and {LARGEST_SET:,}",
        )


def _check_bootstrap(labelled: Sequence[int], method: str) -> None:
    roots = sum(math.sqrt(n) for n in labelled)
    if method == "bootstrap" and len(labelled) > 1 and roots > _MOST_BOOTSTRAP_ROOTS:
        raise invalid(
            "labelled",
            _listed(labelled),
            "the bootstrap of so many labels takes too long; of so many, any other "
            "method says much the same",
        )


def _level_of_both(confidence_level: float, side: Side) -> float:
    try:
        return confidence_level if side == "both" else one_sided_level(confidence_level)
    except ValueError as error:
        raise invalid(
            "confidence_level",
            confidence_level,
            "of one side it must lie between 0.5 and 1",
        ) from error


def _check_truths(labelled: Sequence[int], accuracy: Sequence[float]) -> None:
    if not 1 <= len(labelled) <= 2:
        raise invalid("labelled", _listed(labelled), "it must be one number or two")
    if len(accuracy) != len(labelled):
        message = f"it must have as many numbers as labelled, which has {len(labelled)}"
        raise invalid("accuracy", _listed(accuracy), message)
    for truth in accuracy:
        if not 0 <= truth <= 1:
            raise invalid("accuracy", truth, "it must lie between 0 and 1")
    if min(labelled) < 0:
        raise invalid("labelled", min(labelled), "it must not be negative")
    outcomes = math.prod(n + 1 for n in labelled)
    if outcomes > MOST_OUTCOMES:
        raise invalid(
            "labelled",
            _listed(labelled),
            f"so many labels have more than {MOST_OUTCOMES:,} outcomes, the most that "
            "are summed",
        )


def _check_cost(
    labelled: Sequence[int], accuracy: Sequence[float], method: str
) -> None:
    most = _MOST_PAIRS.get(method)
    if len(labelled) == 1 or most is None:
        return
    likely = count_likely(labelled, accuracy)
    if likely > most:
        raise invalid(
            "labelled",
            _listed(labelled),
            f"{likely:,} outcomes are likely, and the method {method} is summed over "
            f"{most:,} at most; take fewer labels or another method",
        )


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(map(str, numbers))
