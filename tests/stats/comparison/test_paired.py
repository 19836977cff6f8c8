"""The exact interval for paired versions, against printed limits and by summation."""

import csv
import itertools
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from tracker.stats import paired
from tracker.stats.exact import Interval
from tracker.stats.paired import paired_difference

with (Path(__file__).parent / "paired.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


def tango(b, c, n, level):
    """Return Tango's score interval, from the limits that order the outcomes.

    T. Tango, Statistics in Medicine 17 (1998), 891-908.
    """
    b, c, n = (np.asarray(array, dtype=float) for array in (b, c, n))
    z = -float(ndtri((1 - level) / 2))
    return Interval(paired._score_limit(b, c, n, z), -paired._score_limit(c, b, n, z))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['b']}-{row['c']}")
def test_a_published_score_limit_is_met_at_its_printed_precision(row):
    b, c, n = (int(row[column]) for column in "bcn")
    low, high = tango(b, c, n, float(row["confidence_level"]))
    tolerance = 0.5 * 10.0 ** -int(row["printed_digits"]) * (1 + 1e-6)
    assert float(low) == pytest.approx(float(row["low"]), rel=0, abs=tolerance)
    assert float(high) == pytest.approx(float(row["high"]), rel=0, abs=tolerance)


def test_every_row_was_read():
    assert len(ROWS) == 6
    assert all(row["source"] for row in ROWS)


# Limits of an independent program that searched all nuisances on a coarser grid; ours
# may be a little narrower.
@pytest.mark.parametrize(
    ("b", "c", "n", "low", "high"),
    [
        (8, 1, 50, 0.0213, 0.2740),
        (16, 6, 161, 0.0048, 0.1238),
        (30, 10, 1000, 0.0074, 0.0335),
    ],
)
def test_the_exact_limits_are_the_known_ones(b, c, n, low, high):
    ours = paired_difference(b, c, n, 0.95)
    assert low - 5e-5 <= ours.low <= low + 3e-4
    assert high - 1e-4 <= ours.high <= high + 5e-5


def outcomes(n):
    pairs = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
    return np.array(pairs).T


def chances(b, c, n, gained, lost):
    logs = np.cumsum(np.log(np.maximum(np.arange(n + 1), 1)))
    ways = np.exp(logs[n] - logs[b] - logs[c] - logs[n - b - c])
    rest = max(1 - gained - lost, 0)
    return ways * gained**b * lost**c * rest ** (n - b - c)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "level"),
    [(4, 0.95), (9, 0.95), pytest.param(14, 0.95, marks=pytest.mark.chaos), (9, 0.6)],
)
def test_no_truth_is_missed_more_often_than_promised(n, level):
    b, c = outcomes(n)
    low, high = paired_difference(b, c, n, level)
    approximate = tango(b, c, n, level)
    # The worst truths lie just below a limit.
    limits = np.unique(low[low > -1]) - 1e-9
    worst, worst_below, worst_approximate = 0.0, 0.0, 0.0
    for difference in np.concatenate([limits, np.linspace(-0.98, 0.98, 50)]):
        for lost in np.linspace(max(0, -difference), (1 - difference) / 2, 60):
            gained = lost + difference
            chance = chances(b, c, n, gained, lost)
            worst = max(worst, chance[low > gained - lost].sum())
            worst_below = max(worst_below, chance[high < gained - lost].sum())
            missed = chance[approximate.low > gained - lost].sum()
            worst_approximate = max(worst_approximate, missed)
    allowed = (1 - level) / 2
    assert 0.97 * allowed < worst <= allowed
    assert worst_below <= allowed
    assert worst_approximate > 1.5 * allowed


@pytest.mark.chaos
def test_the_chance_of_what_was_seen_is_what_the_limit_needs_to_40_digits():
    b, c, n, share = 8, 1, 50, 0.025
    low = float(paired_difference(b, c, n, 0.95).low)
    region = paired._region(b, c, n, share)
    largest = mpmath.mpf(0)
    with mpmath.workdps(40):
        for lost in np.linspace(0, 0.2, 81).tolist():
            gained = mpmath.mpf(lost) + low
            total = mpmath.mpf(0)
            for one in range(n + 1):
                if region[one] > n:
                    break
                for more in range(int(region[one]), n - one + 1):
                    ways = mpmath.binomial(n, one) * mpmath.binomial(n - one, more)
                    rest = 1 - gained - lost
                    term = gained**more * mpmath.mpf(lost) ** one
                    total += ways * term * rest ** (n - one - more)
            largest = max(largest, total)
    assert 0.97 * share < largest <= 0.99 * share


