import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.stats.exact import (
    class_accuracy,
    clopper_pearson,
    lower_bound,
    upper_bound,
)

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.9999)


@st.composite
def counts(draw):
    n = draw(st.integers(0, 10 ** draw(st.integers(1, 9))))
    return draw(st.integers(0, n)), n


def test_without_labels_nothing_is_known():
    assert clopper_pearson(0, 0, 0.95) == (0, 1)
    assert lower_bound(0, 0, 0.05) == 0
    assert upper_bound(0, 0, 0.05) == 1


def test_none_correct_bounds_the_accuracy_from_above_only():
    low, high = clopper_pearson(0, 72, 0.95)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 72), rel=1e-12)


def test_all_correct_bounds_the_accuracy_from_below_only():
    low, high = clopper_pearson(72, 72, 0.95)
    assert high == 1
    assert low == pytest.approx(0.025 ** (1 / 72), rel=1e-12)


@pytest.mark.parametrize("n", [10**6, 10**7, 10**9])
def test_a_perfect_detector_is_never_certain(n):
    distance = 1 - float(clopper_pearson(n, n, 0.95).low)
    assert distance == pytest.approx(-math.expm1(math.log(0.025) / n), rel=1e-6)
    assert float(clopper_pearson(0, n, 0.95).high) == pytest.approx(distance, rel=1e-6)


@pytest.mark.thorough
@given(counts(), st.sampled_from(LEVELS))
@settings(max_examples=300, deadline=None)
def test_the_interval_is_ordered_finite_and_holds_the_accuracy(pair, level):
    k, n = pair
    low, high = clopper_pearson(k, n, level)
    assert 0 <= low < high <= 1
    if n:
        assert low <= k / n <= high


@pytest.mark.thorough
@given(counts(), st.sampled_from(LEVELS))
@settings(max_examples=300, deadline=None)
def test_right_and_wrong_mirror_each_other(pair, level):
    k, n = pair
    low, high = clopper_pearson(k, n, level)
    mirrored = clopper_pearson(n - k, n, level)
    assert float(low) == pytest.approx(1 - float(mirrored.high), rel=0, abs=3e-10)
    assert float(high) == pytest.approx(1 - float(mirrored.low), rel=0, abs=3e-10)


@given(counts())
@settings(max_examples=200, deadline=None)
def test_a_higher_level_gives_a_wider_interval(pair):
    k, n = pair
    intervals = [clopper_pearson(k, n, level) for level in LEVELS]
    for narrow, wide in itertools.pairwise(intervals):
        assert wide.low < narrow.low or narrow.low == 0
        assert wide.high > narrow.high or narrow.high == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 7, 50, 2500])
def test_one_more_correct_moves_both_bounds_up(n, level):
    low, high = clopper_pearson(np.arange(n + 1), n, level)
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9])
def test_bounds_stay_monotone_where_the_computation_changes_course(n):
    k = np.arange(450, 1050)
    for low, high in (
        clopper_pearson(k, n, 0.95),
        clopper_pearson(n - k[::-1], n, 0.95),
    ):
        assert (np.diff(low) > 0).all()
        assert (np.diff(high) > 0).all()


def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit():
    rng = np.random.default_rng(1)
    n = rng.integers(0, 10 ** rng.integers(1, 10, 1500))
    k = rng.binomial(n, rng.choice([0.0, 0.5, 0.9, 0.99, 1.0], n.size))
    batch = clopper_pearson(k, n, 0.95)
    strided = clopper_pearson(np.repeat(k, 3)[::3], np.repeat(n, 3)[::3], 0.95)
    alone = [clopper_pearson(int(a), int(b), 0.95) for a, b in zip(k, n, strict=True)]
    assert batch.low.tolist() == strided.low.tolist() == [float(a.low) for a in alone]
    assert batch.high.tolist() == [float(a.high) for a in alone]


def test_counts_broadcast():
    low, high = clopper_pearson([[1], [2]], [5, 6, 7], 0.95)
    assert low.shape == high.shape == (2, 3)
    assert low[1, 2] == clopper_pearson(2, 7, 0.95).low
    assert clopper_pearson(np.zeros((0, 3), dtype=int), 4, 0.95).low.shape == (0, 3)


def test_unsigned_and_narrow_integers_are_counts_too():
    expected = clopper_pearson(200, 255, 0.95)
    for kind in (np.uint8, np.uint16, np.int16, np.uint64):
        assert clopper_pearson(kind(200), kind(255), 0.95) == expected


@pytest.mark.parametrize(
    ("k", "n", "message"),
    [
        (-1, 5, "k must not be negative, but holds -1"),
        (0, -5, "n must not be negative, but holds -5"),
        (6, 5, "k must not exceed n, but k is 6 and n is 5"),
        ([1, 9], [5, 8], "k is 9 and n is 8"),
        (1.0, 5, "k must hold integers of at most 64 bits, not float64: 1.0"),
        (1, 5.5, "n must hold integers of at most 64 bits, not float64: 5.5"),
        (True, 5, "k must hold integers of at most 64 bits, not bool: True"),
        (math.nan, 5, "k must hold integers"),
        (1, math.inf, "n must hold integers"),
        (None, 5, "k must hold integers"),
        ("1", 5, "k must hold integers"),
        (10**30, 10**30, "k must hold integers"),
        (1, 10**9 + 1, "n must not exceed 10\\*\\*9, but holds 1000000001"),
        ([1, 2], [3, 4, 5], "shapes that broadcast, not \\(2,\\) and \\(3,\\)"),
        ([[1], [1, 2]], 5, "k must be a rectangular array"),
    ],
)
def test_impossible_counts_are_refused_by_name_and_value(k, n, message):
    with pytest.raises(ValueError, match=message):
        clopper_pearson(k, n, 0.95)
    with pytest.raises(ValueError, match=message):
        lower_bound(k, n, 0.05)
    with pytest.raises(ValueError, match=message):
        upper_bound(k, n, 0.05)


@pytest.mark.parametrize("share", [0, 1, -0.1, 95, math.nan, math.inf, True, "0.95"])
def test_an_impossible_level_is_refused_by_name_and_value(share):
    with pytest.raises(ValueError, match=f"confidence_level .* not {share!r}"):
        clopper_pearson(1, 2, share)
    for bound in (lower_bound, upper_bound):
        with pytest.raises(ValueError, match=f"error .* not {share!r}"):
            bound(1, 2, share)


def test_the_accuracy_of_a_class_is_correct_over_labelled():
    assert class_accuracy(23, 28) == 23 / 28
    assert class_accuracy(0, 5) == 0
    assert class_accuracy(0, 0) is None


def test_the_accuracy_of_impossible_counts_is_refused():
    with pytest.raises(ValueError, match="k is 6 and n is 5"):
        class_accuracy(6, 5)
    with pytest.raises(ValueError, match="single counts"):
        class_accuracy([1, 2], [3, 4])
