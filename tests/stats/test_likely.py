import numpy as np
import pytest
from scipy.stats import binom

from tests.stats.expectations import class_coverage
from tracker.stats.coverage import (
    NEGLIGIBLE,
    balanced_coverage,
    count_likely,
    likely_counts,
    only_likely,
)
from tracker.stats.methods import METHODS, get_method

CASES = [(0, 0.5), (5, 0.0), (5, 1.0), (50, 0.99), (999, 0.5), (10**6, 1e-9)]


@pytest.mark.parametrize(("n", "accuracy"), CASES)
def test_what_is_left_out_is_next_to_nothing(n, accuracy):
    counts = likely_counts(n, accuracy)
    left = binom.cdf(counts[0] - 1, n, accuracy) + binom.sf(counts[-1], n, accuracy)
    assert left < NEGLIGIBLE / 2
    assert 0 <= counts[0] <= counts[-1] <= n


def test_few_outcomes_of_many_labels_are_likely():
    assert count_likely([999], [0.5]) < 250
    assert count_likely([50, 50], [0.99, 0.99]) == len(likely_counts(50, 0.99)) ** 2


@pytest.mark.parametrize("method", METHODS)
def test_the_figures_of_one_class_stay_what_they_are(method):
    interval = get_method(method).class_interval
    for n, p in ((0, 0.3), (30, 1.0), (300, 0.97)):
        whole = class_coverage(interval, n, p, 0.95)
        part = class_coverage(only_likely(interval, [n], [p]), n, p, 0.95)
        np.testing.assert_allclose(part, whole, rtol=0, atol=NEGLIGIBLE)


@pytest.mark.parametrize("method", ["exact", "wilson", "anytime", "normal"])
def test_the_figures_of_two_classes_stay_what_they_are(method):
    interval = get_method(method).balanced_interval
    ns, truth = (12, 40), (0.9, 0.995)
    whole = balanced_coverage(interval, ns, truth, 0.95)
    part = balanced_coverage(only_likely(interval, ns, truth), ns, truth, 0.95)
    np.testing.assert_allclose(part, whole, rtol=0, atol=NEGLIGIBLE)


@pytest.mark.parametrize(("n", "accuracy"), [(-1, 0.5), (5, 1.5), (5, float("nan"))])
def test_what_cannot_be_is_refused(n, accuracy):
    with pytest.raises(ValueError, match="there are no"):
        likely_counts(n, accuracy)
