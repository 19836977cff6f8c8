import itertools
import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tracker.stats.arguments import tail_share
from tracker.stats.certification import (
    chance_to_certify,
    fewest_correct,
    labels_to_certify,
    next_class,
)
from tracker.stats.exact import clopper_pearson, lower_bound

SHARE = tail_share(0.95, 2)


@pytest.mark.parametrize(("target", "labels"), [(0.9, 36), (0.95, 72), (0.99, 368)])
def test_the_labels_without_an_error_are_the_published_ones(target, labels):
    assert labels_to_certify(target, 1.0, 0.999, 0.95) == labels
    assert clopper_pearson(labels, labels, 0.95).low > target
    assert clopper_pearson(labels - 1, labels - 1, 0.95).low <= target


# From an independent program: the power at every number of labels, one by one.
@pytest.mark.parametrize(
    ("target", "accuracy", "labels"),
    [(0.9, 0.95, 255), (0.95, 0.98, 338), (0.95, 0.99, 173)],
)
def test_the_labels_for_a_power_are_the_published_ones(target, accuracy, labels):
    assert labels_to_certify(target, accuracy, 0.8, 0.95) == labels


@pytest.mark.parametrize("n", [1, 5, 36, 71, 72, 200, 1000])
@pytest.mark.parametrize("target", [0.01, 0.5, 0.9, 0.95])
def test_the_fewest_correct_are_where_the_lower_bound_crosses(n, target):
    above = np.flatnonzero(lower_bound(np.arange(n + 1), n, SHARE) > target)
    fewest = fewest_correct(n, target, SHARE)
    assert fewest == (int(above[0]) if above.size else None)


@pytest.mark.parametrize("target", [Fraction(1, 2), Fraction(3, 4), Fraction(15, 16)])
def test_a_false_target_is_certified_as_rarely_as_is_promised(target):
    # The double called 0.95 lies below 95 %, so the promise is the decimal's.
    promised = Fraction(25, 1000)
    for n in (3, 10, 40, 80):
        k = fewest_correct(n, float(target), SHARE)
        if k is None:
            assert target**n > promised * Fraction(999_999, 1_000_000)
            continue
        tails = [
            sum(
                comb(n, i) * target**i * (1 - target) ** (n - i)
                for i in range(start, n + 1)
            )
            for start in (k, k - 1)
        ]
        assert tails[0] <= promised < tails[1]


def test_without_labels_nothing_is_certified():
    assert fewest_correct(0, 0.5, SHARE) is None
    assert chance_to_certify(0, 0.5, 0.95, accuracy=1.0) == 0


@pytest.mark.parametrize("n", [0, 30, 255])
@pytest.mark.parametrize("accuracy", [0.0, 0.9, 0.95, 1.0])
def test_the_power_is_the_sum_over_the_counts_that_certify(n, accuracy):
    k = np.arange(n + 1)
    certified = clopper_pearson(k, n, 0.95).low > 0.9
    expected = binom.pmf(k, n, accuracy)[certified].sum()
    power = chance_to_certify(n, 0.9, 0.95, accuracy=accuracy)
    assert power == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (45, 50), (50, 50), (20, 50), (199, 200)])
@pytest.mark.parametrize("more", [0, 1, 100])
def test_the_chance_of_a_top_up_is_the_sum_over_what_may_come(k, n, more):
    come = np.arange(more + 1)
    certified = clopper_pearson(k + come, n + more, 0.95).low > 0.9
    expected = binom.pmf(come, more, 0.97)[certified].sum()
    chance = chance_to_certify(more, 0.9, 0.95, accuracy=0.97, k=k, n=n)
    assert chance == pytest.approx(expected, abs=1e-13)


def test_a_top_up_supposes_the_accuracy_that_was_seen():
    given_, seen = (
        chance_to_certify(300, 0.9, 0.95, accuracy=accuracy, k=47, n=50)
        for accuracy in (47 / 50, None)
    )
    assert given_ == seen
    assert chance_to_certify(50, 0.5, 0.95) == chance_to_certify(
        50, 0.5, 0.95, accuracy=0.5
    )


def brute_force(target, accuracy, power, level, k, n, last):
    """Return the number from which on the chance is never too low, up to *last*."""
    too_low = [
        more
        for more in range(last + 1)
        if chance_to_certify(more, target, level, accuracy=accuracy, k=k, n=n) < power
    ]
    return too_low[-1] + 1 if too_low else 0


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    target=st.floats(0.3, 0.97),
    part=st.floats(0.2, 1.0),
    power=st.sampled_from([0.3, 0.5, 0.8, 0.9, 0.99]),
    level=st.sampled_from([0.8, 0.95, 0.99]),
    counts=st.sampled_from([(0, 0), (18, 20), (20, 20), (55, 60), (60, 60), (30, 60)]),
)
def test_from_the_answer_on_the_power_is_always_enough(
    target, part, power, level, counts
):
    accuracy = min(1.0, target + part * (1.0 - target))
    k, n = counts
    labels = labels_to_certify(target, accuracy, power, level, k=k, n=n)
    if labels is None or labels > 600:
        return
    if labels == 0:
        assert clopper_pearson(k, n, level).low > target
        return
    assert labels == brute_force(target, accuracy, power, level, k, n, 2 * labels + 300)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "accuracy"), [(0.5, 0.53), (0.9, 0.92), (0.2, 0.23), (0.8, 0.83)]
)
def test_where_teeth_are_uneven_the_last_low_one_counts(target, accuracy):
    labels = labels_to_certify(target, accuracy, 0.8, 0.95)
    around = [
        chance_to_certify(n, target, 0.95, accuracy=accuracy) >= 0.8
        for n in range(labels - 1, labels + 600)
    ]
    assert around[0] is False
    assert all(around[1:])


