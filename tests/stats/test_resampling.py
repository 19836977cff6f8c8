"""Rounds of a published study, and the figures that were printed for them.

`resampling.csv` holds the 200 bootstrap rounds of S. Raschka, Creating Confidence
Intervals for Machine Learning Classifiers (2022), run again as described there with
scikit-learn 1.9.1: a decision tree on 127 of Fisher's irises, seed 12345.
"""

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from tracker.stats.resampling import (
    bootstrap_percentile,
    bootstrap_t,
    corrected_632,
    corrected_632_plus,
    point_632,
    point_632_plus,
    seeds_t,
)

with (Path(__file__).parent / "resampling.csv").open(newline="") as file:
    ROUNDS = [[float(cell) for cell in row.values()] for row in csv.DictReader(file)]
VALIDATION, TRAINING, NO_INFORMATION = np.array(ROUNDS).T


def rounded(interval):
    return [round(float(bound), 4) for bound in interval]


def test_every_round_was_read():
    assert len(ROUNDS) == 200
    assert VALIDATION.mean() == pytest.approx(0.9463377985233019, abs=1e-12)


def test_the_published_t_interval_is_met():
    # It is printed as (0.8795, 1.0132), and accuracies stay within 1.
    assert rounded(bootstrap_t(VALIDATION, 0.95)) == [0.8795, 1]
    low, high = bootstrap_t(VALIDATION - 0.05, 0.95)
    assert low + 0.05 == pytest.approx(0.879470830164037, abs=1e-12)
    assert high + 0.05 == pytest.approx(1.0132047668825668, abs=1e-12)


def test_the_published_percentiles_are_met():
    assert rounded(bootstrap_percentile(VALIDATION, 0.95)) == [0.8696, 1]


def test_the_published_632_figures_are_met_with_the_weights_swapped():
    interval = point_632(VALIDATION, TRAINING, 0.95, is_swapped=True)
    assert rounded(interval) == [0.9221, 1]
    assert float(interval.low) == pytest.approx(0.9221417322834646, abs=1e-12)


def test_the_published_632_plus_figures_are_met_with_the_weights_swapped():
    interval = point_632_plus(
        VALIDATION, TRAINING, NO_INFORMATION, 0.95, is_swapped=True
    )
    assert rounded(interval) == [0.9249, 1]
    assert float(interval.low) == pytest.approx(0.9248753660725227, abs=1e-12)


def test_the_weights_of_the_papers_trust_the_validation_more():
    plain = bootstrap_percentile(VALIDATION, 0.95).low
    rule = point_632(VALIDATION, TRAINING, 0.95).low
    plus = point_632_plus(VALIDATION, TRAINING, NO_INFORMATION, 0.95).low
    assert rounded([plain, plus, rule]) == [0.8696, 0.8974, 0.9002]
    mixed = 0.632 * VALIDATION + 0.368 * TRAINING
    assert rule == pytest.approx(np.percentile(mixed, 2.5), abs=1e-12)


def test_the_corrected_rounds_are_those_whose_percentiles_are_taken():
    corrected = corrected_632(VALIDATION, TRAINING)
    assert bootstrap_percentile(corrected, 0.95) == point_632(
        VALIDATION, TRAINING, 0.95
    )
    assert corrected.mean() == pytest.approx(
        0.632 * VALIDATION.mean() + 0.368 * TRAINING.mean(), abs=1e-12
    )
    columns = VALIDATION, TRAINING, NO_INFORMATION
    corrected = corrected_632_plus(*columns)
    assert bootstrap_percentile(corrected, 0.95) == point_632_plus(*columns, 0.95)
    assert corrected.mean() < corrected_632(VALIDATION, TRAINING).mean()


def test_a_round_that_learnt_by_heart_is_taken_at_its_validation_accuracy():
    # Right half of the time by luck alone, and on new data no more than that.
    interval = point_632_plus([0.5, 0.5], [1.0, 1.0], [0.5, 0.5], 0.95)
    assert interval == (0.5, 0.5)


@pytest.mark.parametrize(
    ("validation", "training", "no_information"),
    [(0.9, 0.9, 0.5), (0.95, 0.9, 0.5), (0.7, 0.5, 0.5), (0.3, 0.4, 0.5)],
)
def test_without_overfitting_the_plus_adds_nothing(
    validation, training, no_information
):
    arguments = [validation] * 2, [training] * 2
    plus = point_632_plus(*arguments, [no_information] * 2, 0.95)
    assert plus == point_632(*arguments, 0.95)


def test_seeds_narrow_the_interval_of_their_mean():
    accuracy = [0.91, 0.93, 0.9, 0.94, 0.92]
    low, high = seeds_t(accuracy, 0.95)
    mean, error = np.mean(accuracy), np.std(accuracy, ddof=1) / math.sqrt(5)
    expected = t(4, mean, error).interval(0.95)
    assert (float(low), float(high)) == pytest.approx(expected, abs=1e-12)
    twice = seeds_t(accuracy * 2, 0.95)
    assert twice.high - twice.low < high - low


def test_equal_seeds_leave_no_doubt():
    # Printed as 0.9565217391304348 twice, for five seeds of the same tree.
    low, high = seeds_t([22 / 23] * 5, 0.95)
    assert low == pytest.approx(22 / 23, abs=1e-15)
    assert high == pytest.approx(22 / 23, abs=1e-15)


def corrected(rounds, level):
    return point_632(rounds, 1.0 - 0.1 * np.asarray(rounds), level)


def corrected_more(rounds, level):
    training = 1.0 - 0.1 * np.asarray(rounds)
    return point_632_plus(rounds, training, 0.3 * np.ones_like(training), level)


METHODS = {
    "t": bootstrap_t,
    "seeds": seeds_t,
    "percentile": bootstrap_percentile,
    "632": corrected,
    "632+": corrected_more,
}
EVERY_METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@EVERY_METHOD
def test_a_higher_level_gives_a_wider_interval(method):
    intervals = [method(VALIDATION, level) for level in (0.5, 0.9, 0.99)]
    for narrow, wide in itertools.pairwise(intervals):
        assert 0 <= wide.low <= narrow.low <= narrow.high <= wide.high <= 1


@EVERY_METHOD
def test_studies_are_computed_side_by_side(method):
    studies = np.random.default_rng(1).beta(9, 2, (3, 4, 50))
    low, high = method(studies, 0.9)
    assert low.shape == high.shape == (3, 4)
    alone = method(studies[1, 2], 0.9)
    assert low[1, 2] == pytest.approx(float(alone.low), abs=1e-15)
    assert high[1, 2] == pytest.approx(float(alone.high), abs=1e-15)


@EVERY_METHOD
def test_what_is_no_study_is_refused(method):
    for rounds in ([0.9], 0.9, []):
        with pytest.raises(ValueError, match="two rounds or more"):
            method(rounds, 0.95)
    for rounds in ([0.9, 1.1], [0.9, math.nan]):
        with pytest.raises(ValueError, match="must lie between 0 and 1"):
            method(rounds, 0.95)
    with pytest.raises(ValueError, match="confidence_level must be a number"):
        method([0.9, 0.8], 95)


def test_every_part_of_a_study_is_refused_by_name():
    with pytest.raises(ValueError, match="training must lie"):
        point_632([0.9, 0.9], [1, 2], 0.95)
    with pytest.raises(ValueError, match="no_information must hold"):
        point_632_plus([0.9, 0.9], [1, 1], 0.5, 0.95)
