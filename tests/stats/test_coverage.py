import itertools
import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from tests.stats.expectations import class_coverage, expected_width
from tracker.stats.approximations import (
    agresti_coull,
    balanced_normal,
    balanced_posterior,
    bootstrap,
    jeffreys,
    mid_p,
    normal,
    posterior,
    wilson,
    wilson_cc,
)
from tracker.stats.coverage import balanced_coverage, chances_of_ever_missing
from tracker.stats.evidence.intervals import anytime
from tracker.stats.exact import Interval, balanced_union, clopper_pearson
from tracker.stats.methods import get_method

balanced_wilson = get_method("wilson").balanced_interval

# Coverage and mean width at 95 %, from an independent program, for normal,
# bootstrap, Wilson, Jeffreys and the exact interval.
METHODS = (normal, bootstrap, wilson, jeffreys, clopper_pearson)
KNOWN = {
    (50, 0.99): (
        (0.395, 0.393, 0.911, 0.986, 0.986),
        (0.027, 0.028, 0.086, 0.067, 0.088),
    ),
    (23, 0.95): ((0.692, 0.692, 0.974, 0.974, 0.995), None),
    (1000, 0.99): ((0.927, 0.964, 0.964, 0.945, 0.976), None),
}


@pytest.mark.parametrize(("n", "accuracy"), KNOWN)
def test_the_coverages_and_widths_are_the_known_ones(n, accuracy):
    coverages, widths = KNOWN[n, accuracy]
    for index, method in enumerate(METHODS):
        figures = class_coverage(method, n, accuracy, 0.95)
        # The bootstrap of the known figures was drawn, with a limit on a step.
        slack = 0.03 if method is bootstrap else 6e-4
        assert figures.holds == pytest.approx(coverages[index], abs=slack)
        if widths:
            assert figures.width == pytest.approx(widths[index], abs=1.1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "least"),
    [(normal, 0.049), (bootstrap, 0.049), (wilson, 0.839), (jeffreys, 0.885)],
)
def test_the_least_coverages_are_the_known_ones(method, least):
    truth = np.linspace(0.5, 0.999, 2000)
    found = class_coverage(method, 50, truth, 0.95).holds.min()
    assert found == pytest.approx(least, abs=1.5e-3)


@pytest.mark.parametrize("method", [clopper_pearson, anytime])
@pytest.mark.parametrize("n", [0, 1, 5, 50, 400])
def test_what_is_guaranteed_is_kept_on_both_sides(method, n):
    truth = np.concatenate([np.linspace(0, 1, 301), [1e-6, 1e-3, 0.999, 1 - 1e-6]])
    figures = class_coverage(method, n, truth, 0.9)
    assert (figures.above <= 0.05).all()
    assert (figures.below <= 0.05).all()


def test_the_expected_width_is_that_of_the_planner():
    for n, accuracy in itertools.product((0, 1, 60, 999), (0.0, 0.5, 0.97, 1.0)):
        width = class_coverage(clopper_pearson, n, accuracy, 0.95).width
        assert width == pytest.approx(
            float(expected_width(n, accuracy, 0.95)), rel=1e-8, abs=1e-9
        )


def test_the_sum_is_the_rational_number_of_its_definition():
    n, truth = 20, Fraction(7, 8)
    low, high = wilson(np.arange(n + 1), n, 0.95)
    exact = sum(
        comb(n, k) * truth**k * (1 - truth) ** (n - k)
        for k in range(n + 1)
        if low[k] <= truth <= high[k]
    )
    figures = class_coverage(wilson, n, 0.875, 0.95)
    assert figures.holds == pytest.approx(float(exact), abs=1e-14)


@pytest.mark.parametrize("method", [wilson_cc, agresti_coull, mid_p, posterior])
def test_what_happens_adds_up_to_one(method):
    truth = np.linspace(0, 1, 41).reshape(1, 41)
    figures = class_coverage(method, 30, truth, 0.95)
    assert figures.holds.shape == figures.width.shape == (1, 41)
    total = figures.holds + figures.above + figures.below
    np.testing.assert_allclose(total, 1, rtol=1e-12)


def grid(points):
    return np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1)


