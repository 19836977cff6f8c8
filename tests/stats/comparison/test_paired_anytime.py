"""The verdict of pairs at any look: exact sums over what an adversary may do."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from tests.stats.thirds import least_of
from tracker.stats.evidence.paired import paired_anytime
from tracker.stats.joint_paired import joint_paired_difference
from tracker.stats.planning import pairs_to_decide

TILTS = np.geomspace(8, 0.004, 15)


def evidence_at(gained, lost, pairs, d):
    """Return the evidence without shares at class differences, as it is defined."""
    tilt_weights = 1 / (1 + np.abs(np.log(TILTS / 0.4) / 0.9) ** 3)
    total = mpmath.mpf(0)
    for tilt, weight in zip(TILTS, tilt_weights / tilt_weights.sum(), strict=True):
        product = mpmath.mpf("0.2") * weight
        for b, c, n, at in zip(gained, lost, pairs, d, strict=True):
            factor = mpmath.mpf(0)
            for node, chance in zip(
                (1 / 9, 1 / 3, 1, 3, 9), (0.15, 0.2, 0.3, 0.2, 0.15), strict=True
            ):
                x = min(mpmath.mpf(tilt) * node, mpmath.mpf("0.9"))
                grown = (1 + x) ** b * (1 - x) ** c
                factor += chance * grown / (1 + x * at) ** n
            product *= factor
        total += product
    return total


def chance_of_a_false_better(gains, losses, pairs, shares, level):
    """Return how likely *better* is ever said, the next class picked by an adversary.

    A state is what each class has gained, lost and got in pairs; solved backwards.
    """
    size, chance = len(gains), {}
    truth = float(np.mean(np.subtract(gains, losses)))
    singles = [
        (b, c, n)
        for n in range(pairs + 1)
        for b in range(n + 1)
        for c in range(n - b + 1)
    ]
    states = [
        state
        for state in itertools.product(singles, repeat=size)
        if sum(one[2] for one in state) <= pairs
    ]
    for state in sorted(states, key=lambda s: -sum(one[2] for one in s)):
        b, c, n = zip(*state, strict=True)
        if sum(n) and paired_anytime(b, c, n, level, shares=shares).low > truth:
            chance[state] = 1.0
        elif sum(n) == pairs:
            chance[state] = 0.0
        else:
            worst = 0.0
            for j, (gain, loss) in enumerate(zip(gains, losses, strict=True)):
                mean = 0.0
                for (db, dc), worth in (
                    ((1, 0), gain),
                    ((0, 1), loss),
                    ((0, 0), 1 - gain - loss),
                ):
                    after = list(state)
                    after[j] = (b[j] + db, c[j] + dc, n[j] + 1)
                    mean += worth * chance[tuple(after)]
                worst = max(worst, mean)
            chance[state] = worst
    return chance[((0, 0, 0),) * size]


@pytest.mark.thorough
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.2, 0.2), (0.6, 0.2)])
def test_one_class_is_called_better_falsely_no_more_often_than_promised(rates):
    gain, loss = rates
    assert chance_of_a_false_better([gain], [loss], 12, None, 0.5) <= 0.25


@pytest.mark.chaos
@pytest.mark.parametrize("shares", [None, (0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize(
    ("gains", "losses"),
    [
        ((0.5, 0.5), (0.5, 0.5)),
        ((0.3, 0.3), (0.3, 0.3)),
        ((0.6, 0.0), (0.0, 0.6)),
        ((0.9, 0.0), (0.1, 0.8)),
        ((0.2, 0.5), (0.5, 0.2)),
    ],
)
def test_no_choice_of_the_next_class_breaks_the_promise(gains, losses, shares):
    assert chance_of_a_false_better(gains, losses, 6, shares, 0.5) <= 0.25


@pytest.mark.thorough
def test_the_bound_of_two_classes_has_the_evidence_that_it_needs():
    counts = (60, 12), (20, 3), (800, 100)
    low = paired_anytime(*counts, 0.95).low
    with mpmath.workdps(40):
        left, right = mpmath.mpf(max(-1, 2 * low - 1)), mpmath.mpf(min(1, 2 * low + 1))

        def logarithm(first):
            return mpmath.log(
                evidence_at(*counts, [first, 2 * mpmath.mpf(low) - first])
            )

        least = least_of(logarithm, left, right)
    assert math.log(40) <= least <= math.log(40) + 0.02


def test_disagreements_that_gain_overall_may_lose_in_the_balanced_accuracy():
    # 40 of 950 common ones are gained, and 15 of 50 rare ones are lost.
    common = paired_anytime([40], [15], [1000], 0.95)
    both = paired_anytime([40, 0], [0, 15], [950, 50], 0.95, shares=[0.95, 0.05])
    assert common.verdict == "better"
    assert both.verdict == "worse"
    assert both.low == pytest.approx(-0.255, abs=2e-3)
    assert both.high == pytest.approx(-0.041, abs=2e-3)


@pytest.mark.parametrize("size", [500, 2500])
def test_the_price_in_width_is_the_known_one(size):
    b, c, n = [size // 20] * 2, [size // 50] * 2, [size] * 2
    found, joint = (
        paired_anytime(b, c, n, 0.95, shares=[1, 1]),
        joint_paired_difference(b, c, n, 0.95),
    )
    ratio = (found.high - found.low) / float(joint.high - joint.low)
    assert 1.4 < ratio < 1.65


def test_versions_exchanged_have_the_mirrored_interval():
    b, c, n = (5, 30, 2), (9, 10, 2), (40, 90, 7)
    found, mirrored = paired_anytime(b, c, n, 0.9), paired_anytime(c, b, n, 0.9)
    assert (found.low, found.high) == (-mirrored.high, -mirrored.low)
    permuted = paired_anytime(b[::-1], c[::-1], n[::-1], 0.9)
    assert (permuted.low, permuted.high) == (found.low, found.high)


def test_a_class_without_pairs_leaves_the_verdict_open():
    found = paired_anytime([90, 0], [0, 0], [100, 0], 0.95)
    assert found.verdict == "undecided"
    assert paired_anytime([0, 0], [0, 0], [0, 0], 0.95) == ("undecided", -1, 1)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (([3], [3], [5]), r"gained \+ lost must not exceed pairs"),
        (([3, 1], [3, 1], [9]), "one list each"),
        (([[3]], [[3]], [[9]]), "one list each"),
        (([-1], [0], [5]), "must not be negative"),
    ],
)
def test_impossible_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        paired_anytime(*counts, 0.95)


@pytest.mark.parametrize(
    ("gained", "lost", "pairs"),
    [((40, 0), (0, 15), (950, 50)), ((6, 8), (2, 2), (160, 140)), ((5,), (2,), (100,))],
)
def test_so_many_more_pairs_decide_and_hardly_fewer(gained, lost, pairs) -> None:
    more = pairs_to_decide(gained, lost, pairs, 0.95)
    assert more is not None
    assert more > 0

    def verdict(added: float) -> str:
        scale = 1 + added / sum(pairs)
        counts = [[round(one * scale) for one in row] for row in (gained, lost, pairs)]
        return paired_anytime(*counts, 0.95).verdict

    # Counts are whole, so that near the end a pair more or less tips it.
    assert verdict(1.02 * more + 2) != "undecided"
    assert verdict(0.75 * more) == "undecided"


def test_no_number_of_pairs_decides_where_nothing_differs_or_a_class_has_none() -> None:
    assert pairs_to_decide([3, 0], [3, 0], [30, 30], 0.95) is None
    assert pairs_to_decide([9, 0], [0, 0], [30, 0], 0.95) is None
    assert pairs_to_decide([0], [0], [0], 0.95) is None
    assert pairs_to_decide([90, 90], [0, 0], [100, 100], 0.95) == 0
