"""Approximations for the balanced accuracy, against printed and summed limits."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import beta, binom

from tracker.stats.approximations import (
    balanced_bootstrap,
    balanced_normal,
    balanced_posterior,
)
from tracker.stats.methods import get_method

# The published limits are of differences d of two shares.  With the second share
# counted from the other end, d = 2 * (balanced accuracy) - 1.
with (Path(__file__).parent / "approximations_balanced.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))

METHODS = {
    "wilson": get_method("wilson").balanced_interval,
    "normal": balanced_normal,
    "bootstrap": balanced_bootstrap,
    "posterior": balanced_posterior,
}
EVERY_METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['method']}-{row['k']}-of-{row['n']}"
)
def test_a_published_difference_is_met_at_its_printed_precision(row):
    (n1, n2), (k1, k2) = (map(int, row[column].split(";")) for column in "nk")
    level = float(row["confidence_level"])
    low, high = METHODS[row["method"]]([k1, n2 - k2], [n1, n2], level)
    tolerance = 0.5 * 10.0 ** -int(row["printed_digits"]) * (1 + 1e-6)
    assert 2 * low - 1 == pytest.approx(float(row["low"]), rel=0, abs=tolerance)
    assert 2 * high - 1 == pytest.approx(float(row["high"]), rel=0, abs=tolerance)


def test_every_row_was_read():
    assert len(ROWS) == 12
    assert all(row["source"] for row in ROWS)


def random_rows(rows, classes, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 10 ** rng.integers(1, 6, (rows, classes)))
    return rng.binomial(n, rng.choice([0.0, 0.3, 0.9, 0.99, 1.0], n.shape)), n


@EVERY_METHOD
def test_while_a_class_has_no_labels_nothing_is_known(method):
    assert method([0, 0], [0, 0], 0.95) == (0, 1)
    assert method([900, 0], [1000, 0], 0.95) == (0, 1)
    low, _ = method([[5, 5], [5, 0]], [[6, 6], [6, 0]], 0.95)
    assert low[0] > 0
    assert low[1] == 0


@pytest.mark.thorough
@EVERY_METHOD
def test_the_interval_holds_the_balanced_accuracy_and_stays_within_bounds(method):
    k, n = random_rows(100, 3, seed=1)
    for level in (0.5, 0.95, 0.9999):
        low, high = method(k, n, level)
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        if method is not balanced_posterior:
            seen = (k / n).mean(axis=-1)
            assert (low <= seen + 1e-12).all()
            assert (high >= seen - 1e-12).all()


@pytest.mark.thorough
@EVERY_METHOD
def test_right_and_wrong_mirror_each_other(method):
    k, n = random_rows(100, 3, seed=2)
    low, high = method(k, n, 0.95)
    mirrored = method(n - k, n, 0.95)
    slack = {balanced_bootstrap: 5e-3, balanced_posterior: 1e-5}.get(method, 1e-9)
    np.testing.assert_allclose(low, 1 - mirrored.high, rtol=0, atol=slack)
    np.testing.assert_allclose(high, 1 - mirrored.low, rtol=0, atol=slack)


@pytest.mark.thorough
@EVERY_METHOD
def test_a_higher_level_gives_no_narrower_interval(method):
    k, n = random_rows(60, 4, seed=3)
    intervals = [method(k, n, level) for level in (0.5, 0.9, 0.95, 0.999)]
    for narrow, wide in itertools.pairwise(intervals):
        assert (wide.low <= narrow.low).all()
        assert (wide.high >= narrow.high).all()


@EVERY_METHOD
def test_a_row_computed_alone_is_the_row_of_the_batch(method):
    k, n = random_rows(40, 5, seed=4)
    batch = method(k, n, 0.95)
    alone = [method(a, b, 0.95) for a, b in zip(k, n, strict=True)]
    assert batch.low.tolist() == [float(a.low) for a in alone]
    assert batch.high.tolist() == [float(a.high) for a in alone]


@EVERY_METHOD
def test_counts_broadcast(method):
    low, _ = method(np.zeros((4, 1, 2), dtype=int), [[5, 6], [7, 8]], 0.95)
    assert low.shape == (4, 2)
    assert method(np.zeros((0, 3), dtype=int), [4, 5, 6], 0.95).high.shape == (0,)


@EVERY_METHOD
def test_what_no_bound_can_be_computed_from_is_refused(method):
    with pytest.raises(ValueError, match="k is 9 and n is 8"):
        method([1, 9], [5, 8], 0.95)
    with pytest.raises(ValueError, match="between 2 and 4096 classes"):
        method([1], [5], 0.95)
    with pytest.raises(ValueError, match=r"confidence_level .* not 95"):
        method([1, 2], [3, 4], 95)


@pytest.mark.parametrize("method", [balanced_normal, balanced_bootstrap])
def test_perfect_classes_leave_some_methods_without_doubt(method):
    assert method([30, 7], [30, 7], 0.95) == (1, 1)


def enumerated(k, n, tails):
    """Return quantiles of the bootstrap distribution, from all of its outcomes."""
    sums, chance = np.zeros(1), np.ones(1)
    for one, of in zip(k, n, strict=True):
        outcomes = np.arange(of + 1)
        sums = np.add.outer(sums, outcomes / of).ravel()
        chance = np.outer(chance, binom.pmf(outcomes, of, one / of)).ravel()
    order = np.argsort(sums)
    return sums[order][np.searchsorted(np.cumsum(chance[order]), tails)] / len(k)


@pytest.mark.parametrize(
    ("k", "n", "tolerance"),
    [
        ([9, 9], [10, 10], 1e-12),
        ([28, 39], [30, 41], 1e-12),
        ([5, 9, 17], [7, 11, 23], 1e-12),
        ([95, 88], [101, 97], 1e-12),
        ([0, 6], [9, 8], 1e-12),
        ([3, 29, 900], [7, 31, 997], 5e-5),
        ([800, 100], [1009, 997], 5e-5),
    ],
)
def test_the_bootstrap_is_where_infinitely_many_rounds_end(k, n, tolerance):
    low, high = balanced_bootstrap(k, n, 0.95)
    expected = enumerated(k, n, [0.025, 0.975])
    np.testing.assert_allclose([low, high], expected, rtol=0, atol=tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("k", "n"),
    [
        ((1, 0), (1, 1)),
        ((1, 1), (1, 1)),
        ((9, 9), (10, 10)),
        ((10, 7), (10, 12)),
        ((28, 960), (30, 1000)),
        ((5, 999_000), (9, 10**6)),
        ((4000, 999_000), (5000, 10**6)),
    ],
)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_posterior_leaves_the_same_chance_on_both_sides(k, n, level):
    first, second = ((x + 1, m - x + 1) for x, m in zip(k, n, strict=True))
    spread = float(np.hypot(beta(*first).std(), beta(*second).std())) / 2
    low, high = balanced_posterior(k, n, level)
    corners = beta(*second).ppf([1e-13, 1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-6, 1])
    abscissas, weights = np.polynomial.legendre.leggauss(150)

    def below(bound):
        # The chance that the first is below what the second leaves it.
        left = np.clip([2 * bound - 1, 2 * bound], corners[0], corners[-1])
        edges = np.unique(np.concatenate([corners, left]))
        half = np.diff(edges)[:, np.newaxis] / 2
        x = edges[:-1, np.newaxis] + half * (1 + abscissas)
        left_over = betainc(*first, np.clip(2 * bound - x, 0, 1))
        return float((weights * half * beta(*second).pdf(x) * left_over).sum())

    for bound, tail in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
        step = 1e-4 * spread
        assert below(bound - step) < tail < below(bound + step)


@pytest.mark.parametrize("classes", [2, 10, 200])
def test_many_labels_make_the_posterior_normal(classes):
    k, n = np.full(classes, 900_000), np.full(classes, 10**6)
    low, high = balanced_posterior(k, n, 0.95)
    half = 1.959964 * np.sqrt(0.09 / 10**6 / classes)
    assert high - low == pytest.approx(2 * half, rel=1e-5)
    assert (low + high) / 2 == pytest.approx(0.9, abs=2e-6)


@pytest.mark.thorough
def test_the_bootstrap_of_a_thousand_unlike_classes_is_computed():
    # Their least common multiple is beyond all doubles.
    n = np.arange(1000, 2000)
    low, high = balanced_bootstrap(n * 9 // 10, n, 0.95)
    assert 0.898 < low < 0.9 < high < 0.902
