"""What is drawn over the chart: a window's line, events, corrections, verdicts."""

from itertools import combinations
from typing import Any

import pytest

from tests.charts.conftest import Validate
from tracker.charts.axes import Series
from tracker.charts.panels import STRIP, Mark, Overlay, State
from tracker.charts.themes import COLOURS
from tracker.charts.tightening import tightening_chart
from tracker.shapes import Moment

Spec = dict[str, Any]


def overlay_of(points: list[Moment], accuracy: float) -> Overlay:
    """Return one of everything over *points*; the window ends at *accuracy*."""
    last = points[-1]
    lately = [
        one.model_copy(
            update={
                "accuracy": accuracy,
                "low": round(accuracy - 0.05, 3),
                "high": accuracy,
            }
        )
        for one in points[60:]
    ]
    middle = points[len(points) // 2]
    return Overlay(
        lately=lately,
        lately_name="last 200",
        marks=[
            Mark("change", last.labels - 1, last.computed_at, "YES dropped, 18 Nov"),
            Mark("then", points[3].labels, points[3].computed_at, "as known then"),
            Mark("correction", middle.labels, middle.computed_at, "YES to NO"),
        ],
        states=[
            State("undecided", points[0].labels, points[0].computed_at),
            State("met", middle.labels, middle.computed_at),
        ],
    )


def draw(series: list[Series], overlay: Overlay, **options: Any) -> Spec:
    usual: Spec = {"title": "Door", "confidence_level": 0.95, "method": "joint"}
    usual |= {"target": 0.9}
    return tightening_chart(series, overlay=overlay, **usual | options)


def texts(spec: Spec) -> dict[str, Spec]:
    """Return the layers of the large panel that are words, by their text."""
    return {
        layer["mark"]["text"]: layer
        for layer in spec["vconcat"][0]["layer"]
        if layer["mark"].get("type") == "text"
    }


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("layout", ["wide", "narrow"])
@pytest.mark.parametrize("x", ["labels", "time"])
def test_the_specification_stays_valid(
    two_classes: list[Series], validate: Validate, theme: str, layout: str, x: str
) -> None:
    overlay = overlay_of(list(two_classes[0].points), 0.8)
    validate(draw(two_classes, overlay, theme=theme, layout=layout, x=x))


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", [0.7, 0.86, 0.88, 0.9, 0.92, 0.999])
@pytest.mark.parametrize("target", [0.86, 0.88, 0.9, 0.99])
def test_names_stand_apart(
    two_classes: list[Series], accuracy: float, target: float
) -> None:
    points = list(two_classes[0].points)
    spec = draw(two_classes, overlay_of(points, accuracy), target=target)
    panel = spec["vconcat"][0]
    scale = panel["layer"][0]["encoding"]["y"]["scale"]
    (low, high), (bottom, top) = scale["domain"], scale["range"]
    places = []
    for text, layer in texts(spec).items():
        mark = layer["mark"]
        if mark.get("dx") != 9:
            continue
        y = layer["data"]["values"][0]["y"]
        own = bottom - (min(high, max(low, y)) - low) / (high - low) * (bottom - top)
        if text.startswith("target"):
            assert mark["dy"] == 0
        lines = text.count("\n") + 1
        places.append([own + mark["dy"] + 16 * line for line in range(lines)])
    assert len(places) == 3
    for one, other in combinations(places, 2):
        assert min(abs(a - b) for a in one for b in other) >= 15


def test_a_name_stands_on_its_side_of_the_target(two_classes: list[Series]) -> None:
    points = list(two_classes[0].points)
    for accuracy, target in ((0.98, 0.8), (0.96, 0.85), (0.7, 0.9)):
        spec = draw(two_classes, overlay_of(points, accuracy), target=target)
        scale = spec["vconcat"][0]["layer"][0]["encoding"]["y"]["scale"]
        (low, high), (bottom, top) = scale["domain"], scale["range"]
        step = (bottom - top) / (high - low)
        named = f"last 200\n{accuracy:.1%}".replace("%", " %")
        first = bottom - (accuracy - low) * step + texts(spec)[named]["mark"]["dy"]
        line = bottom - (target - low) * step
        assert (first < line and first + 16 < line) == (accuracy > target), accuracy


def test_the_axis_reaches_the_window_and_its_end_is_said(
    two_classes: list[Series],
) -> None:
    points = list(two_classes[0].points)
    spec = draw(two_classes, overlay_of(points, 0.6))
    domain = spec["vconcat"][0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert domain[0] <= 0.5
    assert "last 200\n60.0 %" in texts(spec)
    said = spec["description"]
    assert "The last 200 — 60.0 % (55.0 to 60.0 %)." in said
    assert "YES dropped, 18 Nov." in said
    assert said.endswith(f"met since label {points[len(points) // 2].labels:,}.")


def test_verdicts_fill_a_strip_below_the_plot_from_end_to_end(
    two_classes: list[Series],
) -> None:
    spec = draw(two_classes, overlay_of(list(two_classes[0].points), 0.8))
    panel = spec["vconcat"][0]
    colours = COLOURS["light"]
    strip = [
        layer
        for layer in panel["layer"]
        if layer["mark"].get("color") in {colours.plain, colours.good}
    ]
    rows = [layer["data"]["values"][0] for layer in strip]
    start, end = panel["encoding"]["x"]["scale"]["domain"]
    assert rows[0]["x"] == start
    assert rows[0]["until"] == rows[1]["x"]
    assert rows[1]["until"] == end
    for layer in strip:
        assert layer["encoding"]["y"]["value"] == panel["height"] - STRIP
    floor = panel["layer"][0]["encoding"]["y"]["scale"]["range"][0]
    assert floor < panel["height"] - STRIP
    assert {"undecided", "met"} <= set(texts(spec))


def test_an_event_has_its_words_on_the_side_with_room(
    two_classes: list[Series],
) -> None:
    found = texts(draw(two_classes, overlay_of(list(two_classes[0].points), 0.8)))
    assert found["YES dropped, 18 Nov"]["mark"]["align"] == "right"
    assert found["as known then"]["mark"]["align"] == "left"


def test_without_an_overlay_the_chart_is_as_it_was(two_classes: list[Series]) -> None:
    assert draw(two_classes, Overlay()) == tightening_chart(
        two_classes, title="Door", confidence_level=0.95, method="joint", target=0.9
    )
