"""Comparison by disagreements: what it promises, summed exactly label by label."""

import itertools

import numpy as np
import pytest

from tracker.stats.evidence.intervals import anytime
from tracker.stats.evidence.paired import decide


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
    assert better.sum() == pytest.approx(0.0153, abs=2e-4)
    assert worse.sum() == pytest.approx(better.sum(), rel=1e-9)
    for level in (0.5, 0.8):
        better, worse, _ = walk(0.5, 300, level)
        assert better.sum() + worse.sum() <= 1 - level
        # A version that wins less often is called better less often.
        assert walk(0.45, 300, level)[0].sum() < better.sum()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("share", "mean"), [(0.6, 223), (0.7, 57), (0.8, 28), (0.9, 16)]
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
    assert decide(36, 5, 0.95)[0] == "better"
    assert decide(0, 0, 0.95) == ("undecided", 0, 1)


def test_the_interval_of_the_picture_is_met():
    _, low, high = decide(36, 5, 0.95)
    assert low == pytest.approx(0.651, abs=5e-4)
    assert high == pytest.approx(0.986, abs=5e-4)
