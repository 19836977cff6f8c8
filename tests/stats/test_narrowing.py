"""How many labels narrow the balanced interval of a method."""

import numpy as np
import pytest

from tracker.stats.methods import get_method
from tracker.stats.planning import labels_to_narrow, labels_to_reach_balanced_width

CASES = [
    ((9, 9), (10, 10), 0.15),
    ((9, 30, 80), (10, 40, 81), 0.1),
    ((18,) * 10, (20,) * 10, 0.08),
    ((9, 18, 45, 90, 450), (10, 20, 50, 100, 500), 0.08),
    ((0, 9), (0, 10), 0.3),
]


def width_of(method, k, n):
    low, high = get_method(method).balanced_interval(k, n, 0.95)
    return float(high - low)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["joint", "anytime"])
@pytest.mark.parametrize(("k", "n", "width"), CASES)
def test_the_plan_reaches_the_width_and_hardly_less_does(method, k, n, width):
    asked = []

    def interval(*arguments):
        asked.append(arguments)
        return get_method(method).balanced_interval(*arguments)

    assert width_of(method, k, n) > width
    more = np.array(labels_to_narrow(interval, k, n, width, 0.95))
    assert (more >= 0).all()
    assert len(asked) <= 16
    share = np.array([a / b if b else 0.5 for a, b in zip(k, n, strict=True)])

    def reached(extra):
        total = np.array(n) + extra
        right = np.where(extra > 0, np.rint(total * share), k).astype(int)
        return width_of(method, right, total)

    assert reached(more) <= width * (1 + 1e-9)
    assert reached(np.floor(more * 0.85).astype(int)) > width


def test_joint_needs_far_fewer_labels_than_exact():
    k, n = (18,) * 10, (20,) * 10
    joint = labels_to_narrow(get_method("joint").balanced_interval, k, n, 0.08, 0.95)
    exact = labels_to_reach_balanced_width(k, n, 0.08, 0.95)
    assert 10 * sum(joint) < sum(exact)


def test_what_is_narrow_needs_no_labels_and_what_is_hopeless_has_no_plan():
    interval = get_method("joint").balanced_interval
    assert labels_to_narrow(interval, [90, 90], [100, 100], 0.3, 0.95) == (0, 0)
    assert labels_to_narrow(interval, [5, 5], [10, 10], 1e-5, 0.95) is None


def test_bad_arguments_are_refused():
    interval = get_method("joint").balanced_interval
    for k, n, width in (
        ([3], [4], 0.1),
        ([[3, 4]], [[4, 5]], 0.1),
        ([3, 4], [4, 5], 1),
    ):
        with pytest.raises(ValueError, match="must"):
            labels_to_narrow(interval, k, n, width, 0.95)
