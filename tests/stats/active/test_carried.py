"""What an audit teaches those after it."""

import numpy as np
import pytest

from tests.stats.active.replays import tiny
from tracker.stats import Goal, Ledger, carry_over, next_round
from tracker.stats.active.strata import Strata

EMPTY = np.zeros(0, dtype=np.int64)


def strata(predicted, bins, sizes):
    none = np.zeros((len(sizes), 0), dtype=np.int64)
    return Strata(2, *map(np.array, (predicted, bins, sizes)), none)


def ledger_of(of, known, drawn=(), labels=()):
    goal = Goal(2, 0.05, None)
    first = next_round(Ledger(of, (), (), EMPTY, EMPTY), known, goal)
    numbers = (np.array(one, dtype=np.int64) for one in (drawn, labels))
    return Ledger(of, (first,), (known,), *numbers)


def test_labels_of_a_like_stratum_count_half_and_halve_again():
    before = strata([0, 1, 1], [-4, -4, 2], [50, 50, 50])
    known = np.array([[4, 0, 0], [0, 0, 0], [0, 0, 0]])
    first = ledger_of(before, known, drawn=[0, 1, 2], labels=[1, 1, 2])
    after = strata([1, 0, 1], [-4, -4, 8], [10, 10, 10])
    carried = carry_over(first, None, after)
    # The last stratum is like none; the label of none of its like is left behind.
    assert carried.tolist() == [[0, 0.5, 0], [2, 0.5, 0], [0, 0, 0]]
    second = ledger_of(after, np.zeros((3, 3), dtype=np.int64), drawn=[1], labels=[0])
    again = carry_over(second, carried, after)
    assert again.tolist() == [[0, 0.25, 0], [1.5, 0.25, 0], [0, 0, 0]]


def test_no_more_than_400_labels_are_carried():
    of = strata([0, 1], [-4, -4], [5000, 5000])
    known = np.array([[3000, 0, 0], [0, 1000, 0]])
    carried = carry_over(ledger_of(of, known), None, of)
    assert carried.tolist() == [[300, 0, 0], [0, 100, 0]]


@pytest.mark.parametrize("wrong", [0, 40])
def test_the_model_of_the_first_round_goes_by_what_was_carried(wrong):
    of = tiny((300, 300), (0, 0)).strata
    none = np.zeros((len(of.sizes), 3), dtype=np.int64)
    carried = none.astype(float)
    carried[:, of.predicted] = 0.0
    for row, said in enumerate(of.predicted):
        carried[row, said] = 40 - wrong
        carried[row, 1 - said] = wrong
    empty = Ledger(of, (), (), EMPTY, EMPTY)
    goal = Goal(2, 0.05, None)
    cold = next_round(empty, none, goal)
    taught = next_round(empty, none, goal, carried=carried)
    assert taught.start == cold.start == 0
    if wrong:
        assert (taught.wrong > cold.wrong).all()
    else:
        assert (taught.wrong < cold.wrong).all()
