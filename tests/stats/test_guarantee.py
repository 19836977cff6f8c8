"""The promise itself: no tail is larger than its share, floating point included."""

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy import special

from tracker.stats import laws
from tracker.stats.arguments import tail_share
from tracker.stats.exact import (
    balanced_union,
    clopper_pearson,
    lower_bound,
    upper_bound,
)

SHARES = ("0.05", "0.025", "0.0125", "0.005", "0.000001", "0.6")


def fraction_of_outcomes(n, first, p):
    """Return P(X >= first) for X ~ Bin(n, p), exactly."""
    right, whole = p.numerator, p.denominator
    wrong = whole - right
    return Fraction(
        sum(comb(n, j) * right**j * wrong ** (n - j) for j in range(first, n + 1)),
        whole**n,
    )


@pytest.mark.parametrize("share", SHARES)
def test_no_tail_exceeds_its_share_in_rational_arithmetic(share):
    allowed = Fraction(share)
    for n in range(1, 31):
        k = np.arange(n + 1)
        low = lower_bound(k, n, float(share)).tolist()
        high = upper_bound(k, n, float(share)).tolist()
        for j in range(1, n + 1):
            assert fraction_of_outcomes(n, j, Fraction(low[j])) <= allowed
            missed = 1 - Fraction(high[n - j])
            assert fraction_of_outcomes(n, j, missed) <= allowed


def test_both_tails_of_the_interval_keep_the_decimal_level_that_was_meant():
    allowed = Fraction(25, 1000)
    for n in range(1, 41):
        low, high = clopper_pearson(np.arange(n + 1), n, 0.95)
        for j in range(1, n + 1):
            assert fraction_of_outcomes(n, j, Fraction(float(low[j]))) <= allowed
            missed = 1 - Fraction(float(high[n - j]))
            assert fraction_of_outcomes(n, j, missed) <= allowed


def test_the_bounds_are_no_further_out_than_rounding_needs():
    for n in (1, 2, 5, 17, 40):
        low, high = clopper_pearson(np.arange(n + 1), n, 0.95)
        for j in range(1, n + 1):
            further_in = Fraction(float(low[j])) * (1 + Fraction(2, 10**10))
            assert fraction_of_outcomes(n, j, further_in) > Fraction(25, 1000)
            missed = 1 - Fraction(float(high[n - j])) + Fraction(2, 10**10)
            assert fraction_of_outcomes(n, j, missed) > Fraction(25, 1000)


@pytest.mark.parametrize("tails", [2, 4, 6, 20])
@pytest.mark.parametrize("level", ["0.8", "0.9", "0.95", "0.99", "0.999", "0.3"])
def test_the_share_of_a_tail_is_never_above_the_decimal_that_was_meant(level, tails):
    share = Fraction(tail_share(float(level), tails))
    meant = (1 - Fraction(level)) / tails
    assert meant * (1 - Fraction(1, 10**12)) < share <= meant


def test_the_highest_level_below_one_still_has_a_share():
    assert 0 < tail_share(float(np.nextafter(1, 0)), 2) < 2**-53
    low, high = clopper_pearson([0, 3, 5], 5, float(np.nextafter(1, 0)))
    assert (low < high).all()


def few_wrong(n, wrong, p):
    """Return P(at most *wrong* of *n* are wrong) to 50 digits."""
    p = mpmath.mpf(p)
    return mpmath.fsum(
        mpmath.binomial(n, j) * (1 - p) ** j * p ** (n - j) for j in range(wrong + 1)
    )