def test_what_is_certified_needs_no_label_and_what_is_hopeless_has_no_plan():
    assert labels_to_certify(0.9, 0.5, 0.8, 0.95, k=100, n=100) == 0
    assert labels_to_certify(0.9, 0.9, 0.8, 0.95) is None
    assert labels_to_certify(0.9, 0.5, 0.8, 0.95) is None
    assert labels_to_certify(0.9, 0.9 + 1e-9, 0.8, 0.95) is None
    assert labels_to_certify(0.9, 0.9001, 0.8, 0.95) is None
    assert labels_to_certify(0.9, 0.95, 0.8, 0.95, k=9 * 10**7, n=10**8) is None
    assert labels_to_certify(1 - 1e-9, 1.0, 0.8, 0.95) is None


def test_a_plan_of_millions_is_made_as_well():
    labels = labels_to_certify(0.9, 0.901, 0.8, 0.95)
    assert 600_000 < labels < 800_000
    power = chance_to_certify(labels, 0.9, 0.95, accuracy=0.901)
    assert power == pytest.approx(0.8, abs=2e-3)


def test_a_perfect_detector_needs_no_more_than_labels_without_an_error():
    for target, power in itertools.product((0.5, 0.9, 0.99), (0.1, 0.8, 0.999)):
        labels = labels_to_certify(target, 1.0, power, 0.95)
        assert labels == math.ceil(math.log(SHARE) / math.log(target))


def test_more_power_a_higher_target_and_more_certainty_take_more_labels():
    plain = labels_to_certify(0.9, 0.95, 0.8, 0.95)
    assert labels_to_certify(0.9, 0.95, 0.9, 0.95) > plain
    assert labels_to_certify(0.91, 0.95, 0.8, 0.95) > plain
    assert labels_to_certify(0.9, 0.95, 0.8, 0.99) > plain
    assert labels_to_certify(0.9, 0.96, 0.8, 0.95) < plain
    assert labels_to_certify(0.9, 0.95, 0.8, 0.95, k=23, n=28) > plain - 28


def test_the_next_class_is_the_one_whose_label_is_worth_most():
    assert next_class([5, 0, 9], [6, 0, 10]) == 1
    assert next_class([5, 0, 0], [6, 0, 0]) == 1
    assert next_class([23, 41], [28, 44]) == 0
    assert next_class([9, 9], [10, 10]) == 0
    assert next_class([5, 99], [10, 100]) == 0


def test_labels_go_to_the_class_that_the_formula_names():
    ks, ns = [3, 40, 88, 7], [4, 50, 90, 9]
    gains = [
        (k + 1) * (n - k + 1) / (n + 2) ** 2 / (n * (n + 1))
        for k, n in zip(ks, ns, strict=True)
    ]
    assert next_class(ks, ns) == gains.index(max(gains))


@pytest.mark.parametrize("wrong", [0, 1, -0.5, math.nan, "0.9"])
def test_what_is_no_share_is_refused_by_name_and_value(wrong):
    with pytest.raises(ValueError, match=f"target .* not {wrong!r}"):
        labels_to_certify(wrong, 0.95, 0.8, 0.95)
    with pytest.raises(ValueError, match=f"power .* not {wrong!r}"):
        labels_to_certify(0.9, 0.95, wrong, 0.95)
    with pytest.raises(ValueError, match=f"confidence_level .* not {wrong!r}"):
        chance_to_certify(10, 0.9, wrong)


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1, not nan"):
        labels_to_certify(0.9, math.nan, 0.8, 0.95)
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1, not 2"):
        chance_to_certify(10, 0.9, 0.95, accuracy=2)
    with pytest.raises(ValueError, match="k must not exceed n"):
        labels_to_certify(0.9, 0.95, 0.8, 0.95, k=3, n=2)
    with pytest.raises(ValueError, match="n must not be negative"):
        chance_to_certify(-1, 0.9, 0.95)
    with pytest.raises(ValueError, match="n must not exceed 10"):
        chance_to_certify(10**9, 0.9, 0.95, n=1)
    with pytest.raises(ValueError, match="one list each"):
        next_class(np.array([], dtype=int), np.array([], dtype=int))
