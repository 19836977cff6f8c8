import itertools
import math
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import hypergeom

from tracker.stats.exact import clopper_pearson, finite_set


def tail(k, n, size, right):
    """Return the chance of k or more correct among n, exactly."""
    return Fraction(
        sum(comb(right, j) * comb(size - right, n - j) for j in range(k, n + 1)),
        comb(size, n),
    )


@pytest.mark.parametrize("level", ["0.95", "0.8"])
@pytest.mark.parametrize("size", [1, 2, 7, 24])
def test_the_bounds_are_the_first_that_are_no_surprise(size, level):
    allowed = (1 - Fraction(level)) / 2
    for n in range(size + 1):
        low, high = finite_set(np.arange(n + 1), n, size, float(level))
        for k in range(n + 1):
            possible = range(k, size - (n - k) + 1)
            fewest = min(m for m in possible if tail(k, n, size, m) > allowed)
            assert low[k] == fewest / size
            most = max(m for m in possible if tail(n - k, n, size, size - m) > allowed)
            assert high[k] == most / size


@pytest.mark.parametrize(("size", "n"), [(200, 10), (200, 60), (200, 150), (37, 20)])
def test_the_coverage_is_kept_for_every_possible_set(size, n):
    k, right = np.arange(n + 1), np.arange(size + 1)[:, np.newaxis]
    low, high = finite_set(k, n, size, 0.95)
    chance = hypergeom.pmf(k, size, right, n)
    truth = right / size
    covered = (chance * ((low <= truth) & (truth <= high))).sum(axis=1)
    assert 0.95 <= covered.min() < 0.975


def test_the_least_coverage_is_the_known_one():
    # From an independent program, over all sets of 200 queries.
    least = 1.0
    for n in (20, 50, 100, 150):
        k, right = np.arange(n + 1), np.arange(201)[:, np.newaxis]
        low, high = finite_set(k, n, 200, 0.95)
        inside = (low <= right / 200) & (right / 200 <= high)
        covered = (hypergeom.pmf(k, 200, right, n) * inside).sum(axis=1)
        least = min(least, float(covered.min()))
    assert 0.95 <= least < 0.953


@pytest.mark.parametrize(
    ("part", "ratio"), [(0.05, 0.974), (0.2, 0.897), (0.5, 0.696), (0.9, 0.323)]
)
def test_the_more_is_labelled_the_narrower_the_interval(part, ratio):
    # Ratios to the exact interval from an independent program.
    n = int(20_000 * part)
    k = int(0.9 * n)
    low, high = finite_set(k, n, 20_000, 0.95)
    exact = clopper_pearson(k, n, 0.95)
    assert (high - low) / (exact.high - exact.low) == pytest.approx(ratio, abs=0.012)


def test_a_set_labelled_to_the_last_query_leaves_no_doubt():
    for k, n in ((0, 1), (7, 9), (999_999, 10**6)):
        assert finite_set(k, n, n, 0.95) == (k / n, k / n)


def test_without_labels_nothing_is_known():
    assert finite_set(0, 0, 50, 0.95) == (0, 1)


def test_what_was_found_wrong_or_right_is_not_forgotten():
    low, high = finite_set(45, 50, 60, 0.999)
    assert low >= 45 / 60
    assert high <= 55 / 60


def test_a_large_set_is_as_good_as_an_infinite_one():
    low, high = finite_set(90, 100, 10**7, 0.95)
    exact = clopper_pearson(90, 100, 0.95)
    assert low == pytest.approx(float(exact.low), abs=2e-6)
    assert high == pytest.approx(float(exact.high), abs=2e-6)


def test_the_tails_of_large_sets_are_right_to_40_digits():
    rng = np.random.default_rng(3)
    with mpmath.workdps(40):
        for _ in range(25):
            size = int(10 ** rng.uniform(2, 7))
            n = int(size * rng.uniform(0.01, 1))
            right = int(size * rng.choice([0.01, 0.5, 0.9, 0.999]))
            mean = n * right / size
            spread = math.sqrt(mean * (1 - right / size) * (1 - n / size))
            k = min(int(mean + rng.uniform(0, 4) * spread) + 1, n, right)
            term = mpmath.binomial(right, k) * mpmath.binomial(size - right, n - k)
            term /= mpmath.binomial(size, n)
            exact, j = mpmath.mpf(0), k
            while j <= min(n, right) and term > exact * mpmath.mpf(10) ** -25:
                exact += term
                term *= mpmath.mpf((right - j) * (n - j))
                term /= (j + 1) * (size - right - n + j + 1)
                j += 1
            assert abs(hypergeom.sf(k - 1, size, right, n) / exact - 1) < 2e-9


def test_right_and_wrong_mirror_each_other():
    k, n = np.arange(31), 30
    low, high = finite_set(k, n, 70, 0.9)
    mirrored = finite_set(n - k, n, 70, 0.9)
    np.testing.assert_allclose(low, 1 - mirrored.high, atol=1e-15)
    np.testing.assert_allclose(high, 1 - mirrored.low, atol=1e-15)


def test_a_higher_level_gives_no_narrower_interval():
    k = np.arange(41)
    intervals = [finite_set(k, 40, 90, level) for level in (0.5, 0.9, 0.99)]
    for narrow, wide in itertools.pairwise(intervals):
        assert (wide.low <= narrow.low).all()
        assert (wide.high >= narrow.high).all()


def test_counts_and_sizes_broadcast():
    low, high = finite_set([[3], [4]], [5, 6, 7], [[[20]], [[30]]], 0.95)
    assert low.shape == high.shape == (2, 2, 3)
    assert low[1, 0, 2] == finite_set(3, 7, 30, 0.95).low
    assert finite_set(np.zeros((0, 3), dtype=int), 4, 9, 0.95).low.shape == (0, 3)


def test_a_library_that_answers_nonsense_refutes_nothing(monkeypatch):
    monkeypatch.setattr(
        "tracker.stats.exact.hypergeom.sf", lambda k, *_: np.full(k.shape, np.nan)
    )
    low, high = finite_set([3, 5], 9, 20, 0.95)
    assert (low == [3 / 20, 5 / 20]).all()
    assert (high == [14 / 20, 16 / 20]).all()


@pytest.mark.parametrize(
    ("k", "n", "size", "message"),
    [
        (6, 5, 9, "k is 6 and n is 5"),
        (1, 10, 9, "n must not exceed size, but is 10 of 9"),
        (0, 0, 0, "size must lie between 1 and 10"),
        (1, 2, 10**7 + 1, "size must lie between 1 and 10"),
        (1, 2, 3.5, "must hold integers"),
    ],
)
def test_impossible_counts_are_refused(k, n, size, message):
    with pytest.raises(ValueError, match=message):
        finite_set(k, n, size, 0.95)
