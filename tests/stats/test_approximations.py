"""Widely used approximations, against limits that others have printed."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import binom

from tracker.stats.approximations import (
    agresti_coull,
    bootstrap,
    jeffreys,
    mid_p,
    normal,
    posterior,
    wilson,
    wilson_cc,
)
from tracker.stats.exact import clopper_pearson

# Of other published tables, three conventions are not ours: Jeffreys' quantiles at
# k = 0 and k = n without the ends being set to 0 and 1; four labels added at every
# level under the name of Agresti and Coull; and limits left outside of [0, 1],
# which are clipped before they are compared.
with (Path(__file__).parent / "approximations.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))

METHODS = {
    "wilson": wilson,
    "wilson-cc": wilson_cc,
    "agresti-coull": agresti_coull,
    "jeffreys": jeffreys,
    "mid-p": mid_p,
    "normal": normal,
    "bootstrap": bootstrap,
    "posterior": posterior,
}
EVERY_METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def interval(method, k, n, level):
    name, _, side = method.rpartition("-")
    if side not in {"lower", "upper"}:
        return METHODS[method](k, n, level)
    # All of the error on one side is twice as much on two.
    low, high = METHODS[name](k, n, 2 * level - 1)
    return (low, 1) if side == "lower" else (0, high)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['method']}-{row['k']}-of-{row['n']}"
)
def test_a_published_limit_is_met_at_its_printed_precision(row):
    level = float(row["confidence_level"])
    low, high = interval(row["method"], int(row["k"]), int(row["n"]), level)
    tolerance = 0.5 * 10.0 ** -int(row["printed_digits"]) * (1 + 1e-6)
    printed_low, printed_high = (
        min(max(float(row[side]), 0), 1) for side in ("low", "high")
    )
    assert float(low) == pytest.approx(printed_low, rel=0, abs=tolerance)
    assert float(high) == pytest.approx(printed_high, rel=0, abs=tolerance)


def test_every_row_was_read():
    assert len(ROWS) == 96
    assert all(row["source"] for row in ROWS)


@EVERY_METHOD
def test_without_labels_nothing_is_known(method):
    assert method(0, 0, 0.95) == (0, 1)


def random_counts(rows, seed, most=7):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 10 ** rng.integers(1, most, rows))
    return rng.binomial(n, rng.choice([0.0, 0.001, 0.5, 0.9, 0.99, 1.0], rows)), n


@EVERY_METHOD
def test_the_interval_holds_the_accuracy_and_stays_within_bounds(method):
    k, n = random_counts(400, seed=1)
    for level in (0.5, 0.95, 0.9999):
        low, high = method(k, n, level)
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        if method is not posterior:
            assert (low <= k / n + 1e-15).all()
            assert (high >= k / n - 1e-15).all()


@EVERY_METHOD
def test_right_and_wrong_mirror_each_other(method):
    k, n = random_counts(400, seed=2)
    low, high = method(k, n, 0.95)
    mirrored = method(n - k, n, 0.95)
    # A quantile of a step function may lie on either end of a step.
    slack = 1.0001 / n if method is bootstrap else 1e-9
    assert (np.abs(low - 1 + mirrored.high) <= slack).all()
    assert (np.abs(high - 1 + mirrored.low) <= slack).all()


@EVERY_METHOD
def test_a_higher_level_gives_no_narrower_interval(method):
    k, n = random_counts(200, seed=3)
    intervals = [method(k, n, level) for level in (0.5, 0.9, 0.95, 0.999)]
    for narrow, wide in itertools.pairwise(intervals):
        assert (wide.low <= narrow.low).all()
        assert (wide.high >= narrow.high).all()


@EVERY_METHOD
def test_one_more_correct_moves_no_bound_down(method):
    for n in (1, 2, 7, 60, 2000):
        low, high = method(np.arange(n + 1), n, 0.95)
        # Near the ends the normal approximation is narrow and may go astray.
        if method is not normal:
            assert (np.diff(low) >= 0).all()
            assert (np.diff(high) >= 0).all()


@EVERY_METHOD
def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit(method):
    k, n = random_counts(200, seed=4, most=10)
    batch = method(k, n, 0.95)
    alone = [method(int(a), int(b), 0.95) for a, b in zip(k, n, strict=True)]
    assert batch.low.tolist() == [float(a.low) for a in alone]
    assert batch.high.tolist() == [float(a.high) for a in alone]


@EVERY_METHOD
def test_counts_broadcast(method):
    assert method([[1], [2]], [5, 6, 7], 0.95).low.shape == (2, 3)
    assert method(np.zeros((0, 3), dtype=int), 4, 0.95).high.shape == (0, 3)


@EVERY_METHOD
def test_what_no_bound_can_be_computed_from_is_refused(method):
    with pytest.raises(ValueError, match="k is 9 and n is 8"):
        method([1, 9], [5, 8], 0.95)
    with pytest.raises(ValueError, match=r"confidence_level .* not 95"):
        method(1, 2, 95)


@pytest.mark.parametrize("method", [wilson, wilson_cc, jeffreys, mid_p])
def test_perfect_and_hopeless_scores_have_one_sided_intervals(method):
    for n in (1, 30, 10**6):
        assert method(0, n, 0.95).low == 0
        assert method(n, n, 0.95).high == 1
        assert 0 < method(n, n, 0.95).low < 1


@pytest.mark.parametrize("method", [normal, bootstrap])
def test_a_perfect_score_leaves_some_methods_without_doubt(method):
    assert method(30, 30, 0.95) == (1, 1)
    assert method(0, 30, 0.95) == (0, 0)


@pytest.mark.parametrize("n", [1, 2, 9, 40, 333])
def test_the_bootstrap_is_the_quantile_of_its_own_distribution(n):
    for k in range(0, n + 1, max(1, n // 13)):
        chance = np.cumsum(binom.pmf(np.arange(n + 1), n, k / n))
        low, high = bootstrap(k, n, 0.9)
        assert low == np.searchsorted(chance, 0.05) / n
        assert high == np.searchsorted(chance, 0.95) / n


def test_the_bootstrap_is_where_many_rounds_end():
    rng = np.random.default_rng(5)
    right = np.arange(50) < 43
    rounds = right[rng.integers(0, 50, (20_000, 50))].mean(axis=1)
    ends = np.quantile(rounds, [0.025, 0.975], method="inverted_cdf")
    assert ends.tolist() == [float(bound) for bound in bootstrap(43, 50, 0.95)]


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_half_of_what_was_seen_is_in_the_tail_of_the_mid_p_limit(level):
    k, n = random_counts(100, seed=6, most=5)
    low, high = mid_p(k, n, level)
    below, above = (k > 0) & (k < n), k < n
    for bound, inner in ((low, below), (high, above & (k > 0))):
        a, b, p = k[inner], (n - k)[inner], bound[inner]
        tail = (betainc(a, b + 1, p) + betainc(a + 1, b, p)) / 2
        tail = np.minimum(tail, 1 - tail)
        np.testing.assert_allclose(tail, (1 - level) / 2, rtol=1e-6)


def test_the_posterior_leaves_the_same_chance_on_both_sides():
    k, n = random_counts(200, seed=7)
    low, high = posterior(k, n, 0.9)
    np.testing.assert_allclose(betainc(k + 1, n - k + 1, low), 0.05, rtol=1e-6)
    np.testing.assert_allclose(betainc(k + 1, n - k + 1, high), 0.95, rtol=1e-6)


def test_the_continuity_correction_and_the_exact_interval_are_wider():
    k, n = random_counts(300, seed=8, most=4)
    plain, corrected = wilson(k, n, 0.95), wilson_cc(k, n, 0.95)
    assert (corrected.high - corrected.low > plain.high - plain.low).all()
    middle, exact = mid_p(k, n, 0.95), clopper_pearson(k, n, 0.95)
    inner = (k > 0) & (k < n)
    assert (exact.low <= middle.low)[inner].all()
    assert (exact.high >= middle.high)[inner].all()


def coverage(method, n, accuracy):
    low, high = method(np.arange(n + 1), n, 0.95)
    chance = binom.pmf(np.arange(n + 1), n, accuracy)
    return float(chance @ ((low <= accuracy) & (accuracy <= high)))


def test_the_coverages_that_the_descriptions_name_are_true():
    assert round(coverage(normal, 50, 0.99), 2) == 0.39
    assert round(coverage(bootstrap, 50, 0.99), 2) == 0.39
    assert round(coverage(wilson, 50, 0.99), 2) == 0.91
    least = min(coverage(wilson, 50, p) for p in np.linspace(0.5, 0.999, 1000))
    assert round(least, 2) == 0.84
