"""Fewer points of a series, and points in order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tracker.charts.axes import Axis, in_order, thin, widest
from tracker.shapes import Moment

START = datetime(2026, 3, 2, tzinfo=UTC)


def at(labels: int, *, minutes: float | None = None, width: float = 0.5) -> Moment:
    instant = START + timedelta(minutes=labels if minutes is None else minutes)
    return Moment(
        labels=labels,
        computed_at=instant,
        correct=1,
        labelled=2,
        accuracy=0.5,
        low=0.0,
        high=width,
    )


MANY = [at(labels) for labels in range(1, 10_001)]


def test_a_short_series_is_kept_whole() -> None:
    assert thin(MANY[:250]) == MANY[:250]
    assert thin([]) == []


def test_thinning_keeps_the_first_and_the_last_point() -> None:
    for limit in (2, 3, 10, 250):
        thinned = thin(MANY, limit=limit)
        assert (thinned[0], thinned[-1]) == (MANY[0], MANY[-1])
        assert len(thinned) <= limit


def test_thinning_keeps_points_of_the_history_in_their_order() -> None:
    thinned = thin(MANY)
    labels = [point.labels for point in thinned]
    assert set(thinned) <= set(MANY)
    assert labels == sorted(set(labels))


def test_thinned_points_are_spread_evenly_over_the_decades() -> None:
    labels = [point.labels for point in thin(MANY)]
    decades = [sum(low <= n < 10 * low for n in labels) for low in (100, 1000)]
    assert decades == [62, 62]


def test_thinning_along_time_is_even_in_time() -> None:
    gaps = [
        (late.computed_at - early.computed_at).total_seconds() / 60
        for early, late in pairwise(thin(MANY, x="time"))
    ]
    assert max(gaps) - min(gaps) <= 1


def test_thinning_twice_gives_the_same_points() -> None:
    assert thin(MANY) == thin(list(MANY))
    assert thin(thin(MANY)) == thin(MANY)


def test_thinning_survives_labels_that_do_not_grow() -> None:
    same = [at(7, minutes=minute) for minute in range(1000)]
    falling = [at(1000 - step) for step in range(1000)]
    for points in (same, falling):
        thinned = thin(points)
        assert (thinned[0], thinned[-1]) == (points[0], points[-1])
        assert len(thinned) <= 250


def test_thinning_to_one_point_is_refused() -> None:
    with pytest.raises(ValueError, match="first and last"):
        thin(MANY, limit=1)


def test_a_corrected_label_replaces_what_was_known_at_its_count() -> None:
    before, wrong, newest = at(10), at(11, minutes=11), at(10, minutes=12)
    assert in_order([before, wrong, newest], x="labels") == [newest]
    assert in_order([before, wrong, at(12)], x="labels") == [before, wrong, at(12)]


def test_a_clock_set_back_loses_no_reading() -> None:
    points = [at(1, minutes=60), at(2, minutes=0), at(3, minutes=61)]
    ordered = in_order(points, x="time")
    assert [point.labels for point in ordered] == [1, 2, 3]
    assert ordered[1].computed_at == points[0].computed_at


def test_a_point_without_labels_has_no_place_on_the_axis() -> None:
    axes: list[Axis] = ["labels", "time"]
    for x in axes:
        assert in_order([at(0), at(1)], x=x) == [at(1)]


def test_the_widest_intervals_keep_their_order() -> None:
    paths = [[at(9, width=width)] for width in (0.2, 0.9, 0.1, 0.8)]
    assert widest([*paths, []], limit=2) == [1, 3]
