"""The joint interval for paired versions, against brute force and by summation."""

import itertools
from math import comb, factorial

import numpy as np
import pytest

from tracker.stats import joint_paired as modulus
from tracker.stats.joint.modulus import FALL
from tracker.stats.joint_paired import (
    Box,
    Classes,
    Moments,
    joint_paired_difference,
)

TEN = ([6, 5, 5, 6, 5, 5, 6, 5, 5, 5], [1, 0, 0, 0, 0, 1, 0, 0, 0, 0], [90] * 9 + [89])


def trinomial(n):
    pairs = np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)])
    ways = [
        factorial(n) // (factorial(b) * factorial(c) * factorial(n - b - c))
        for b, c in pairs.tolist()
    ]
    return pairs, np.array(ways, dtype=float)


def chances(n, gained, lost):
    pairs, ways = trinomial(n)
    b, c = pairs.T
    return ways * gained**b * lost**c * max(1 - gained - lost, 0) ** (n - b - c)


def some_classes(rng, size):
    n = rng.integers(2, 7, size).astype(float)
    low = rng.uniform(0, 0.3, (2, size))
    high = low + rng.uniform(0, 0.2, (2, size))
    box = Box(low[0], high[0], low[1], high[1])
    weights = rng.uniform(0.2, 1.8, (2, size))
    return Classes(n, np.ones(size), *weights, box)


def test_ten_classes_give_the_interval_that_was_asked_for():
    low, high = joint_paired_difference(*TEN, 0.95)
    assert 0.039 < low < 0.0405
    assert 0.0755 < high < 0.077


@pytest.mark.parametrize(
    ("b", "c", "n", "widest"),
    [
        ([5, 5], [2, 2], [100, 100], 0.097),
        ([8, 2], [3, 1], [150, 50], 0.118),
        ([1, 1, 3, 5, 25], [0, 0, 1, 2, 10], [10, 20, 50, 100, 500], 0.178),
        ([50, 50], [20, 20], [1000, 1000], 0.026),
        ([0] * 10, [0] * 10, [90] * 10, 0.015),
    ],
)
def test_the_interval_is_as_narrow_as_it_was(b, c, n, widest):
    low, high = joint_paired_difference(b, c, n, 0.95)
    seen = np.mean((np.array(b) - c) / n)
    assert low < seen < high
    assert high - low < widest


def test_no_part_of_the_moments_is_above_its_bound():
    rng = np.random.default_rng(5)
    closest = np.inf
    for _ in range(60):
        classes = some_classes(rng, 3)
        tilt = rng.uniform(0.3, 8)
        prices = rng.uniform(0, 2 * tilt, (2, 4, 8)) * rng.integers(0, 2, (2, 4, 8))
        bounds, *_ = Moments(classes, tilt, 8).largest(*prices)
        turned = tilt * (1 + 2j * np.pi / FALL * np.arange(8))
        box, exact = classes.box, np.zeros((4, 8))
        for j in range(3):
            g = np.linspace(box.gained_low[j], box.gained_high[j], 21)[:, None, None]
            q = np.linspace(box.lost_low[j], box.lost_high[j], 21)[:, None]
            gain = np.expm1(turned * classes.gain[j] / classes.labelled[j])
            loss = np.expm1(-turned * classes.loss[j] / classes.labelled[j])
            logs = classes.labelled[j] * np.log(np.abs(1 + g * gain + q * loss))
            price, lost_price = prices[:, :, None, None]
            part = logs - price * (g - q) - lost_price * q
            exact += part.max(axis=(1, 2))
        assert (exact <= bounds).all()
        closest = min(closest, (bounds - exact).min())
    assert closest < 1e-10


