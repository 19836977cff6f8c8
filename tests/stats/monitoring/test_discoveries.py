"""Claims that stand together: few false ones among them, summed exactly."""

import itertools
import math

import numpy as np
import pytest

from tracker.stats.evidence.intervals import log_evidence_above
from tracker.stats.monitoring.slices import discoveries


def test_the_rule_is_that_of_the_paper():
    # With 4 claims at 5 % the thresholds are 80, 40, 26.7 and 20.
    logs = [math.log(evidence) for evidence in (41, 45, 19, 27)]
    assert discoveries(logs, 4, 0.05) == [True, True, False, True]
    assert discoveries([math.log(79)], 4, 0.05) == [False]
    assert discoveries([math.log(81)], 4, 0.05) == [True]
    assert discoveries([-math.inf, -math.inf], 4, 0.05) == [False, False]
    assert discoveries([], 4, 0.05) == []


def test_more_claims_make_each_of_them_harder():
    logs = [math.log(30), math.log(100)]
    stand = [sum(discoveries(logs, claims, 0.05)) for claims in (1, 2, 4, 5, 6)]
    assert stand == sorted(stand, reverse=True)
    assert stand[0] == 2
    assert stand[-1] == 0


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("high", [10.0, 20.0, 25.0])
@pytest.mark.parametrize("size", [2, 3])
def test_false_ones_are_few_beside_true_ones_whatever_evidence_they_share(
    size, high, is_shared
):
    # Evidence that is all or nothing is the worst case; summed over all outcomes.
    error, share = 0.2, 0.0
    for outcome in itertools.product((0, 1), repeat=1 if is_shared else size):
        false = list(outcome) * (size if is_shared else 1)
        chance = math.prod(1 / high if one else 1 - 1 / high for one in outcome)
        logs = [math.log(high) if one else -math.inf for one in false]
        stand = discoveries([*logs, math.log(1e9), math.log(1e9)], size + 2, error)
        share += chance * sum(stand[:size]) / max(sum(stand), 1)
    assert share <= error


@pytest.mark.parametrize("accuracy", [0.5, 0.8, 0.9])
def test_few_of_what_stands_is_false_when_all_claims_are(accuracy):
    """Each of three detectors is exactly at its target; any claim is a false one.

    The share of false ones is then 1 wherever anything stands, so the chance that
    anything does is at most the error: summed over every outcome of all three.
    """
    labelled, error = (4, 4), 0.2
    counts = list(itertools.product(range(5), repeat=2))
    chances = [
        math.prod(
            math.comb(n, k) * accuracy**k * (1 - accuracy) ** (n - k)
            for k, n in zip(correct, labelled, strict=True)
        )
        for correct in counts
    ]
    above = log_evidence_above(counts, labelled, accuracy)
    missed = np.subtract(labelled, counts)
    below = log_evidence_above(missed, labelled, 1 - accuracy)
    pairs = list(zip(above.tolist(), below.tolist(), chances, strict=True))
    assert sum(chances) == pytest.approx(1)
    # The expectation of the evidence for what is false is at most 1.
    for logs in (above, below):
        assert np.dot(np.exp(logs), chances) <= 1 + 1e-9
    chance = 0.0
    for three in itertools.product(pairs, repeat=3):
        logs = [log for one in three for log in one[:2]]
        if any(discoveries(logs, 6, error)):
            chance += math.prod(one[2] for one in three)
    assert chance <= error


def test_of_a_thousand_detectors_those_below_their_target_are_found():
    # 50 of 1,000 detectors are below their target of 0.9, with 300 labels each.
    rng = np.random.default_rng(0)
    accuracy = np.where(np.arange(1000) < 50, 0.8, 0.9)
    missed = 300 - rng.binomial(300, accuracy)
    logs = log_evidence_above(np.asarray(missed)[:, None], 300, 0.1)
    stand = np.array(discoveries(logs.tolist(), 1000, 0.05))
    assert stand[:50].mean() > 0.6
    assert stand[50:].sum() <= 1
