import itertools
import math
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tracker.stats.coverage import chances_of_ever_missing
from tracker.stats.evidence.one_class import (
    anytime,
    anytime_lower_bound,
    anytime_upper_bound,
    log_evidence_above,
)
from tracker.stats.exact import clopper_pearson

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.9999)


@st.composite
def counts(draw):
    n = draw(st.integers(0, 10 ** draw(st.integers(1, 9))))
    return draw(st.integers(0, n)), n


def evidence(k, n, p):
    """Return the evidence for more than the fraction *p*, exactly."""
    q = 1 - p
    few = sum(comb(n + 1, j) * p**j * q ** (n + 1 - j) for j in range(k + 1))
    return few / ((n + 1) * comb(n, k) * p**k * q ** (n - k + 1))


def random_counts(rows, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 10 ** rng.integers(1, 10, rows))
    return rng.binomial(n, rng.choice([0.0, 0.001, 0.5, 0.9, 0.99, 1.0], rows)), n


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.99])
def test_within_a_thousand_labels_the_truth_is_hardly_ever_missed(accuracy):
    assert 0.02 < chances_of_ever_missing(anytime, 1000, accuracy, 0.95)[-1] <= 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", [0.02, 0.3, 0.7, 0.95, 0.999])
@pytest.mark.parametrize("level", [0.8, 0.99])
def test_other_levels_and_accuracies_keep_the_promise_as_well(accuracy, level):
    assert chances_of_ever_missing(anytime, 200, accuracy, level)[-1] <= 1 - level


def test_the_exact_interval_looked_at_as_often_breaks_its_promise():
    assert chances_of_ever_missing(clopper_pearson, 1000, 0.9, 0.95)[-1] > 0.34


# Expected widths over those of the exact interval, from an independent program.
WIDTH_RATIOS = {
    0.5: (1.349, 1.567, 1.783, 1.954),
    0.9: (1.322, 1.493, 1.743, 1.936),
    0.99: (1.361, 1.404, 1.560, 1.845),
}


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", WIDTH_RATIOS)
def test_the_price_in_width_is_the_known_one(accuracy):
    for n, ratio in zip((20, 100, 1000, 10_000), WIDTH_RATIOS[accuracy], strict=True):
        chance = binom.pmf(np.arange(n + 1), n, accuracy)
        ours, exact = (
            chance @ np.subtract(high, low)
            for low, high in (
                interval(np.arange(n + 1), n, 0.95)
                for interval in (anytime, clopper_pearson)
            )
        )
        assert ours / exact == pytest.approx(ratio, abs=6e-4)


def test_the_evidence_has_a_mean_of_one_at_the_claim_and_less_below_it():
    for n, claimed in itertools.product((1, 2, 7, 40, 300), (0.001, 0.3, 0.9, 0.999)):
        k = np.arange(n + 1)
        logs = log_evidence_above(k, n, claimed)
        mean = np.exp(binom.logpmf(k, n, claimed) + logs).sum()
        assert mean == pytest.approx(1, rel=1e-9)
        for truth in (0.9999 * claimed, claimed / 2, claimed / 50):
            assert np.exp(binom.logpmf(k, n, truth) + logs).sum() <= 1


def test_the_evidence_is_the_rational_number_of_its_definition():
    for n in (1, 5, 30):
        for k, p in itertools.product(range(n + 1), (0.0625, 0.5, 0.84375)):
            exact = math.log(evidence(k, n, Fraction(p)))
            assert log_evidence_above(k, n, p) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("level", ["0.95", "0.999", "0.5"])
def test_each_bound_has_the_evidence_that_it_needs_in_rational_arithmetic(level):
    needed = 2 / (1 - Fraction(level))
    for n in (1, 2, 3, 8, 21):
        low, high = anytime(np.arange(n + 1), n, float(level))
        for k in range(1, n + 1):
            assert evidence(k, n, Fraction(float(low[k]))) >= needed
            assert evidence(k, n, 1 - Fraction(float(high[n - k]))) >= needed
            further_in = Fraction(float(low[k])) * (1 + Fraction(1, 10**8))
            assert evidence(k, n, further_in) < needed


@pytest.mark.parametrize("error", [0.05, 0.025, 1e-9])
def test_the_bounds_of_large_counts_are_safe_and_close_to_60_digits(error):
    rng = np.random.default_rng(7)
    n = np.concatenate([rng.integers(1, 10 ** rng.integers(3, 10, 120)), [10**9] * 9])
    k = np.maximum(rng.binomial(n, rng.choice([1e-6, 0.01, 0.5, 0.99, 1], n.size)), 1)
    low = anytime_lower_bound(k, n, error)
    with mpmath.workdps(60):
        for right, labelled, bound in zip(
            k.tolist(), n.tolist(), low.tolist(), strict=True
        ):
            p, wrong = mpmath.mpf(bound), labelled - right
            exact = (
                mpmath.loggamma(right + 1)
                + mpmath.loggamma(wrong + 1)
                - mpmath.loggamma(labelled + 2)
                - right * mpmath.log(p)
                - (wrong + 1) * mpmath.log(1 - p)
            )
            # The chance of more than p is one but for less than the error.
            needed = -mpmath.log(error)
            assert exact - needed < 3e-9 + 5e-14 * labelled + 2 * error
            log_chance = float(log_evidence_above(right, labelled, bound) - exact)
            assert exact + log_chance >= needed + 1e-10 + 1e-14 * labelled


