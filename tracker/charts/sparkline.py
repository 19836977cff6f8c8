"""A line no larger than a word: how the width of an interval shrank."""

import math
from collections.abc import Sequence

WIDTH, HEIGHT = 100, 24

# Half of the line's thickness stays inside the picture.
_MARGIN = 2

_POINTS = 50


def width_sparkline(widths: Sequence[float]) -> str:
    """Return the `points` of an SVG polyline in a 100 by 24 viewBox.

    Widths run from the oldest to the newest; the floor is a width of 0 and the
    ceiling the largest one.  Without widths there is nothing to draw, "".
    Raises ValueError where a width is negative or not finite.
    """
    if not all(math.isfinite(width) and width >= 0 for width in widths):
        raise ValueError("a width is a finite number from 0 on")
    if not widths:
        return ""
    shown = _spread(widths)
    if len(shown) == 1:
        shown *= 2
    ceiling = max(shown) or 1.0
    step = WIDTH / (len(shown) - 1)
    room = HEIGHT - 2 * _MARGIN
    return " ".join(
        f"{_short(index * step)},{_short(HEIGHT - _MARGIN - room * width / ceiling)}"
        for index, width in enumerate(shown)
    )


def _spread(widths: Sequence[float]) -> list[float]:
    if len(widths) <= _POINTS:
        return list(widths)
    last = len(widths) - 1
    return [widths[index * last // (_POINTS - 1)] for index in range(_POINTS)]


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