@pytest.mark.parametrize(
    ("b", "c", "n"), [(0, 2, 12), (5, 5, 12), (9, 0, 12), (0, 0, 9)]
)
def test_the_region_is_that_of_the_outcomes_with_no_lower_limit(b, c, n):
    all_b, all_c = outcomes(n)
    limits = tango(all_b, all_c, n, 0.95).low
    seen = tango(b, c, n, 0.95).low
    inside = all_b >= paired._region(b, c, n, 0.025)[all_c]
    assert inside[limits >= seen].all()
    assert not inside[limits < seen - 1e-6].any()


def test_the_score_limit_grows_with_what_is_gained_and_falls_with_what_is_lost():
    for n, level in itertools.product((3, 17, 40), (0.5, 0.95, 0.999)):
        table = np.full((n + 1, n + 1), np.nan)
        b, c = outcomes(n)
        table[b, c] = tango(b, c, n, level).low
        by_b, by_c = np.diff(table, axis=0), np.diff(table, axis=1)
        assert (by_b[np.isfinite(by_b)] >= -1e-12).all()
        assert (by_c[np.isfinite(by_c)] <= 1e-12).all()


@pytest.mark.thorough
def test_new_and_old_mirror_each_other():
    rng = np.random.default_rng(3)
    for _ in range(12):
        n = int(rng.integers(1, 60))
        b, c, _ = rng.multinomial(n, rng.dirichlet([1, 1, 2]))
        low, high = paired_difference(b, c, n, 0.9)
        mirrored = paired_difference(c, b, n, 0.9)
        assert low == -mirrored.high
        assert high == -mirrored.low
        assert -1 <= low <= (b - c) / n <= high <= 1


def test_without_queries_nothing_is_known():
    assert paired_difference(0, 0, 0, 0.95) == (-1, 1)
    assert tango(0, 0, 0, 0.95) == (-1, 1)


def test_versions_that_never_differ_may_still_differ_a_little():
    low, high = paired_difference(0, 0, 100, 0.95)
    assert -0.06 < low < 0 < high < 0.06
    assert low == -high


def test_a_higher_level_gives_a_wider_interval():
    intervals = [paired_difference(8, 3, 40, level) for level in (0.5, 0.9, 0.99)]
    for narrow, wide in itertools.pairwise(intervals):
        assert wide.low < narrow.low
        assert wide.high > narrow.high


def test_thousands_of_pairs_have_their_interval():
    low, high = paired_difference(300, 250, 10_000, 0.95)
    score = tango(300, 250, 10_000, 0.95)
    assert low <= score.low
    assert high >= score.high - 1e-6
    assert high - low < 1.005 * (score.high - score.low)


def test_counts_broadcast():
    low, high = paired_difference([[1], [2]], 0, [5, 6, 7], 0.8)
    assert low.shape == high.shape == (2, 3)
    assert low[1, 2] == paired_difference(2, 0, 7, 0.8).low
    assert paired_difference(np.zeros((0, 3), int), 1, 9, 0.8).low.shape == (0, 3)


def test_what_cannot_be_certified_is_not_claimed(monkeypatch):
    monkeypatch.setattr(paired, "_is_certified", lambda *_: False)
    low, high = paired_difference(8, 1, 50, 0.95)
    # What the box of class intervals alone says.
    assert -0.4 < low < 0
    assert 0.3 < high < 0.7


@pytest.mark.parametrize(
    ("b", "c", "n", "message"),
    [
        (3, 3, 5, r"b \+ c must not exceed n, but are 3, 3 of 5"),
        (6, 0, 5, "must not exceed n"),
        (-1, 0, 5, "must not be negative"),
        (1, 1, 10**5 + 1, r"n must not exceed 10\*\*5"),
        (0.5, 1, 5, "must hold integers"),
    ],
)
def test_impossible_counts_are_refused(b, c, n, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(b, c, n, 0.95)


def test_an_impossible_level_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1, not 95"):
        paired_difference(1, 1, 5, 95)
