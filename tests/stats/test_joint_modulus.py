"""Limits for any number of classes: exponential moments, and pooled counts."""

import itertools
from math import comb, prod

import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.exact import lower_bound, upper_bound
from tracker.stats.joint import modulus
from tracker.stats.joint.balanced import pooled_limit
from tracker.stats.joint.modulus import Bound, Waves, modulus_limits


def chances(n, p):
    return np.array([comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)])


@pytest.mark.parametrize("steps", [5, 16, 24, 64])
def test_the_majorant_is_nowhere_below_the_tilted_exponential(steps):
    fall, order = modulus.FALL, np.arange(1 - steps, steps)
    step = fall / steps
    at = 1 / (1 - np.exp(-step - 2j * np.pi * order / steps))
    first = 1 / (1 - np.exp(-step))
    sizes = (1 - np.abs(order) / steps) * at
    sizes += np.sign(order) * step * (first - at) / (2j * np.pi)
    sizes *= (1 - np.exp(-fall)) / steps
    passed = np.linspace(0, 1, 4001)[:-1]
    summed = (sizes * np.exp(2j * np.pi * passed[:, None] * order)).sum(axis=1)
    np.testing.assert_allclose(summed.imag, 0, atol=1e-12)
    excess = summed.real - np.exp(-fall * passed)
    assert -1e-12 < excess.min() < 1e-3
    expected = np.abs(sizes[steps - 1 :])
    expected[1:] *= 2
    np.testing.assert_allclose(modulus.coefficients(steps), expected, rtol=1e-11)


def modulus_limit(k, n, error, expected):
    rows = np.array([k], dtype=float), np.array([n], dtype=float)
    return float(modulus_limits(*rows, error, expected=expected)[0])


def test_no_log_less_its_price_is_above_its_bound():
    rng = np.random.default_rng(3)
    n = np.array([1.0, 4.0, 30.0, 2000.0, 1e9])
    weights = np.array([0.6, 1.3, 1.0, 1.1, 1.0])
    k = np.floor(n * 0.9).astype(int)
    box = lower_bound(k, n.astype(int), 1e-4), upper_bound(k, n.astype(int), 1e-4)
    turns = 1 + 2j * np.pi * np.arange(16) / modulus.FALL
    tightest = np.inf
    for j in range(n.size):
        alone = n[[j]][None], weights[[j]][None], tuple(side[[j]][None] for side in box)
        for tilt in (0.5, 8.0, 40.0):
            found = Waves.of(*alone, np.array([tilt]), 16)
            z = np.expm1(tilt * turns * weights[j] / n[j])
            p = np.linspace(box[0][j], box[1][j], 4001)[:, None]
            logs = n[j] * np.log(np.abs(1 + p * z))
            for multiplier in (1e-9, *rng.uniform(0, 2 * tilt, 12).tolist()):
                most, taken = found.largest(np.full((1, 16), multiplier))
                largest = (logs - multiplier * p).max(axis=0)
                assert (largest <= most[0] + 1e-9 + 1e-15 * n[j]).all()
                tightest = min(tightest, (most[0] - largest).min())
                # The bound is taken somewhere, so it is no more than the maximum.
                np.testing.assert_allclose(most[0], largest, rtol=1e-6, atol=1e-4)
                assert (taken[0] >= box[0][j]).all()
                assert (taken[0] <= box[1][j]).all()
    assert tightest > -1e-5


@pytest.mark.parametrize(
    ("k", "n"),
    [((1, 2, 3, 4), (1, 3, 3, 5)), ((2, 5, 6), (4, 6, 7)), ((4, 11), (6, 13))],
)
def test_no_chance_of_a_sum_as_high_exceeds_its_bound(k, n):
    rng = np.random.default_rng(sum(k))
    labelled = np.array(n, dtype=float)
    box = lower_bound(k, n, 1e-4), upper_bound(k, n, 1e-4)
    outcomes = np.array(list(itertools.product(*(range(of + 1) for of in n))))
    ratios = []
    for weights in (np.ones(len(n)), rng.uniform(0.5, 1.5, len(n))):
        score = (weights * np.array(k) / labelled).sum()
        inside = (outcomes / labelled) @ weights >= score - 1e-12
        for tilt in (2.0, 5.0, 9.0):
            rows = (part[None] for part in (labelled, weights, *box, score))
            bound = Bound.of(np.array([tilt]), tuple(rows), (16, 32, 48))
            first = np.full((1, max(bound.steps)), tilt / 2)
            for _ in range(25):
                p = rng.uniform(*box) if rng.random() < 0.5 else rng.choice(box, axis=0)
                parts = [chances(of, x) for of, x in zip(n, p, strict=True)]
                chance = prod(part[outcomes[:, j]] for j, part in enumerate(parts))
                exact = chance[inside].sum()
                total = np.array([p.sum()])
                # Lines that were sought for another total bound this one as well.
                elsewhere = total * rng.choice([1.0, 0.8])
                lines = bound.lines(elsewhere, first, 6)
                found = np.exp(bound.log_chance(lines, total)[0][0])
                assert exact <= found
                ratios.append(exact / found)
    assert max(ratios) > 0.3


