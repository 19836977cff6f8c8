"""The series, sheet, axes and view of all charts."""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, Literal

from tracker.shapes import Moment

Axis = Literal["labels", "time", "asked_at"]


@dataclass(frozen=True, slots=True)
class Series:
    """The history of one class, or of the balanced accuracy."""

    scope: str
    points: Sequence[Moment]


def thin(
    points: Sequence[Moment], *, limit: int = 250, x: Axis = "labels"
) -> list[Moment]:
    """Return at most *limit* of *points*, spread evenly along the axis *x*.

    Of labels that is evenly in their logarithm.  Nothing is averaged, and the first and
    the last point stay.  Raises ValueError if *limit* is below 2.
    """
    if limit < 2:
        raise ValueError("a thinned series keeps at least its first and last point")
    if len(points) <= limit:
        return list(points)
    # Corrected labels and clocks set back make both axes step back, and bisection wants
    # them sorted.
    keys = [*accumulate((_key(point, x) for point in points), max)]
    step = (keys[-1] - keys[0]) / (limit - 1)
    kept = {0, len(points) - 1}
    for number in range(1, limit - 1):
        if step > 0:
            # The point that holds at a place is the last one at or before it.
            kept.add(bisect.bisect_right(keys, keys[0] + number * step) - 1)
        else:
            kept.add(number * (len(points) - 1) // (limit - 1))
    return [points[index] for index in sorted(kept)]


def _key(point: Moment, x: Axis) -> float:
    if x != "labels":
        return point.computed_at.timestamp()
    return math.log(max(point.labels, 1))


def in_order(points: Sequence[Moment], *, x: Axis) -> list[Moment]:
    """Return *points* so that they only go forward along the axis *x*.

    Along the labels the newest reading wins: a label corrected to unclear lowers the
    count, and a line that ran back would hide the rest.  In time a clock that was set
    back stands still.  A logarithmic axis has no place for points without a label.
    """
    path: list[Moment] = []
    for point in points:
        if point.labels <= 0:
            continue
        if x != "labels" and path and point.computed_at < path[-1].computed_at:
            path.append(point.model_copy(update={"computed_at": path[-1].computed_at}))
            continue
        while x == "labels" and path and path[-1].labels >= point.labels:
            path.pop()
        path.append(point)
    return path


def widest(paths: Sequence[Sequence[Moment]], *, limit: int) -> list[int]:
    widths = [points[-1].width if points else 0.0 for points in paths]
    order = sorted(range(len(paths)), key=lambda index: (-widths[index], index))
    return sorted(order[:limit])


Layout = Literal["wide", "narrow"]

# Room for the numbers of the vertical axis, which `axes.percent_axis` fixes.
AXIS_ROOM = 42

# Inside a panel, so that a thick line or a dot at its edge moves neither the title
# above nor the panel beside it.
TOP, SIDE = 6, 6

GAP = 24

# Beside the large panel, for the names of its lines.
MARGIN = 88

# Half of the last number on a horizontal axis may stand beyond the panel.
_EDGE = 8
_MOST_COLUMNS = 5
SMALL_HEIGHT = {1: 160, 2: 160, 3: 140}
SIZE: dict[Layout, tuple[int, int]] = {"wide": (820, 290), "narrow": (320, 220)}


@dataclass(frozen=True, slots=True)
class Sheet:
    """The size of the picture and of its large panel."""

    layout: Layout
    width: int
    large_height: int

    def columns(self, count: int) -> int:
        """Return how many of *count* panels go side by side, in even rows."""
        if self.layout == "narrow" or count == 0:
            return 1
        return math.ceil(count / math.ceil(count / _MOST_COLUMNS))

    def panel_width(self, columns: int) -> int:
        axes_in_a_row = columns if self.has_all_axes(columns) else 1
        rest = self.width - _EDGE - AXIS_ROOM * axes_in_a_row - GAP * (columns - 1)
        return max(60, rest // columns)

    @staticmethod
    def has_all_axes(columns: int) -> bool:
        """Return whether every panel, not only the first, numbers its axis."""
        return columns < 3


# An axis shows the last two and a third decades of labels: before that the band
# fills the panel, and the tightening that matters would be squeezed to the right.
_SPAN = 200

# Pixels that an instant on an axis takes, with the space around it.
_TIME_ROOM = 76

_MINUTE, _DAY, _YEAR = 60_000, 86_400_000, 31_557_600_000


def milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def labels_axis(domain: tuple[float, float], width: int) -> dict[str, Any]:
    """Return the axis of labels, with fewer numbers if they do not fit."""
    start, end = domain
    per_decade = width / math.log10(end / start)
    # One and a half times the longest number: the last one ends at the edge.
    room = 10 * len(f"{end:,.0f}") + 6
    # From 1 to 2 and from 5 to 10 are 0.3 decades, the closest two numbers.
    steps = (1, 2, 5) if 0.3 * per_decade >= room else (1,)
    every = math.ceil(room / per_decade)
    values = [
        step * 10**exponent
        for exponent in range(math.floor(math.log10(end)) + 1)
        for step in steps
        if exponent % every == 0 and start <= step * 10**exponent <= end
    ]
    if len(values) < 2:
        values = sorted({math.ceil(start), math.floor(end)})
    return {"values": values, "format": ",d", "grid": False}


def time_axis(domain: tuple[float, float], width: int) -> dict[str, Any]:
    """Return the time axis, with as much detail as its span needs."""
    span = domain[1] - domain[0]
    if span < 5 * _MINUTE:
        form = "%H:%M:%S"
    elif span < _DAY:
        form = "%H:%M"
    elif span < 4 * _DAY:
        form = "%-d %b %H:%M"
    else:
        form = "%-d %b" if span < _YEAR else "%b %Y"
    return {
        "format": form,
        "grid": False,
        "labelOverlap": True,
        "labelFlush": True,
        "tickCount": max(2, width // _TIME_ROOM),
    }


def percent_axis(domain: tuple[float, float], height: int) -> dict[str, Any]:
    """Return the axis of accuracy, with a number every 26 pixels or more."""
    span = round((domain[1] - domain[0]) * 100)
    steps = (2, 5, 10, 20, 25, 50) if span <= 10 else (5, 10, 20, 25, 50)
    step = next((s for s in steps if height * s >= 26 * span), 50)
    # Counting down from 100 % keeps that number on every axis.
    values = [(100 - k * step) / 100 for k in range(span // step + 1)]
    return {
        "values": values,
        # Without a count of its own, Vega leaves out every second value.
        "tickCount": len(values),
        "labelExpr": "round(datum.value * 100) + ' %'",
        # Fixed extents make the panels of a column stand in line.
        "minExtent": AXIS_ROOM,
        "maxExtent": AXIS_ROOM,
    }


def x_scale(
    x: Axis, domain: tuple[float, float], ends: tuple[int, int]
) -> dict[str, Any]:
    """Return the horizontal scale from *domain* to pixels."""
    if x == "labels":
        return {"type": "log", "domain": list(domain), "range": [*ends], "nice": False}
    # Vega-Lite would read a domain of numbers as instants for the beginnings of marks
    # and as numbers for their ends, and complain that the two differ.
    start, end = ({"expr": f"{value:.0f}"} for value in domain)
    places = {"domainMin": start, "domainMax": end, "range": [*ends]}
    return {"type": "utc", "nice": False, **places}


# The least distance of a bound from the bottom of its panel.
_ROOM = 0.05


@dataclass(frozen=True, slots=True)
class View:
    """The horizontal axis that the panels of a chart share.

    From *settled* labels on, the vertical axis reaches every lower bound; before that a
    band may run along the bottom of its panel.
    """

    x: Axis
    x_domain: tuple[float, float]
    start: float
    settled: float
    is_whole: bool = False

    def cut(self, points: Sequence[Moment], *, limit: int) -> list[Moment]:
        """Return the points in view, thinned, with the one that holds at its start."""
        before = sum(point.labels <= self.start for point in points)
        seen = points[max(before - 1, 0) :] if self.x == "labels" else points
        return thin(seen, limit=limit, x=self.x)

    def percent_domain(
        self, points: Iterable[Moment], *, target: float | None = None
    ) -> tuple[float, float]:
        """Return the domain of the vertical axis for *points* and *target*."""
        if self.is_whole:
            return 0.0, 1.0
        bounds = [p.low - _ROOM for p in points if p.labels >= self.settled]
        if target is not None:
            # A line on the bottom of the panel would look like its frame.
            bounds.append(target - 0.02)
        least = max(0.0, min(bounds, default=0.0))
        # From the full 10 % below.
        return min(9, math.floor(least * 10 + 1e-9)) / 10, 1.0

    def is_cut(self, points: Iterable[Moment], bottom: float) -> bool:
        """Return whether the band of *points* is cut by the *bottom* of its axis."""
        return any(p.low < bottom for p in points if p.labels >= self.start)


def build_view(
    paths: Sequence[Sequence[Moment]], x: Axis, *, is_whole: bool = False
) -> View:
    """Build the view of all *paths*, each with its points in order."""
    last = max(path[-1].labels for path in paths)
    least = max(last / _SPAN, 1.0)
    decade = 10 ** math.floor(math.log10(least))
    rounds = [step * decade for step in (1, 2, 5) if step * decade <= least]
    start: float = max(min(path[0].labels for path in paths), *rounds)
    stop = max(last, 10) if start == 1 else last
    labels = min(start, stop / 2), stop
    settled = max(labels[0], last / 4)
    if x == "labels":
        return View(x, labels, labels[0], settled, is_whole)
    first = milliseconds(min(path[0].computed_at for path in paths))
    end = milliseconds(max(path[-1].computed_at for path in paths))
    begin = min(first, end - (_DAY if x == "asked_at" else _MINUTE))
    return View(x, (begin, end), labels[0], settled, is_whole)
