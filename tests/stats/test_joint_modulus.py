"""Limits for any number of classes: exponential moments, and pooled counts."""

import itertools
from math import comb, prod

import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats import joint_modulus, joint_waves
from tracker.stats.binomial import lower_bound, upper_bound
from tracker.stats.joint_modulus import modulus_limit
from tracker.stats.joint_pooled import pooled_limit


def chances(n, p):
    return np.array([comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)])


@pytest.mark.parametrize("steps", [5, 16, 24, 64])
def test_the_majorant_is_nowhere_below_the_tilted_exponential(steps):
    fall, order = joint_waves.FALL, np.arange(1 - steps, steps)
    step = fall / steps
    at = 1 / (1 - np.exp(-step - 2j * np.pi * order / steps))
    first = 1 / (1 - np.exp(-step))
    sizes = (1 - np.abs(order) / steps) * at
    sizes += np.sign(order) * step * (first - at) / (2j * np.pi)
    sizes *= (1 - np.exp(-fall)) / steps
    passed = np.linspace(0, 1, 4001)[:-1]
    waves = (sizes * np.exp(2j * np.pi * passed[:, None] * order)).sum(axis=1)
    np.testing.assert_allclose(waves.imag, 0, atol=1e-12)
    excess = waves.real - np.exp(-fall * passed)
    assert -1e-12 < excess.min() < 1e-3
    expected = np.abs(sizes[steps - 1 :])
    expected[1:] *= 2
    np.testing.assert_allclose(joint_waves.coefficients(steps), expected, rtol=1e-11)


def test_moments_are_at_most_their_bounds_in_between():
    rng = np.random.default_rng(3)
    n = np.array([1.0, 4.0, 30.0, 2000.0, 1e9])
    weights = np.array([0.6, 1.3, 1.0, 1.1, 1.0])
    k = np.floor(n * 0.9).astype(int)
    box = lower_bound(k, n.astype(int), 1e-4), upper_bound(k, n.astype(int), 1e-4)
    for tilt in (0.5, 8.0, 40.0):
        found = joint_waves.waves(n, weights, box, tilt, (16, 12))
        turns = 1 + 2j * np.pi * np.arange(16) / joint_waves.FALL
        for j in range(n.size):
            z = np.expm1(tilt * turns * weights[j] / n[j])
            for p in rng.uniform(box[0][j], box[1][j], 40):
                exact = n[j] * np.log(np.abs(1 + p * z))
                bound = [
                    np.interp(p, found.accuracies[j], found.logs[j, :, u])
                    for u in range(16)
                ]
                assert (exact <= np.array(bound) + 1e-6).all()
                if n[j] > 1 and tilt < 10:
                    assert bound[0] <= exact[0] + 0.02 * tilt


@pytest.mark.parametrize(
    ("k", "n"),
    [((1, 2, 3, 4), (1, 3, 3, 5)), ((2, 5, 6), (4, 6, 7)), ((4, 11), (6, 13))],
)
def test_no_chance_of_a_sum_as_high_exceeds_its_bound(k, n):
    rng = np.random.default_rng(sum(k))
    correct, labelled = np.array(k), np.array(n)
    box = lower_bound(k, n, 1e-4), upper_bound(k, n, 1e-4)
    outcomes = np.array(list(itertools.product(*(range(of + 1) for of in n))))
    ratios = []
    for weights in (np.ones(len(n)), rng.uniform(0.5, 1.5, len(n))):
        seen = joint_modulus._Seen.of(correct, labelled, box, weights)
        inside = (outcomes / labelled) @ weights >= seen.total - 1e-12
        for tilt in (2.0, 5.0, 9.0):
            bound = joint_modulus._Bound.at(seen, tilt)
            for _ in range(25):
                p = rng.uniform(*box) if rng.random() < 0.5 else rng.choice(box, axis=0)
                parts = [chances(of, x) for of, x in zip(n, p, strict=True)]
                chance = prod(part[outcomes[:, j]] for j, part in enumerate(parts))
                exact = chance[inside].sum()
                found = bound.chance(float(p.sum()))
                assert exact <= found
                ratios.append(exact / found)
    assert max(ratios) > 0.3


def test_a_higher_sum_is_allowed_more():
    box = lower_bound([8, 17], [10, 20], 1e-4), upper_bound([8, 17], [10, 20], 1e-4)
    seen = joint_modulus._Seen.of(
        np.array([8, 17]), np.array([10, 20]), box, np.ones(2)
    )
    bound = joint_modulus._Bound.at(seen, 9.0)
    found = [bound.chance(total) for total in np.linspace(1.0, 1.6, 13).tolist()]
    assert (np.diff(found) > -1e-3 * np.array(found[1:])).all()
    assert found[0] < 0.05 * found[-1]


@pytest.mark.parametrize("n", [(2, 5), (2, 3, 4), (1, 2, 3, 2)])
@pytest.mark.parametrize("expected", [0.9, 0.1])
def test_no_truth_is_below_its_limit_more_often_than_promised(n, expected):
    outcomes = list(itertools.product(*(range(of + 1) for of in n)))
    limits = np.array([modulus_limit(k, n, 0.1, expected=expected) for k in outcomes])
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
    monkeypatch.setattr(joint_waves, "_FEW_UNITS", 1e-3)
    assert modulus_limit(k, n, 0.025, expected=0.9) < low - 1e-5


@pytest.mark.parametrize(("classes", "each"), [(4, 2), (3, 4), (2, 9)])
def test_pooled_counts_keep_their_promise_for_unequal_classes(classes, each):
    labelled = classes * each
    limits = np.array([pooled_limit(s, labelled, 0.05) for s in range(labelled + 1)])
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
        low = pooled_limit(s, 200, 0.025)
        assert low == min(float(lower_bound(s, 200, 0.025)), max(s - 1, 0) / 200) or (
            low == pytest.approx((s - 1) / 200, rel=1e-15)
        )
    assert pooled_limit(1, 200, 0.025) == pooled_limit(0, 200, 0.025) == 0
    # With an error of one half the exact limit would be too high.
    assert pooled_limit(2, 4, 0.9) < 1 / 4 < float(lower_bound(2, 4, 0.9))