def test_without_labels_nothing_is_known():
    assert anytime(0, 0, 0.95) == (0, 1)
    assert anytime_lower_bound(0, 0, 0.05) == 0
    assert anytime_upper_bound(0, 0, 0.05) == 1


def test_none_correct_leaves_the_lower_bound_at_zero():
    assert anytime(0, 50, 0.95).low == 0
    assert anytime(50, 50, 0.95).high == 1


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_a_perfect_detector_is_never_certain(n):
    distance = 1 - float(anytime(n, n, 0.95).low)
    # Where p**-n - 1 == 40 * n * (1 - p), nearly.
    assert math.expm1(n * distance) == pytest.approx(40 * n * distance, rel=1e-4)
    assert float(anytime(0, n, 0.95).high) == pytest.approx(distance, rel=1e-6)


@given(counts(), st.sampled_from(LEVELS))
@settings(max_examples=200, deadline=None)
def test_the_interval_is_wider_than_the_exact_one_at_its_centre(pair, level):
    k, n = pair
    low, high = anytime(k, n, level)
    assert 0 <= low < high <= 1
    if n:
        assert low <= k / n <= high
        exact = clopper_pearson(k, n, level)
        assert low <= exact.low
        assert high >= exact.high


@given(counts(), st.sampled_from(LEVELS))
@settings(max_examples=200, deadline=None)
def test_right_and_wrong_mirror_each_other(pair, level):
    k, n = pair
    low, high = anytime(k, n, level)
    mirrored = anytime(n - k, n, level)
    assert float(low) == pytest.approx(1 - float(mirrored.high), rel=0, abs=3e-16)
    assert float(high) == pytest.approx(1 - float(mirrored.low), rel=0, abs=3e-16)


@pytest.mark.slow
@given(counts())
@settings(max_examples=200, deadline=None)
def test_a_higher_level_gives_a_wider_interval(pair):
    k, n = pair
    intervals = [anytime(k, n, level) for level in LEVELS]
    for narrow, wide in itertools.pairwise(intervals):
        assert wide.low < narrow.low or narrow.low == 0
        assert wide.high > narrow.high or narrow.high == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 50, 2500])
def test_one_more_correct_moves_both_bounds_up(n, level):
    low, high = anytime(np.arange(n + 1), n, level)
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()


def test_the_interval_is_both_bounds_at_half_of_the_error():
    k, n = random_counts(300, seed=3)
    low, high = anytime(k, n, 0.9)
    np.testing.assert_allclose(low, anytime_lower_bound(k, n, 0.05), rtol=1e-9)
    np.testing.assert_allclose(high, anytime_upper_bound(k, n, 0.05), rtol=1e-9)


def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit():
    k, n = random_counts(1500, seed=1)
    batch = anytime(k, n, 0.95)
    strided = anytime(np.repeat(k, 3)[::3], np.repeat(n, 3)[::3], 0.95)
    alone = [anytime(int(a), int(b), 0.95) for a, b in zip(k, n, strict=True)]
    assert batch.low.tolist() == strided.low.tolist() == [float(a.low) for a in alone]
    assert batch.high.tolist() == [float(a.high) for a in alone]


@pytest.mark.parametrize("error", [1 - 2**-53, 0.9999, 1e-12, 1e-300])
def test_every_error_has_its_bound(error):
    k, n = random_counts(500, seed=2)
    low = anytime_lower_bound(k, n, error)
    assert (low[k == 0] == 0).all()
    assert (low[k > 0] > 0).all()
    assert (low[n > 0] <= (k[n > 0] / n[n > 0])).all()


def test_counts_broadcast():
    low, high = anytime([[1], [2]], [5, 6, 7], 0.95)
    assert low.shape == high.shape == (2, 3)
    assert low[1, 2] == anytime(2, 7, 0.95).low
    assert anytime(np.zeros((0, 3), dtype=int), 4, 0.95).low.shape == (0, 3)
    assert log_evidence_above([[1], [2]], 3, [0.2, 0.5, 0.7, 0.9]).shape == (2, 4)


@pytest.mark.parametrize("answer", [0.0, np.nan])
def test_a_library_that_answers_nonsense_cannot_break_the_bounds(monkeypatch, answer):
    monkeypatch.setattr(
        "tracker.stats.evidence.one_class.betaincc",
        lambda a, *_: np.full_like(a, answer),
    )
    low, high = anytime(np.arange(41), 40, 0.95)
    assert not low.any()
    assert (high == 1).all()


@pytest.mark.parametrize(
    "function", [anytime, anytime_lower_bound, anytime_upper_bound]
)
def test_what_no_bound_can_be_computed_from_is_refused(function):
    with pytest.raises(ValueError, match="k is 9 and n is 8"):
        function([1, 9], [5, 8], 0.05)
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        function(1, 2, 1.5)


@pytest.mark.parametrize("accuracy", [0, 1, -0.5, math.nan])
def test_evidence_against_an_impossible_accuracy_is_refused(accuracy):
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1"):
        log_evidence_above(1, 2, accuracy)