@pytest.mark.parametrize("share", [0.05, 0.025, 0.00125, 1e-9])
@pytest.mark.parametrize("n", [10**3, 10**6, 2**20 + 1, 10**9])
def test_no_tail_exceeds_its_share_for_large_counts(n, share):
    with mpmath.workdps(50):
        allowed = mpmath.mpf(share)
        for few in (0, 1, 2, 20):
            low = float(lower_bound(n - few, n, share))
            assert few_wrong(n, few, low) <= allowed
            high = mpmath.mpf(float(upper_bound(few, n, share)))
            assert few_wrong(n, few, 1 - high) <= allowed
            low = mpmath.mpf(float(lower_bound(few + 1, n, share)))
            assert 1 - few_wrong(n, few, 1 - low) <= allowed
            high = float(upper_bound(n - few - 1, n, share))
            assert 1 - few_wrong(n, few, high) <= allowed


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.05, 0.025, 1e-6])
@pytest.mark.parametrize("n", [204_702, 831_349, 3_112_014, 10**9])
def test_counts_where_the_library_inverse_is_wrong_are_still_bounded(n, share):
    with mpmath.workdps(50):
        low, high = lower_bound(1000, n, share), upper_bound(n - 1000, n, share)
        for p in (1 - mpmath.mpf(float(low)), mpmath.mpf(float(high))):
            assert 0.99 * share <= 1 - few_wrong(n, 999, p) <= share
        low, high = lower_bound(n - 999, n, share), upper_bound(999, n, share)
        for p in (mpmath.mpf(float(low)), 1 - mpmath.mpf(float(high))):
            assert 0.9 * share <= few_wrong(n, 999, p) <= share


def test_the_library_inverse_is_wrong_there():
    # Once this fails, SciPy has fixed it, and the account of it in
    # docs/statistics.md can go.
    low = special.betaincinv(1000, 10**9 - 999, 0.025)
    assert special.betainc(1000, 10**9 - 999, low) > 0.99


@pytest.mark.parametrize("answer", [0.0, 0.99, 1.0, np.nan])
def test_a_library_that_answers_nonsense_cannot_break_the_bounds(monkeypatch, answer):
    k, n = np.arange(1, 40), 40
    expected = clopper_pearson(k, n, 0.95)
    monkeypatch.setattr(laws, "betaincinv", lambda a, *_: np.full_like(a, answer))
    low, high = clopper_pearson(k, n, 0.95)
    if answer:
        np.testing.assert_allclose(low, expected.low, rtol=3e-10)
        np.testing.assert_allclose(high, expected.high, rtol=3e-10)
    else:
        assert not low.any()
        assert (high == 1).all()


def test_a_wrong_deviate_cannot_break_the_bounds_of_large_counts(monkeypatch):
    k, n = np.arange(600, 4400, 100), 5000
    expected = clopper_pearson(k, n, 0.95)
    monkeypatch.setattr(laws, "ndtri", np.zeros_like)
    low, high = clopper_pearson(k, n, 0.95)
    np.testing.assert_allclose(low, expected.low, rtol=3e-10)
    np.testing.assert_allclose(high, expected.high, rtol=3e-10)


@pytest.mark.parametrize(("first", "second"), [(10, 10), (5, 40)])
def test_the_balanced_interval_covers_what_it_says_everywhere(first, second):
    i, j = np.indices((first + 1, second + 1))
    low, high = balanced_union(
        np.stack([i, j], axis=-1), np.array([first, second]), 0.95
    )
    grid = np.concatenate([np.linspace(0, 1, 41), [0.001, 0.01, 0.99, 0.998]])
    chances = [
        special.comb(n, np.arange(n + 1))
        * grid[:, None] ** np.arange(n + 1)
        * (1 - grid[:, None]) ** np.arange(n, -1, -1)
        for n in (first, second)
    ]
    worst = [0.0, 0.0]
    for a, p in zip(chances[0], grid, strict=True):
        for b, q in zip(chances[1], grid, strict=True):
            truth, chance = (p + q) / 2, np.outer(a, b)
            worst[0] = max(worst[0], chance[low > truth + 1e-12].sum())
            worst[1] = max(worst[1], chance[high < truth - 1e-12].sum())
    assert 0.001 < max(worst) <= 0.025 + 1e-12
    assert sum(worst) <= 0.05
