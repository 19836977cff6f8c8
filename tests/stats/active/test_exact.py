"""Every course that a tiny audit can take, with its chance, in fractions."""

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.conftest import IS_LONG
from tests.stats.active.replays import (
    Plan,
    Pool,
    ever_missed,
    several_classes,
    tiny,
)
from tracker.stats.active.betting import (
    EDGES,
    GRID,
    BalancedBets,
    ClassBets,
    balanced_ends,
)
from tracker.stats.active.learning import next_round
from tracker.stats.active.ledger import Ledger, build_rows
from tracker.stats.active.looks import look
from tracker.stats.active.rounds import UNIT, label_chances
from tracker.stats.active.strata import MISSING

# All of it runs every time, larger among the long tests.
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(7200)] if IS_LONG else []

PAIRS = Plan(6 if IS_LONG else 3, length=lambda start: 2)


def courses(pool: Pool, plan: Plan, known=(), carried=None):
    """Yield the record of every course to the end, with its chance as a fraction.

    Queries of one stratum with one label are alike and are followed together.
    *carried* is what earlier audits are said to have taught.
    """
    counts = pool.counts(list(known))
    waiting = defaultdict(int)
    for item in set(range(len(pool.labels))) - set(known):
        waiting[int(pool.index[item]), int(pool.labels[item])] += 1
    empty = Ledger(pool.strata, (), (), np.zeros(0, int), np.zeros(0, int))
    stack = [(empty, dict(waiting), Fraction(1))]
    while stack:
        ledger, left, chance = stack.pop()
        done = len(ledger.labels)
        if done == plan.draws or not any(left.values()):
            yield ledger, chance
            continue
        if not ledger.rounds or done - ledger.rounds[-1].start >= plan.length(0):
            ledger = replace(
                ledger,
                rounds=(
                    *ledger.rounds,
                    next_round(ledger, counts, plan.goal, carried=carried),
                ),
                known=(*ledger.known, counts),
            )
        weights = ledger.rounds[-1].weights
        total = sum(int(weights[s]) * m for (s, _), m in left.items())
        for (stratum, label), many in left.items():
            if many:
                grown = replace(
                    ledger,
                    drawn=np.append(ledger.drawn, stratum),
                    labels=np.append(ledger.labels, label),
                )
                share = Fraction(int(weights[stratum]) * many, total)
                rest = {**left, (stratum, label): many - 1}
                stack.append((grown, rest, chance * share))


def exact_gains(pool: Pool, ledger: Ledger, known, value):
    """Return each draw's gain as a fraction, from the definition, item by item.

    *value(label, predicted)* is what a query adds to the total that is zero at the
    truth.
    """
    strata = pool.strata
    left = strata.sizes - pool.counts(list(known)).sum(axis=1)
    total = sum(
        value(int(pool.labels[i]), int(pool.predicted[i])) for i in known
    ) + Fraction(0)
    gains, number = [], -1
    for draw, (stratum, label) in enumerate(
        zip(ledger.drawn.tolist(), ledger.labels.tolist(), strict=True)
    ):
        starts = [part.start for part in ledger.rounds]
        if draw in starts:
            number += 1
        frozen = ledger.rounds[number]
        q = label_chances(strata, frozen.wrong, frozen.rows)
        expected = [
            sum(
                Fraction(int(q[s, y]), UNIT) * value(y, int(strata.predicted[s]))
                for y in range(strata.classes)
            )
            for s in range(len(left))
        ]
        reach = sum(int(m) * int(w) for m, w in zip(left, frozen.weights, strict=True))
        seen = value(label, int(strata.predicted[stratum]))
        surprise = (seen - expected[stratum]) * reach / int(frozen.weights[stratum])
        rest = sum(int(m) * e for m, e in zip(left, expected, strict=True))
        gains.append(surprise + rest + total)
        left = left.copy()
        left[stratum] -= 1
        total += seen
    return gains


def wealths(bets, gains, sign):
    """Return each bettor's wealth at the end, and the least that any ever had."""
    ends, least = [], Fraction(1)
    for one in bets:
        wealth = Fraction(1)
        for bet, gain in zip(one.tolist(), gains, strict=True):
            wealth *= 1 + sign * Fraction(bet) * gain
            least = min(least, wealth)
        ends.append(wealth)
    return ends, least


def of_class(c, r):
    return lambda label, said: Fraction(label == c) * (Fraction(said == c) - r)


def of_all(classes, r):
    return lambda label, said: Fraction(label < classes) * (Fraction(label == said) - r)


