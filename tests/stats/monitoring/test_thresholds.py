from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.exact import clopper_pearson
from tracker.stats.methods import class_bounds
from tracker.stats.monitoring.thresholds import (
    calibration_error,
    lowest_in_band,
    lowest_threshold,
    simultaneous_band,
)


def above(parts):
    """Return the sums over a bin and all stricter ones, as thresholds see them."""
    return np.cumsum(np.asarray(parts)[..., ::-1], axis=-1)[..., ::-1]


@pytest.mark.parametrize("accuracies", [(0.5, 0.8, 0.99), (0.9, 0.6, 0.7)])
def test_the_band_holds_at_all_thresholds_at_once_summed_over_all_samples(accuracies):
    shares, p, labels = np.array([0.3, 0.5, 0.2]), np.array(accuracies), 6
    truth = above(shares * p) / above(shares)
    chances = np.concatenate([shares * p, shares * (1 - p)]).tolist()
    missed = misses_of_one = 0.0
    for cells in product(range(labels + 1), repeat=6):
        if sum(cells) != labels:
            continue
        chance = factorial(labels) * prod(
            c**k / factorial(k) for c, k in zip(chances, cells, strict=True)
        )
        k = above(cells[:3])
        n = k + above(cells[3:])
        low, high = simultaneous_band(k, n, 0.8)
        missed += chance * bool(((low > truth) | (high < truth)).any())
        low, high = clopper_pearson(k, n, 0.8)
        misses_of_one += chance * bool(((low > truth) | (high < truth)).any())
    assert 0.001 < missed <= 0.2
    assert misses_of_one > 1.5 * missed


def test_the_band_has_a_share_of_the_error_at_each_threshold():
    k, n = [[90, 80], [9, 8]], [[100, 85], [10, 8]]
    band = simultaneous_band(k, n, 0.9)
    assert band.low == pytest.approx(clopper_pearson(k, n, 0.95).low, rel=1e-9)


# Accuracies of the queries between thresholds: rising, falling, up and down.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "accuracies", [(0.2, 0.75, 0.95), (0.95, 0.5, 0.9), (0.6, 0.95, 0.6)]
)
@pytest.mark.parametrize("target", [0.7, 0.8])
def test_a_threshold_below_the_target_is_hardly_ever_chosen(accuracies, target):
    n, p = np.array([9, 9, 9]), np.array(accuracies)
    truth = above(n * p) / above(n)
    wrong = right = 0.0
    for k in product(range(10), repeat=3):
        chosen = lowest_threshold(
            above(k), above(n), above(n) / 27, target=target, confidence_level=0.8
        )
        if chosen is not None:
            chance = binom.pmf(k, n, p).prod()
            wrong += chance * (truth[chosen] < target - 1e-12)
            right += chance * (truth[chosen] >= target - 1e-12)
    assert wrong <= 0.2
    if truth[-1] > 0.9:
        assert right > 0.2


def test_the_search_ends_at_the_first_failure_and_begins_where_queries_are_left():
    def choose(correct, labelled, shares):
        return lowest_threshold(
            correct, labelled, shares, target=0.8, confidence_level=0.95
        )

    assert choose([950, 300, 95], [1000, 400, 100], [1.0, 0.4, 0.1]) == 2
    assert choose([950, 390, 95], [1000, 400, 100], [1.0, 0.4, 0.1]) == 0
    assert choose([950, 390, 0], [1000, 400, 10], [1.0, 0.4, 0.09]) == 0
    assert choose([100, 95, 50], [400, 100, 100], [1.0, 0.5, 0.2]) is None
    assert choose([9], [9], [0.05]) is None


def test_the_order_of_tests_spends_no_error_on_the_number_of_thresholds():
    rng = np.random.default_rng(3)
    confidence = rng.beta(6, 2, 1000)
    is_right = rng.random(1000) < confidence
    thresholds = np.quantile(rng.beta(6, 2, 10_000), np.linspace(0, 0.95, 20))
    is_above = confidence >= thresholds[:, None]
    k, n = (is_above & is_right).sum(axis=1), is_above.sum(axis=1)
    chosen = lowest_threshold(
        k, n, np.linspace(1, 0.05, 20), target=0.85, confidence_level=0.95
    )
    by_band = np.flatnonzero(simultaneous_band(k, n, 0.95).low >= 0.85)
    assert chosen < by_band[0]


