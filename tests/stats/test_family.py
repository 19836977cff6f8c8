"""Gates over many versions: few of those that pass are false."""

import math

import numpy as np
import pytest

from tracker.stats.verdicts import log_evidence_needed

ERROR = 0.025


def share_of_false_passes(rng, lift):
    """Return the false among the passes of 200 nulls with 50 better ones mixed in.

    Each is a stream of 400 bets on a coin, stopped at its largest evidence, as a
    maker does who watches it and knows when to stop.
    """
    is_null = np.ones(250, dtype=bool)
    is_null[rng.permutation(250)[:50]] = False
    passed = false = 0
    for order, null in enumerate(is_null, 1):
        won = rng.random(400) < (0.5 if null else 0.5 + lift)
        evidence = np.cumsum(np.log1p(np.where(won, 0.4, -0.4))).max()
        if evidence >= log_evidence_needed(order, passed, ERROR):
            passed += 1
            false += null
    return false / max(passed, 1), passed - false


def test_of_the_versions_that_pass_few_are_false_and_true_ones_do_pass():
    rng = np.random.default_rng(12)
    runs = [share_of_false_passes(rng, 0.25) for _ in range(60)]
    shares, found = zip(*runs, strict=True)
    assert np.mean(shares) <= ERROR
    assert np.mean(found) > 40


def test_the_first_version_needs_more_than_alone_and_passes_make_it_easier():
    alone = math.log(1 / ERROR)
    needed = [log_evidence_needed(order, 0, ERROR) for order in (1, 20, 100, 1000)]
    assert np.divide(needed, alone) == pytest.approx([1.6, 2.5, 3.0, 3.7], abs=0.06)
    assert log_evidence_needed(100, 50, ERROR) < needed[2]


def test_what_is_spent_is_at_most_the_error():
    spent = np.exp([-log_evidence_needed(v, 0, 1 - 1e-9) for v in range(1, 5001)])
    rest = 10 * 5000**-0.1 / 10.59
    assert 0.99 < spent.sum() + rest <= 1


@pytest.mark.parametrize(("order", "passed"), [(0, 0), (1, 1), (5, -1)])
def test_an_impossible_place_is_refused(order, passed):
    with pytest.raises(ValueError, match="passed must be from 0"):
        log_evidence_needed(order, passed, ERROR)