def test_a_row_is_the_same_alone_and_among_others_to_the_last_bit():
    rng = np.random.default_rng(5)
    for classes in (2, 5, 30):
        n = rng.integers(1, 200, (25, classes)).astype(float)
        k = np.floor(n * rng.uniform(0.3, 1, n.shape))
        together = modulus_limits(k, n, 0.025, expected=0.9)
        alone = [modulus_limit(*row, 0.025, 0.9) for row in zip(k, n, strict=True)]
        assert together.tolist() == alone
        fewer = modulus_limits(k[::-2], n[::-2], 0.025, expected=0.9)
        assert fewer.tolist() == alone[::-2]


def test_blocks_of_rows_join_without_a_seam(monkeypatch):
    rng = np.random.default_rng(6)
    n = rng.integers(1, 200, (25, 4)).astype(float)
    k = np.floor(n * 0.8)
    together = modulus_limits(k, n, 0.025, expected=0.9)
    monkeypatch.setattr(modulus, "_MOST_AT_ONCE", 10_000)
    assert (modulus_limits(k, n, 0.025, expected=0.9) == together).all()


def test_the_work_does_not_depend_on_what_is_correct(monkeypatch):
    asked = []

    def counted(self, multipliers):
        asked.append(multipliers.shape[0] * self.real.size)
        return largest(self, multipliers)

    largest = Waves.largest
    monkeypatch.setattr(Waves, "largest", counted)
    n = (10, 20, 50, 100, 500)
    for k in ((9, 18, 45, 90, 450), (1, 0, 0, 0, 0), n, (5, 1, 50, 99, 2)):
        for error in (0.25, 0.025, 5e-8):
            asked.clear()
            modulus_limit(k, n, error, expected=0.9)
            # Three tilts by 16 waves, and the chosen one by 48, of five classes.
            assert len(asked) == 6 + 9
            assert sum(asked) == 6 * 3 * 5 * 3 * 16 + 9 * 5 * 48


@pytest.mark.thorough
@pytest.mark.parametrize(
    "n", [(2, 5), (2, 3, 4), pytest.param((1, 2, 3, 2), marks=pytest.mark.chaos)]
)
@pytest.mark.parametrize("expected", [0.9, 0.1])
def test_no_truth_is_below_its_limit_more_often_than_promised(n, expected):
    outcomes = list(itertools.product(*(range(of + 1) for of in n)))
    limits = np.array([modulus_limit(k, n, 0.1, expected) for k in outcomes])
    outcomes = np.array(outcomes)
    some = (0.0, 0.03, 0.2, 0.5, 0.7, 0.9, 0.99)
    truths = [*itertools.product(some, repeat=len(n))]
    truths += [(p,) * len(n) for p in np.linspace(0.01, 0.99, 99)]
    worst = 0.0
    for truth in truths:
        parts = [chances(of, p) for of, p in zip(n, truth, strict=True)]
        chance = prod(part[outcomes[:, j]] for j, part in enumerate(parts))
        worst = max(worst, chance[limits > sum(truth) / len(n) + 1e-12].sum())
    assert 0.03 < worst <= 0.1


def test_the_order_of_the_classes_changes_no_bit():
    k, n = (3, 17, 40, 40), (5, 20, 44, 41)
    expected = modulus_limit(k, n, 0.025, expected=0.9)
    for order in itertools.permutations(range(4)):
        permuted = tuple(k[j] for j in order), tuple(n[j] for j in order)
        assert modulus_limit(*permuted, 0.025, expected=0.9) == expected


def test_the_weights_suit_the_expected_accuracy():
    k, n = (10, 95, 480, 2900), (11, 100, 500, 3000)
    suited = modulus_limit(k, n, 0.025, expected=0.9)
    assert suited > modulus_limit(k, n, 0.025, expected=0.3) + 1e-3


def test_rounding_of_exponents_is_added_to_them(monkeypatch):
    k, n = (9, 18, 45), (10, 20, 51)
    low = modulus_limit(k, n, 0.025, expected=0.9)
    monkeypatch.setattr(modulus, "_FEW_UNITS", 1e-3)
    assert modulus_limit(k, n, 0.025, expected=0.9) < low - 1e-5


@pytest.mark.parametrize(("classes", "each"), [(4, 2), (3, 4), (2, 9)])
def test_pooled_counts_keep_their_promise_for_unequal_classes(classes, each):
    labelled = classes * each
    limits = np.array(
        [pooled_limit((s,), (labelled,), 0.05) for s in range(labelled + 1)]
    )
    some = np.linspace(0, 1, 11)
    worst = 0.0
    for truth in itertools.combinations_with_replacement(some, classes):
        chance = np.ones(1)
        for p in truth:
            chance = np.convolve(chance, chances(each, p))
        worst = max(worst, chance[limits > sum(truth) / classes + 1e-12].sum())
    for mean in limits[limits > 0] - 1e-9:
        missed = binom.pmf(np.arange(labelled + 1), labelled, mean)[limits > mean].sum()
        worst = max(worst, missed)
    assert 0.049 < worst <= 0.05


def test_pooled_limits_are_exact_ones_but_for_the_lowest_counts():
    for s in range(201):
        low = pooled_limit((s,), (200,), 0.025)
        assert low == min(float(lower_bound(s, 200, 0.025)), max(s - 1, 0) / 200) or (
            low == pytest.approx((s - 1) / 200, rel=1e-15)
        )
    assert pooled_limit((1,), (200,), 0.025) == pooled_limit((0,), (200,), 0.025) == 0
    # With an error of one half the exact limit would be too high.
    assert pooled_limit((2,), (4,), 0.9) < 1 / 4 < float(lower_bound(2, 4, 0.9))
