import itertools

import numpy as np
import pytest
from scipy.stats import binom

from tests.stats.expectations import expected_width
from tracker.stats.exact import balanced_union, clopper_pearson
from tracker.stats.planning import (
    labels_to_reach_balanced_width,
    labels_to_reach_width,
)

# Labels for an expected half-width of 0.1, 0.05, 0.03, 0.02 and 0.01 at 95 %, from
# an independent program that sums over all outcomes.
LABELS_NEEDED = {
    0.5: (103, 401, 1097, 2448, 9700),
    0.8: (68, 263, 713, 1583, 6243),
    0.9: (42, 155, 414, 911, 3554),
    0.95: (27, 90, 233, 503, 1922),
    0.99: (19, 43, 83, 149, 478),
}


@pytest.mark.parametrize("accuracy", LABELS_NEEDED)
def test_the_labels_for_a_half_width_are_the_published_ones(accuracy):
    half_widths = (0.1, 0.05, 0.03, 0.02, 0.01)
    for labels, half in zip(LABELS_NEEDED[accuracy], half_widths, strict=True):
        assert expected_width(labels, accuracy, 0.95) <= 2 * half
        assert expected_width(labels - 1, accuracy, 0.95) > 2 * half


@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])
def test_the_expected_width_is_the_sum_over_all_outcomes(accuracy):
    for n in (0, 1, 2, 5, 23, 24, 100, 1000, 5000):
        k = np.arange(n + 1)
        low, high = clopper_pearson(k, n, 0.95)
        exact = binom.pmf(k, n, accuracy) @ (high - low)
        assert float(expected_width(n, accuracy, 0.95)) == pytest.approx(
            exact, rel=1e-9, abs=3e-10
        )


@pytest.mark.parametrize("accuracy", [0.0, 0.5, 0.9, 0.97, 1.0])
def test_the_expected_width_shrinks_with_every_label(accuracy):
    assert (np.diff(expected_width(np.arange(600), accuracy, 0.95)) < 0).all()


def test_the_labels_still_needed_are_the_missing_ones():
    assert labels_to_reach_width(9, 10, 0.1, 0.95) == 155 - 10
    assert labels_to_reach_width(19, 20, 0.1, 0.95) == 90 - 20
    assert labels_to_reach_width(9, 10, 0.04, 0.95) == 911 - 10
    assert labels_to_reach_width(90, 100, 0.04, 0.95) == 911 - 100


def test_without_labels_the_accuracy_is_taken_for_one_half():
    assert labels_to_reach_width(0, 0, 0.1, 0.95) == 401


def test_a_perfect_class_needs_what_the_closed_form_says():
    labels = 10 + labels_to_reach_width(10, 10, 0.05, 0.95)
    assert labels == np.ceil(np.log(0.025) / np.log(0.95))


@pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 7), (45, 50), (50, 50), (900, 1000)])
@pytest.mark.parametrize("width", [0.5, 0.1, 0.03])
def test_no_label_is_needed_exactly_when_the_interval_is_narrow_enough(k, n, width):
    low, high = clopper_pearson(k, n, 0.95)
    assert (labels_to_reach_width(k, n, width, 0.95) == 0) == (high - low <= width)


def test_a_width_out_of_reach_has_no_plan():
    assert labels_to_reach_width(5, 10, 1e-4, 0.95) is None
    assert labels_to_reach_width(5 * 10**7, 10**8, 1e-5, 0.95) is None
    assert labels_to_reach_balanced_width([5, 5], [10, 10], 1e-4, 0.95) is None


def expected_balanced_width(ks, ns, extra):
    ks, ns = np.array(ks), np.array(ns)
    accuracy = np.where(ns > 0, ks / np.maximum(ns, 1), 0.5)
    return expected_width(ns + np.array(extra), accuracy, 1 - 0.05 / ns.size).mean()


BALANCED_CASES = [
    ([23, 41], [28, 44], 0.1),
    ([0, 50], [0, 50], 0.1),
    ([28, 960], [30, 1000], 0.05),
    ([10, 10, 9], [10, 10, 10], 0.05),
    ([9, 20, 99, 450, 800, 3, 1, 0], [10, 20, 100, 500, 1000, 3, 2, 0], 0.02),
]


@pytest.mark.parametrize(("ks", "ns", "width"), BALANCED_CASES)
def test_the_balanced_plan_reaches_the_width_and_not_much_more(ks, ns, width):
    plan = labels_to_reach_balanced_width(ks, ns, width, 0.95)
    assert 0.99 * width < expected_balanced_width(ks, ns, plan) <= width


@pytest.mark.parametrize(("ks", "ns", "width"), BALANCED_CASES[:3])
def test_no_other_split_saves_a_twentieth_of_the_labels(ks, ns, width):
    budget = int(0.95 * sum(labels_to_reach_balanced_width(ks, ns, width, 0.95)))
    first = np.arange(budget + 1)
    accuracy = [k / n if n else 0.5 for k, n in zip(ks, ns, strict=True)]
    widths = expected_width(ns[0] + first, accuracy[0], 0.975) + expected_width(
        ns[1] + budget - first, accuracy[1], 0.975
    )
    assert widths.min() / 2 > width


def test_classes_in_the_same_position_get_the_same_labels():
    plan = labels_to_reach_balanced_width([9] * 6, [10] * 6, 0.05, 0.95)
    assert len(set(plan)) == 1
    assert plan[0] > 0


def test_the_plan_does_not_depend_on_the_order_of_the_classes():
    ks, ns = [3, 40, 88], [4, 50, 88]
    plan = labels_to_reach_balanced_width(ks, ns, 0.1, 0.95)
    for order in itertools.permutations(range(3)):
        permuted = labels_to_reach_balanced_width(
            [ks[i] for i in order], [ns[i] for i in order], 0.1, 0.95
        )
        assert permuted == tuple(plan[i] for i in order)


def test_labels_go_where_they_are_scarce():
    few, many = labels_to_reach_balanced_width([28, 960], [30, 1000], 0.05, 0.95)
    assert few > 0
    assert many == 0


@pytest.mark.parametrize("width", [0.5, 0.2, 0.05])
def test_no_balanced_label_is_needed_when_the_interval_is_narrow_enough(width):
    low, high = balanced_union([90, 45], [100, 50], 0.95)
    plan = labels_to_reach_balanced_width([90, 45], [100, 50], width, 0.95)
    assert (sum(plan) == 0) == (high - low <= width)


@pytest.mark.parametrize("width", [0, 1, -1, float("nan"), "0.1"])
def test_an_impossible_width_is_refused_by_name_and_value(width):
    with pytest.raises(ValueError, match=f"width .* not {width!r}"):
        labels_to_reach_width(1, 2, width, 0.95)
    with pytest.raises(ValueError, match=f"width .* not {width!r}"):
        labels_to_reach_balanced_width([1, 1], [2, 2], width, 0.95)


def test_what_cannot_be_planned_is_refused_by_name():
    with pytest.raises(ValueError, match="one list each"):
        labels_to_reach_balanced_width([[1, 1]], [[2, 2]], 0.1, 0.95)
    with pytest.raises(ValueError, match="2 and 4096 classes"):
        labels_to_reach_balanced_width([1], [2], 0.1, 0.95)