# Least coverage over a grid of accuracies up to 0.998, from an independent program.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "n", "least"),
    [
        (balanced_union, (10, 10), 0.989),
        (balanced_wilson, (10, 10), 0.843),
        (balanced_normal, (10, 10), 0.04),
        (balanced_posterior, (10, 10), 0.0),
    ],
)
def test_the_least_balanced_coverages_are_the_known_ones(method, n, least):
    points = np.concatenate([np.linspace(0.02, 0.96, 31), np.linspace(0.97, 0.998, 29)])
    found = balanced_coverage(method, n, grid(points), 0.95).holds.min()
    assert found == pytest.approx(least, abs=0.006)


def test_balanced_figures_are_sums_over_all_pairs():
    low, high = balanced_wilson(
        np.stack(np.indices((4, 6)), axis=-1), np.array([3, 5]), 0.9
    )
    p, q = 0.75, 0.5
    holds, width = 0.0, 0.0
    for i, j in itertools.product(range(4), range(6)):
        chance = comb(3, i) * p**i * (1 - p) ** (3 - i) * comb(5, j) * q**5
        holds += chance * (low[i, j] <= 0.625 <= high[i, j])
        width += chance * (high[i, j] - low[i, j])
    figures = balanced_coverage(balanced_wilson, (3, 5), [p, q], 0.9)
    assert figures.holds == pytest.approx(holds, rel=1e-12)
    assert figures.width == pytest.approx(width, rel=1e-12)
    assert figures.holds.shape == ()


def always(low, high):
    def interval(k, n, confidence_level):
        shape = np.broadcast(k, n).shape
        return Interval(np.full(shape, low), np.full(shape, high))

    return interval


def test_an_interval_that_never_moves_holds_the_truth_always_or_never():
    inside = class_coverage(always(0.2, 0.6), 9, [0.1, 0.4, 0.7], 0.95)
    assert inside.holds == pytest.approx([0, 1, 0])
    assert inside.above == pytest.approx([1, 0, 0])
    assert inside.below == pytest.approx([0, 0, 1])
    assert inside.width == pytest.approx([0.4] * 3)
    assert chances_of_ever_missing(always(0.2, 0.6), 9, 0.4, 0.95)[-1] == 0
    assert chances_of_ever_missing(always(0.2, 0.6), 9, 0.7, 0.95)[-1] == 1


def test_looking_once_is_missing_once():
    figures = class_coverage(wilson, 1, 0.9, 0.95)
    missed = chances_of_ever_missing(wilson, 1, 0.9, 0.95)[-1]
    assert missed == pytest.approx(float(figures.above + figures.below), abs=1e-15)


def test_ever_missing_follows_every_course_of_the_labels():
    level, accuracy, n = 0.6, 0.7, 9
    expected = 0.0
    for course in itertools.product((0, 1), repeat=n):
        k = np.cumsum(course)
        low, high = wilson(k, np.arange(1, n + 1), level)
        if ((low > accuracy) | (high < accuracy)).any():
            expected += accuracy ** sum(course) * (1 - accuracy) ** (n - sum(course))
    missed = chances_of_ever_missing(wilson, n, accuracy, level)[-1]
    assert missed == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, math.nan])
def test_impossible_accuracies_are_refused(accuracy):
    with pytest.raises(ValueError, match="accuracy must be a number between 0 and 1"):
        chances_of_ever_missing(wilson, 5, accuracy, 0.95)[-1]
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1"):
        balanced_coverage(balanced_wilson, (5, 6), [0.5, accuracy], 0.95)


def test_sums_that_would_never_end_are_refused():
    with pytest.raises(ValueError, match="outcomes, not 1001000"):
        balanced_coverage(balanced_wilson, (999, 1000), [0.5, 0.5], 0.95)
    with pytest.raises(ValueError, match="two classes, not \\(3,\\)"):
        balanced_coverage(balanced_wilson, (9, 9), [0.5, 0.5, 0.5], 0.95)
    for n in (0, 10**5 + 1):
        with pytest.raises(ValueError, match="n must lie between 1 and 10"):
            chances_of_ever_missing(wilson, n, 0.5, 0.95)[-1]
