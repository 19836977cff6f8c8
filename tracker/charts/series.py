"""What a chart is drawn from: series of points, and fewer points of them."""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tracker.shapes import Moment

Axis = Literal["labels", "time"]


@dataclass(frozen=True, slots=True)
class Series:
    """The history of one class, or of the balanced accuracy."""

    scope: str
    points: Sequence[Moment]


def thin(
    points: Sequence[Moment], *, limit: int = 250, x: Axis = "labels"
) -> list[Moment]:
    """Return at most *limit* of *points*, spread evenly along the axis *x*.

    Evenly means evenly in the logarithm of the labels, or evenly in time.  The
    first and the last point always stay, and each one kept is a point of the
    history: nothing is averaged.  Raises ValueError where *limit* is below 2.
    """
    if limit < 2:
        raise ValueError("a thinned series keeps at least its first and last point")
    if len(points) <= limit:
        return list(points)
    keys = _rising_keys(points, x)
    step = (keys[-1] - keys[0]) / (limit - 1)
    kept = {0, len(points) - 1}
    for number in range(1, limit - 1):
        if step > 0:
            # The point in force at a place is the last one at or before it.
            kept.add(bisect.bisect_right(keys, keys[0] + number * step) - 1)
        else:
            kept.add(number * (len(points) - 1) // (limit - 1))
    return [points[index] for index in sorted(kept)]


def _rising_keys(points: Sequence[Moment], x: Axis) -> list[float]:
    keys: list[float] = []
    highest = -math.inf
    for point in points:
        # Corrected labels and clocks set back make both axes step back, and
        # bisection wants them sorted.
        highest = max(highest, _key(point, x))
        keys.append(highest)
    return keys


def _key(point: Moment, x: Axis) -> float:
    if x == "time":
        return point.computed_at.timestamp()
    return math.log(max(point.labels, 1))


def in_order(points: Sequence[Moment], *, x: Axis) -> list[Moment]:
    """Return *points* so that they only go forward along the axis *x*.

    Along the labels the newest reading wins: a label corrected to unclear lowers
    the count, what was known at that count or above is then out of date, and a
    line that ran back would hide the rest.  In time a clock that was set back
    stands still instead, because no reading may be lost to it.  Points without a
    scored label say nothing and have no place on a logarithmic axis.
    """
    path: list[Moment] = []
    for point in points:
        if point.labels <= 0:
            continue
        if x == "time" and path and point.computed_at < path[-1].computed_at:
            path.append(point.model_copy(update={"computed_at": path[-1].computed_at}))
            continue
        while x == "labels" and path and path[-1].labels >= point.labels:
            path.pop()
        path.append(point)
    return path


def widest(paths: Sequence[Sequence[Moment]], *, limit: int) -> list[int]:
    """Return, in order, the places of the *limit* widest intervals now."""
    order = sorted(range(len(paths)), key=lambda index: (-_width(paths[index]), index))
    return sorted(order[:limit])


def _width(points: Sequence[Moment]) -> float:
    return points[-1].width if points else 0.0
