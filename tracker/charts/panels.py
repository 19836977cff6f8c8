"""One panel: a band from low to high, the estimate as a line upon it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import pairwise
from typing import Any

from tracker.charts import axes, words
from tracker.charts.rounding import outward
from tracker.charts.series import Axis, Point
from tracker.charts.sheet import AXIS_ROOM, SIDE, TOP
from tracker.charts.themes import Colours
from tracker.charts.view import View

Spec = dict[str, Any]

# The names of the fields are ours alone.  A name from a user never becomes a
# field, a parameter or part of an expression, so nothing in it can be executed.
_TOOLTIP = [
    {"field": "labels", "type": "quantitative", "format": ",d", "title": "Labels"},
    {"field": "estimate", "type": "nominal", "title": "Accuracy"},
    {"field": "interval", "type": "nominal", "title": "Interval"},
    {"field": "computed", "type": "nominal", "title": "Computed"},
]


@dataclass(frozen=True, slots=True)
class Panel:
    """What tells one panel from another; *number* is unique in its chart."""

    number: int
    points: Sequence[Point]
    heading: Spec
    colour: str
    width: int
    height: int
    y_domain: tuple[float, float]
    has_y_labels: bool = True
    x_title: str | None = None
    target: float | None = None


def draw(panel: Panel, view: View, colours: Colours) -> Spec:
    """Return the specification of *panel*."""
    rows = _rows(panel, view)
    limit = panel.width + (AXIS_ROOM if panel.has_y_labels else 0)
    return {
        "title": panel.heading | {"limit": limit},
        "width": panel.width,
        "height": panel.height,
        "data": {"values": rows},
        "encoding": {"x": _x(panel, view)},
        "layer": [
            _band(panel, colours),
            _edge(panel, "low"),
            _edge(panel, "high"),
            *_target(panel, view, colours),
            _line(panel),
            *_now(panel, colours, rows[-1]),
            _readings(panel, colours),
        ],
    }


def _rows(panel: Panel, view: View) -> list[Spec]:
    start, end = view.x_domain
    places = [max(start, min(end, _place(point, view.x))) for point in panel.points]
    return [
        {"x": here, "until": there} | _row(point, is_class=panel.number > 0)
        for point, (here, there) in zip(
            panel.points, pairwise([*places, end]), strict=True
        )
    ]


def _row(point: Point, *, is_class: bool) -> Spec:
    estimate = words.accuracy(point) or "none yet"
    # A mean of classes is no count divided by another, so it stands alone.
    if is_class and (k_of_n := words.counts(point)):
        estimate += f" ({k_of_n})"
    instant = point.computed_at.astimezone(UTC)
    # Six places are finer than any screen, and halve what a page has to load.
    low, high = outward(point.low, point.high, 6)
    return {
        "labels": point.labels,
        "accuracy": None if point.accuracy is None else round(point.accuracy, 6),
        "low": float(low),
        "high": float(high),
        "estimate": estimate,
        "interval": words.interval(point),
        "computed": f"{instant:%Y-%m-%d %H:%M} UTC",
    }


def _place(point: Point, x: Axis) -> int:
    return point.labels if x == "labels" else axes.milliseconds(point.computed_at)


def _x(panel: Panel, view: View) -> Spec:
    is_time = view.x == "time"
    return {
        "field": "x",
        "type": "temporal" if is_time else "quantitative",
        "scale": {
            "type": "utc" if is_time else "log",
            "domain": list(view.x_domain),
            "range": [1, panel.width - SIDE],
            "nice": False,
        },
        "axis": axes.x_axis(view.x, view.x_domain, panel.width),
        "title": panel.x_title,
    }


def _y(field: str, panel: Panel) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {
            "domain": list(panel.y_domain),
            "range": [panel.height, TOP],
            "nice": False,
            # Not clipping: it takes a clip path per mark, and some programs that
            # open SVG then draw nothing.
            "clamp": True,
        },
        "title": None,
    }


def _y_axis(panel: Panel) -> Spec:
    axis = axes.percent_axis(panel.y_domain, panel.height)
    if not panel.has_y_labels:
        axis |= {"labels": False, "minExtent": 0, "maxExtent": 0}
    return {"axis": axis}


def _band(panel: Panel, colours: Colours) -> Spec:
    mark: Spec = {"type": "area", "interpolate": "step-after", "color": panel.colour}
    return {
        "mark": mark | {"fillOpacity": colours.band},
        # The layers share one axis; the first says how it looks.
        "encoding": {
            "y": _y("low", panel) | _y_axis(panel),
            "y2": {"field": "high"},
        },
    }


def _edge(panel: Panel, field: str) -> Spec:
    mark: Spec = {"type": "line", "interpolate": "step-after", "color": panel.colour}
    return {
        "mark": mark | {"strokeWidth": 1, "strokeOpacity": 0.6},
        "encoding": {"y": _y(field, panel)},
    }


def _line(panel: Panel) -> Spec:
    mark: Spec = {"type": "line", "interpolate": "step-after", "color": panel.colour}
    return {
        "mark": mark | {"strokeWidth": 2.5 if panel.number == 0 else 2},
        "encoding": {"y": _y("accuracy", panel)},
    }


def _target(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    if panel.target is None:
        return []
    start, end = view.x_domain
    text: Spec = {"type": "text", "text": f"target {words.chosen(panel.target)}"}
    text |= {"align": "right", "fontSize": 12, "fontWeight": 600, "dx": -8}
    # Above the line, except where it would run into the title.
    room = (1 - panel.target) / (1 - panel.y_domain[0]) * panel.height
    text |= (
        {"baseline": "bottom", "dy": -4} if room > 20 else {"baseline": "top", "dy": 5}
    )
    ends = {"values": [{"x": place, "target": panel.target} for place in (start, end)]}
    label = {"data": {"values": ends["values"][1:]}}
    y = {"y": _y("target", panel)}
    halo: Spec = {"stroke": colours.background, "strokeWidth": 3, "strokeOpacity": 0.8}
    rule: Spec = {"type": "line", "color": colours.text, "strokeDash": [6, 4]}
    return [
        {"data": ends, "mark": rule | {"strokeWidth": 1.25}, "encoding": y},
        label | {"mark": text | halo, "encoding": y},
        label | {"mark": text | {"color": colours.text}, "encoding": y},
    ]


def _now(panel: Panel, colours: Colours, row: Spec) -> list[Spec]:
    data = {"values": [row]}
    mark: Spec = {"color": panel.colour, "opacity": 1}
    bar: Spec = {
        "data": data,
        "mark": mark | {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
        "encoding": {
            "y": _y("low", panel),
            "y2": {"field": "high"},
            "tooltip": _TOOLTIP,
        },
    }
    if row["accuracy"] is None:
        return [bar]
    dot = mark | {"type": "point", "filled": True, "size": 34}
    dot |= {"stroke": colours.background, "strokeWidth": 1}
    return [
        bar,
        {
            "data": data,
            "mark": dot,
            "encoding": {"y": _y("accuracy", panel), "tooltip": _TOOLTIP},
        },
    ]


def _readings(panel: Panel, colours: Colours) -> Spec:
    """Return invisible columns, one per reading, that answer the pointer."""
    name = f"pointed{panel.number}"
    select = {"type": "point", "on": "pointerover", "clear": "pointerout"}
    return {
        "name": f"readings{panel.number}",
        "params": [{"name": name, "select": select | {"toggle": False}}],
        "mark": {"type": "rect", "color": colours.text},
        "encoding": {
            "x2": {"field": "until"},
            "opacity": {
                "condition": {"param": name, "empty": False, "value": 0.14},
                "value": 0,
            },
            "tooltip": _TOOLTIP,
        },
    }
