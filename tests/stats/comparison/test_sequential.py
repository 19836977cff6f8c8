"""Comparison by disagreements: what it promises, summed exactly label by label."""

import itertools
import math

import numpy as np
import pytest

from tracker.stats.anytime import anytime
from tracker.stats.comparison.sequential import (
    decide,
    difference_by_disagreements,
    find_stop,
    log_balanced_evidence_better,
    log_evidence_better,
)


def first_winning(labels, level=0.95):
    """Return, for each number of decided ones, the fewest won that say *better*."""
    n = np.arange(labels + 1)
    outside, inside = np.full(labels + 1, -1), n + 1
    while (inside - outside > 1).any():
        middle = (inside + outside) // 2
        is_better = anytime(np.minimum(middle, n), n, level).low > 0.5
        inside = np.where(is_better & (middle <= n), middle, inside)
        outside = np.where(is_better & (middle <= n), outside, middle)
    return inside


def walk(chance, labels, level=0.95):
    """Return when each verdict comes: chances by the number of decided ones."""
    least = first_winning(labels, level)
    going, better, worse = np.ones(1), np.zeros(labels + 1), np.zeros(labels + 1)
    for n in range(1, labels + 1):
        going = np.append(going, 0) * (1 - chance) + np.append(0, going) * chance
        won = np.arange(n + 1)
        is_better, is_worse = won >= least[n], n - won >= least[n]
        better[n], worse[n] = going[is_better].sum(), going[is_worse].sum()
        going[is_better | is_worse] = 0
    return better, worse, going.sum()


def test_a_wrong_verdict_is_rarer_than_promised_at_any_time():
    better, worse, _ = walk(0.5, 1000)
    assert better.sum() == pytest.approx(0.0179, abs=2e-4)
    assert worse.sum() == pytest.approx(better.sum(), rel=1e-9)
    for level in (0.5, 0.8):
        better, worse, _ = walk(0.5, 300, level)
        assert better.sum() + worse.sum() <= 1 - level
        # A version that wins less often is called better less often.
        assert walk(0.45, 300, level)[0].sum() < better.sum()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("share", "mean"), [(0.6, 248), (0.7, 55), (0.8, 22), (0.9, 12)]
)
def test_a_verdict_takes_as_few_labels_as_was_reckoned(share, mean):
    better, worse, undecided = walk(share, 1500)
    assert undecided < 1e-3
    taken = ((better + worse) * np.arange(1501)).sum()
    assert taken == pytest.approx(mean, rel=0.1)
    assert worse.sum() < 0.025


def test_five_against_two_per_cent_is_decided_within_71_disagreements():
    # Fixed pairs take 800 labels: here 5 of 7 disagreements are won.
    better, worse, _ = walk(5 / 7, 400)
    assert better[:72].sum() > 0.75
    assert ((better + worse) * np.arange(401)).sum() < 71


def test_the_verdict_is_what_the_interval_says():
    for won, lost in itertools.product(range(0, 40, 3), range(0, 40, 3)):
        found, mirrored = decide(won, lost, 0.95), decide(lost, won, 0.95)
        assert 0 <= found.low <= found.high <= 1
        assert (found.verdict == "better") == (found.low > 0.5)
        assert (found.verdict == "worse") == (found.high < 0.5)
        assert (found.verdict == "better") == (mirrored.verdict == "worse")
        is_enough = log_evidence_better(won, lost) >= math.log(40) + 1e-8
        assert (found.verdict == "better") == is_enough
    assert decide(36, 5, 0.95)[0] == "better"
    assert decide(0, 0, 0.95) == ("undecided", 0, 1)


def test_the_interval_of_the_picture_is_met():
    _, low, high = decide(36, 5, 0.95)
    assert low == pytest.approx(0.673, abs=5e-4)
    assert high == pytest.approx(0.983, abs=5e-4)


