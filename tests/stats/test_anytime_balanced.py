import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.evidence.balanced import (
    balanced_anytime,
    log_balanced_evidence_above,
)
from tracker.stats.evidence.one_class import (
    anytime,
    anytime_lower_bound,
    anytime_upper_bound,
)
from tracker.stats.exact import Interval


def random_rows(rows, classes, seed, most=5):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 10 ** rng.integers(1, most, (rows, classes)))
    return rng.binomial(n, rng.choice([0.0, 0.3, 0.9, 0.99, 1.0], n.shape)), n


def outcomes(n):
    grid = np.meshgrid(*(np.arange(one + 1) for one in n), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(n))


def chances(k, n, p):
    return np.exp(binom.logpmf(k, n, p).sum(axis=-1))


def class_bounds(k, n, error):
    tail = error / (2 * k.shape[-1])
    return Interval(anytime_lower_bound(k, n, tail), anytime_upper_bound(k, n, tail))


@pytest.mark.thorough
@pytest.mark.parametrize("n", [(1, 1), (5, 9), (20, 3), (12, 40), (4, 3, 6)])
def test_the_evidence_against_the_truth_has_a_mean_of_at_most_one(n):
    k = outcomes(n)
    rng = np.random.default_rng(sum(n))
    largest = 0.0
    for _ in range(60):
        p = rng.beta(*rng.choice([0.3, 1, 4, 20], 2), len(n)).clip(1e-9, 1 - 1e-9)
        shares = rng.choice([1.0, 3.0, 40.0], len(n))
        logs = log_balanced_evidence_above(k, n, p.mean(), shares=shares)
        largest = max(largest, chances(k, n, p) @ np.exp(logs))
        above = min(1.0, p.mean() * 1.02)
        logs = log_balanced_evidence_above(k, n, above, shares=shares)
        assert chances(k, n, p) @ np.exp(logs) <= 1
    assert 0.9 < largest <= 1


def test_the_evidence_within_the_box_has_a_mean_of_at_most_one():
    n = (15, 30)
    k = outcomes(n)
    low, high = class_bounds(k, np.broadcast_to(n, k.shape), 0.3)
    rng = np.random.default_rng(4)
    for _ in range(60):
        p = rng.beta(*rng.choice([0.3, 1, 4, 20], 2), 2).clip(1e-9, 1 - 1e-9)
        inside = ((low <= p) & (p <= high)).all(axis=-1)
        logs = log_balanced_evidence_above(
            k[inside], n, p.mean(), box=Interval(low[inside], high[inside])
        )
        assert chances(k[inside], n, p) @ np.exp(logs) <= 1


def worse_looking(state):
    (k1, n1), (k2, n2) = state
    return int((k2 + 1) * (n1 + 2) < (k1 + 1) * (n2 + 2))


def better_looking(state):
    return 1 - worse_looking(state)


# By counts and level: every rule and every truth below comes by the same counts.
BOUNDS: dict = {}


def bounds_of(states, level):
    """Return both bounds of each state, which is computed where it is new."""
    new = [state for state in states if (state, level) not in BOUNDS]
    if new:
        counts = np.array(new)
        low, high = balanced_anytime(counts[..., 0], counts[..., 1], level)
        for state, *bounds in zip(new, low, high, strict=True):
            BOUNDS[state, level] = bounds
    return np.array([BOUNDS[state, level] for state in states]).T


def at_random(state):
    return {0: 0.85, 1: 0.15}


def rarely_the_better(state):
    return {better_looking(state): 0.1, worse_looking(state): 0.9}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "chances_of",
    [
        lambda state: {worse_looking(state): 1.0},
        lambda state: {better_looking(state): 1.0},
        at_random,
        rarely_the_better,
    ],
    ids=["worse", "better", "at random", "rarely the better"],
)
@pytest.mark.parametrize("p", [(0.5, 0.5), (0.8, 0.98), (0.97, 0.6)])
def test_labelling_by_the_results_does_not_break_the_promise(chances_of, p):
    # All that can happen within 24 labels is followed, each label going to a class
    # with the chances that the rule names.
    alive, missed = {((0, 0), (0, 0)): 1.0}, 0.0
    for _ in range(24):
        following: dict = {}
        for state, chance in alive.items():
            for which, drawn in chances_of(state).items():
                k, n = state[which]
                for right, share in ((1, p[which]), (0, 1 - p[which])):
                    grown = list(state)
                    grown[which] = (k + right, n + 1)
                    key = tuple(grown)
                    worth = chance * drawn * share
                    following[key] = following.get(key, 0.0) + worth
        low, high = bounds_of(list(following), 0.8)
        misses = (low > sum(p) / 2) | (high < sum(p) / 2)
        alive = {}
        for miss, (state, chance) in zip(misses, following.items(), strict=True):
            if miss:
                missed += chance
            else:
                alive[state] = chance
    assert 0 < missed <= 0.2


