"""What moved a judged rate: the system, the judge or the mix of queries."""

import math
from fractions import Fraction
from functools import lru_cache

from .arguments import tail_share
from .paired import (
    boxed_paired_difference,
    paired_difference,
)

NEGLIGIBLE = 0.01
"""Effects within this of nothing are attributed to nobody."""

_INTERVALS = 4
# Beyond it the exact interval takes long.
_MOST_EXACT = 0.999_999


def investigation_level(confidence_level: float, number: int) -> float:
    """Return the level of each interval of investigation *number*, from 1 on.

    It may err with a chance of error/(k (k + 1)), of which the sum over all k is the
    error; each of its four intervals has a quarter of that.

    Raises ValueError unless 0 < confidence_level < 1 and *number* is positive.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, not {number!r}")
    parts = _INTERVALS * number * (number + 1)
    return min(
        math.nextafter(1.0 - tail_share(confidence_level, parts), 2.0),
        math.nextafter(1.0, 0.0),
    )


@lru_cache(maxsize=256)
def anchored_shift(
    gained: int, lost: int, missing: int, anchors: int, level: float
) -> tuple[float, float]:
    """Return the exact interval of a shift that is known of most *anchors*.

    Of as many queries drawn with replacement *gained* are right only after it, *lost*
    only before; *missing* ones are not known yet, and count as either.
    """
    exact = level <= _MOST_EXACT

    def bounds(b: int, c: int) -> tuple[float, float]:
        found = (
            paired_difference(b, c, anchors, level)
            if exact
            else boxed_paired_difference([b], [c], [anchors], level)
        )
        return float(found.low), float(found.high)

    return bounds(gained, lost + missing)[0], bounds(gained + missing, lost)[1]


def mix_shift(
    now: tuple[int, int], then: tuple[int, int], same: tuple[float, float]
) -> tuple[float, float]:
    """Return what is left of a change of rates once the shift on the *same* is gone.

    *now* and *then* are the right and all of two weeks, which are known exactly.
    """
    change = Fraction(*now) - Fraction(*then)
    low, high = (float(change - Fraction(bound)) for bound in reversed(same))
    return (
        max(-1.0, math.nextafter(low, -2.0)),
        min(1.0, math.nextafter(high, 2.0)),
    )


def is_shown(interval: tuple[float, float]) -> bool:
    """Whether a shift lies wholly beyond what is negligible."""
    low, high = interval
    return low > NEGLIGIBLE or high < -NEGLIGIBLE
