from itertools import product
from math import factorial, prod

import numpy as np
import pytest

from tracker.stats.monitoring.labelers import (
    cohen_kappa,
    cohen_kappa_interval,
    is_careless,
    log_evidence_careless,
)


def chances_of_a_flag(rate, acceptable, looks):
    """Return how likely somebody is flagged within each of *looks*, summed."""
    alive, flagged, found = np.ones(1), 0.0, {}
    for known in range(1, max(looks) + 1):
        alive = np.convolve(alive, [1 - rate, rate])
        flags = is_careless(np.arange(known + 1), known, acceptable=acceptable)
        flagged += alive[flags].sum()
        alive[flags] = 0
        found[known] = flagged
    return [found[look] for look in looks]


# From an independent program: flagged within 50, 100, 200 and 400 known answers.
@pytest.mark.parametrize(
    ("acceptable", "rate", "chances"),
    [
        (0.02, 0.10, (0.45, 0.80, 0.982, 1)),
        (0.02, 0.05, (0.07, 0.16, 0.33, 0.61)),
        (0.05, 0.20, (0.69, 0.96, 1, 1)),
        (0.01, 0.10, (0.72, 0.95, 0.999, 1)),
    ],
)
def test_the_careless_are_flagged_as_soon_as_is_known(acceptable, rate, chances):
    found = chances_of_a_flag(rate, acceptable, (50, 100, 200, 400))
    assert found == pytest.approx(chances, abs=6e-3)


@pytest.mark.parametrize("acceptable", [0.01, 0.02, 0.05])
def test_the_careful_are_hardly_ever_flagged(acceptable):
    at_limit, below = (
        chances_of_a_flag(rate, acceptable, (400,))[0]
        for rate in (acceptable, acceptable / 2)
    )
    assert below < at_limit <= 0.01
    assert at_limit == pytest.approx(0.0050, abs=5e-4)


def test_without_known_answers_there_is_no_evidence():
    assert log_evidence_careless(0, 0) == pytest.approx(0)
    assert not is_careless([0, 0], [0, 50]).any()
    with pytest.raises(ValueError, match=r"acceptable must be below 0\.4"):
        log_evidence_careless(1, 2, acceptable=0.4)


def test_cohens_kappa_is_the_published_one():
    # Cohen's own example of 1960: three classes, agreement 0.7, by chance 0.41.
    table = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
    assert cohen_kappa(table) == pytest.approx(0.4915, abs=1e-3)
    assert cohen_kappa([[20, 5], [10, 15]]) == pytest.approx(0.4)
    assert cohen_kappa([[9, 0], [0, 0]]) is None
    assert cohen_kappa([[0, 0], [0, 0]]) is None


# Pairs of labels and how many differ, with the width of the interval.
@pytest.mark.parametrize(
    ("table", "width"),
    [
        ([[24, 1], [1, 24]], 0.40),
        ([[23, 2], [3, 22]], 0.57),
        ([[95, 5], [5, 95]], 0.17),
        ([[99, 1], [1, 99]], 0.086),
    ],
)
def test_the_interval_of_kappa_has_about_the_known_width(table, width):
    low, high = cohen_kappa_interval(table, 0.95)
    assert low < cohen_kappa(table) < high
    assert high - low == pytest.approx(width, rel=0.15)


def samples(labels, cells):
    for counts in product(range(labels + 1), repeat=cells):
        if sum(counts) == labels:
            yield counts


def chance(counts, chances):
    return factorial(sum(counts)) * prod(
        p**k / factorial(k) for p, k in zip(chances, counts, strict=True)
    )


@pytest.mark.parametrize(
    "world", [(0.48, 0.02, 0.02, 0.48), (0.9, 0.04, 0.01, 0.05), (0.2, 0.3, 0.3, 0.2)]
)
def test_cohens_interval_covers_summed_over_all_samples(world):
    a, b = world[0] + world[1], world[0] + world[2]
    by_chance = a * b + (1 - a) * (1 - b)
    truth = (world[0] + world[3] - by_chance) / (1 - by_chance)
    missed = 0.0
    for counts in samples(11, 4):
        low, high = cohen_kappa_interval(np.reshape(counts, (2, 2)), 0.6)
        missed += chance(counts, world) * (not low <= truth <= high)
    assert missed <= 0.4


def test_cohens_interval_of_three_classes_covers_summed_over_all_samples():
    world = np.array([[0.3, 0.05, 0.0], [0.0, 0.25, 0.1], [0.05, 0.0, 0.25]])
    by_chance = world.sum(axis=0) @ world.sum(axis=1)
    truth = (np.trace(world) - by_chance) / (1 - by_chance)
    cells = np.flatnonzero(world)
    missed = 0.0
    for counts in samples(6, cells.size):
        table = np.zeros(9, dtype=int)
        table[cells] = counts
        low, high = cohen_kappa_interval(table.reshape(3, 3), 0.5)
        missed += chance(counts, world.ravel()[cells]) * (not low <= truth <= high)
    assert missed <= 0.5


def test_a_sure_agreement_still_has_an_interval():
    low, high = cohen_kappa_interval([[100, 0], [0, 100]], 0.95)
    assert 0.9 < low < 1
    assert high == 1
    assert cohen_kappa_interval([[0, 0], [0, 0]], 0.95) == (-1, 1)


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="row and column for each class"):
        cohen_kappa([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match="must not be negative"):
        cohen_kappa([[1, -2], [3, 4]])
