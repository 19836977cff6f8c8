"""Bounds where answers are missing hold however these would have been."""

import itertools

import numpy as np
import pytest

from tracker.stats.evidence.intervals import anytime, balanced_anytime
from tracker.stats.exact import balanced_union, clopper_pearson
from tracker.stats.methods import completed_interval, count_unanswered

# How far a search may end before the bound that it looks for.
_SEARCHED = 3e-5


def completions(k, n, predicted):
    """Return the counts of each way in which the missing answers could have been."""
    missing = [j for j, times in enumerate(predicted) for _ in range(times)]
    for truths in itertools.product(range(len(k)), repeat=len(missing)):
        right, of = list(k), list(n)
        for said, truth in zip(missing, truths, strict=True):
            of[truth] += 1
            right[truth] += said == truth
        yield right, of


@pytest.mark.thorough
@pytest.mark.parametrize("labelled", [(3, 2), (4, 0), (2, 6), (2, 2, 1)])
@pytest.mark.parametrize(
    ("of_class", "balanced"),
    [(clopper_pearson, balanced_union), (anytime, balanced_anytime)],
)
def test_the_bounds_hold_every_completion(labelled, of_class, balanced):
    classes, level = len(labelled), 0.8
    for predicted in itertools.product(range(3), repeat=classes):
        if not 0 < sum(predicted) <= 3:
            continue
        wrong, right = count_unanswered(predicted)
        missing = {"wrong": wrong, "right": right}
        everything = {"wrong": right.sum(), "right": right.sum()}
        k = [max(n - 1, 0) for n in labelled]
        by_class = completed_interval(of_class, k, labelled, level, **missing)
        overall = completed_interval(
            of_class, sum(k), sum(labelled), level, **everything
        )
        mean = completed_interval(balanced, k, labelled, level, **missing)
        found = list(completions(k, labelled, predicted))
        ks, ns = np.array([f[0] for f in found]), np.array([f[1] for f in found])
        for outer, inner in (
            (by_class, of_class(ks, ns, level)),
            (overall, of_class(ks.sum(axis=1), ns.sum(axis=1), level)),
            (mean, balanced(ks, ns, level)),
        ):
            assert (outer.low <= inner.low + _SEARCHED).all()
            assert (outer.high >= inner.high - _SEARCHED).all()


def test_what_is_missing_of_a_known_class_widens_by_as_much():
    known = clopper_pearson(282, 300, 0.95)
    found = completed_interval(clopper_pearson, 282, 300, 0.95, wrong=10, right=10)
    assert found.low < known.low
    assert found.high > known.high
    assert found.low == pytest.approx(0.872, abs=1e-3)
    assert found.high == pytest.approx(0.966, abs=1e-3)


def test_unclear_answers_widen_the_overall_interval_as_was_reckoned():
    found = completed_interval(clopper_pearson, 360, 400, 0.95, wrong=20, right=20)
    assert found.low == pytest.approx(0.820, abs=1e-3)
    assert found.high == pytest.approx(0.931, abs=1e-3)


def test_nothing_missing_changes_nothing():
    none = {"wrong": [0, 0], "right": [0, 0]}
    found = completed_interval(balanced_union, [4, 5], [5, 9], 0.9, **none)
    assert found == balanced_union([4, 5], [5, 9], 0.9)
