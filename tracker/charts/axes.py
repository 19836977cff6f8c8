"""Where the axes begin and end, and which places on them get a number."""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tracker.charts.series import Axis
from tracker.charts.sheet import AXIS_ROOM

# An axis shows the last two and a third decades of labels: before that the band
# fills the panel, and the tightening that matters would be squeezed to the right.
_SPAN = 200

# Pixels that an instant on an axis takes, with the space around it.
_TIME_ROOM = 76

_MINUTE, _DAY, _YEAR = 60_000, 86_400_000, 31_557_600_000


def milliseconds(instant: datetime) -> int:
    """Return *instant* as Vega counts time."""
    return round(instant.timestamp() * 1000)


def labels_domain(first: int, last: int) -> tuple[float, float]:
    """Return the ends of the logarithmic axis for *first* to *last* labels."""
    start: float = max(first, _round_number_below(last / _SPAN))
    end: float = max(last, 10) if start == 1 else last
    return min(start, end / 2), end


def time_domain(first: datetime, last: datetime) -> tuple[float, float]:
    """Return the ends of the axis of time, at least a minute apart."""
    end = milliseconds(last)
    return min(milliseconds(first), end - _MINUTE), end


def percent_domain(bounds: Iterable[float]) -> tuple[float, float]:
    """Return an axis to 100 % from the full 10 % below the least of *bounds*."""
    return min(9, math.floor(min(bounds) * 10 + 1e-9)) / 10, 1.0


def labels_axis(domain: tuple[float, float], width: int) -> dict[str, Any]:
    """Return the axis of labels; without room for all, fewer numbers."""
    start, end = domain
    per_decade = width / math.log10(end / start)
    # The longest number, and half of it again: the last one ends at the edge.
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
    """Return the axis of time, with no more detail than its span needs."""
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


def x_axis(x: Axis, domain: tuple[float, float], width: int) -> dict[str, Any]:
    """Return the horizontal axis of a panel *width* pixels wide."""
    return labels_axis(domain, width) if x == "labels" else time_axis(domain, width)


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


def _round_number_below(value: float) -> int:
    if value < 1:
        return 1
    decade = 10 ** math.floor(math.log10(value))
    return int(max(step for step in (1, 2, 5) if step * decade <= value) * decade)
