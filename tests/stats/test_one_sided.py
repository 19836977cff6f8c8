import math
from fractions import Fraction

import numpy as np
import pytest

from tests.stats.expectations import class_coverage
from tracker.stats.exact import lower_bound, upper_bound
from tracker.stats.methods import (
    METHODS,
    class_bounds,
    get_method,
    one_sided_level,
)

GUARANTEED = [name for name in METHODS if get_method(name).is_guaranteed]


@pytest.mark.parametrize("level", ["0.51", "0.8", "0.9", "0.95", "0.975", "0.999999"])
def test_the_level_of_two_sides_is_never_below_what_the_decimal_asks_for(level):
    doubled = Fraction(one_sided_level(float(level)))
    exact = 2 * Fraction(level) - 1
    assert exact <= doubled <= exact + Fraction(1, 2**51)


@pytest.mark.parametrize("level", [0.5, 0.3, 1 - 2**-53, 0, 1, math.nan])
def test_a_level_that_one_side_cannot_have_is_refused(level):
    with pytest.raises(ValueError, match="confidence_level"):
        one_sided_level(level)


def test_one_exact_bound_is_the_published_one_and_that_of_the_whole_error():
    low, high = class_bounds("exact", 80, 100, 0.95, "upper")
    # The published limit is rounded up.
    assert (math.ceil(1e4 * float(high)) / 1e4, low) == (0.8634, 0)
    k = np.arange(101)
    np.testing.assert_allclose(
        class_bounds("exact", k, 100, 0.95, "upper").high,
        upper_bound(k, 100, 0.05),
        rtol=1e-14,
    )
    lower = class_bounds("exact", k, 100, 0.95, "lower")
    np.testing.assert_allclose(lower.low, lower_bound(k, 100, 0.05), rtol=1e-14)
    assert (lower.high == 1).all()


def test_both_sides_are_the_interval_itself():
    for method in METHODS:
        np.testing.assert_array_equal(
            class_bounds(method, [3, 9], [7, 9], 0.9, "both"),
            get_method(method).class_interval([3, 9], [7, 9], 0.9),
        )


@pytest.mark.thorough
@pytest.mark.parametrize("method", GUARANTEED)
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_guarantee_holds_for_one_bound_too(method, side):
    def one_bound(k, n, level):
        return class_bounds(method, k, n, level, side)

    truth = np.concatenate([np.linspace(0, 1, 101), [1e-3, 0.999]])
    for n in (5, 40):
        figures = class_coverage(one_bound, n, truth, 0.9)
        assert (figures.above + figures.below <= 0.1).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_bound_is_never_further_out_than_two(method):
    low, high = class_bounds(method, [23, 41], [28, 44], 0.95, "both")
    assert (class_bounds(method, [23, 41], [28, 44], 0.95, "lower").low >= low).all()
    assert (class_bounds(method, [23, 41], [28, 44], 0.95, "upper").high <= high).all()