@pytest.mark.parametrize(("level", "is_steady"), [(0.9, True), (0.9, False)])
@pytest.mark.chaos
def test_long_adaptive_labelling_keeps_the_promise(level, is_steady):
    rng = np.random.default_rng(20)
    p = np.array([0.95, 0.9, 0.7])
    rows = np.arange(150)
    n = np.full((150, 3), 2)
    k = rng.binomial(n, p)
    missed = np.zeros(150, dtype=bool)
    for _ in range(80):
        # Three labels at a time for the class that is the most uncertain by now.
        middle = (k + 1) / (n + 2)
        worst = np.argmax(middle * (1 - middle) / n**2, axis=-1)
        n[rows, worst] += 3
        k[rows, worst] += rng.binomial(3, p[worst])
        low, high = balanced_anytime(k, n, level, is_steady=is_steady)
        missed |= (low > p.mean()) | (high < p.mean())
    assert missed.mean() <= 1 - level


# Widths over those of the class intervals at an equal share of the error, averaged,
# at the counts that are expected, from an independent program.
WIDTH_RATIOS = [
    ([50, 50], [0.9, 0.9], 0.74),
    ([500, 500], [0.9, 0.9], 0.70),
    ([5000, 5000], [0.9, 0.9], 0.65),
    ([500, 500], [0.98, 0.8], 0.78),
    ([20, 100], [0.9, 0.95], 0.87),
    ([30, 1000], [0.9, 0.9], 0.98),
    ([300, 10_000], [0.9, 0.9], 0.91),
    ([100] * 5, [0.9] * 5, 0.43),
    ([20, 50, 100, 200, 1000], [0.9] * 5, 0.62),
    ([1000] * 10, [0.9] * 10, 0.28),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "p", "ratio"), WIDTH_RATIOS)
def test_the_interval_is_as_narrow_as_the_known_one(n, p, ratio):
    k = np.rint(np.multiply(n, p)).astype(int)
    low, high = balanced_anytime(k, n, 0.95, shares=n)
    bounds = anytime(k, n, 1 - 0.05 / len(n))
    union = float(np.mean(bounds.high - bounds.low))
    # The bets of formula 2 are for fewer sizes, and so up to an eighth narrower.
    assert 0.86 * ratio < float(high - low) / union < 1.015 * ratio
    first = balanced_anytime(k, n, 0.95, shares=n, formula=1)
    assert 0.965 * ratio < float(first.high - first.low) / union < 1.015 * ratio


@pytest.mark.parametrize(
    ("n", "p"),
    [
        ([900, 100], [0.985, 0.87]),
        ([5000, 150], [0.995, 0.78]),
        ([800, 100, 100], [0.97, 0.85, 0.9]),
        ([50, 300, 250, 200, 200], [0.79, 0.9, 0.93, 0.9, 0.95]),
    ],
)
def test_unequal_classes_have_a_narrower_interval_than_by_the_first_formula(n, p):
    k = np.rint(np.multiply(n, p)).astype(int)
    first, second = (
        np.subtract(*balanced_anytime(k, n, 0.95, formula=formula)[::-1])
        for formula in (1, 2)
    )
    assert second < 0.94 * first


def test_what_the_first_formula_stored_is_computed_again():
    # As it was stored before there was a second one.
    low, high = balanced_anytime([45, 8], [50, 10], 0.95, formula=1)
    assert (float(low), float(high)) == (0.5248748887022003, 0.9857556230956287)
    with pytest.raises(ValueError, match="formula must be 1 or 2, not 3"):
        balanced_anytime([45, 8], [50, 10], 0.95, formula=3)


