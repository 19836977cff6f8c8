import itertools
import math

import numpy as np
import pytest

from tracker.stats.exact import balanced_accuracy, balanced_union, clopper_pearson


def random_rows(rows, classes, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 10 ** rng.integers(1, 6, (rows, classes)))
    k = rng.binomial(n, rng.choice([0.0, 0.3, 0.9, 0.99, 1.0], (rows, classes)))
    return k, n


def test_the_bounds_are_the_average_of_the_class_bounds_at_their_share():
    k, n = random_rows(200, 5, seed=1)
    low, high = balanced_union(k, n, 0.95)
    classes = clopper_pearson(k, n, 1 - 0.05 / 5)
    mean_low, mean_high = classes.low.mean(axis=-1), classes.high.mean(axis=-1)
    np.testing.assert_allclose(low, mean_low, rtol=0, atol=1e-12)
    np.testing.assert_allclose(high, mean_high, rtol=0, atol=1e-12)


def test_the_order_of_the_classes_changes_no_bit():
    k, n = random_rows(40, 5, seed=2)
    expected = balanced_union(k, n, 0.95)
    for order in map(list, itertools.permutations(range(5))):
        permuted = balanced_union(k[:, order], n[:, order], 0.95)
        assert permuted.low.tolist() == expected.low.tolist()
        assert permuted.high.tolist() == expected.high.tolist()


def test_a_row_computed_alone_is_the_row_of_the_batch_to_the_last_bit():
    for classes in (2, 3, 9, 130):
        k, n = random_rows(1000 // classes, classes, seed=classes)
        batch = balanced_union(k, n, 0.9)
        columns = balanced_union(np.asfortranarray(k), np.asfortranarray(n), 0.9)
        alone = [balanced_union(a, b, 0.9) for a, b in zip(k, n, strict=True)]
        assert batch.low.tolist() == [float(a.low) for a in alone]
        assert batch.high.tolist() == [float(a.high) for a in alone]
        assert columns.low.tolist() == batch.low.tolist()


def test_the_average_is_rounded_outward():
    k, n = random_rows(300, 3, seed=4)
    low, high = balanced_union(k, n, 0.94)
    classes = clopper_pearson(k, n, 1 - 0.06 / 3 - 1e-15)
    for row in range(300):
        assert low[row] <= math.fsum(classes.low[row]) / 3 + 1e-16
        assert high[row] >= math.fsum(classes.high[row]) / 3 - 1e-16


def test_classes_without_labels_leave_everything_open():
    assert balanced_union([0, 0, 0], [0, 0, 0], 0.95) == (0, 1)
    low, high = balanced_union([0, 100], [0, 100], 0.95)
    assert 0.45 < low < 0.5
    assert high == 1


def test_perfect_classes_reach_one():
    low, high = balanced_union([9] * 7, [9] * 7, 0.95)
    assert high == 1
    assert low == pytest.approx((0.05 / 14) ** (1 / 9), rel=1e-9)


def test_one_more_correct_moves_both_bounds_up():
    k = np.stack([np.arange(31), np.full(31, 7)], axis=-1)
    low, high = balanced_union(k, [30, 9], 0.95)
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()


def test_a_higher_level_gives_a_wider_interval():
    k, n = random_rows(100, 4, seed=5)
    narrow, wide = balanced_union(k, n, 0.9), balanced_union(k, n, 0.95)
    assert ((wide.low < narrow.low) | (narrow.low == 0)).all()
    assert ((wide.high > narrow.high) | (narrow.high == 1)).all()


def test_counts_broadcast_before_the_classes_are_averaged():
    low, _ = balanced_union(np.zeros((4, 1, 2), dtype=int), [[5, 6], [7, 8]], 0.95)
    assert low.shape == (4, 2)


@pytest.mark.parametrize(("k", "n"), [(3, 4), ([3], [4]), (np.ones((3, 1), int), 4)])
def test_fewer_than_two_classes_are_refused(k, n):
    with pytest.raises(ValueError, match=r"between 2 and 4096 classes .* not 1"):
        balanced_union(k, n, 0.95)


def test_more_classes_than_can_be_summed_exactly_are_refused():
    most = np.ones(4096, dtype=int)
    assert balanced_union(most, most, 0.95).high == 1
    with pytest.raises(ValueError, match="not 4097"):
        balanced_union(np.ones(4097, dtype=int), 1, 0.95)


def test_impossible_counts_are_refused_by_value():
    with pytest.raises(ValueError, match="k is 9 and n is 8"):
        balanced_union([1, 9], [5, 8], 0.95)
    with pytest.raises(ValueError, match="not float64"):
        balanced_union([1, 2.5], [5, 8], 0.95)


def test_balanced_accuracy_is_the_mean_of_the_class_accuracies():
    assert balanced_accuracy([23, 41], [28, 44]) == (23 / 28 + 41 / 44) / 2
    assert balanced_accuracy([1, 0], [1, 1]) == 0.5


def test_balanced_accuracy_is_unknown_while_a_class_has_no_labels():
    assert balanced_accuracy([5, 0], [5, 0]) is None


def test_balanced_accuracy_does_not_depend_on_the_order_of_the_classes():
    ks, ns = [1, 2, 3, 5, 8], [3, 7, 11, 13, 17]
    values = {
        balanced_accuracy([ks[i] for i in order], [ns[i] for i in order])
        for order in itertools.permutations(range(5))
    }
    assert len(values) == 1


def test_balanced_accuracy_of_a_table_is_refused():
    with pytest.raises(ValueError, match="one list each, not of shape"):
        balanced_accuracy([[1, 2], [3, 4]], 9)
