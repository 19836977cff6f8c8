"""One panel: a band from low to high, with the estimate as a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import pairwise
from typing import Any

from tracker.charts import axes, words
from tracker.charts.axes import AXIS_ROOM, SIDE, TOP, Axis, View
from tracker.charts.overlay import (
    NOTHING,
    SPACE,
    STRIP,
    Frame,
    Overlay,
    draw_lately,
    draw_marks,
    draw_states,
)
from tracker.charts.themes import Colours
from tracker.rounding import outward
from tracker.shapes import Moment

Spec = dict[str, Any]

# The least distance of two names in the margin.
_APART = 16

# Field names are ours.  A name from a user never becomes a field, a parameter or part
# of an expression, so nothing in it can be executed.
_TOOLTIP = [
    {"field": "labels", "type": "quantitative", "format": ",d", "title": "Labels"},
    {"field": "estimate", "type": "nominal", "title": "Accuracy"},
    {"field": "interval", "type": "nominal", "title": "Interval"},
    {"field": "computed", "type": "nominal", "title": "As of"},
]


@dataclass(frozen=True, slots=True)
class Panel:
    """The choices of one panel; *number* is unique in its chart."""

    number: int
    points: Sequence[Moment]
    heading: Spec
    colour: str
    width: int
    height: int
    y_domain: tuple[float, float]
    has_y_labels: bool = True
    x_title: str | list[str] | None = None
    target: float | None = None
    # Beside the plot, for the names of the lines.
    margin: int = SIDE
    overlay: Overlay = NOTHING

    @property
    def floor(self) -> int:
        """The bottom of the plot, above the strip of verdicts if there is one."""
        return self.height - (STRIP + SPACE if self.overlay.states else 0)

    def reach(self, share: float) -> float:
        low, high = self.y_domain
        inside = min(1.0, max(0.0, (share - low) / (high - low)))
        return inside * (self.floor - TOP)


def draw(panel: Panel, view: View, colours: Colours) -> Spec:
    """Return the Vega-Lite specification of *panel*."""
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
            *_names(panel, view, rows[-1], colours),
            *_over(panel, view, colours),
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


def _row(point: Moment, *, is_class: bool) -> Spec:
    estimate = words.accuracy(point) or "none yet"
    # The mean of classes is not one count divided by another.
    if is_class and (k_of_n := words.counts(point)):
        estimate += f" ({k_of_n})"
    instant = point.computed_at.astimezone(UTC)
    # Six places are finer than any screen, and halve the page.
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


def _place(point: Moment, x: Axis) -> int:
    return point.labels if x == "labels" else axes.milliseconds(point.computed_at)


def _x(panel: Panel, view: View) -> Spec:
    ends = (1, panel.width - panel.margin)
    return {
        "field": "x",
        "type": "quantitative" if view.x == "labels" else "temporal",
        "scale": axes.x_scale(view.x, view.x_domain, ends),
        "axis": axes.x_axis(view.x, view.x_domain, panel.width),
        "title": panel.x_title,
    }


def _y(field: str, panel: Panel) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {
            "domain": list(panel.y_domain),
            "range": [panel.floor, TOP],
            "nice": False,
            # Not clipped: clip paths, one per mark, make some SVG programs draw
            # nothing.
            "clamp": True,
        },
        "title": None,
    }


def _y_axis(panel: Panel) -> Spec:
    axis = axes.percent_axis(panel.y_domain, panel.floor)
    if not panel.has_y_labels:
        axis |= {"labels": False, "minExtent": 0, "maxExtent": 0}
    return {"axis": axis}


def _band(panel: Panel, colours: Colours) -> Spec:
    mark: Spec = {"type": "area", "interpolate": "step-after", "color": panel.colour}
    return {
        "mark": mark | {"fillOpacity": colours.band},
        # The layers share the axis of the first.
        "encoding": {"y": _y("low", panel) | _y_axis(panel), "y2": {"field": "high"}},
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
    ends = [{"x": place, "target": panel.target} for place in view.x_domain]
    rule: Spec = {"type": "line", "color": colours.text, "strokeDash": [5, 4]}
    return [
        {
            "data": {"values": ends},
            "mark": rule | {"strokeWidth": 1.25},
            "encoding": {"y": _y("target", panel)},
        }
    ]


def _over(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    """Return the overlay of the panel: a window, events and verdicts."""
    frame = Frame(
        x=view.x,
        x_domain=view.x_domain,
        width=panel.width - panel.margin,
        height=panel.floor,
        top=TOP,
    )
    return [
        *draw_lately(panel.overlay, frame, _y("low", panel), colours),
        *draw_marks(panel.overlay, frame, colours),
        *draw_states(panel.overlay, frame, panel.height, colours),
    ]


def _names(panel: Panel, view: View, row: Spec, colours: Colours) -> list[Spec]:
    """Return the names of the lines in the margin, each beside the end of its line."""
    if panel.number:
        return []
    # The target's name keeps its place, and the others make room.
    named: list[tuple[float | None, str, Spec]] = [
        (
            panel.target,
            "" if panel.target is None else f"target {words.chosen(panel.target)}",
            {"color": colours.text},
        ),
        (row["accuracy"], row["estimate"], {"color": panel.colour, "fontSize": 14}),
    ]
    if panel.overlay.lately:
        last = panel.overlay.lately[-1]
        said = [panel.overlay.lately_name, words.accuracy(last) or "none yet"]
        named.append((last.accuracy, "\n".join(said), {"color": colours.lately}))
    usual: Spec = {"type": "text", "align": "left", "baseline": "middle", "dx": 9}
    usual |= {"fontSize": 12, "fontWeight": 600, "lineBreak": "\n"}
    names: list[Spec] = []
    taken: list[float] = []
    for share, text, look in named:
        if share is None:
            continue
        own = panel.reach(share)
        place = _make_room(own, taken, 0.0, panel.floor - TOP, lines=text.count("\n"))
        taken += [place - line * _APART for line in range(text.count("\n") + 1)]
        names.append(
            {
                "data": {"values": [{"x": view.x_domain[1], "y": share}]},
                "mark": usual | look | {"text": text, "dy": round(own - place)},
                "encoding": {"y": _y("y", panel)},
            }
        )
    return names


def _make_room(
    own: float, taken: Sequence[float], low: float, high: float, *, lines: int
) -> float:
    """Return the free place nearest to *own* for a name with *lines* below it."""
    places = [own, *(t + _APART * (1 + lines) for t in taken)]
    places += [t - _APART for t in taken]
    free = [
        place
        for place in places
        # Names may stand above the plot, beside the title.
        if low <= place <= high + 1.5 * _APART
        and all(
            abs(place - line * _APART - t) >= _APART
            for line in range(lines + 1)
            for t in taken
        )
    ]
    return min(free, key=lambda place: abs(place - own), default=own)


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
    """Return invisible columns, one per reading, that react to the pointer."""
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
