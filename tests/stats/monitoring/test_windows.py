import numpy as np
import pytest

from tracker.stats.exact import clopper_pearson, window_intervals


def chances_of_counts(chances):
    """Return how likely each number of right labels is, exactly but for rounding."""
    total = np.ones(1)
    for p in chances:
        total = np.convolve(total, [1 - p, p])
    return total


def drifts(labels):
    rng, third = np.random.default_rng(1), labels // 3
    for p in (0.05, 0.3, 0.5, 0.9, 0.99):
        for sure, hopeless in ((0, 0), (third, 0), (0, third), (third, third)):
            rest = labels - sure - hopeless
            yield np.repeat([1.0, p, 0.0], [sure, rest, hopeless])
        # One label in doubt, and all others for or against.
        yield np.repeat([p, 0.0], [1, labels - 1])
        yield np.repeat([p, 1.0], [1, labels - 1])
    for shape in ((0.1, 0.1), (5, 1), (1, 9)):
        yield from rng.beta(*shape, (20, labels))
    yield np.linspace(0.99, 0.5, labels)


@pytest.mark.parametrize("labels", [1, 2, 3, 7, 20, 60])
@pytest.mark.parametrize("level", [0.1, 0.8, 0.95])
def test_the_average_of_a_window_is_covered_whatever_the_drift(labels, level):
    low, high = window_intervals(np.arange(labels + 1), labels, level)
    for chances in drifts(labels):
        counts, truth = chances_of_counts(chances), chances.mean()
        assert counts[low > truth + 1e-12].sum() <= (1 - level) / 2 + 1e-12
        assert counts[high < truth - 1e-12].sum() <= (1 - level) / 2 + 1e-12


def test_without_care_near_the_ends_a_drift_would_break_the_promise():
    # One label that is right with a chance of one half, and nineteen that cannot be:
    # the bound of the exact interval is then too high in half of all cases.
    low, _ = clopper_pearson(1, 20, 0.1)
    assert low > 0.5 / 20
    assert window_intervals(1, 20, 0.1).low == 0


def test_only_counts_near_the_ends_differ_from_the_exact_interval():
    k = np.arange(21)
    ours, exact = window_intervals(k, 20, 0.95), clopper_pearson(k, 20, 0.95)
    assert (ours.low == exact.low).tolist() == [i != 1 for i in range(21)]
    assert (ours.high == exact.high).tolist() == [i != 19 for i in range(21)]


# Widths for m windows of 200 labels at once, over that of one.
@pytest.mark.parametrize(("shown", "ratio"), [(10, 1.41), (100, 1.73), (1000, 2.02)])
def test_many_windows_at_once_are_as_much_wider_as_is_known(shown, ratio):
    one, many = (window_intervals(190, 200, 0.95, shown=m) for m in (1, shown))
    widths = [float(interval.high - interval.low) for interval in (one, many)]
    assert widths[1] / widths[0] == pytest.approx(ratio, rel=0.03)
