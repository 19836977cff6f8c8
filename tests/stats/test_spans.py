"""Spans of time: how many of all queries are right, by the first of a random order."""

import math
from fractions import Fraction
from itertools import pairwise
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import hypergeom

from tracker.stats import finite_anytime, span_share


def kept(k, m, size, error):
    """Return the numbers that are kept, exactly."""
    likelihood = [comb(x, k) * comb(size - x, m - k) for x in range(size + 1)]
    total, below, found = sum(likelihood), 0, []
    for number, own in enumerate(likelihood):
        above = total - below - own
        if own and (
            above * error <= 2 * own * (size - number)
            and below * error <= 2 * own * number
        ):
            found.append(number)
        below += own
    return found


ERRORS = (Fraction(1, 2), Fraction(1, 20), Fraction(1, 5_000))


@pytest.mark.parametrize("size", range(1, 31))
def test_the_bounds_are_those_of_the_exact_likelihoods(size):
    error = ERRORS[size % 3]
    for m in range(size + 1):
        found = [finite_anytime(k, m, size, float(error)) for k in range(m + 1)]
        exact = [kept(k, m, size, error) for k in range(m + 1)]
        # What is kept has no gap, so two bounds say all of it.
        assert all(one == list(range(one[0], one[-1] + 1)) for one in exact)
        assert found == [(one[0], one[-1]) for one in exact]
        # One more right raises both, so that unclear answers can be bounded.
        assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(found))


@pytest.mark.parametrize("error", [0.5, 0.2])
def test_the_truth_is_ever_left_out_as_seldom_as_promised(error):
    worst = 0.0
    for size in (1, 4, 12, 20, 30):
        ranges = {
            (m, k): finite_anytime(k, m, size, error)
            for m in range(1, size + 1)
            for k in range(m + 1)
        }
        for right in range(size + 1):
            alive, missed = {0: 1.0}, 0.0
            for m in range(1, size + 1):
                following: dict[int, float] = {}
                for k, chance in alive.items():
                    hit = (right - k) / (size - m + 1)
                    for after, part in ((k + 1, hit), (k, 1 - hit)):
                        if part > 0:
                            following[after] = following.get(after, 0) + chance * part
                alive = {}
                for k, chance in following.items():
                    low, high = ranges[m, k]
                    if low <= right <= high:
                        alive[k] = chance
                    else:
                        missed += chance
            worst = max(worst, missed)
    assert 0.5 * error < worst <= error


def test_a_set_of_a_million_is_as_fast_as_a_small_one():
    low, high = finite_anytime(450_000, 500_000, 10**6, 1e-4)
    assert 0.898 < low / 10**6 < 0.9 < high / 10**6 < 0.902
    assert finite_anytime(9, 10, 10, 0.05) == (9, 9)
    assert finite_anytime(0, 0, 10, 0.05) == (0, 10)


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
            assert abs(hypergeom.cdf(n - k, size, size - right, n) / exact - 1) < 2e-9


@pytest.mark.parametrize("counts", [(2, 1, 9), (-1, 3, 9), (1, 10, 9), (0, 0, 0)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ValueError, match="must"):
        finite_anytime(*counts, 0.05)


@pytest.mark.parametrize("are_days", [True, False])
def test_all_spans_together_have_no_more_than_the_error(are_days):
    shares = [span_share(place, are_days=are_days) for place in range(-8_000, 8_000)]
    assert 0.95 < sum(shares) <= 1
    assert all(share >= 0 for share in shares)
    assert span_share(0, are_days=are_days) == max(shares)
    assert span_share(100_000, are_days=are_days) == 0
