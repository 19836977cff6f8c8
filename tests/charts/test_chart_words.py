# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The numbers that a chart prints."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tracker.charts import words
from tracker.rounding import outward
from tracker.shapes import Moment

shares = st.floats(0, 1)


def point(low: float, high: float, accuracy: float | None = 0.5) -> Moment:
    return Moment(
        labels=72,
        computed_at=datetime(2026, 3, 2, tzinfo=UTC),
        correct=23,
        labelled=28,
        accuracy=accuracy,
        low=low,
        high=high,
    )


def printed_bounds(one: Moment) -> tuple[Decimal, Decimal]:
    low, high = words.interval(one).removesuffix(" %").split("–")
    return Decimal(low) / 100, Decimal(high) / 100


def test_the_published_example_is_rounded_outward() -> None:
    balanced = point(0.6996, 0.9691, 0.8766)
    assert words.balanced_reading(balanced) == "87.7 % (69.9–97.0 %) after 72 labels"
    of_yes = point(0.6311, 0.9394, 23 / 28)
    assert words.class_reading(of_yes) == ("82.1 % (63.1–94.0 %)", "23 of 28")


@given(shares, shares)
def test_no_printed_interval_is_narrower_than_the_computed_one(
    a: float, b: float
) -> None:
    one = point(min(a, b), max(a, b))
    low, high = printed_bounds(one)
    assert 0 <= low <= Decimal(one.low) <= Decimal(one.high) <= high <= 1


@given(shares, shares)
def test_no_drawn_interval_is_narrower_than_the_computed_one(
    a: float, b: float
) -> None:
    low, high = outward(min(a, b), max(a, b), 6)
    assert 0 <= float(low) <= min(a, b) <= max(a, b) <= float(high) <= 1


@given(st.lists(shares, min_size=3, max_size=3))
def test_the_printed_estimate_lies_in_the_printed_interval(three: list[float]) -> None:
    low, accuracy, high = sorted(three)
    one = point(low, high, accuracy)
    bounds = printed_bounds(one)
    shown = Decimal((words.accuracy(one) or "").removesuffix(" %")) / 100
    assert bounds[0] <= shown <= bounds[1]


def test_bounds_that_are_already_round_stay() -> None:
    assert words.interval(point(0.5, 0.75)) == "50.0–75.0 %"
    assert words.interval(point(0.0, 1.0)) == "0–100 %"


def test_narrow_intervals_are_printed_with_more_digits() -> None:
    assert words.interval(point(0.90012, 0.90534)) == "90.01–90.54 %"
    assert words.interval(point(0.900123, 0.900234)) == "90.012–90.024 %"


def test_only_a_perfect_record_prints_as_100_percent() -> None:
    assert words.accuracy(point(0.9, 1.0, 0.99999)) == "99.9 %"
    assert words.accuracy(point(0.9, 1.0, 1.0)) == "100 %"
    assert words.accuracy(point(0.0, 0.1, 0.00001)) == "0.1 %"
    assert words.accuracy(point(0.0, 0.1, 0.0)) == "0 %"


def test_a_class_without_labels_says_so() -> None:
    nothing = point(0.0, 1.0, None).model_copy(update={"correct": 0, "labelled": 0})
    assert words.class_reading(nothing) == ("not labelled yet", "0–100 %")
    assert words.balanced_reading(nothing).startswith("no estimate yet (0–100 %)")


def test_levels_are_printed_as_they_were_chosen() -> None:
    assert words.chosen(0.95) == "95 %"
    assert words.chosen(0.999) == "99.9 %"
    assert words.chosen(0.57) == "57 %"


def test_a_long_name_loses_its_middle() -> None:
    assert words.shorten("door", 4) == "door"
    assert words.shorten("doors", 4) == "do…s"
    names = [f"{'name_without_spaces_' * 20}{number}" for number in range(3)]
    for limit in (12, 28, 60):
        short = [words.shorten(name, limit) for name in names]
        assert {len(name) for name in short} == {limit}
        assert len(set(short)) == 3
        assert [words.plain(name, limit=limit) for name in names] == short