def test_the_calibration_error_has_the_bounds_of_its_bins():
    k, n = np.array([50, 160, 665]), np.array([100, 200, 700])
    shares, said = n / 1000, np.array([0.55, 0.8, 0.96])
    band = simultaneous_band(k, n, 0.95)
    error = calibration_error(band, k, n, said, shares)
    assert error.estimate == pytest.approx(0.1 * 0.05 + 0.7 * 0.01)
    # Every bin holds its confidence, so perfect calibration is possible.
    assert error.low == 0
    farthest = np.maximum(said - band.low, band.high - said)
    assert error.high == pytest.approx(shares @ farthest)
    off = calibration_error(band, k, n, np.array([0.9, 0.8, 0.96]), shares)
    assert off.low == pytest.approx(0.1 * (0.9 - band.high[0]))
    assert off.low <= off.estimate <= off.high


def test_the_calibration_error_is_covered_summed_over_all_samples():
    shares, p, said = np.array([0.4, 0.6]), np.array([0.55, 0.8]), np.array([0.6, 0.95])
    n = np.array([12, 15])
    truth, missed = float(shares @ np.abs(p - said)), 0.0
    for k in product(range(13), range(16)):
        band = simultaneous_band(np.array(k), n, 0.8)
        error = calibration_error(band, k, n, said, shares)
        chance = binom.pmf(k, n, p).prod()
        missed += chance * (not error.low <= truth <= error.high)
    assert missed <= 0.2


def test_a_bin_without_labels_leaves_the_error_open():
    band = simultaneous_band([5, 0], [9, 0], 0.95)
    error = calibration_error(band, [5, 0], [9, 0], [0.5, 0.9], [0.4, 0.6])
    assert error.estimate is None
    assert error.high >= 0.6 * 0.9
    none = calibration_error(band, [5, 0], [9, 0], [0.5, 0.9], [1.0, 0.0])
    assert none.estimate == pytest.approx(5 / 9 - 0.5)


def test_a_target_that_is_no_share_is_refused():
    with pytest.raises(ValueError, match="target must be a number between 0 and 1"):
        lowest_threshold([1], [1], [1.0], target=1.0, confidence_level=0.95)


@pytest.mark.thorough
def test_a_target_that_is_typed_later_is_certified_as_safely():
    # Sums over all outcomes: labels in three bins, thresholds at their lower ends.
    accuracies, labels, level = (0.6, 0.8, 0.9), (5, 5, 5), 0.8
    true = [np.mean(accuracies[i:]) for i in range(3)]
    wrong = {"whole": 0.0, "shared": 0.0}
    for outcome in product(range(6), repeat=3):
        chance = np.prod(binom.pmf(outcome, labels, accuracies))
        k = np.cumsum(outcome[::-1])[::-1]
        n = np.cumsum(labels[::-1])[::-1]
        band = simultaneous_band(k, n, level, side="lower")
        assert (band.high == 1).all()
        wrong["shared"] += chance * bool((band.low > true).any())
        whole = class_bounds("exact", k, n, level, "lower")
        wrong["whole"] += chance * bool((whole.low > true).any())
        assert (band.low >= simultaneous_band(k, n, level).low).all()
    assert wrong["shared"] <= 0.2 < wrong["whole"]


def test_a_target_that_is_typed_after_a_look_is_rarely_missed():
    # They have seen the counts, and type the target for which the answer is false.
    draw = np.random.default_rng(5)
    cuts = np.arange(10) / 10
    truth, shares = 0.7 + 0.3 * (1 + cuts) / 2, 1 - cuts
    targets = np.arange(0.7, 0.99, 0.005)
    false = {lowest_threshold: 0, lowest_in_band: 0}
    lives = 150
    for _ in range(lives):
        confidence = draw.random(300)
        is_right = draw.random(300) < 0.7 + 0.3 * confidence
        n = [int((confidence >= cut).sum()) for cut in cuts]
        k = [int(is_right[confidence >= cut].sum()) for cut in cuts]
        for find in false:
            chosen = (
                (target, find(k, n, shares, target=target, confidence_level=0.9))
                for target in targets
            )
            false[find] += any(
                place is not None and truth[place] < target for target, place in chosen
            )
    assert false[lowest_in_band] <= 0.1 * lives < 1.25 * false[lowest_threshold]


@pytest.mark.parametrize("target", [0.5, 0.7])
def test_the_lowest_threshold_in_the_band_leaves_a_tenth_of_the_queries(target):
    shares, n = [1.0, 0.5, 0.05], [90, 80, 70]
    found = lowest_in_band(
        [10, 70, 70], n, shares, target=target, confidence_level=0.95
    )
    assert found == 1
    assert (
        lowest_in_band([10, 10, 70], n, shares, target=target, confidence_level=0.95)
        is None
    )
