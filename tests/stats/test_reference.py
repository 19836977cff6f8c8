"""Limits that others have printed, each with its source."""

import csv
import math
from pathlib import Path

import pytest

from tracker.stats.exact import (
    balanced_union,
    clopper_pearson,
    lower_bound,
    upper_bound,
)

with (Path(__file__).parent / "intervals.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


def interval(method, k, n, level):
    if method == "exact-lower":
        return float(lower_bound(k, n, 1 - level)), 1.0
    if method == "exact-upper":
        return 0.0, float(upper_bound(k, n, 1 - level))
    low, high = clopper_pearson(k, n, level)
    return float(low), float(high)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['method']}-{row['k']}-of-{row['n']}"
)
def test_a_published_limit_is_met_at_its_printed_precision(row):
    level = float(row["confidence_level"])
    low, high = interval(row["method"], int(row["k"]), int(row["n"]), level)
    # Half a unit of the last printed digit, and what rounding outward moves.
    tolerance = 0.5 * 10.0 ** -int(row["printed_digits"]) * (1 + 1e-9) + 1.1e-10
    assert low == pytest.approx(float(row["low"]), rel=0, abs=tolerance)
    assert high == pytest.approx(float(row["high"]), rel=0, abs=tolerance)


def test_every_row_was_read():
    assert len(ROWS) == 34
    assert all(row["source"] for row in ROWS)


def test_the_published_example_of_two_classes_is_met():
    low, high = clopper_pearson([23, 41], [28, 44], 0.95)
    assert [round(100 * x, 2) for x in low] == [63.11, 81.34]
    assert [round(100 * x, 2) for x in high] == [93.94, 98.57]
    low, high = balanced_union([23, 41], [28, 44], 0.95)
    assert (round(100 * float(low), 2), round(100 * float(high), 2)) == (69.96, 96.91)


def test_the_published_one_sided_bound_is_met():
    # A bound is shown rounded outward, so up.
    assert math.ceil(1e4 * float(upper_bound(80, 100, 0.05))) / 1e4 == 0.8634