def test_the_difference_follows_from_the_share_that_is_won():
    low, high = difference_by_disagreements(
        (36, 5, 0), (50, 1000), 0.95, is_binary=True
    )
    _, least, most = decide(36, 5, 0.95)
    assert low == pytest.approx(0.05 * (2 * least - 1), abs=1e-12)
    assert high == pytest.approx(0.05 * (2 * most - 1), abs=1e-12)
    wider = difference_by_disagreements((36, 5, 9), (50, 1000), 0.95, is_binary=False)
    assert wider.low < low < high
    assert wider.low >= -0.05
    assert difference_by_disagreements((0, 0, 0), (0, 0), 0.95, is_binary=True) == (
        -1,
        1,
    )
    with pytest.raises(ValueError, match="of two classes one is right"):
        difference_by_disagreements((1, 1, 1), (5, 9), 0.95, is_binary=True)
    with pytest.raises(ValueError, match="must not exceed n"):
        difference_by_disagreements((5, 1, 0), (5, 9), 0.95, is_binary=True)


@pytest.mark.thorough
def test_many_classes_miss_the_difference_no_more_often_than_promised():
    # Exact over all orders of 14 labels, at the last look and at every one before.
    chances, labels, level = (0.5, 0.3, 0.2), 14, 0.6
    truth = 0.2 * (chances[0] - chances[1])
    holding = {(0, 0, 0): 1.0}
    for _ in range(labels):
        following: dict[tuple[int, int, int], float] = {}
        for state, chance in holding.items():
            for place, step in enumerate(chances):
                after = tuple(n + (j == place) for j, n in enumerate(state))
                following[after] = following.get(after, 0.0) + chance * step
        holding = {
            state: chance
            for state, chance in following.items()
            if (
                bounds := difference_by_disagreements(
                    state, (20, 100), level, is_binary=False
                )
            ).low
            <= truth
            <= bounds.high
        }
    assert sum(holding.values()) >= level


def test_balanced_evidence_is_fair_to_versions_that_are_alike():
    # 10 % of inputs are of the first class; it wins two in three, and loses the
    # other class so often that the balanced accuracies are equal.
    shares, won = np.array([0.1, 0.9]), np.array([2 / 3, 4 / 9])
    among = np.array([0.25, 0.75])
    # E V = 0: the class of the disagreement weighs by one over its share.
    value = among * (2 * won - 1) / shares
    assert value[0] > 0 > value[1]
    among = np.array([-value[1] * among[0], value[0] * among[1]])
    among /= among.sum()
    mean = 0.0
    for labels in (1, 2, 4):
        mean = 0.0
        for outcome in itertools.product(range(4), repeat=labels):
            chance, one, other = 1.0, [0, 0], [0, 0]
            for case in outcome:
                label, is_won = divmod(case, 2)
                chance *= among[label] * (won[label] if is_won else 1 - won[label])
                (one if is_won else other)[label] += 1
            mean += chance * math.exp(log_balanced_evidence_better(one, other, shares))
        assert mean == pytest.approx(1, abs=1e-9)


def test_balanced_evidence_grows_with_what_is_won():
    evidence = log_balanced_evidence_better([[9, 5], [9, 9]], [[1, 5], [1, 1]], [1, 9])
    assert evidence.shape == (2,)
    assert 0 < evidence[0] < evidence[1]
    assert log_balanced_evidence_better([0, 0], [0, 0], [1, 1]) == pytest.approx(
        0, abs=1e-9
    )
    with pytest.raises(ValueError, match="shares must be positive"):
        log_balanced_evidence_better([1, 1], [1, 1], [1, 0])


def test_labelling_stops_for_one_reason_of_four():
    wide = difference_by_disagreements((2, 2, 0), (5, 9), 0.95, is_binary=True)
    small = difference_by_disagreements((2, 2, 0), (5, 900), 0.95, is_binary=True)
    even, won = decide(2, 2, 0.95), decide(30, 2, 0.95)
    assert find_stop(won, wide, remaining=3) == "decided"
    assert find_stop(even, small, remaining=3, margin=0.01) == "small"
    assert find_stop(even, wide, remaining=3, margin=0.01) is None
    assert find_stop(even, wide, remaining=0) == "used up"
    assert find_stop(even, wide, remaining=3, budget=0) == "budget"
    assert find_stop(even, wide, remaining=3, budget=1) is None
