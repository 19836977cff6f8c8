"""Verdicts over a whole life: how often they are false."""

import math

import numpy as np
import pytest

from tracker.stats.evidence.intervals import log_evidence_above


@pytest.mark.thorough
@pytest.mark.parametrize("target", [0.9, 0.95])
def test_a_false_verdict_in_a_whole_life_is_as_rare_as_promised(target):
    labels = 1000
    going, met = np.ones(1), 0.0
    for n in range(1, labels + 1):
        going = np.append(going, 0) * (1 - target) + np.append(0, going) * target
        # What has no chance to speak of need not be looked at.
        k = np.flatnonzero(going > 1e-15)
        log_above = log_evidence_above(k[:, None], n, target)
        is_met = k[log_above >= math.log(40) + 1e-9]
        met += going[is_met].sum()
        going[is_met] = 0
    assert 0.005 < met <= 0.025
