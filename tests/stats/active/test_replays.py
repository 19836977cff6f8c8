"""Replays on pools that were made to mislead, and on records that were falsified."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import IS_LONG
from tests.stats.active.replays import (
    Plan,
    all_misses_most_confident,
    class_of_eight,
    confident,
    hostile_judges,
    inverted,
    rates,
    several_classes,
    shuffled,
    ten_digits,
    without_confidence,
)
from tracker.stats.active.ledger import OPEN

# All of it runs every time, larger among the long tests.
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(7200)] if IS_LONG else []

# The long profile takes half an hour; the short one shows gross faults.
REPLAYS = 1000 if IS_LONG else 8
CALIBRATED = confident(600, 0.2, 1, sharpness=2.2)
WRONG = np.flatnonzero(CALIBRATED.predicted != CALIBRATED.labels)
TYPOS = np.random.default_rng(6).random(600) < 0.06
POOLS = {
    "calibrated": (CALIBRATED, {}),
    "overconfident": (confident(600, 0.2, 1, sharpness=2.2, tilt=3.0), {}),
    "shuffled": (shuffled(CALIBRATED, 2), {}),
    "inverted": (inverted(CALIBRATED), {}),
    "no confidence": (without_confidence(CALIBRATED), {}),
    "all misses most confident": (all_misses_most_confident(CALIBRATED), {}),
    "accuracies near one": (confident(800, 0.3, 4, sharpness=5.0), {}),
    "class of eight": (class_of_eight(), {}),
    "four classes, some unclear": (several_classes(800, 5), {}),
    "aimed at a class": (CALIBRATED, {"aim": 1}),
    "the least confident known": (
        CALIBRATED,
        {"known": tuple(np.argsort(CALIBRATED.confidence)[:60])},
    ),
    "half of the wrong ones known": (CALIBRATED, {"known": tuple(WRONG[::2])}),
    "six in a hundred corrected at the end": (
        CALIBRATED,
        {"first": np.where(TYPOS, 1 - CALIBRATED.labels, CALIBRATED.labels)},
    ),
    "the wrong ones answered last": (
        CALIBRATED,
        {
            "first": np.where(
                CALIBRATED.predicted != CALIBRATED.labels, OPEN, CALIBRATED.labels
            )
        },
    ),
    "ten digits": (ten_digits(), {"draws": 700}),
    **hostile_judges(),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "level"), [*((name, 0.95) for name in POOLS), ("inverted", 0.8)]
)
def test_no_interval_ever_misses_more_often_than_it_may(name, level):
    pool, options = POOLS[name]
    plan = Plan(**{"draws": int(0.6 * len(pool.labels)), **options})
    missed = rates(pool, plan, REPLAYS, level)
    error = 1 - level
    # Three standard errors of so many replays.
    most = error + 3 * math.sqrt(error * level / REPLAYS)
    assert (missed <= most).all(), missed


def forget_the_weights(ledger, seed):
    even = (replace(r, weights=np.ones_like(r.weights)) for r in ledger.rounds)
    return replace(ledger, rounds=tuple(even))


def weigh_after_the_label(ledger, seed):
    wrong = (ledger.labels < 2) & (
        ledger.labels != ledger.strata.predicted[ledger.drawn]
    )
    starts = [*(r.start for r in ledger.rounds), len(ledger.labels)]
    rounds = []
    for number, one in enumerate(ledger.rounds):
        part = slice(starts[number], starts[number + 1])
        weights = one.weights.copy()
        weights[np.unique(ledger.drawn[part][wrong[part]])] *= 8
        rounds.append(replace(one, weights=weights))
    return replace(ledger, rounds=tuple(rounds))


def drop_late_answers(ledger, seed):
    # Of the wrong ones half come late, and are forgotten.
    wrong = (ledger.labels < 2) & (
        ledger.labels != ledger.strata.predicted[ledger.drawn]
    )
    kept = ~(wrong & (np.random.default_rng(seed).random(len(wrong)) < 0.5))
    starts = np.concatenate([[0], np.cumsum(kept)])
    rounds = {int(starts[r.start]): r for r in ledger.rounds}
    return replace(
        ledger,
        rounds=tuple(replace(r, start=start) for start, r in rounds.items()),
        known=ledger.known[: len(rounds)],
        drawn=ledger.drawn[kept],
        labels=ledger.labels[kept],
    )


MUTANTS = [
    (
        forget_the_weights,
        inverted(confident(20_000, 0.4, 1, sharpness=2.5)),
        Plan(4000, length=lambda start: 4000),
    ),
    (
        weigh_after_the_label,
        confident(20_000, 0.4, 1, sharpness=2.0),
        Plan(600, length=lambda start: 60),
    ),
    (drop_late_answers, CALIBRATED, Plan(360)),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mutant", "pool", "plan"), MUTANTS, ids=lambda v: getattr(v, "__name__", "")
)
def test_a_falsified_record_is_noticed(mutant, pool, plan):
    assert rates(pool, plan, 5, change=mutant).max() >= 0.6
