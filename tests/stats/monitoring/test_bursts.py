"""Mistakes that follow one another: the law against enumeration, and its power."""

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest

from tracker.stats.monitoring.thresholds import (
    burst_look,
    bursts_are_beyond_doubt,
    find_bursts,
    neighbour_law,
)


@pytest.mark.parametrize("labels", range(1, 13))
def test_the_law_is_that_of_all_orders(labels):
    for mistakes in range(labels + 1):
        counted: Counter[int] = Counter()
        for places in itertools.combinations(range(labels), mistakes):
            counted[sum(b - a == 1 for a, b in itertools.pairwise(places))] += 1
        law = neighbour_law(labels, mistakes)
        for neighbours in range(max(mistakes, 1)):
            exact = counted[neighbours] / comb(labels, mistakes)
            assert law[neighbours] == pytest.approx(exact, abs=1e-12)


def test_classes_and_blocks_are_summed_exactly():
    # Two classes of 4 labels with 2 mistakes each: neighbours half of the time.
    wrong = [True, True, False, False]
    found = find_bursts([wrong, wrong])
    assert found.neighbours == 2
    assert found.expected == pytest.approx(1)
    assert found.p_value == pytest.approx(0.25)
    assert find_bursts([]).p_value == find_bursts([[], [False]]).p_value == 1


def test_order_that_tells_nothing_is_hardly_ever_called_a_burst():
    rng, warned = np.random.default_rng(4), 0
    for _ in range(200):
        found = find_bursts([rng.random(200) < 0.1])
        warned += bursts_are_beyond_doubt(found, 100)
    assert warned <= 6


def test_bursts_of_five_are_noticed():
    rng, warned = np.random.default_rng(5), 0
    for _ in range(50):
        wrong = np.repeat(rng.random(40) < 0.1, 5)
        warned += bursts_are_beyond_doubt(find_bursts([wrong]), 100)
    assert warned >= 40


def test_a_slow_change_looks_like_no_burst():
    rng, warned = np.random.default_rng(6), 0
    for _ in range(100):
        wrong = rng.random(400) >= np.linspace(0.99, 0.81, 400)
        warned += bursts_are_beyond_doubt(find_bursts([wrong]), 100)
    assert warned <= 5


def test_looks_are_twice_as_far_apart_each_time_and_share_two_per_cent():
    assert [burst_look(n) for n in (0, 99, 100, 199, 200, 400, 799, 800)] == [
        *(0, 0, 1, 1, 2, 3, 3, 4)
    ]
    some = find_bursts([[False] * 20 + [True] * 3 + [False] * 20])
    assert 0.0025 < some.p_value < 0.01
    assert bursts_are_beyond_doubt(some, 100)
    assert not bursts_are_beyond_doubt(some, 50)
    assert not bursts_are_beyond_doubt(some, 400)
