from fractions import Fraction
from itertools import product
from math import factorial, prod

import numpy as np
import pytest

from tracker.stats.arguments import shared_level
from tracker.stats.evidence.one_class import anytime
from tracker.stats.exact import clopper_pearson
from tracker.stats.measures import (
    WINDOW_METHOD,
    f1_intervals,
    f1_scores,
    macro_f1_interval,
    macro_precision_interval,
    overall_interval,
    precision_intervals,
)

# tp, fp, fn, the score and the interval at 95 %, from an independent program.
PUBLISHED = [
    (9, 1, 2, 0.857, 0.599, 0.972),
    (45, 5, 8, 0.874, 0.785, 0.934),
    (90, 10, 15, 0.878, 0.820, 0.922),
    (950, 30, 60, 0.955, 0.944, 0.964),
]


@pytest.mark.parametrize(("tp", "fp", "fn", "score", "low", "high"), PUBLISHED)
def test_f1_has_the_known_interval(tp, fp, fn, score, low, high):
    counts = (tp, tp + fn, tp + fp)
    assert f1_scores(*counts) == pytest.approx(score, abs=6e-4)
    interval = f1_intervals(*counts, 0.95)
    assert interval.low == pytest.approx(low, abs=1e-3)
    assert interval.high == pytest.approx(high, abs=1e-3)


@pytest.mark.parametrize(
    ("classes", "low", "high"), [(3, 0.764, 0.943), (10, 0.743, 0.951)]
)
def test_macro_f1_has_the_known_interval(classes, low, high):
    interval = macro_f1_interval([45] * classes, [53] * classes, [50] * classes, 0.95)
    assert interval.low == pytest.approx(low, abs=1e-3)
    assert interval.high == pytest.approx(high, abs=1e-3)


def test_f1_is_narrower_than_what_precision_and_recall_would_give():
    low, high = f1_intervals(45, 53, 50, 0.95)
    recall = clopper_pearson(45, 53, 0.975)
    precision = precision_intervals(45, 50, 0.975)
    harmonic = [
        2 / (1 / float(p) + 1 / float(r))
        for p, r in zip(precision, recall, strict=True)
    ]
    assert harmonic == pytest.approx([0.733, 0.957], abs=1e-3)
    assert harmonic[0] < low < high < harmonic[1]


def tables(labels, cells):
    """Yield every way to put *labels* into *cells*."""
    for table in product(range(labels + 1), repeat=cells):
        if sum(table) == labels:
            yield table


def chance(table, chances):
    arranged = factorial(sum(table)) // prod(map(factorial, table))
    return arranged * prod(p**k for p, k in zip(chances, table, strict=True))


