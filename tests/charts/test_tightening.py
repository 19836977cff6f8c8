# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The specification of the tightening chart."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tracker.charts.axes import Series
from tracker.charts.tightening import CLASS_LIMIT, tightening_chart
from tracker.shapes import Moment

Spec = dict[str, Any]
MakeHistory = Callable[..., list[Series]]
Validate = Callable[[Spec], None]


def chart(series: list[Series], **options: Any) -> Spec:
    usual: Spec = {"title": "Door · v3", "confidence_level": 0.95, "method": "exact"}
    return tightening_chart(series, **(usual | options))


def panels(spec: Spec) -> list[Spec]:
    large, *rows = spec["vconcat"]
    return [large, *(panel for row in rows for panel in row["concat"])]


def every(node: object) -> Iterator[tuple[str, Any]]:
    """Yield each key and value in *node*, at any depth, except inline data."""
    children = node.items() if isinstance(node, dict) else ()
    for key, value in children:
        if key != "values":
            yield key, value
            yield from every(value)
    for value in node if isinstance(node, list) else ():
        yield from every(value)


def scale(panel: Spec, channel: str) -> Spec:
    found = panel["encoding"].get(channel) or panel["layer"][0]["encoding"][channel]
    chosen: Spec = found["scale"]
    return chosen


def instants(panel: Spec) -> list[int]:
    """Return the ends of an axis of time."""
    found = scale(panel, "x")
    return [int(found[end]["expr"]) for end in ("domainMin", "domainMax")]


