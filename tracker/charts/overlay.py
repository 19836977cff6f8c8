"""The overlay of the tightening chart: a window's line, events and verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from tracker.charts import axes
from tracker.charts.axes import Axis
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
class Frame:
    """The coordinates of the panel under an overlay."""

    x: Axis
    x_domain: tuple[float, float]
    width: int
    height: int
    top: int

    def place(self, labels: int, at: datetime) -> float:
        """Return the place on the horizontal axis, clipped to its ends."""
        start, end = self.x_domain
        value = labels if self.x == "labels" else axes.milliseconds(at)
        return max(start, min(end, value))


def draw_lately(
    overlay: Overlay, frame: Frame, y: Spec, colours: Colours
) -> list[Spec]:
    """Return the band and the dashed line of the window; *y* is the vertical scale."""
    if not overlay.lately:
        return []
    rows = [
        {
            "x": frame.place(one.labels, one.computed_at),
            "accuracy": one.accuracy,
            "low": low,
            "high": high,
        }
        for one in overlay.lately
        for low, high in [map(float, outward(one.low, one.high, 6))]
    ]
    mark: Spec = {"interpolate": "step-after", "color": colours.lately}
    data = {"values": rows}
    return [
        {
            "data": data,
            "mark": mark | {"type": "area", "fillOpacity": colours.band},
            "encoding": {"y": y | {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": data,
            "mark": mark | {"type": "line", "strokeWidth": 2, "strokeDash": _DASH},
            "encoding": {"y": y | {"field": "accuracy"}},
        },
    ]


def draw_marks(overlay: Overlay, frame: Frame, colours: Colours) -> list[Spec]:
    """Return a line with a text for each event, and a tick for each correction."""
    found: list[Spec] = []
    ticks = [one for one in overlay.marks if one.kind == "correction"]
    if ticks:
        found.append(_draw_ticks(ticks, frame, colours))
    for one in overlay.marks:
        if one.kind != "correction":
            found += _draw_event(one, frame, colours)
    return found


def _draw_ticks(ticks: Sequence[Mark], frame: Frame, colours: Colours) -> Spec:
    rows = [{"x": frame.place(one.labels, one.at), "what": one.text} for one in ticks]
    return {
        "data": {"values": rows},
        "mark": {"type": "rule", "color": colours.text, "strokeWidth": 2},
        "encoding": {
            "y": {"value": frame.height - _TICK},
            "y2": {"value": frame.height},
            "tooltip": [{"field": "what", "type": "nominal", "title": "Corrected"}],
        },
    }


def _draw_event(event: Mark, frame: Frame, colours: Colours) -> list[Spec]:
    is_change = event.kind == "change"
    colour = colours.warn if is_change else colours.text
    place = frame.place(event.labels, event.at)
    data = {"values": [{"x": place}]}
    # Above the plot, clear of the band, and on the side with more room.
    begin = frame.top - 12 if is_change else frame.top
    sign = frame.top - 14 if is_change else frame.height
    words = frame.top - 14 if is_change else frame.height - 10
    is_right = _share_along(place, frame) > 0.5
    line = {"type": "rule", "color": colour, "strokeWidth": 1.75 if is_change else 1}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1, "color": colour}
    text = {
        "type": "text",
        "text": event.text,
        "align": "right" if is_right else "left",
        "baseline": "middle",
        "dx": -10 if is_right else 10,
        "color": colour,
        "fontSize": 12,
        "fontWeight": 600,
    }
    return [
        {
            "data": data,
            "mark": line,
            "encoding": {"y": {"value": begin}, "y2": {"value": frame.height}},
        },
        {
            "data": data,
            "mark": point | {"shape": "triangle-up" if is_change else "circle"},
            "encoding": {"y": {"value": sign}},
        },
        {"data": data, "mark": text, "encoding": {"y": {"value": words}}},
    ]


def _share_along(place: float, frame: Frame) -> float:
    start, end = frame.x_domain
    if frame.x != "labels":
        return (place - start) / (end - start)
    return math.log(place / start) / math.log(end / start)


def draw_states(
    overlay: Overlay, frame: Frame, bottom: int, colours: Colours
) -> list[Spec]:
    """Return the strip of verdicts above *bottom*, with words where they fit."""
    if not overlay.states:
        return []
    fills = {"met": colours.good, "missed": colours.bad, "undecided": colours.plain}
    end = frame.x_domain[1]
    places = [frame.place(one.labels, one.since) for one in overlay.states]
    found: list[Spec] = []
    for state, (here, there) in zip(
        overlay.states, pairwise([*places, end]), strict=True
    ):
        if there <= here:
            continue
        data = {"values": [{"x": here, "until": there}]}
        found.append(
            {
                "data": data,
                "mark": {"type": "rect", "color": fills[state.verdict], "opacity": 1},
                "encoding": {
                    "x2": {"field": "until"},
                    "y": {"value": bottom - STRIP},
                    "y2": {"value": bottom},
                },
            }
        )
        room = _share_along(there, frame) - _share_along(here, frame)
        if room * frame.width >= _LETTER * len(state.verdict) + 2 * _LETTER:
            found.append(
                {
                    "data": data,
                    "mark": {
                        "type": "text",
                        "text": state.verdict,
                        "align": "left",
                        "baseline": "middle",
                        "dx": 6,
                        "color": colours.text,
                        "fontSize": 11,
                        "fontWeight": 600,
                    },
                    "encoding": {"y": {"value": bottom - STRIP / 2}},
                }
            )
    return found
