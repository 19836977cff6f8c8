"""The first whole number for which something holds."""

from collections.abc import Callable


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
