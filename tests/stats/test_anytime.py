"""Intervals and evidence that hold after every label: exact sums and 60 digits."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.stats.thirds import least_of
from tracker.stats.coverage import chances_of_ever_missing
from tracker.stats.evidence import intervals
from tracker.stats.evidence.intervals import (
    anytime,
    balanced_anytime,
    log_evidence_above,
)
from tracker.stats.exact import clopper_pearson
from tracker.stats.joint.balanced import balanced_joint

UNEVEN = (0.6, 0.2, 0.1, 0.06, 0.04)
TILTS = np.geomspace(8, 0.004, 15)
NEAR = ((0.5, 0.25), (1, 0.5), (2, 0.25))
WIDE = ((1 / 9, 0.15), (1 / 3, 0.2), (1, 0.3), (3, 0.2), (9, 0.15))
SOURCES = ((0.4, 1, NEAR), (0.25, 1.4, NEAR), (0.15, 2.5, NEAR), (0.2, 0, WIDE))


def evidence_at(k, n, p, shares):
    """Return the evidence at class accuracies *p*, term by term as it is defined."""
    classes, total = len(k), mpmath.mpf(0)
    sources = SOURCES if shares is not None or classes == 1 else SOURCES[-1:]
    tilt_weights = 1 / (1 + np.abs(np.log(TILTS / 0.3) / 0.9) ** 3)
    tilt_weights /= tilt_weights.sum()
    for part, power, nodes in sources:
        s = [mpmath.mpf(float(x)) ** power for x in shares or [1] * classes]
        s = [x / sum(s) for x in s]
        v = [1 / x for x in s]
        size = mpmath.sqrt(sum(x * y * y for x, y in zip(s, v, strict=True)))
        for tilt, weight in zip(TILTS, tilt_weights, strict=True):
            product = mpmath.mpf(part) * weight
            for right, labelled, at, one in zip(k, n, p, v, strict=True):
                factor = mpmath.mpf(0)
                for node, chance in nodes:
                    a = min(tilt * one / size * node, mpmath.mpf(15))
                    grown = mpmath.exp(a * right)
                    factor += chance * grown / (1 + at * mpmath.expm1(a)) ** labelled
                product *= factor
            total += product
    return total


def random_rows(rows, classes, seed, most=5):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 10 ** rng.integers(1, most, (rows, classes)))
    return rng.binomial(n, rng.choice([0.0, 0.3, 0.9, 0.99, 1.0], n.shape)), n


@st.composite
def counts(draw):
    n = draw(st.integers(0, 10 ** draw(st.integers(1, 9))))
    return draw(st.integers(0, n)), n


def chance_of_ever_wrong(p, labels, shares, level):
    """Return the chance of a false lower bound, the next class picked by an adversary.

    The adversary sees all results; solved backwards over all counts.
    """
    size, mean = len(p), float(np.mean(p))
    states = [
        state
        for state in itertools.product(range(labels + 1), repeat=2 * size)
        if sum(state[:size]) <= labels
        and all(k <= n for n, k in zip(state[:size], state[size:], strict=True))
    ]
    table = np.array(states)
    low = balanced_anytime(table[:, size:], table[:, :size], level, shares=shares).low
    is_wrong = dict(zip(states, low > mean, strict=True))
    chance: dict[tuple[int, ...], float] = {}
    for state in sorted(states, key=lambda s: -sum(s[:size])):
        if is_wrong[state]:
            chance[state] = 1.0
        elif sum(state[:size]) == labels:
            chance[state] = 0.0
        else:
            chance[state] = max(
                sum(
                    worth
                    * chance[
                        tuple(
                            count + (at == j) + right * (at == size + j)
                            for at, count in enumerate(state)
                        )
                    ]
                    for right, worth in ((1, p[j]), (0, 1 - p[j]))
                )
                for j in range(size)
            )
    return chance[(0,) * 2 * size]


@pytest.mark.thorough
@pytest.mark.parametrize("shares", [None, (0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize("p", [(0.5, 0.5), (0.9, 0.3), (0.95, 0.95)])
def test_no_choice_of_the_next_class_breaks_the_promise(p, shares):
    for truth in (p, tuple(1 - one for one in p)):
        wrong = chance_of_ever_wrong(truth, 9, shares, 0.5)
        assert wrong <= 0.25


@pytest.mark.chaos
@pytest.mark.parametrize("shares", [None, (0.5, 0.5), (0.9, 0.1), (0.1, 0.9)])
@pytest.mark.parametrize(
    "p", [(0.5, 0.5), (0.9, 0.3), (0.7, 0.9), (0.95, 0.95), (0.99, 0.6)]
)
def test_no_choice_within_18_labels_breaks_the_promise(p, shares):
    for truth in (p, tuple(1 - one for one in p)):
        wrong = chance_of_ever_wrong(truth, 18, shares, 0.5)
        assert wrong <= 0.25
        # Near an end 18 labels may not be enough to be wrong at all.
        assert wrong > 0 or p != (0.5, 0.5)


@pytest.mark.chaos
@pytest.mark.parametrize("shares", [None, (6, 3, 1), (1, 3, 6)])
@pytest.mark.parametrize("p", [(0.5, 0.5, 0.5), (0.9, 0.8, 0.3)])
def test_no_choice_among_three_classes_breaks_the_promise(p, shares):
    for truth in (p, tuple(1 - one for one in p)):
        assert chance_of_ever_wrong(truth, 8, shares, 0.5) <= 0.25


@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.99])
def test_within_200_labels_an_accuracy_is_hardly_ever_missed(accuracy):
    assert 0 < chances_of_ever_missing(anytime, 200, accuracy, 0.8)[-1] <= 0.2


@pytest.mark.chaos
@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.99])
def test_within_2000_labels_an_accuracy_is_hardly_ever_missed(accuracy):
    assert 0.01 < chances_of_ever_missing(anytime, 2000, accuracy, 0.95)[-1] <= 0.05


def test_the_exact_interval_looked_at_as_often_breaks_its_promise():
    assert chances_of_ever_missing(clopper_pearson, 1000, 0.9, 0.95)[-1] > 0.34


@pytest.mark.thorough
@pytest.mark.parametrize("jump", [((0.99, 0.6), 40), ((0.7, 0.95), 100)])
def test_the_promise_is_about_the_average_where_an_accuracy_drifts(jump):
    # Summed exactly: labels up to the jump have one chance, and others another.
    (before, after), at = jump
    going, wrong = np.ones(1), 0.0
    for n in range(1, 161):
        p = before if n <= at else after
        going = np.append(going, 0) * (1 - p) + np.append(0, going) * p
        average = (min(n, at) * before + max(n - at, 0) * after) / n
        low, high = anytime(np.arange(n + 1), n, 0.8)
        is_wrong = (low > average) | (high < average)
        wrong += going[is_wrong].sum()
        going[is_wrong] = 0
    assert wrong <= 0.2


@pytest.mark.parametrize("n", [1, 7, 60])
def test_the_evidence_has_a_mean_of_one_at_the_claim_and_less_below_it(n):
    k = np.arange(n + 1)
    for claimed in (0.001, 0.3, 0.9, 0.999):
        logs = log_evidence_above(k[:, None], n, claimed)
        mean = np.exp(binom.logpmf(k, n, claimed) + logs).sum()
        assert 1 - 1e-8 < mean <= 1
        for truth in (0.9999 * claimed, claimed / 2, claimed / 50):
            assert np.exp(binom.logpmf(k, n, truth) + logs).sum() <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("n", [(5, 9), (12, 30), (4, 3, 6)])
def test_the_evidence_of_classes_has_a_mean_of_at_most_one_at_the_truth(n):
    grid = np.meshgrid(*(np.arange(one + 1) for one in n), indexing="ij")
    k = np.stack(grid, axis=-1).reshape(-1, len(n))
    rng, largest = np.random.default_rng(sum(n)), 0.0
    for _ in range(12):
        p = rng.beta(*rng.choice([0.3, 1, 4, 20], 2), len(n)).clip(1e-9, 1 - 1e-9)
        shares = rng.choice([1.0, 3.0, 40.0], len(n))
        chances = np.exp(binom.logpmf(k, n, p).sum(axis=-1))
        logs = log_evidence_above(k, n, p.mean(), shares=shares)
        largest = max(largest, chances @ np.exp(logs))
    assert 0.2 < largest <= 1


def test_the_evidence_about_an_accuracy_is_that_of_its_definition():
    with mpmath.workdps(60):
        for k, n, p in ((0, 1, 0.5), (45, 50, 0.8), (990, 1000, 0.975), (3, 9, 0.1)):
            exact = mpmath.log(evidence_at([k], [n], [mpmath.mpf(p)], None))
            found = float(log_evidence_above([k], [n], p))
            assert found <= exact <= found + 1e-8


@pytest.mark.thorough
@pytest.mark.parametrize("shares", [None, [9.0, 1.0], [1.0, 2.0]])
@pytest.mark.parametrize("counted", [((27, 3), (30, 5)), ((890, 95), (900, 100))])
def test_the_bounds_have_the_evidence_that_they_need_to_60_digits(counted, shares):
    k, n = counted
    low = float(balanced_anytime(k, n, 0.95, shares=shares).low)
    inside = float(log_evidence_above(k, n, low, shares=shares))
    with mpmath.workdps(60):
        # The least evidence among accuracies with that mean, by thirds.
        left, right = mpmath.mpf(max(0, 2 * low - 1)), mpmath.mpf(min(1, 2 * low))

        def logarithm(first):
            at = [first, 2 * mpmath.mpf(low) - first]
            return mpmath.log(evidence_at(k, n, at, shares))

        least = least_of(logarithm, left, right)
    assert math.log(40) <= least <= math.log(40) + 0.02
    assert inside <= least <= inside + 1e-5


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_search_reaches_the_evidence_that_is_needed(classes):
    rng = np.random.default_rng(classes)
    n = rng.integers(5, 800, (40, classes))
    k = rng.binomial(n, rng.choice([0.6, 0.9, 0.99], n.shape))
    for shares in (None, np.arange(1, classes + 1)):
        low = balanced_anytime(k, n, 0.95, shares=shares).low
        logs = log_evidence_above(k, n, low, shares=shares)
        assert (logs >= math.log(40) - 0.02).all()
        assert np.quantile(logs, 0.9) < math.log(40) + 0.02


def class_counts(shares, accuracy, labels):
    n = np.maximum(np.rint(np.multiply(shares, labels)).astype(int), 1)
    return np.rint(n * accuracy).astype(int), n


def predicted(shares, accuracy):
    """Return how often each class is predicted, with mistakes spread evenly."""
    wrong = np.multiply(shares, 1 - accuracy)
    return np.multiply(shares, accuracy) + (wrong.sum() - wrong) / (len(shares) - 1)


# Widths over those of `joint`, of an independent program on simulated counts.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shares", "accuracy", "labels", "ratio"),
    [
        ((0.5, 0.5), 0.9, 1000, 1.64),
        ((0.5, 0.5), 0.95, 5000, 1.68),
        ((0.9, 0.1), 0.9, 1000, 1.67),
        ((0.97, 0.03), 0.9, 5000, 1.81),
        ((0.2,) * 5, 0.9, 1000, 1.67),
        (UNEVEN, 0.9, 5000, 1.76),
        ((0.1,) * 10, 0.9, 1000, 1.71),
    ],
)
def test_the_price_in_width_is_the_known_one(shares, accuracy, labels, ratio):
    k, n = class_counts(shares, accuracy, labels)
    ours, joint = (
        float(found.high - found.low)
        for found in (
            balanced_anytime(k, n, 0.95, shares=predicted(shares, accuracy)),
            balanced_joint(k, n, 0.95),
        )
    )
    assert ours / joint == pytest.approx(ratio, rel=0.08)


@pytest.mark.parametrize(
    ("n", "ratio"), [(20, 1.495), (100, 1.538), (1000, 1.553), (10_000, 1.687)]
)
def test_an_accuracy_of_90_costs_half_more_width_than_one_look(n, ratio):
    k = np.flatnonzero(binom.pmf(np.arange(n + 1), n, 0.9) > 1e-9)
    chance = binom.pmf(k, n, 0.9)
    ours, exact = (
        chance @ np.subtract(high, low)
        for low, high in (f(k, n, 0.95) for f in (anytime, clopper_pearson))
    )
    assert ours / exact == pytest.approx(ratio, abs=0.005)


def test_right_shares_make_the_interval_narrower_and_wrong_ones_wider():
    k, n = class_counts(UNEVEN, 0.9, 1000)
    right, none, reversed_ = (
        float(np.subtract(*balanced_anytime(k, n, 0.95, shares=shares)[::-1]))
        for shares in (UNEVEN, None, UNEVEN[::-1])
    )
    assert right < 0.9 * none
    assert right < 0.9 * reversed_


def test_a_right_label_never_lowers_a_bound_and_a_wrong_one_never_raises_it():
    k, n = random_rows(40, 3, seed=11, most=3)
    low, high = balanced_anytime(k, n, 0.95)
    for j in range(3):
        one = np.eye(3, dtype=int)[j]
        better = balanced_anytime(k + one, n + one, 0.95)
        worse = balanced_anytime(k, n + one, 0.95)
        assert (better.low >= low - 2e-5).all()
        assert (better.high >= high - 2e-5).all()
        assert (worse.low <= low + 2e-5).all()
        assert (worse.high <= high + 2e-5).all()


def test_a_side_is_a_one_sided_bound_at_half_of_the_error():
    k, n = [45, 90], [50, 95]
    assert balanced_anytime(k, n, 0.9).low > balanced_anytime(k, n, 0.95).low


def test_right_and_wrong_mirror_each_other():
    k, n = random_rows(80, 3, seed=7)
    low, high = balanced_anytime(k, n, 0.9)
    mirrored = balanced_anytime(n - k, n, 0.9)
    np.testing.assert_allclose(low, 1 - mirrored.high, rtol=0, atol=1e-15)
    np.testing.assert_allclose(high, 1 - mirrored.low, rtol=0, atol=1e-15)


def test_the_interval_holds_the_balanced_accuracy_that_was_seen():
    k, n = random_rows(150, 4, seed=6)
    n += 1
    low, high = balanced_anytime(k, n, 0.95)
    seen = (k / n).mean(axis=-1)
    assert (low < high).all()
    assert (low <= seen).all()
    assert (seen <= high).all()


@given(counts(), st.sampled_from([0.5, 0.95, 0.9999]))
@settings(max_examples=60, deadline=None)
def test_the_interval_is_wider_than_the_exact_one(pair, level):
    k, n = pair
    low, high = anytime(k, n, level)
    assert 0 <= low < high <= 1
    if n:
        exact = clopper_pearson(k, n, level)
        assert low <= exact.low
        assert high >= exact.high


def test_a_higher_level_gives_a_wider_interval():
    k, n = random_rows(60, 3, seed=8)
    found = [balanced_anytime(k, n, level) for level in (0.5, 0.9, 0.95, 0.999)]
    for narrow, wide in itertools.pairwise(found):
        assert ((wide.low < narrow.low) | (narrow.low == 0)).all()
        assert ((wide.high > narrow.high) | (narrow.high == 1)).all()


def test_only_the_ratios_of_the_shares_matter():
    k, n = random_rows(20, 3, seed=9)
    first = balanced_anytime(k, n, 0.95, shares=[1, 2, 4])
    second = balanced_anytime(k, n, 0.95, shares=[0.125, 0.25, 0.5])
    np.testing.assert_allclose(first.low, second.low, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shares", [None, np.array([1.0, 5.0, 2.0, 2.0])])
def test_the_order_of_the_classes_changes_no_bit(shares):
    k, n = random_rows(8, 4, seed=2)
    expected = balanced_anytime(k, n, 0.95, shares=shares)
    for order in map(list, itertools.permutations(range(4))):
        known = None if shares is None else shares[order]
        permuted = balanced_anytime(k[:, order], n[:, order], 0.95, shares=known)
        assert permuted.low.tolist() == expected.low.tolist()
        assert permuted.high.tolist() == expected.high.tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [2, 3, 9, 70])
def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit(classes):
    k, n = random_rows(40, classes, seed=classes, most=10)
    for shares in (None, np.arange(1, classes + 1)):
        batch = balanced_anytime(k, n, 0.9, shares=shares)
        columns = balanced_anytime(*map(np.asfortranarray, (k, n)), 0.9, shares=shares)
        alone = [
            balanced_anytime(a, b, 0.9, shares=shares)
            for a, b in zip(k, n, strict=True)
        ]
        assert batch.low.tolist() == [float(a.low) for a in alone]
        assert batch.high.tolist() == [float(a.high) for a in alone]
        assert columns.low.tolist() == batch.low.tolist()


def test_blocks_of_rows_join_without_a_seam(monkeypatch):
    k, n = random_rows(30, 3, seed=3)
    expected = balanced_anytime(k, n, 0.95)
    logs = log_evidence_above(k, n, 0.7)
    monkeypatch.setattr(intervals, "_MOST_AT_ONCE", 7000)
    seamed = balanced_anytime(k, n, 0.95)
    assert seamed.low.tolist() == expected.low.tolist()
    assert seamed.high.tolist() == expected.high.tolist()
    assert log_evidence_above(k, n, 0.7).tolist() == logs.tolist()


def test_classes_without_labels_leave_everything_open():
    assert anytime(0, 0, 0.95) == (0, 1)
    assert balanced_anytime([0, 0, 0], [0, 0, 0], 0.95) == (0, 1)
    low, high = balanced_anytime([0, 1000], [0, 1000], 0.95)
    assert 0.49 < low < 0.5
    assert high == 1


def test_none_correct_leaves_the_lower_bound_at_zero():
    assert anytime(0, 50, 0.95).low == 0
    assert anytime(50, 50, 0.95).high == 1
    assert balanced_anytime([0, 0], [5, 900], 0.95).low == 0


def test_very_many_classes_and_very_many_labels_have_their_interval():
    most = np.full(4096, 9)
    low, high = balanced_anytime(most, most, 0.95)
    assert 0.9 < low < high == 1
    low, high = balanced_anytime([9 * 10**8, 5], [10**9, 5], 0.95, shares=[10**9, 5])
    assert 0.5 < low < 0.95 < high < 1
    low, high = anytime(9 * 10**8, 10**9, 0.95)
    assert 0.8999 < low < 0.9 < high < 0.9001
    assert 1 - 1e-7 < anytime(10**9, 10**9, 0.95).low < 1


def test_counts_and_shares_broadcast():
    k, n = np.zeros((4, 1, 2), dtype=int), [[5, 6], [7, 8]]
    assert balanced_anytime(k, n, 0.95, shares=np.ones((4, 2, 1))).low.shape == (4, 2)
    assert balanced_anytime(np.zeros((0, 3), int), [1, 2, 3], 0.95).low.shape == (0,)
    assert log_evidence_above([[3, 4]], [5, 6], [[0.2], [0.3]]).shape == (2, 1)
    low, _ = anytime([[1], [2]], [5, 6, 7], 0.95)
    assert low.shape == (2, 3)
    assert low[1, 2] == anytime(2, 7, 0.95).low


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
        log_evidence_above([1, 2], [5, 8], math.nan)
    with pytest.raises(ValueError, match="a last axis for the classes"):
        log_evidence_above(1, 2, 0.5)
