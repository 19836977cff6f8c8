"""How many labels decide whether a target is met."""

import numpy as np
import pytest

from tracker.stats import planning
from tracker.stats.evidence.intervals import balanced_anytime
from tracker.stats.methods import balanced_interval
from tracker.stats.planning import balanced_labels_to_decide

PLANS = [
    ((9, 9), (10, 10), 0.8),
    ((9, 9), (10, 10), 0.95),
    ((1, 1), (1, 1), 0.9),
    ((60, 950), (80, 1000), 0.8),
    ((60, 950), (80, 1000), 0.9),
    ((18,) * 10, (20,) * 10, 0.87),
    ((0, 3, 9), (4, 3, 11), 0.5),
]


def is_decided(k, n, target):
    low, high = balanced_interval("anytime", k, n, 0.95)
    return bool(low > target or high < target)


@pytest.mark.parametrize(("k", "n", "target"), PLANS)
def test_so_many_more_labels_decide_and_hardly_fewer_do(k, n, target):
    more = np.array(balanced_labels_to_decide(k, n, target, 0.95))
    assert (more > 0).any()
    total, share = np.array(n) + more, np.array(k) / n
    right = np.rint(total * share).astype(int)
    assert not is_decided(k, n, target)
    assert is_decided(right, total, target)
    # What is right is rounded to whole labels, here towards the target.
    fewer = np.maximum(np.floor(total * 0.87 - 2), n).astype(int)
    toward = np.floor if share.mean() > target else np.ceil
    assert not is_decided(toward(fewer * share).astype(int), fewer, target)
    # The classes keep their shares.
    np.testing.assert_allclose(total / total.sum(), np.array(n) / sum(n), atol=0.02)


def test_what_is_decided_needs_no_labels():
    assert balanced_labels_to_decide([900, 950], [1000, 1000], 0.5, 0.95) == (0, 0)
    assert balanced_labels_to_decide([900, 950], [1000, 1000], 0.99, 0.95) == (0, 0)
    # However little is known of the others.
    assert balanced_labels_to_decide([0, 0], [1000, 0], 0.9, 0.95) == (0, 0)


def test_no_number_decides_at_the_target_or_without_an_accuracy():
    assert balanced_labels_to_decide([9, 9], [10, 10], 0.9, 0.95) is None
    assert balanced_labels_to_decide([0, 0], [0, 0], 0.9, 0.95) is None
    assert balanced_labels_to_decide([9, 0], [10, 0], 0.9, 0.95) is None
    assert balanced_labels_to_decide([8999, 900], [10000, 1000], 0.9, 0.95) is None


def test_a_nearer_target_takes_more_labels():
    found = [
        balanced_labels_to_decide([45, 48], [50, 50], t, 0.95)
        for t in (0.85, 0.89, 0.91)
    ]
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize(("k", "n", "target"), PLANS)
def test_few_intervals_are_computed(k, n, target, monkeypatch):
    asked = []

    def counted(*arguments, **shares):
        asked.append(arguments)
        return balanced_anytime(*arguments, **shares)

    monkeypatch.setattr(planning, "balanced_anytime", counted)
    balanced_labels_to_decide(k, n, target, 0.95)
    assert len(asked) <= 12


def test_bad_arguments_are_refused():
    for bad in (
        ([3], [4], 0.9, 0.95),
        ([[3, 4]], [[4, 5]], 0.9, 0.95),
        ([3, 4], [4, 5], 1.0, 0.95),
        ([3, 4], [4, 5], 0.9, 1.0),
    ):
        with pytest.raises(ValueError, match="must"):
            balanced_labels_to_decide(*bad)
