"""One panel: a band from low to high with the estimate as a line, and its overlay.

The overlay is a window's line, events and verdicts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

from tracker.charts import axes, words
from tracker.charts.axes import AXIS_ROOM, SIDE, TOP, View
from tracker.charts.themes import Colours
from tracker.rounding import outward
from tracker.shapes import Moment
from tracker.words import Verdict

Spec = dict[str, Any]
Kind = Literal["change", "then", "correction"]

# The strip of verdicts at the bottom of the panel, and the space above it.
STRIP, SPACE = 16, 8
_TICK = 9
# Pixels of a letter in the strip, about.
_LETTER = 7
_DASH = [6, 3]

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
class Mark:
    """An event after so many labels."""

    kind: Kind
    labels: int
    at: datetime
    text: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """A verdict that held from so many labels on."""

    verdict: Verdict
    labels: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Overlay:
    """The overlay of the large panel."""

    # The balanced accuracy of a moving window, in order.
    lately: Sequence[Moment] = ()
    lately_name: str = ""
    marks: Sequence[Mark] = ()
    states: Sequence[State] = ()


NOTHING = Overlay()


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

    @property
    def plot_width(self) -> int:
        return self.width - self.margin

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
            *_lines(panel, view, colours),
            *_now(panel, colours, rows[-1]),
            *_names(panel, view, rows[-1], colours),
            *_window(panel, view, colours),
            *_events(panel, view, colours),
            *_verdicts(panel, view, colours),
            _readings(panel, colours),
        ],
    }


def _rows(panel: Panel, view: View) -> list[Spec]:
    places = [_place(view, point.labels, point.computed_at) for point in panel.points]
    return [
        {"x": here, "until": there} | _row(point, is_class=panel.number > 0)
        for point, (here, there) in zip(
            panel.points, pairwise([*places, view.x_domain[1]]), strict=True
        )
    ]


def _place(view: View, labels: int, at: datetime) -> float:
    start, end = view.x_domain
    return max(start, min(end, labels if view.x == "labels" else axes.milliseconds(at)))


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


def _x(panel: Panel, view: View) -> Spec:
    axis = axes.labels_axis if view.x == "labels" else axes.time_axis
    return {
        "field": "x",
        "type": "quantitative" if view.x == "labels" else "temporal",
        "scale": axes.x_scale(view.x, view.x_domain, (1, panel.plot_width)),
        "axis": axis(view.x_domain, panel.width),
        "title": panel.x_title,
    }


def _layer(mark: Spec, data: Sequence[Spec] | None = None, **encoding: Any) -> Spec:
    """Return a layer of its own *data*, or of those of the panel."""
    own = {} if data is None else {"data": {"values": data}}
    return {**own, "mark": mark, "encoding": encoding}


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


def _lines(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    axis = axes.percent_axis(panel.y_domain, panel.floor)
    if not panel.has_y_labels:
        axis |= {"labels": False, "minExtent": 0, "maxExtent": 0}
    usual: Spec = {"interpolate": "step-after", "color": panel.colour}
    band = usual | {"type": "area", "fillOpacity": colours.band}
    line = usual | {"type": "line"}
    bound = line | {"strokeWidth": 1, "strokeOpacity": 0.6}
    # The layers share the axis of the first.
    ends = {"y": _y("low", panel) | {"axis": axis}, "y2": {"field": "high"}}
    layers = [_layer(band, None, **ends)]
    layers += [_layer(bound, y=_y(field, panel)) for field in ("low", "high")]
    if panel.target is not None:
        rows = [{"x": place, "target": panel.target} for place in view.x_domain]
        rule: Spec = {"type": "line", "color": colours.text, "strokeDash": [5, 4]}
        layers.append(_layer(rule | {"strokeWidth": 1.25}, rows, y=_y("target", panel)))
    estimate = line | {"strokeWidth": 2 if panel.number else 2.5}
    return [*layers, _layer(estimate, y=_y("accuracy", panel))]


def _window(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    if not panel.overlay.lately:
        return []
    rows = []
    for one in panel.overlay.lately:
        low, high = map(float, outward(one.low, one.high, 6))
        place = _place(view, one.labels, one.computed_at)
        rows.append({"x": place, "accuracy": one.accuracy, "low": low, "high": high})
    mark: Spec = {"interpolate": "step-after", "color": colours.lately}
    area = mark | {"type": "area", "fillOpacity": colours.band}
    line = mark | {"type": "line", "strokeWidth": 2, "strokeDash": _DASH}
    return [
        _layer(area, rows, y=_y("low", panel), y2={"field": "high"}),
        _layer(line, rows, y=_y("accuracy", panel)),
    ]


def _events(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    ticks, drawn = list[Spec](), list[Spec]()
    for one in panel.overlay.marks:
        place = _place(view, one.labels, one.at)
        if one.kind == "correction":
            ticks.append({"x": place, "what": one.text})
        else:
            is_right = _share_along(place, view) > 0.5
            drawn += _event(one, place, panel.floor, colours, is_right=is_right)
    if not ticks:
        return drawn
    what = [{"field": "what", "type": "nominal", "title": "Corrected"}]
    rule = {"type": "rule", "color": colours.text, "strokeWidth": 2}
    ends = {"y": {"value": panel.floor - _TICK}, "y2": {"value": panel.floor}}
    return [_layer(rule, ticks, **ends, tooltip=what), *drawn]


def _event(
    event: Mark, place: float, bottom: int, colours: Colours, *, is_right: bool
) -> list[Spec]:
    is_change = event.kind == "change"
    colour = colours.warn if is_change else colours.text
    data = [{"x": place}]
    # Above the plot, clear of the band, and on the side with more room.
    begin = TOP - 12 if is_change else TOP
    sign = TOP - 14 if is_change else bottom
    height = TOP - 14 if is_change else bottom - 10
    line = {"type": "rule", "color": colour, "strokeWidth": 1.75 if is_change else 1}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1, "color": colour}
    point |= {"shape": "triangle-up" if is_change else "circle"}
    side = "right" if is_right else "left"
    text = _text(event.text, side, -10 if is_right else 10, colour, 12)
    return [
        _layer(line, data, y={"value": begin}, y2={"value": bottom}),
        _layer(point, data, y={"value": sign}),
        _layer(text, data, y={"value": height}),
    ]


def _text(text: str, align: str, dx: int, colour: str, size: int) -> Spec:
    place = {"type": "text", "text": text, "align": align, "baseline": "middle"}
    return place | {"dx": dx, "color": colour, "fontSize": size, "fontWeight": 600}


def _share_along(place: float, view: View) -> float:
    start, end = view.x_domain
    if view.x != "labels":
        return (place - start) / (end - start)
    return math.log(place / start) / math.log(end / start)


def _verdicts(panel: Panel, view: View, colours: Colours) -> list[Spec]:
    states, bottom = panel.overlay.states, panel.height
    fills = {"met": colours.good, "missed": colours.bad, "undecided": colours.plain}
    places = [_place(view, one.labels, one.since) for one in states]
    found: list[Spec] = []
    spans = pairwise([*places, view.x_domain[1]])
    for state, (here, there) in zip(states, spans, strict=True):
        if there <= here:
            continue
        data = [{"x": here, "until": there}]
        mark = {"type": "rect", "color": fills[state.verdict], "opacity": 1}
        ends = {"y": {"value": bottom - STRIP}, "y2": {"value": bottom}}
        found.append(_layer(mark, data, x2={"field": "until"}, **ends))
        room = _share_along(there, view) - _share_along(here, view)
        if room * panel.plot_width >= _LETTER * len(state.verdict) + 2 * _LETTER:
            text = _text(state.verdict, "left", 6, colours.text, 11)
            found.append(_layer(text, data, y={"value": bottom - STRIP / 2}))
    return found


def _names(panel: Panel, view: View, row: Spec, colours: Colours) -> list[Spec]:
    if panel.number:
        return []
    # The target's name keeps its place, and the others make room.
    look: Spec = {"color": panel.colour, "fontSize": 14}
    named: list[tuple[float | None, str, Spec]]
    named = [(row["accuracy"], row["estimate"], look)]
    if panel.target is not None:
        target = f"target {words.chosen(panel.target)}"
        named.insert(0, (panel.target, target, {"color": colours.text}))
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
        mark = usual | look | {"text": text, "dy": round(own - place)}
        names.append(
            _layer(mark, [{"x": view.x_domain[1], "y": share}], y=_y("y", panel))
        )
    return names


def _make_room(
    own: float, taken: Sequence[float], low: float, high: float, *, lines: int
) -> float:
    """Return the free place nearest to *own* for a name with *lines* below it."""
    places = [own, *(t + _APART * (1 + lines) for t in taken)]
    places += [t - _APART for t in taken]
    kept = [t + line * _APART for t in taken for line in range(lines + 1)]
    free = [
        place
        for place in places
        # Names may stand above the plot, beside the title.
        if low <= place <= high + 1.5 * _APART
        and all(abs(place - one) >= _APART for one in kept)
    ]
    return min(free, key=lambda place: abs(place - own), default=own)


def _now(panel: Panel, colours: Colours, row: Spec) -> list[Spec]:
    mark: Spec = {"color": panel.colour, "opacity": 1}
    rule = mark | {"type": "rule", "strokeWidth": 3, "strokeCap": "round"}
    ends = {"y": _y("low", panel), "y2": {"field": "high"}}
    bar = _layer(rule, [row], **ends, tooltip=_TOOLTIP)
    if row["accuracy"] is None:
        return [bar]
    dot = mark | {"type": "point", "filled": True, "size": 34}
    dot |= {"stroke": colours.background, "strokeWidth": 1}
    return [bar, _layer(dot, [row], y=_y("accuracy", panel), tooltip=_TOOLTIP)]


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
