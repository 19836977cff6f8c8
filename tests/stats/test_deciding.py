"""How many labels the interval that decides needs, and how wide it is."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tracker.stats import balanced_anytime, balanced_joint, level_since
from tracker.storage.estimates.cells import labels_of_shares

LEVEL, LIVES = 0.95, 30
# Shares of the classes, accuracy and target, and how many times the labels of Wald's
# bound half of all lives may need.
MIXES = {
    "2 even": ((0.5, 0.5), 0.95, 0.9, 1.5),
    "90/10": ((0.9, 0.1), 0.95, 0.9, 1.5),
    "97/3": ((0.97, 0.03), 0.97, 0.93, 1.5),
    "5 uneven": ((0.6, 0.2, 0.1, 0.06, 0.04), 0.95, 0.9, 1.7),
    "10 even": ((0.1,) * 10, 0.95, 0.9, 1.9),
    "10 uneven": (
        (0.3, 0.2, 0.13, 0.1, 0.08, 0.06, 0.05, 0.035, 0.025, 0.02),
        0.95,
        0.9,
        1.9,
    ),
}


def wald(shares, accuracy, target):
    """The labels that no test at every look decides with in expectation."""
    parts = np.array(shares)

    def divergence(null):
        wrong = (1 - accuracy) * np.log((1 - accuracy) / (1 - null))
        return float(parts @ (accuracy * np.log(accuracy / null) + wrong))

    found = minimize(
        divergence,
        np.full(len(parts), target),
        bounds=[(1e-3, 1 - 1e-6)] * len(parts),
        constraints={"type": "eq", "fun": lambda null: null.mean() - target},
    )
    return math.log(2 / (1 - LEVEL)) / float(found.fun)


def share_met(mix, labels, level):
    """The part of lives that have met the target by then, looked at every 4 %."""
    shares, accuracy, target, _ = MIXES[mix]
    rng, met = np.random.default_rng(37), 0
    for _ in range(LIVES):
        classes = rng.choice(len(shares), labels, p=shares)
        is_right = rng.random(labels) < accuracy
        fewest = labels_of_shares(len(shares))
        number = int(math.log(labels / fewest) / 0.04)
        looks = np.geomspace(labels, fewest, number).astype(int)
        counted, right = (
            np.array(
                [np.bincount(classes[:n][of[:n]], minlength=len(shares)) for n in looks]
            )
            for of in (np.ones(labels, bool), is_right)
        )
        # The last looks decide most lives, and the others need not be computed.
        met += any(
            (balanced_anytime(*some, level, shares=counted[-1] + 1).low > target).any()
            for of in (slice(1), slice(1, 10), slice(10, None))
            for some in [(right[of], counted[of])]
        )
    return met / LIVES


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_half_of_all_lives_are_decided_in_time(mix):
    *what, times = MIXES[mix]
    bound = wald(*what)
    assert share_met(mix, int(times * bound), LEVEL) >= 0.5
    # A whole version has a part of the error, and takes at most 15 % more labels.
    more = 1.15 * times * bound
    assert share_met(mix, int(more), level_since(LEVEL, None, 0)) >= 0.5


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("accuracy", [0.9, 0.95, 0.99, None])
def test_after_a_thousand_labels_it_is_not_much_wider_than_joint(mix, accuracy):
    shares = np.array(MIXES[mix][0])
    counted = np.rint(1000 * shares).astype(int)
    # Or rare classes worst.
    each = np.linspace(0.98, 0.8, len(shares)) if accuracy is None else accuracy
    right = np.rint(counted * each).astype(int)
    wide = balanced_anytime(right, counted, LEVEL, shares=shares)
    narrow = balanced_joint(right, counted, LEVEL)
    assert wide.high - wide.low <= 1.85 * (narrow.high - narrow.low)