POOLS = [
    (tiny((3, 3), (1, 2)), PAIRS, ()),
    (tiny((2, 4), (1, 2), unclear=(1, 1)), PAIRS, ()),
    (tiny((3, 4), (3, 2), predicted=(1, 0), sure=(0.99, 0.5)), PAIRS, (0, 4)),
    (replace(several_classes(6, 11), confidence=np.full(6, np.nan)), PAIRS, ()),
    # The second half has no answer, and can be labelled all the same.
    (tiny((3, 3), (1, 2), predicted=(1, 2)), PAIRS, ()),
    # A judge that says nothing of one query, and that is wrong of others.
    (
        replace(
            tiny((3, 3), (1, 2), unclear=(1, 0), sure=(0.8, 0.8)),
            verdicts=np.array([[1], [0], [MISSING], [0], [1], [0]]),
        ),
        replace(PAIRS, aim=2),
        (1,),
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize("is_misled", [False, True])
@pytest.mark.parametrize(("pool", "plan", "known"), POOLS)
def test_the_expected_wealth_at_the_truth_is_exactly_one(pool, plan, known, is_misled):
    # An audit before said that whatever the detector says is wrong.
    carried = np.full((len(pool.strata.sizes), pool.classes + 1), 20.0 * is_misled)
    carried[np.arange(len(carried)), pool.strata.predicted] = 0.0
    right = pool.predicted == pool.labels
    present = [c for c in range(pool.classes) if (pool.labels == c).any()]
    truths = {
        c: Fraction(int(right[pool.labels == c].sum()), int((pool.labels == c).sum()))
        for c in present
    }
    is_scored = pool.labels < pool.classes
    overall = Fraction(int(right[is_scored].sum()), int(is_scored.sum()))
    means = defaultdict(lambda: [Fraction(0)] * 9)
    for ledger, chance in courses(pool, plan, known, carried):
        rows = build_rows(ledger)
        boxes = np.array([s.box for s in look(ledger, 0.5).standings])
        ends = np.array([balanced_ends(ledger, n, b) for n, b in enumerate(boxes)])
        for sign in (1, -1):
            for c, r in {**truths, pool.classes: overall}.items():
                value = of_class(c, r) if c in truths else of_all(pool.classes, r)
                cell = min(int(np.searchsorted(EDGES, float(r) * GRID, "right")), 23)
                bets = ClassBets(rows, c, sign).bets_in(max(cell, 1) - 1)
                gains = exact_gains(pool, ledger, known, value)
                found, least = wealths(bets, gains, sign)
                assert least > 0
                means[c, sign] = [
                    m + chance * w for m, w in zip(means[c, sign], found, strict=True)
                ]
                # The program's gains are the fractions, up to their rounding.
                shown = rows.right[:, c] - float(r) * rows.of[:, c]
                assert shown == pytest.approx([float(gain) for gain in gains], abs=1e-9)
            if len(ledger.rounds) and len(present) == pool.classes:
                bet = BalancedBets(rows, boxes[rows.which], ends[rows.which], sign)
                sums = np.zeros(len(ledger.labels), dtype=object)
                for c, r in truths.items():
                    u = [Fraction(x) for x in rows.directions[:, c].tolist()]
                    gains = exact_gains(pool, ledger, known, of_class(c, r))
                    sums += np.array(u) * np.array(gains)
                truth = np.array([float(truths[c]) * GRID for c in present])
                holds = (boxes[..., 0] <= truth) & (truth <= boxes[..., 1])
                found, least = wealths(bet.bets, sums, sign)
                assert least > 0 or not holds.all()
                means["balanced", sign] = [
                    m + chance * w
                    for m, w in zip(means["balanced", sign], found, strict=True)
                ]
    assert means
    for found in means.values():
        assert found == [1] * 9


def ever_miss(pool: Pool, plan: Plan, level: float):
    truths, total = pool.truths(), 0
    for ledger, chance in courses(pool, plan):
        total = total + float(chance) * np.array(ever_missed(ledger, truths, level))
    return total


def patterns(sizes):
    for first in range(sizes[0] + 1):
        for second in range(sizes[1] + 1):
            for open_ in range(min(2, sizes[0] - first + 1)):
                yield tiny(sizes, (first, second), unclear=(open_, 0))


SIZES = [(1, 4), (3, 5), (4, 4)] if IS_LONG else [(1, 3), (2, 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("sizes", SIZES)
def test_no_interval_of_a_tiny_pool_misses_more_often_than_it_may(sizes):
    largest = 0.0
    for pool in patterns(sizes):
        missed = ever_miss(pool, Plan(8, length=lambda start: 3), 0.5)
        assert (missed <= 0.5).all()
        largest = max(largest, missed.max())
    # A promise that is never put to the test would prove nothing.
    assert largest > 0 or not IS_LONG


def test_what_labels_leave_possible_never_misses():
    for pool in patterns((2, 3) if IS_LONG else (1, 2)):
        truths = pool.truths()
        for ledger, _ in courses(pool, Plan(5, length=lambda start: 5)):
            for done in range(len(ledger.labels) + 1):
                cut = replace(
                    ledger, drawn=ledger.drawn[:done], labels=ledger.labels[:done]
                )
                low, high = look(cut, 1 - 1e-9).measures
                for a, truth, b in zip(low, truths, high, strict=True):
                    assert math.isnan(truth) or a <= truth <= b
            assert all(
                math.isnan(truth) or (b - a < 2e-5)
                for a, truth, b in zip(low, truths, high, strict=True)
            )