def test_no_chance_of_a_sum_as_high_exceeds_its_bound():
    rng = np.random.default_rng(8)
    ratios = []
    for _ in range(60):
        classes = some_classes(rng, size := int(rng.integers(1, 4)))
        n = classes.labelled.astype(int)
        outcomes = [trinomial(of)[0] for of in n]
        parts = [
            (classes.gain[j] * one[:, 0] - classes.loss[j] * one[:, 1]) / n[j]
            for j, one in enumerate(outcomes)
        ]
        sums = np.zeros(1)
        for part in parts:
            sums = np.add.outer(sums, part)
        seen = rng.choice(np.sort(np.unique(sums))[sums.size // 2 :])
        least, highest = classes.box.lost_low, classes.box.lost_high
        most = float(rng.uniform(least.sum(), highest.sum()))
        problem = modulus._Seen(classes, float(seen), 1.0, -float(size), most, 0.3)
        bound = modulus._Bound(problem, rng.uniform(1, 8), (5, 16))
        for _ in range(4):
            g = rng.uniform(classes.box.gained_low, classes.box.gained_high)
            q = rng.uniform(least, highest)
            q = least + (q - least) * min(1, (most - least.sum()) / (q - least).sum())
            total = float((g - q).sum()) + 1e-12
            bound.search(total, np.array([1.0, 0.2]))
            chance = np.ones(1)
            for j in range(size):
                chance = np.multiply.outer(chance, chances(n[j], g[j], q[j]))
            exact = chance[sums >= seen - 1e-9].sum()
            found = bound.chance(total)
            assert exact <= found
            ratios.append(exact / found)
    assert max(ratios) > 0.3


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "level"), [((2, 2), 0.9), ((1, 1, 1), 0.8), ((4,), 0.9)])
def test_no_truth_is_missed_more_often_than_promised(n, level):
    pairs = [trinomial(of)[0] for of in n]
    outcomes = np.array(list(itertools.product(*pairs)))
    labelled = np.broadcast_to(n, outcomes.shape[:2])
    low, high = joint_paired_difference(
        outcomes[..., 0], outcomes[..., 1], labelled, level
    )
    some = [(0, 0), (0.05, 0), (0.3, 0), (0.6, 0), (0.9, 0), (1, 0), (0.1, 0.1)]
    some += [(0.3, 0.05), (0.5, 0.2), (0.05, 0.3), (0, 0.5), (0, 0.9), (0.45, 0.45)]
    worst = 0.0
    for truth in itertools.product(some, repeat=len(n)):
        chance = np.ones(1)
        for of, (gained, lost) in zip(n, truth, strict=True):
            chance = np.multiply.outer(chance, chances(of, gained, lost))
        chance = chance.ravel()
        mean = sum(gained - lost for gained, lost in truth) / len(n)
        below, above = chance[low > mean].sum(), chance[high < mean].sum()
        assert max(below, above) <= (1 - level) / 2
        worst = max(worst, below)
    assert worst > 0.0005


def test_versions_exchanged_mirror_the_bounds_and_order_changes_no_bit():
    b, c, n = np.array([8, 2, 0, 3]), np.array([1, 4, 3, 3]), np.array([50, 30, 20, 50])
    expected = joint_paired_difference(b, c, n, 0.9)
    mirrored = joint_paired_difference(c, b, n, 0.9)
    assert (mirrored.low, mirrored.high) == (-expected.high, -expected.low)
    for order in ([3, 1, 0, 2], [1, 0, 3, 2], [0, 3, 2, 1]):
        assert joint_paired_difference(b[order], c[order], n[order], 0.9) == expected


def test_a_higher_level_holds_the_lower_one():
    for lower, higher in itertools.pairwise((0.5, 0.8, 0.95, 0.999)):
        inner = joint_paired_difference([9, 4], [2, 2], [60, 80], lower)
        outer = joint_paired_difference([9, 4], [2, 2], [60, 80], higher)
        assert outer.low < inner.low < inner.high < outer.high


def test_classes_without_queries_may_have_changed_in_any_way():
    assert joint_paired_difference([0, 0], [0, 0], [0, 0], 0.95) == (-1, 1)
    alone = joint_paired_difference([9], [1], [60], 0.95)
    half = joint_paired_difference([9, 0], [1, 0], [60, 0], 0.95)
    assert half.low == pytest.approx((alone.low - 1) / 2, abs=1e-12)
    assert half.high == pytest.approx((alone.high + 1) / 2, abs=1e-12)


@pytest.mark.thorough
def test_many_classes_and_many_queries_are_bounded():
    rng = np.random.default_rng(1)
    for classes in (30, 100, 300, 1500):
        n = rng.integers(20, 80, classes)
        b, c = rng.binomial(n // 2, 0.1), rng.binomial(n // 2, 0.04)
        low, high = joint_paired_difference(b, c, n, 0.95)
        seen = ((b - c) / n).mean()
        assert low < seen < high
        # Chernoff's bound for the most classes is wider than a normal one by a half.
        normal = 1.96 * np.sqrt(((b + c) / n**2).sum()) / classes
        assert high - low < 3.6 * normal
    low, high = joint_paired_difference([10**7, 5], [0, 0], [10**9, 10**9], 0.95)
    assert 0.00499 < low < 0.005 < high < 0.00501


def test_one_row_is_as_it_is_among_others():
    b, c, n = np.array([[4, 5], [0, 9]]), np.array([[1, 0], [2, 2]]), np.array([40, 60])
    low, high = joint_paired_difference(b, c, n, 0.95)
    for row in range(2):
        alone = joint_paired_difference(b[row], c[row], n, 0.95)
        assert (low[row], high[row]) == alone


def test_what_is_no_count_is_refused():
    with pytest.raises(ValueError, match="must not exceed n"):
        joint_paired_difference([3], [3], [5], 0.95)
    with pytest.raises(ValueError, match="between 1 and 4096 classes"):
        joint_paired_difference(3, 1, 5, 0.95)
    with pytest.raises(ValueError, match="between 0 and 1, not 95"):
        joint_paired_difference([3], [1], [5], 95)


def test_pairs_of_trinomials_are_all_there():
    pairs, ways = trinomial(4)
    assert len(pairs) == comb(6, 2)
    assert ways.sum() == 3**4
