"""Simulated coverage of balanced intervals, against the sum over all outcomes."""

import numpy as np
import pytest

from tracker.stats.coverage import balanced_coverage, simulated_coverage
from tracker.stats.methods import METHODS, get_method


@pytest.mark.parametrize("method", ["exact", "wilson", "normal", "anytime"])
def test_a_simulation_is_near_the_sum(method):
    interval = get_method(method).balanced_interval
    n, truth = (12, 20), (0.9, 0.7)
    summed = balanced_coverage(interval, n, truth, 0.9)
    found, error = simulated_coverage(interval, n, truth, 0.9, draws=4000)
    assert abs(found.holds - summed.holds) < 4 * error
    assert abs(found.above - summed.above) < 4 * error
    assert found.width == pytest.approx(float(summed.width), rel=0.02)
    total = found.holds + found.above + found.below
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.thorough
def test_the_posterior_of_many_classes_hardly_ever_holds_and_joint_does():
    n, truth = (20,) * 10, (0.95,) * 10
    (posterior, _), (joint, _) = (
        simulated_coverage(
            get_method(name).balanced_interval, n, truth, 0.95, draws=400
        )
        for name in ("posterior", "joint")
    )
    assert posterior.holds < 0.4
    assert joint.holds >= 0.9


def test_the_same_arguments_give_the_same_figures():
    interval = get_method("wilson").balanced_interval
    first, again = (
        simulated_coverage(interval, (5, 6, 7), (0.5, 0.6, 1), 0.9, draws=300)
        for _ in range(2)
    )
    assert first == again


def test_a_share_of_samples_is_the_nearest_number_to_it():
    interval = get_method("normal").balanced_interval
    held = set()
    for accuracy in (0.8, 0.85, 0.9, 0.95):
        part, _ = simulated_coverage(
            interval, (9, 12, 20), (accuracy,) * 3, 0.9, draws=7
        )
        for share in (part.holds, part.above, part.below):
            assert float(share) in {count / 7 for count in range(8)}
        held.add(float(part.holds))
    assert len(held) > 1


def test_samples_that_agree_leave_some_doubt():
    interval = get_method("exact").balanced_interval
    found, error = simulated_coverage(interval, (5, 5), (1, 1), 0.95, draws=100)
    assert found.holds == 1
    assert 0.005 < error < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_each_outcome_is_computed_once(method):
    asked = []

    def watched(k, n, level):
        asked.append(len(k))
        return get_method(method).balanced_interval(k, n, level)

    simulated_coverage(watched, (3, 2, 1), (0.9, 0.5, 0.5), 0.9, draws=500)
    assert len(asked) == 1
    assert asked[0] <= 4 * 3 * 2


def test_bad_arguments_are_refused():
    interval = get_method("exact").balanced_interval
    for n, truth, draws in (
        ((5,), (0.5,), 9),
        ((5, 5), (0.5,), 9),
        ((5, 5), (0.5, 1.5), 9),
        ((5, 5), (0.5, np.nan), 9),
        ((5, 5), (0.5, 0.5), 0),
    ):
        with pytest.raises(ValueError, match="must"):
            simulated_coverage(interval, n, truth, 0.9, draws=draws)
