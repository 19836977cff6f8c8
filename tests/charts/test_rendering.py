"""The chart as SVG and PNG."""

import io
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from tracker.charts.render import render_png, render_svg, without_pointer
from tracker.charts.tightening import Series, tightening_chart


def chart(series: list[Series], **options: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"title": "Door", "confidence_level": 0.95}
    return tightening_chart(series, **(usual | {"method": "exact"} | options))


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()) for node in root.iter() if "text" in node.tag]


def test_the_svg_says_the_words_and_the_counts(two_classes: list[Series]) -> None:
    said = texts(render_svg(chart(two_classes, target=0.9)))
    yes, no = (one.points[-1] for one in two_classes[1:])
    assert "target 90 %" in said
    assert any("after 2,000 labels" in text for text in said)
    for point in (yes, no):
        counts = f", {point.correct:,} of {point.labelled:,}"
        assert any(text.endswith(counts) for text in said)
    assert {"YES", "NO", "100 %", "10", "2,000"} <= set(said)


def test_the_svg_carries_its_description(published: list[Series]) -> None:
    spec = chart(published)
    root = ElementTree.fromstring(render_svg(spec))
    assert root.get("role") == "img"
    assert root.get("aria-label") == spec["description"]


def test_the_svg_of_an_empty_history_says_no_labels_yet() -> None:
    assert "No labels yet" in texts(render_svg(chart([])))


def test_the_png_is_a_png_of_the_size_asked_for(published: list[Series]) -> None:
    spec = chart(published, layout="narrow")
    content = render_png(spec, scale=1)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = Image.open(io.BytesIO(content)).size
    assert 320 <= width <= 360
    doubled = Image.open(io.BytesIO(render_png(spec))).size
    assert doubled == (2 * width, 2 * height)


@pytest.mark.parametrize(("theme", "colour"), [("light", 255), ("dark", 38)])
def test_the_png_has_the_background_of_its_theme(
    published: list[Series], theme: str, colour: int
) -> None:
    content = render_png(chart(published, theme=theme), scale=1)
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert image.getpixel((2, 2)) == (colour, colour, colour)


@pytest.mark.thorough
def test_a_thousand_labels_of_ten_classes_stay_small(ten_classes: list[Series]) -> None:
    assert len(render_svg(chart(ten_classes))) < 300_000


def test_pictures_leave_out_the_layers_for_the_pointer(
    two_classes: list[Series],
) -> None:
    spec = chart(two_classes)
    assert "pointed" in str(spec)
    assert "pointed" not in str(without_pointer(spec))
    assert "pointed" in str(spec)


@pytest.mark.parametrize("render", [render_svg, render_png])
@pytest.mark.parametrize(
    "loading",
    [
        {"data": {"url": "rows.json"}, "mark": "point"},
        {"vconcat": [{"data": {"values": [{}]}, "mark": {"type": "image", "url": ""}}]},
        {"layer": [{"mark": "image", "encoding": {"url": {"field": "low"}}}]},
        {"layer": [{"mark": "point", "encoding": {"href": {"field": "low"}}}]},
    ],
)
def test_what_loads_something_is_not_rendered(
    render: Callable[[dict[str, Any]], object], loading: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="loads nothing"):
        render(loading)


@pytest.mark.thorough
@pytest.mark.parametrize("render", [render_svg, render_png])
def test_a_picture_is_drawn_once_until_its_data_change(
    published: list[Series],
    two_classes: list[Series],
    render: Callable[[dict[str, Any]], object],
) -> None:
    drawn = render(chart(published))
    assert render(chart(two_classes)) != drawn
    # The very same object: nothing has been drawn.
    assert render(chart(published)) is drawn