def exact_evidence(k, n, weights, box, accuracy):
    """Return the evidence to 30 digits, with the level found by halving."""
    tilts = np.geomspace(8, 0.002, 20)
    shares = 1 / (1 + (np.log(tilts / 0.5) / 0.9) ** 2)
    total = mpmath.mpf(0)
    for tilt, share in zip(tilts, shares / shares.sum(), strict=True):
        growth = [mpmath.expm1(mpmath.mpf(tilt) * v) for v in weights]

        def filled(level, growth=growth):
            return [
                min(max(one * level - 1 / c, low), high)
                for one, c, low, high in zip(n, growth, *box, strict=True)
            ]

        left, right = mpmath.mpf(0), mpmath.mpf(10) ** 6
        for _ in range(120):
            middle = (left + right) / 2
            if sum(filled(middle)) < len(n) * accuracy:
                left = middle
            else:
                right = middle
        p = filled(right)
        most = sum(
            m * mpmath.log1p(a * c) for m, a, c in zip(n, p, growth, strict=True)
        )
        score = mpmath.mpf(tilt) * sum(v * a for v, a in zip(weights, k, strict=True))
        total += mpmath.mpf(share) * mpmath.exp(score - most)
    return total


@pytest.mark.parametrize(
    ("k", "n"), [((45, 8), (50, 10)), ((95, 960, 20), (100, 1000, 20))]
)
def test_the_bounds_have_the_evidence_that_they_need_to_30_digits(k, n):
    low = balanced_anytime(k, n, 0.95, shares=n).low
    box = class_bounds(np.array(k), np.array(n), 0.005)
    weights = [min(n) / one for one in n]
    needed = 2 / 0.045
    with mpmath.workdps(30):
        at = mpmath.mpf(float(low))
        bounds = [[mpmath.mpf(x) for x in side.tolist()] for side in box]
        evidence = exact_evidence(k, n, weights, bounds, at)
        assert needed <= evidence <= needed * (1 + 1e-7)
        logarithm = log_balanced_evidence_above(k, n, float(low), shares=n, box=box)
        assert float(logarithm) <= mpmath.log(evidence) <= float(logarithm) + 1e-8


def test_the_bounds_lie_within_the_average_of_the_class_bounds():
    k, n = random_rows(200, 3, seed=5)
    low, high = balanced_anytime(k, n, 0.95)
    box = class_bounds(k, n, 0.005)
    assert (low >= box.low.mean(axis=-1) - 1e-14).all()
    assert (high <= box.high.mean(axis=-1) + 1e-14).all()


def test_the_interval_holds_the_balanced_accuracy_that_was_seen():
    k, n = random_rows(300, 4, seed=6)
    n += 1
    low, high = balanced_anytime(k, n, 0.95)
    seen = (k / n).mean(axis=-1)
    assert (low < high).all()
    assert (low <= seen).all()
    assert (seen <= high).all()


def test_classes_without_labels_leave_everything_open():
    assert balanced_anytime([0, 0, 0], [0, 0, 0], 0.95) == (0, 1)
    low, high = balanced_anytime([0, 1000], [0, 1000], 0.95)
    assert 0.49 < low < 0.5
    assert high == 1
    mirrored = balanced_anytime([0, 0], [0, 1000], 0.95).high
    assert mirrored == pytest.approx(1 - low, abs=1e-15)


def test_right_and_wrong_mirror_each_other():
    k, n = random_rows(200, 3, seed=7)
    low, high = balanced_anytime(k, n, 0.9)
    mirrored = balanced_anytime(n - k, n, 0.9)
    np.testing.assert_allclose(low, 1 - mirrored.high, rtol=0, atol=1e-8)
    np.testing.assert_allclose(high, 1 - mirrored.low, rtol=0, atol=1e-8)


def test_a_higher_level_gives_a_wider_interval():
    k, n = random_rows(150, 3, seed=8)
    intervals = [balanced_anytime(k, n, level) for level in (0.5, 0.9, 0.95, 0.999)]
    for narrow, wide in itertools.pairwise(intervals):
        assert ((wide.low < narrow.low) | (narrow.low == 0)).all()
        assert ((wide.high > narrow.high) | (narrow.high == 1)).all()


def test_changing_accuracies_cost_a_little_width():
    k, n = np.array([45, 90, 20]), np.array([50, 100, 20])
    steady, drifting = (
        balanced_anytime(k, n, 0.95, is_steady=is_steady) for is_steady in (True, False)
    )
    assert steady.high - steady.low < drifting.high - drifting.low


def test_only_the_ratios_of_the_shares_matter():
    k, n = random_rows(50, 3, seed=9)
    first = balanced_anytime(k, n, 0.95, shares=[1, 2, 4])
    second = balanced_anytime(k, n, 0.95, shares=[0.125, 0.25, 0.5])
    assert first.low.tolist() == second.low.tolist()
    equal = balanced_anytime(k, n, 0.95, shares=7)
    alike = balanced_anytime(k, n, 0.95, shares=1)
    assert equal.high.tolist() == alike.high.tolist()


