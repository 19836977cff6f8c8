"""What the audits of a year say together, by exact sums over small sets."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from tests.stats.active.replays import Plan, carry_out, confident, tiny
from tests.stats.active.test_exact import courses, exact_gains, of_all, wealths
from tracker.stats import (
    OPEN,
    bound_for_late,
    change_since,
    list_on_average,
    log_evidence_below,
)
from tracker.stats.active.betting import EDGES, GRID, ClassBets
from tracker.stats.active.ledger import build_rows
from tracker.stats.active.series import _as_share

LEVEL = 0.5
PLAN = Plan(3, aim=2, length=lambda start: 2)


def overall(pool):
    """Return the share of right queries, of those with a class and of all."""
    right = float((pool.predicted == pool.labels).sum())
    return right / (pool.labels < pool.classes).sum(), right / len(pool.labels)


SETS = [
    tiny((2, 3), (1, 2)),
    tiny((3, 2), (2, 2), unclear=(1, 0)),
    tiny((2, 2), (1, 1), predicted=(1, 2)),
]


@pytest.mark.parametrize("pool", SETS)
def test_the_evidence_has_a_mean_of_at_most_one_at_the_target(pool):
    target, _ = overall(pool)
    mean = sum(
        float(chance) * math.exp(log_evidence_below(ledger, 2, target))
        for ledger, chance in courses(pool, PLAN)
    )
    assert 0.5 < mean <= 1 + 1e-6


@pytest.mark.parametrize("pool", SETS)
def test_who_leaves_open_what_is_right_makes_no_evidence(pool):
    """To stop in front of the open draw would: its answer decided about it."""
    target, _ = overall(pool)
    means = {"as it is": 0.0, "in front of it": 0.0}
    for ledger, chance in courses(pool, PLAN):
        said = pool.strata.predicted[ledger.drawn]
        labels = np.where(ledger.labels == said, OPEN, ledger.labels)
        left = replace(ledger, labels=labels)
        before = replace(
            left, labels=labels[: left.settled], drawn=ledger.drawn[: left.settled]
        )
        for name, one in (("as it is", left), ("in front of it", before)):
            evidence = math.exp(log_evidence_below(one, 2, target))
            means[name] += float(chance) * evidence
    assert means["as it is"] <= 1 + 1e-6
    assert means["in front of it"] > 1.02


def test_a_list_is_as_long_as_each_of_it_speaks_enough():
    # One alone takes 53 / 0.05, two half of that.
    assert list_on_average([math.log(1000), 0.0], 53, 0.95) == []
    assert list_on_average([math.log(1061), 0.0], 53, 0.95) == [0]
    assert list_on_average([math.log(535), 1.0, math.log(531)], 53, 0.95) == [0, 2]
    assert list_on_average([], 53, 0.95) == []


def test_of_a_list_few_are_wrong_on_average_and_those_that_are_below_are_found():
    rng = np.random.default_rng(3)
    wrong, found = [], []
    # 32 weeks at the target and 20 below it: the logs of likelihood ratios.
    size = np.sqrt(2 * np.log(53 / 0.05))
    for _ in range(2000):
        at = rng.normal(-(size**2) / 2, size, 32)
        below = rng.normal(1.5 * size**2, 1.5 * size, 20)
        listed = list_on_average([*at, *below], 53, 0.95)
        wrong.append(sum(one < 32 for one in listed) / max(1, len(listed)))
        found.append(sum(one >= 32 for one in listed))
    assert np.mean(wrong) <= 0.05
    assert np.mean(found) > 19


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (2, 0), (0, 2)])
def test_a_change_between_two_spans_is_bounded_in_the_mean(first, second):
    """Of the exponent that both bounds rest on, over all courses of both audits."""
    draws = 3
    before, now = (list(courses(SETS[one], PLAN)) for one in (first, second))
    truth = overall(SETS[second])[1] - overall(SETS[first])[1]
    needed = math.log(2 / (1 - LEVEL)) + 1e-9
    unit = min(math.sqrt(2 * needed / (0.1 * 2 / draws)), 0.375 * draws)
    means, whole = np.zeros(2), Fraction(0)
    for (old, chance), (new, other) in product(before, now):
        found = change_since([old], new, draws, LEVEL)
        assert found is not None
        middle, (low, high) = found
        assert low < middle < high
        gains = unit * np.array([low - truth, truth - high]) + needed
        means += float(chance * other) * np.exp(gains)
        whole += chance * other
    assert whole == 1
    assert (means <= 1 + 1e-9).all()
    assert (means > 0.3).all()


def test_a_drop_is_seen_against_the_spans_before_and_too_few_labels_say_nothing():
    good = confident(2000, 0.2, 1, sharpness=5.0)
    bad = replace(
        good, labels=np.where(np.arange(2000) < 500, 1 - good.labels, good.labels)
    )
    plan = Plan(200, aim=2)
    before = [carry_out(good, plan, seed) for seed in range(4)]
    _, (low, high) = change_since(before, carry_out(bad, plan, 9), 200, 0.95)
    truth = overall(bad)[1] - overall(good)[1]
    assert low < truth < high < 0
    _, (low, high) = change_since(before, carry_out(good, plan, 10), 200, 0.95)
    assert low < 0 < high
    assert high - low < 0.2
    assert change_since(before, carry_out(bad, plan, 9), 201, 0.95) is None


def truth_with_late(pool, aim, late, *, is_right):
    """Return the accuracy with late queries that are all right, or all wrong."""
    counted = pool.labels == aim if aim < pool.classes else pool.labels < pool.classes
    right = int((counted & (pool.labels == pool.predicted)).sum())
    return Fraction(right + late * is_right, int(counted.sum()) + late)


@pytest.mark.parametrize("aim", [0, 2])
@pytest.mark.parametrize("pool", SETS)
def test_the_share_of_labels_that_count_is_bet_on_fairly(pool, aim):
    """The mean wealth at the true share is exactly one, over all courses."""
    counts = np.arange(3) == aim if aim < 2 else np.arange(3) < 2
    share = Fraction(int(counts[pool.labels].sum()), len(pool.labels))
    cell = min(int(np.searchsorted(EDGES, float(share) * GRID, "right")), 23)
    means = [Fraction(0)] * 9
    for ledger, chance in courses(pool, PLAN):
        folded = _as_share(ledger, counts)
        rows = build_rows(folded)
        # All are predicted to count, and none is unclear.
        of_set = SimpleNamespace(strata=folded.strata, counts=pool.counts)
        gains = exact_gains(of_set, folded, (), of_all(2, share))
        shown = rows.right[:, 2] - float(share) * rows.of[:, 2]
        assert shown == pytest.approx([float(one) for one in gains], abs=1e-9)
        bets = ClassBets(rows, 2, 1).bets_in(max(cell, 1) - 1)
        found, least = wealths(bets, gains, 1)
        assert least > 0
        means = [m + chance * w for m, w in zip(means, found, strict=True)]
    assert means == [1] * 9


@pytest.mark.parametrize("aim", [0, 2])
@pytest.mark.parametrize("pool", SETS)
def test_late_queries_of_any_number_and_kind_lie_within_the_bounds(pool, aim):
    missed = Fraction(0)
    for ledger, chance in courses(pool, PLAN):
        low, high, queries = bound_for_late(ledger, aim, LEVEL)
        is_wrong = False
        # The worst number of late ones may be chosen when all has been seen.
        for late in (1, 5, 100):
            kept = Fraction(queries, queries + late)
            least = truth_with_late(pool, aim, late, is_right=False)
            most = truth_with_late(pool, aim, late, is_right=True)
            is_wrong |= Fraction(low) * kept > least
            is_wrong |= 1 - kept * (1 - Fraction(high)) < most
        missed += chance * is_wrong
    assert missed <= 1 - LEVEL


def test_many_labels_say_that_nearly_all_queries_count():
    pool = confident(2000, 0.2, 3)
    ledger = carry_out(pool, Plan(300, aim=2), 1)
    *_, queries = bound_for_late(ledger, 2, 0.95)
    assert 0.93 * 2000 < queries <= 2000
    *_, queries = bound_for_late(ledger, None, 0.95)
    smallest = int(np.bincount(pool.labels).min())
    assert 0.5 * smallest < queries <= smallest
