"""The first number for which something holds, or about the first."""

import math
from collections.abc import Callable

# Once an interval is this part narrower than it need be, half a percent fewer labels
# would hardly do, since widths shrink with the root of the labels.
_CLOSE_ENOUGH = 1 / 400
_MOST_STEPS = 40


def first_holding(holds: Callable[[int], bool], *, above: int, last: int) -> int:
    """Return the first number after *above* for which it *holds*.

    What holds for a number must hold for all greater ones.  The answer is *last*
    when it is not before; that one is never asked.  Steps that double find a number
    near *above* soon, however far away *last* is.
    """
    below, step = above, 1
    while below + step < last and not holds(below + step):
        below, step = below + step, 2 * step
    found = min(below + step, last)
    while found - below > 1:
        middle = (below + found) // 2
        below, found = (below, middle) if holds(middle) else (middle, found)
    return found


def least_enough(
    reach: Callable[[float], float], first: tuple[float, float], last: float
) -> float | None:
    """Return about the least size at which *reach* is negative, None beyond *last*.

    *reach* is the logarithm of how many times too wide an interval is; *first* is a
    size that is too small, and its reach.  The answer is a size that was tried.  It
    is at most a half percent, or 1, too large where the reach falls steadily; four
    to six sizes are tried as a rule, and never more than 40.
    """
    few, many = first, (last + 1.0, math.nan)
    for step in range(_MOST_STEPS):
        is_near = many[0] - few[0] <= max(1.0, 2.0 * _CLOSE_ENOUGH * few[0])
        if is_near or many[1] > -_CLOSE_ENOUGH:
            break
        size = float(math.ceil(_guess(few, many, step)))
        size = min(max(size, few[0] + 1.0), many[0] - 1.0)
        found = reach(size)
        few, many = (few, (size, found)) if found < 0 else ((size, found), many)
    return many[0] if many[0] <= last else None


def _guess(few: tuple[float, float], many: tuple[float, float], step: int) -> float:
    """Return where an interval should be just narrow enough.

    The logarithm of the width is nearly a line, with a slope of about -1/2, in that
    of the labels.
    """
    (left, outside), (right, inside) = few, many
    if math.isnan(inside):
        return left * math.exp(min(2.0 * outside + _CLOSE_ENOUGH, 40.0))
    if step % 3 == 2 or not math.isfinite(outside):
        return math.sqrt(left * right)
    share = (outside + _CLOSE_ENOUGH / 2.0) / (outside - inside)
    return float(left * (right / left) ** min(share, 1.0))
