"""One bound instead of two, at the whole error."""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import checked_fraction
from tracker.stats.binomial import Interval
from tracker.stats.methods import balanced_interval, class_intervals

Side = Literal["both", "lower", "upper"]
"""The bounds that are wanted."""

# The two sides of this balanced interval search the same box of class intervals,
# each of which may miss; a side by itself errs by more than half of the error.
_SIDES_SHARE = frozenset({"anytime"})


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
    return keep_side(class_intervals(method, k, n, confidence_level), side)


def balanced_bounds(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float, side: Side
) -> Interval:
    """Return the balanced interval, or with one *side* that bound at the level.

    The bound that is not wanted is 0 or 1.  The rest is as for `balanced_interval`.
    The method `anytime` has the bounds of its interval at the level itself, since
    what its two sides pay for together cannot be had for half.

    Raises ValueError as `balanced_interval` and `one_sided_level` do.
    """
    if side != "both":
        doubled = one_sided_level(confidence_level)
        confidence_level = confidence_level if method in _SIDES_SHARE else doubled
    return keep_side(balanced_interval(method, k, n, confidence_level), side)


def keep_side(interval: Interval, side: Side) -> Interval:
    """Return *interval* with the bound that is not wanted at 0 or 1."""
    low, high = interval
    if side == "lower":
        return Interval(low, np.ones_like(high))
    if side == "upper":
        return Interval(np.zeros_like(low), high)
    return interval
