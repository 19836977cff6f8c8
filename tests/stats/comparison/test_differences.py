import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from tracker.stats.exact import balanced_union
from tracker.stats.methods import get_method
from tracker.stats.paired import (
    boxed_paired_difference,
    mcnemar,
    paired_difference,
    unpaired_difference,
)


# From statsmodels' tests (after VassarStats), the tests of the R package
# contingencytables, and by hand; with the digits that are printed.
@pytest.mark.parametrize(
    ("b", "c", "p_value", "digits"),
    [
        (121, 59, 4e-6, 6),
        (70, 59, 0.378688, 6),
        (80, 59, 0.089452, 6),
        (30, 60, 0.00206, 6),
        (10, 30, 0.002221, 6),
        (10, 10, 1.0, 6),
        (6, 16, 0.052479, 6),
        (10, 2, 0.03857421875, 10),
    ],
)
def test_a_published_p_value_is_met_at_its_printed_precision(b, c, p_value, digits):
    assert mcnemar(b, c) == pytest.approx(p_value, rel=0, abs=0.5 * 10.0**-digits)
    assert mcnemar(c, b) == mcnemar(b, c)


def test_the_p_value_is_the_fraction_of_its_definition():
    b, c = np.indices((25, 25))
    found = mcnemar(b, c)
    for more, fewer in itertools.product(range(25), range(25)):
        total = more + fewer
        tail = sum(comb(total, j) for j in range(min(more, fewer) + 1))
        exact = min(Fraction(2 * tail, 2**total), 1)
        assert found[more, fewer] == pytest.approx(float(exact), rel=1e-12)


def test_versions_that_never_differ_are_no_surprise():
    assert mcnemar(0, 0) == 1
    assert mcnemar([0, 1], [[1], [9]]).shape == (2, 2)


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        mcnemar(-1, 2)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_box_misses_no_truth_more_often_than_promised(level):
    n = 7
    b, c = (part.ravel() for part in np.indices((n + 1, n + 1)))
    b, c = b[b + c <= n], c[b + c <= n]
    low, high = boxed_paired_difference(
        b[:, np.newaxis], c[:, np.newaxis], np.full((b.size, 1), n), level
    )
    ways = np.array([comb(n, i) * comb(n - i, j) for i, j in zip(b, c, strict=True)])
    for gained, lost in itertools.product(np.linspace(0, 1, 41), repeat=2):
        if gained + lost <= 1:
            rest = max(1 - gained - lost, 0)
            chances = ways * gained**b * lost**c * rest ** (n - b - c)
            holds = (low <= gained - lost) & (gained - lost <= high)
            assert chances[holds].sum() >= level - 1e-12


def test_the_box_holds_the_exact_interval():
    for b, c, n in ((0, 0, 1), (8, 1, 50), (16, 6, 161), (30, 10, 1000)):
        low, high = boxed_paired_difference([b], [c], [n], 0.95)
        exact = paired_difference(b, c, n, 0.95)
        assert low <= exact.low < exact.high <= high


def test_the_box_takes_any_number_of_queries_and_classes():
    low, high = boxed_paired_difference([40_000] * 999, [0] * 999, [10**6] * 999, 0.95)
    assert 0.035 < low < 0.04 < high < 0.045
    assert boxed_paired_difference([0, 0], [0, 0], [0, 0], 0.95) == (-1, 1)
    with pytest.raises(ValueError, match="must not exceed n"):
        boxed_paired_difference([3], [3], [5], 0.95)


def test_a_published_difference_of_two_shares_is_met():
    # Newcombe 1998, Statistics in Medicine 17:873, table II, method 10.
    new, old = ([9], [10]), ([3], [10])
    wilson = get_method("wilson").balanced_interval
    low, high = unpaired_difference(new, old, 0.95, interval=wilson)
    assert low == pytest.approx(0.1705, abs=5e-5)
    assert high == pytest.approx(0.809, abs=5e-5)


def test_the_difference_of_versions_is_the_average_of_right_and_wrong():
    new = np.array([[45, 90], [9, 9]]), np.array([50, 100])
    old = np.array([[40, 95], [5, 9]]), np.array([55, 99])
    low, high = unpaired_difference(new, old, 0.95)
    k = np.concatenate([new[0], old[1] - old[0]], axis=-1)
    n = np.broadcast_to([50, 100, 55, 99], k.shape)
    union = balanced_union(k, n, 0.95)
    np.testing.assert_allclose(low, 2 * union.low - 1, atol=1e-15)
    np.testing.assert_allclose(high, 2 * union.high - 1, atol=1e-15)
    assert (low <= 2 * union.low - 1).all()
    assert (high >= 2 * union.high - 1).all()
    seen = (new[0] / new[1]).mean(axis=-1) - (old[0] / old[1]).mean(axis=-1)
    assert ((low < seen) & (seen < high)).all()


def test_new_and_old_mirror_each_other():
    new, old = ([45, 90], [50, 100]), ([30, 70], [44, 70])
    low, high = unpaired_difference(new, old, 0.9)
    mirrored = unpaired_difference(old, new, 0.9)
    assert low == pytest.approx(-mirrored.high, abs=1e-9)
    assert high == pytest.approx(-mirrored.low, abs=1e-9)


def test_without_labels_the_difference_is_open():
    assert unpaired_difference(([0], [0]), ([0], [0]), 0.95) == (-1, 1)


def test_versions_with_other_classes_are_refused():
    with pytest.raises(ValueError, match=r"not \(2,\) and \(3,\)"):
        unpaired_difference(([1, 1], [2, 2]), ([1, 1, 1], [2, 2, 2]), 0.95)
    with pytest.raises(ValueError, match=r"not \(\) and \(\)"):
        unpaired_difference((1, 2), (1, 2), 0.95)
