"""The small line of how the width shrank."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.charts.sparkline import HEIGHT, WIDTH, width_sparkline


def places(points: str) -> list[tuple[float, float]]:
    return [
        (float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())
    ]


def test_a_shrinking_width_falls_from_left_to_right() -> None:
    drawn = places(width_sparkline([1.0, 0.6, 0.4, 0.3]))
    assert drawn[0] == (0, 2)
    assert drawn[-1][0] == WIDTH
    heights = [y for _, y in drawn]
    assert heights == sorted(heights)


def test_half_the_width_is_half_the_height() -> None:
    assert width_sparkline([0.8, 0.4, 0.0]) == "0,2 50,12 100,22"


def test_no_widths_draw_nothing_and_one_draws_a_level_line() -> None:
    assert width_sparkline([]) == ""
    assert width_sparkline([0.3]) == "0,2 100,2"
    assert width_sparkline([0.0, 0.0]) == "0,22 100,22"


@given(st.lists(st.floats(0, 1), max_size=400))
def test_every_point_lies_in_the_picture(widths: list[float]) -> None:
    drawn = places(width_sparkline(widths))
    assert len(drawn) <= 50
    assert all(0 <= x <= WIDTH and 0 < y < HEIGHT for x, y in drawn)


@pytest.mark.parametrize("width", [-0.1, math.nan, math.inf])
def test_a_width_that_is_none_is_refused(width: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        width_sparkline([0.5, width])
