"""Verdicts over a whole life: how often they are false."""

import math

import numpy as np
import pytest

from tracker.stats.evidence.one_class import log_evidence_above
from tracker.stats.verdicts import epoch_level, judge_evidence


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "known"), [(0.9, 0.0209), (0.95, 0.0199)])
def test_a_false_verdict_in_a_whole_life_is_as_rare_as_promised(target, known):
    labels = 2000
    going, met = np.ones(1), 0.0
    for n in range(1, labels + 1):
        going = np.append(going, 0) * (1 - target) + np.append(0, going) * target
        # What has no chance to speak of need not be looked at.
        k = np.flatnonzero(going > 1e-15)
        log_above = log_evidence_above(k, n, target)
        is_met = k[log_above >= math.log(40) + 1e-9]
        met += going[is_met].sum()
        going[is_met] = 0
    # The known figures are those within 4,000 labels.
    assert 0.9 * known < met <= known < 0.025


def test_a_verdict_needs_the_evidence_that_its_level_asks_for():
    enough, level = math.log(40) + 1e-6, 0.95
    assert judge_evidence(enough, -9, 100, level) == "met"
    assert judge_evidence(-9, enough, 100, level) == "missed"
    assert judge_evidence(enough - 1e-5, -9, 100, level) == "undecided"


def test_the_stretches_of_a_life_share_its_error():
    errors = [1 - epoch_level(0.95, epoch) for epoch in range(1, 2000)]
    assert errors[0] == pytest.approx(0.025, rel=1e-9)
    assert sum(errors) <= 0.05
    assert sum(errors) == pytest.approx(0.05, rel=1e-3)
    with pytest.raises(ValueError, match="at least 1"):
        epoch_level(0.95, 0)
