import pytest

from tracker.stats.exact import balanced_union, clopper_pearson
from tracker.stats.methods import (
    METHODS,
    balanced_interval,
    class_intervals,
    get_method,
)


def test_three_methods_are_guaranteed_and_the_default_comes_first():
    guaranteed = [name for name in METHODS if get_method(name).is_guaranteed]
    assert guaranteed == ["exact", "joint", "anytime"]
    assert METHODS[0] == "exact"
    assert len(METHODS) == len(set(METHODS)) == 11


def test_a_method_is_found_by_its_name():
    assert class_intervals("exact", 23, 28, 0.95) == clopper_pearson(23, 28, 0.95)
    expected = balanced_union([23, 41], [28, 44], 0.95)
    assert balanced_interval("exact", [23, 41], [28, 44], 0.95) == expected


@pytest.mark.parametrize("ask", [class_intervals, balanced_interval])
def test_an_unknown_method_is_answered_with_the_known_ones(ask):
    with pytest.raises(
        ValueError, match=r"one of exact, joint, .*posterior, not 'wald'"
    ):
        ask("wald", [1, 2], [3, 4], 0.95)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is_and_gives_ordered_bounds(name):
    method = get_method(name)
    assert method.name == name
    assert method.description.endswith(".")
    for compute in (method.class_interval, method.balanced_interval):
        low, high = compute([3, 8], [5, 8], 0.95)
        assert (low >= 0).all()
        assert (low <= high).all()
        assert (high <= 1).all()
