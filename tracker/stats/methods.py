"""The methods that an interval can be asked for, by name, and one side of them."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from . import approximations as approximate
from .arguments import checked_fraction
from .coverage import IntervalFunction
from .evidence.intervals import FORMULA, anytime, balanced_anytime
from .exact import Interval, balanced_union, clopper_pearson
from .joint.balanced import balanced_joint


@dataclass(frozen=True)
class Method:
    """A way from counts to intervals, and what may be claimed for it.

    *formula* counts the ways in which it has been computed since the first one.
    """

    name: str
    class_interval: IntervalFunction
    balanced_interval: IntervalFunction
    is_guaranteed: bool
    description: str
    formula: int = 1


_GUARANTEED = (
    Method(
        "exact",
        clopper_pearson,
        balanced_union,
        is_guaranteed=True,
        description="Clopper-Pearson for a class; the class bounds at an equal "
        "share of the error, averaged, for the balanced accuracy.",
    ),
    Method(
        "joint",
        clopper_pearson,
        balanced_joint,
        is_guaranteed=True,
        description="Clopper-Pearson for a class; for the balanced accuracy the "
        "classes together, which is narrower at the same guarantee.",
    ),
    Method(
        "anytime",
        anytime,
        balanced_anytime,
        is_guaranteed=True,
        description="Holds after every label at once, so it may be looked at as "
        "often as one likes; decisions go by it.",
        formula=FORMULA,
    ),
)
# For each name: the class interval, the balanced one (None: the class limits are
# combined), and a description.
_APPROXIMATIONS: dict[str, tuple[IntervalFunction, IntervalFunction | None, str]] = {
    "wilson": (
        approximate.wilson,
        None,
        "Wilson's score interval; its class limits combined as standard deviations "
        "are.",
    ),
    "wilson-cc": (
        approximate.wilson_cc,
        None,
        "Wilson's score interval with the continuity correction, a cautious "
        "approximation.",
    ),
    "agresti-coull": (
        approximate.agresti_coull,
        None,
        "The normal approximation after about four more labels, half of them correct.",
    ),
    "jeffreys": (
        approximate.jeffreys,
        None,
        "Equal tails of the Beta distribution that Jeffreys' prior leads to.",
    ),
    "mid-p": (
        approximate.mid_p,
        None,
        "Clopper-Pearson with half of the chance of what was seen, narrower and no "
        "longer safe.",
    ),
    "normal": (
        approximate.normal,
        approximate.balanced_normal,
        "The textbook's normal approximation, poor near 0 % and 100 %.",
    ),
    "bootstrap": (
        approximate.bootstrap,
        approximate.balanced_bootstrap,
        "Percentiles of the labelled predictions drawn again and again, in the limit "
        "of infinitely many rounds.",
    ),
    "posterior": (
        approximate.posterior,
        approximate.balanced_posterior,
        "Equal tails of what a uniform prior makes of the counts; for the balanced "
        "accuracy of their mean.",
    ),
}
_BY_NAME = {method.name: method for method in _GUARANTEED} | {
    name: Method(
        name,
        of_class,
        balanced or partial(approximate.combined, of_class),
        is_guaranteed=False,
        description=said,
    )
    for name, (of_class, balanced, said) in _APPROXIMATIONS.items()
}

METHODS: tuple[str, ...] = tuple(_BY_NAME)


def get_method(name: str) -> Method:
    """Return the method called *name*.

    Raises ValueError, with the names there are, for any other.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(METHODS)
        raise ValueError(f"method must be one of {known}, not {name!r}") from None


def class_intervals(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the interval for the accuracy of a class, by the method's name.

    *k* correct among *n* labelled broadcast; both bounds have that shape.

    Raises ValueError for an unknown method and for what the method refuses.
    """
    return get_method(method).class_interval(k, n, confidence_level)


def balanced_interval(
    method: str,
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
) -> Interval:
    """Return the interval for the balanced accuracy, by the method's name.

    The last axis of *k* and *n* runs over the classes; both bounds have the
    shape that remains.  *shares* are for the method `anytime`, and others need none.

    Raises ValueError for an unknown method and for what the method refuses.
    """
    if shares is not None and method == "anytime":
        return balanced_anytime(k, n, confidence_level, shares=shares)
    return get_method(method).balanced_interval(k, n, confidence_level)


Side = Literal["both", "lower", "upper"]
"""The bounds that are wanted."""


def one_sided_level(confidence_level: float) -> float:
    """Return the two-sided level whose bounds each hold at *confidence_level*.

    It is 2 * confidence_level - 1, rounded up so that neither bound errs more often
    than the decimal allows that was meant, which may be half a unit above its double.

    Raises ValueError unless confidence_level lies between 0.5 and 1, or when it is
    so near 1 that doubles end.
    """
    level = checked_fraction("confidence_level", confidence_level)
    # The difference is exact for what is above one half; the sum is rounded up.
    doubled = math.nextafter((2.0 * level - 1.0) + math.ulp(level), 1.0)
    if level <= 0.5 or doubled >= 1.0:
        raise ValueError(
            f"confidence_level of one side must lie between 0.5 and 1, not {level!r}"
        )
    return doubled


def class_bounds(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float, side: Side
) -> Interval:
    """Return the interval for a class, or with one *side* that bound at the level.

    The bound that is not wanted is 0 or 1.  The rest is as for `class_intervals`,
    and a guarantee of the method holds for the one bound as it does for two.

    Raises ValueError as `class_intervals` and `one_sided_level` do.
    """
    if side != "both":
        confidence_level = one_sided_level(confidence_level)
    low, high = class_intervals(method, k, n, confidence_level)
    return Interval(
        np.zeros_like(low) if side == "upper" else low,
        np.ones_like(high) if side == "lower" else high,
    )


def completed_interval(  # noqa: PLR0913 - counts, and what is missing of them.
    interval: IntervalFunction,
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    wrong: npt.ArrayLike,
    right: npt.ArrayLike,
) -> Interval:
    """Return bounds that hold however the labels that are missing would have been.

    *interval* is one of a class or the balanced one, whose bounds rise with a right
    label and fall with a wrong one, as those of `exact` and `anytime` do.  At most
    *wrong* of the missing ones, which count in the lower bound, could be wrong, and at
    most *right*, which count in the upper one, right; both have the counts' shape.
    """
    k, n = np.asarray(correct), np.asarray(labelled)
    low, _ = interval(k, n + np.asarray(wrong), confidence_level)
    _, high = interval(k + np.asarray(right), n + np.asarray(right), confidence_level)
    return Interval(low, high)


def count_unanswered(
    predicted: npt.ArrayLike,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many labels of each class are wrong, or right, at most.

    *predicted* counts, for each class, the queries that were predicted as that class
    and whose answer is unclear or missing.  The true class of such a query may be any:
    for its own class it may be right, and for every other it may be wrong.  For the
    overall accuracy all of them may be either.
    """
    right = np.asarray(predicted, dtype=np.int64)
    return right.sum() - right, right