def test_right_shares_make_the_interval_narrower():
    k, n = [27, 900], [30, 1000]
    widths = [
        float(np.subtract(high, low))
        for low, high in (
            balanced_anytime(k, n, 0.95, shares=shares)
            for shares in ([30, 1000], [1, 1], [1000, 30])
        )
    ]
    assert widths == sorted(widths)


def test_the_order_of_the_classes_changes_no_bit():
    k, n = random_rows(25, 4, seed=2)
    shares = np.array([1.0, 5.0, 2.0, 2.0])
    expected = balanced_anytime(k, n, 0.95, shares=shares)
    for order in map(list, itertools.permutations(range(4))):
        permuted = balanced_anytime(
            k[:, order], n[:, order], 0.95, shares=shares[order]
        )
        assert permuted.low.tolist() == expected.low.tolist()
        assert permuted.high.tolist() == expected.high.tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [2, 3, 9, 30])
def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit(classes):
    k, n = random_rows(90, classes, seed=classes, most=10)
    batch = balanced_anytime(k, n, 0.9)
    columns = balanced_anytime(np.asfortranarray(k), np.asfortranarray(n), 0.9)
    alone = [balanced_anytime(a, b, 0.9) for a, b in zip(k, n, strict=True)]
    assert batch.low.tolist() == [float(a.low) for a in alone]
    assert batch.high.tolist() == [float(a.high) for a in alone]
    assert columns.low.tolist() == batch.low.tolist()


def test_blocks_of_rows_join_without_a_seam(monkeypatch):
    k, n = random_rows(50, 3, seed=3)
    expected = balanced_anytime(k, n, 0.95)
    monkeypatch.setattr("tracker.stats.evidence.balanced._MOST_AT_ONCE", 1500)
    seamed = balanced_anytime(k, n, 0.95)
    assert seamed.low.tolist() == expected.low.tolist()
    assert seamed.high.tolist() == expected.high.tolist()


def test_very_many_classes_and_very_many_labels_have_their_interval():
    most = np.full(4096, 9)
    low, high = balanced_anytime(most, most, 0.95)
    assert 0.9 < low < high == 1
    low, high = balanced_anytime([9 * 10**8, 5], [10**9, 5], 0.95, shares=[10**9, 5])
    assert 0 < low < 0.95 < high < 1


def test_counts_and_shares_broadcast():
    k, n = np.zeros((4, 1, 2), dtype=int), [[5, 6], [7, 8]]
    assert balanced_anytime(k, n, 0.95, shares=np.ones((4, 2, 1))).low.shape == (4, 2)
    empty = balanced_anytime(np.zeros((0, 3), dtype=int), [1, 2, 3], 0.95)
    assert empty.low.shape == (0,)
    logs = log_balanced_evidence_above([[3, 4]], [5, 6], [[0.2], [0.3]])
    assert logs.shape == (2, 1)


def test_a_claim_below_the_box_is_refuted():
    box = Interval(np.array([0.5, 0.6]), np.ones(2))
    logs = log_balanced_evidence_above([9, 9], [9, 9], [0.54, 0.56], box=box)
    assert logs[0] == math.inf
    assert math.isfinite(logs[1])


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([1, 0], "positive and finite, not \\[1, 0\\]"),
        ([1, math.nan], "positive and finite"),
        ([1, math.inf], "positive and finite"),
        ([1, 2, 3], "must broadcast to the counts' shape \\(2,\\), not \\(3,\\)"),
        ([1, 1e10], "within a factor"),
    ],
)
def test_impossible_shares_are_refused(shares, message):
    with pytest.raises(ValueError, match=message):
        balanced_anytime([1, 2], [3, 4], 0.95, shares=shares)


def test_what_no_bound_can_be_computed_from_is_refused():
    with pytest.raises(ValueError, match="k is 9 and n is 8"):
        balanced_anytime([1, 9], [5, 8], 0.95)
    with pytest.raises(ValueError, match="between 2 and 4096 classes"):
        balanced_anytime([1], [5], 0.95)
    with pytest.raises(ValueError, match="between 0 and 1, not 95"):
        balanced_anytime([1, 2], [5, 8], 95)
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1, not nan"):
        log_balanced_evidence_above([1, 2], [5, 8], math.nan)
    with pytest.raises(ValueError, match="a label in every row"):
        log_balanced_evidence_above([0, 0], [0, 0], 0.5)
