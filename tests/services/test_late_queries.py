"""With queries that came late the accuracy lies where an audit says, whatever they are.

Sets so small that all of them are tried; those that come late may be unclear.
"""

from fractions import Fraction
from itertools import product

import pytest

from tracker.services.labelling.auditing.audits import (
    AuditResult,
    LateBasis,
    include_late,
)

SIZE, LATE = 4, 3
_ROUNDING = Fraction(1, 10**12)


def result_of(truth, queries):
    """The record of an audit that knows the accuracy, and of how many queries it is."""
    sure = LateBasis(low=float(truth), high=float(truth), queries=queries)
    return AuditResult.model_construct(for_late=sure)


def ways_of(size):
    """Yield how many of up to *size* clear queries are right, and how many they are."""
    for of in range(1, size + 1):
        for right in range(of + 1):
            yield right, of


def later(right, of, late):
    """Return the least and the largest accuracy with up to *late* more."""
    found = [
        Fraction(right + good, of + more)
        for more in range(late + 1)
        for good in range(more + 1)
    ]
    return min(found), max(found)


def test_late_queries_move_an_accuracy_no_further_than_is_said():
    for (right, of), late in product(ways_of(SIZE), range(LATE + 1)):
        said = include_late(result_of(Fraction(right, of), of), late)
        least, most = later(right, of, late)
        # No wider than it must be, either.
        assert said.low == pytest.approx(float(least))
        assert said.high == pytest.approx(float(most))


def test_fewer_queries_than_there_are_make_it_wider_only():
    for (right, of), late in product(ways_of(SIZE), range(LATE + 1)):
        least, most = later(right, of, late)
        for known in range(1, of + 1):
            said = include_late(result_of(Fraction(right, of), known), late)
            assert said.low <= least + _ROUNDING
            assert said.high >= most - _ROUNDING


def test_late_queries_move_the_balanced_accuracy_no_further_than_is_said():
    for first, second in product(ways_of(3), repeat=2):
        truth = (Fraction(*first) + Fraction(*second)) / 2
        result = result_of(truth, min(first[1], second[1]))
        for late in range(1, LATE + 1):
            said = include_late(result, late)
            for ours in range(late + 1):
                ends = zip(
                    later(*first, ours), later(*second, late - ours), strict=True
                )
                least, most = (sum(pair) / 2 for pair in ends)
                assert said.low <= least + _ROUNDING
                assert said.high >= most - _ROUNDING