# P(tp), P(fn), P(fp), P(tn): common and rare classes, good and poor detectors.
WORLDS = [
    (0.45, 0.05, 0.05, 0.45),
    (0.08, 0.02, 0.01, 0.89),
    (0.3, 0.3, 0.2, 0.2),
    (0.85, 0.05, 0.08, 0.02),
    (0.01, 0.04, 0.15, 0.8),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("labels", [1, 5, 12])
def test_every_measure_covers_as_promised_summed_over_all_samples(world, labels):
    tp, fn, fp, tn = world
    chances = np.array([chance(t, world) for t in tables(labels, 4)])
    counts = np.array(list(tables(labels, 4)))
    assert chances.sum() == pytest.approx(1)
    correct = counts[:, [0, 3]]
    labelled = np.stack([counts[:, 0] + counts[:, 1], counts[:, 2] + counts[:, 3]], -1)
    predicted = np.stack([counts[:, 0] + counts[:, 2], counts[:, 1] + counts[:, 3]], -1)
    f1 = np.array([2 * tp / (2 * tp + fp + fn), 2 * tn / (2 * tn + fp + fn)])
    precision = np.array([tp / (tp + fp), tn / (tn + fn)])

    def assert_covers(interval, truth):
        for missed in (interval.low > truth, interval.high < truth):
            assert (chances @ missed <= 0.1 + 1e-12).all()

    assert_covers(precision_intervals(correct, predicted, 0.8), precision)
    macro = macro_precision_interval(correct, predicted, 0.8)
    assert_covers(macro, precision.mean())
    assert_covers(overall_interval(correct, labelled, 0.8), tp + tn)
    assert_covers(f1_intervals(correct, labelled, predicted, 0.8), f1)
    assert_covers(macro_f1_interval(correct, labelled, predicted, 0.8), f1.mean())


def test_the_map_to_f1_is_rounded_outward():
    rng = np.random.default_rng(7)
    either = rng.integers(1, 10**6, 2000)
    tp = rng.integers(0, either + 1)
    low, high = f1_intervals(tp, tp, either, 0.95)
    shares = clopper_pearson(tp, either, 0.95)
    for j, ours in zip(shares.low.tolist(), low.tolist(), strict=True):
        assert Fraction(ours) <= 2 * Fraction(j) / (1 + Fraction(j))
    for j, ours in zip(shares.high.tolist(), high.tolist(), strict=True):
        assert Fraction(ours) >= min(1, 2 * Fraction(j) / (1 + Fraction(j)))
    assert (high <= 1).all()


def test_what_never_occurred_is_unknown():
    assert np.isnan(f1_scores(0, 0, 0))
    assert f1_intervals(0, 0, 0, 0.95) == (0, 1)
    assert precision_intervals(0, 0, 0.95) == (0, 1)
    assert overall_interval([0, 0], [0, 0], 0.95) == (0, 1)
    assert macro_f1_interval([0, 0], [0, 0], [0, 0], 0.95) == (0, 1)


def test_overall_accuracy_pools_the_classes():
    assert overall_interval([23, 41], [28, 44], 0.95) == clopper_pearson(64, 72, 0.95)
    looked = overall_interval([23, 41], [28, 44], 0.95, method="anytime")
    assert looked == anytime(64, 72, 0.95)


def test_overall_accuracy_of_a_window_holds_where_the_accuracy_changes():
    # Nine labels, each with its own chance of being right, summed over all outcomes.
    chances = [0.99, 0.98, 0.97, 0.9, 0.85, 0.8, 0.7, 0.5, 0.3]
    average, level = sum(chances) / 9, 0.8
    missed = [0.0, 0.0]
    for outcome in product([0, 1], repeat=9):
        pairs = zip(outcome, chances, strict=True)
        weight = prod(p if right else 1 - p for right, p in pairs)
        interval = overall_interval(
            [sum(outcome), 0], [9, 0], level, method=WINDOW_METHOD
        )
        missed[0] += weight * bool(interval.low > average)
        missed[1] += weight * bool(interval.high < average)
    assert max(missed) <= (1 - level) / 2
    # A single wrong label: the exact bound alone would not hold.
    plain = overall_interval([0, 0], [1, 0], 0.05)
    window = overall_interval([0, 0], [1, 0], 0.05, method=WINDOW_METHOD)
    assert plain.high < 1 == window.high


def test_macro_precision_is_the_mean_of_bounds_at_a_share_of_the_error():
    low, high = macro_precision_interval([23, 41], [26, 46], 0.95)
    parts = clopper_pearson([23, 41], [26, 46], 0.975)
    assert low == pytest.approx(parts.low.mean())
    assert high == pytest.approx(parts.high.mean())
    assert macro_precision_interval([0, 0], [0, 0], 0.95) == (0, 1)
    backwards = macro_precision_interval([41, 23], [46, 26], 0.95)
    assert backwards == (low, high)
    with pytest.raises(ValueError, match="classes"):
        macro_precision_interval([3], [4], 0.95)


def test_intervals_that_hold_at_every_look_are_wider():
    once = f1_intervals(45, 53, 50, 0.95)
    always = f1_intervals(45, 53, 50, 0.95, method="anytime")
    assert always.low < once.low < once.high < always.high


def test_the_order_of_the_classes_makes_no_difference_to_the_macro_score():
    correct, labelled, predicted = [9, 45, 950, 3], [11, 53, 1010, 7], [10, 50, 980, 5]
    forwards = macro_f1_interval(correct, labelled, predicted, 0.95)
    backwards = macro_f1_interval(correct[::-1], labelled[::-1], predicted[::-1], 0.95)
    assert forwards == backwards


def test_counts_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="k must not exceed n"):
        f1_intervals(5, 4, 6, 0.95)
    with pytest.raises(ValueError, match="k must not exceed n"):
        f1_intervals(5, 6, 4, 0.95)
    with pytest.raises(ValueError, match="classes"):
        macro_f1_interval([3], [4], [4], 0.95)
    with pytest.raises(ValueError, match="method must be one of"):
        f1_intervals(5, 6, 6, 0.95, method="guess")


@pytest.mark.parametrize("level", ["0.8", "0.9", "0.95", "0.99", "0.999"])
@pytest.mark.parametrize("statements", [1, 2, 3, 10, 1000])
def test_a_shared_level_never_has_more_than_its_share_of_the_error(level, statements):
    error = 1 - Fraction(shared_level(float(level), statements))
    allowed = (1 - Fraction(level)) / statements
    # A level is a double, and the double of the decimal may lie below it.
    assert error <= allowed + (Fraction(1, 2**54) if statements == 1 else 0)
    assert error > allowed * (1 - Fraction(1, 10**9))


def test_a_level_that_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="too high"):
        shared_level(float(np.nextafter(1, 0)), 2)
    with pytest.raises(ValueError, match="at least 1"):
        shared_level(0.95, 0)