def up_to(series: list[Series], labels: int) -> list[Series]:
    return [
        Series(one.scope, [point for point in one.points if point.labels <= labels])
        for one in series
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("layout", ["wide", "narrow"])
@pytest.mark.parametrize("x", ["labels", "time"])
def test_the_specification_is_valid_vega_lite_and_strict_json(
    two_classes: list[Series], theme: str, layout: str, x: str, validate: Validate
) -> None:
    spec = chart(two_classes, theme=theme, layout=layout, x=x, target=0.9)
    validate(spec)
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec


@pytest.mark.parametrize("labels", [1, 2, 7, 72])
def test_young_histories_give_valid_specifications(
    two_classes: list[Series], labels: int, validate: Validate
) -> None:
    spec = chart(up_to(two_classes, labels), target=0.9)
    validate(spec)
    start, end = scale(panels(spec)[0], "x")["domain"]
    assert 0 < start < end <= max(labels, 10)


def test_the_panels_say_the_present_reading_in_words(published: list[Series]) -> None:
    titles = [panel["title"] for panel in panels(chart(published, target=0.9))]
    assert titles[0]["text"] == (
        "Balanced accuracy — 87.7 % (69.9–97.0 %) after 72 labels"
    )
    assert [(title["text"], title["subtitle"]) for title in titles[1:]] == [
        ("YES", "82.1 % (63.1–94.0 %), 23 of 28"),
        ("NO", "93.2 % (81.3–98.6 %), 41 of 44"),
    ]


def test_the_description_reads_the_chart_aloud(published: list[Series]) -> None:
    said = chart(published, target=0.9)["description"]
    assert "Balanced accuracy — 87.7 % (69.9 to 97.0 %) after 72 labels." in said
    assert "YES — 82.1 % (63.1 to 94.0 %), 23 of 28." in said
    assert "95 % intervals, method exact." in said
    assert said.endswith("The target is 90 %.")


def test_an_empty_history_says_no_labels_yet(validate: Validate) -> None:
    for series in ([], [Series("balanced", []), Series("YES", [])]):
        spec = chart(series)
        validate(spec)
        assert spec["vconcat"][0]["mark"]["text"] == "No labels yet"
        assert spec["description"] == "Door · v3: no labels yet."


def test_a_balanced_accuracy_that_is_not_known_yet_has_a_band_without_a_line(
    two_classes: list[Series],
) -> None:
    first = panels(chart(up_to(two_classes, 1)))[0]
    row = first["data"]["values"][0]
    assert row["accuracy"] is None
    assert 0 <= row["low"] < row["high"] <= 1
    assert "no estimate yet" in first["title"]["text"]


@pytest.mark.thorough
def test_ten_classes_stand_in_two_rows_of_five_distinct_colours(
    ten_classes: list[Series], validate: Validate
) -> None:
    spec = chart(ten_classes)
    validate(spec)
    assert spec["vconcat"][1]["columns"] == 5
    colours = [panel["layer"][0]["mark"]["color"] for panel in panels(spec)]
    assert len(set(colours)) == 11


def test_a_narrow_chart_is_one_column(ten_classes: list[Series]) -> None:
    spec = chart(ten_classes, layout="narrow")
    assert spec["vconcat"][1]["columns"] == 1
    assert all(panel["width"] < 320 for panel in panels(spec))


@pytest.mark.parametrize(
    ("classes", "columns"), [(2, 2), (3, 3), (5, 5), (6, 3), (7, 4), (9, 5), (12, 4)]
)
def test_rows_of_panels_are_even(
    make_history: MakeHistory, classes: int, columns: int
) -> None:
    names = [f"c{number}" for number in range(classes)]
    series = make_history([0.9] * classes, labels=30, names=names)
    assert chart(series)["vconcat"][1]["columns"] == columns


def test_of_a_thousand_classes_the_widest_twelve_are_drawn(
    published: list[Series], validate: Validate
) -> None:
    balanced, narrow, wide = published
    wide = Series("wide", [wide.points[0].model_copy(update={"low": 0.1, "high": 0.9})])
    many = [wide if number % 80 == 7 else narrow for number in range(1000)]
    spec = chart([balanced, *many])
    validate(spec)
    shown = [panel["title"]["text"] for panel in panels(spec)[1:]]
    assert shown == ["wide"] * CLASS_LIMIT
    assert "12 of 1,000 classes" in spec["title"]["subtitle"]
    assert "12 of 1,000 classes" in spec["description"]
    assert len(json.dumps(spec)) < 60_000


def test_a_caller_who_left_classes_out_can_say_so(published: list[Series]) -> None:
    assert "2 of 40 classes" in chart(published, class_count=40)["title"]["subtitle"]
    assert "classes" not in chart(published)["title"]["subtitle"]


@pytest.mark.thorough
def test_a_long_history_is_thinned(ten_classes: list[Series]) -> None:
    point = ten_classes[0].points[-1]
    points = [
        point.model_copy(update={"labels": labels}) for labels in range(1, 50_000)
    ]
    rows = panels(chart([Series("balanced", points)]))[0]["data"]["values"]
    assert 200 < len(rows) <= 250
    assert rows[-1]["labels"] == 49_999


def test_the_vertical_axis_begins_at_a_full_ten_percent_well_below_the_band(
    published: list[Series],
) -> None:
    balanced, yes, no = (panel for panel in panels(chart(published)))
    # 70.0 % less the five points that stay free; of YES, 63.1 %.
    assert scale(balanced, "y")["domain"] == [0.6, 1.0]
    assert scale(yes, "y")["domain"] == scale(no, "y")["domain"] == [0.5, 1.0]
    with_target = panels(chart(published, target=0.55))[0]
    assert scale(with_target, "y")["domain"] == [0.5, 1.0]


def test_the_whole_axis_begins_at_zero(published: list[Series]) -> None:
    spec = chart(published, target=0.9, is_whole=True)
    assert {scale(panel, "y")["domain"][0] for panel in panels(spec)} == {0.0}


def test_what_lies_below_the_axis_is_said(two_classes: list[Series]) -> None:
    large = panels(chart(two_classes))[0]
    assert scale(large, "y")["domain"][0] > 0.5
    title = large["encoding"]["x"]["title"]
    assert "The axis begins at" in title[1]
    whole = panels(chart(two_classes, is_whole=True))[0]
    assert whole["encoding"]["x"]["title"] == "number of labels (log scale)"


@pytest.mark.parametrize("estimate", [0.7, 0.89, 0.9, 0.91, 0.999, 1.0])
@pytest.mark.parametrize("target", [0.9, 0.995])
def test_the_names_beside_the_large_panel_never_meet(
    published: list[Series], estimate: float, target: float
) -> None:
    balanced, *classes = published
    last = balanced.points[-1].model_copy(update={"accuracy": estimate, "high": 1.0})
    spec = chart([Series("balanced", [last]), *classes], target=target)
    large = panels(spec)[0]
    texts = [one for one in large["layer"] if one["mark"]["type"] == "text"]
    bottom, top = scale(large, "y")["domain"]
    low, high = scale(large, "y")["range"]
    places = []
    for one in texts:
        value = one["data"]["values"][0]["y"]
        drawn = low + (value - bottom) / (top - bottom) * (high - low)
        places.append(drawn + one["mark"].get("dy", 0))
        # Beside the plot, so on no line.
        assert one["mark"]["dx"] > 0
    assert len(places) == 2
    assert abs(places[0] - places[1]) >= 15.5
    assert large["encoding"]["x"]["scale"]["range"][1] < large["width"] - 80


def test_the_axis_of_labels_begins_where_the_band_begins_to_tighten(
    two_classes: list[Series],
) -> None:
    assert scale(panels(chart(two_classes))[0], "x")["domain"] == [10, 2000]
    young = chart(up_to(two_classes, 100))
    assert scale(panels(young)[0], "x")["domain"] == [1, 100]


def test_the_axis_of_time_shows_the_whole_history(two_classes: list[Series]) -> None:
    points = two_classes[0].points
    domain = instants(panels(chart(two_classes, x="time"))[0])
    ends = [points[0].computed_at, points[-1].computed_at]
    assert domain == [round(1000 * end.timestamp()) for end in ends]


def test_snapshots_of_one_instant_still_have_an_axis_of_time(
    published: list[Series],
) -> None:
    start, end = instants(panels(chart(published, x="time"))[0])
    assert start < end


def test_a_clock_that_was_set_back_bends_no_line(two_classes: list[Series]) -> None:
    def late(point: Moment) -> Moment:
        early = point.computed_at - timedelta(days=1)
        return (
            point.model_copy(update={"computed_at": early})
            if point.labels == 50
            else point
        )

    series = [Series(one.scope, list(map(late, one.points))) for one in two_classes]
    rows = panels(chart(series, x="time"))[0]["data"]["values"]
    places = [row["x"] for row in rows]
    assert places == sorted(places)


def test_the_target_is_drawn_in_the_large_panel_alone(published: list[Series]) -> None:
    large, *small = panels(chart(published, target=0.9))
    assert "target 90 %" in json.dumps(large["layer"])
    assert "target" not in json.dumps([panel["layer"] for panel in small])
    assert "target" not in json.dumps(panels(chart(published)))


def test_nothing_in_the_chart_is_clipped_or_fetched(two_classes: list[Series]) -> None:
    keys = [key for key, _ in every(chart(two_classes, target=0.9))]
    assert not {"clip", "url", "href", "transform", "usermeta"} & set(keys)
