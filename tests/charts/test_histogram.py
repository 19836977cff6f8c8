"""The histogram of rounds: columns on an axis."""

import pytest

from tracker.charts.histogram import build_histogram


def test_a_value_stands_in_the_column_of_its_place():
    (column,) = build_histogram([0.75, 0.752], 0.5)
    assert (column.x, column.width) == ("50.00%", "2.00%")
    assert (column.y, column.height) == ("0.00%", "100.00%")


def test_the_highest_column_fills_the_plot_and_the_others_go_by_it():
    low, high = build_histogram([0.5, 1, 1, 1, 1], 0.5)
    assert (low.x, low.y, low.height) == ("0.00%", "75.00%", "25.00%")
    assert (high.x, high.height) == ("98.00%", "100.00%")


def test_no_place_without_a_value_has_a_column():
    assert len(build_histogram([0.9] * 1_000, 0.0)) == 1


@pytest.mark.parametrize("value", [0.49, 1.01, float("nan")])
def test_a_value_off_the_axis_is_refused(value):
    with pytest.raises(ValueError, match=r"between 0\.5 and 1"):
        build_histogram([0.75, value], 0.5)
