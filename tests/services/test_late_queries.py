"""With queries that came late the accuracy lies where an audit says, whatever they are.

Sets so small that all of them are tried: those that have no label may be unclear.
"""

from fractions import Fraction
from itertools import product

import pytest

from tracker.services.estimates.estimate import ClassEstimate
from tracker.services.labelling.auditing.audits import AuditResult, include_late
from tracker.shapes import Accuracy, Score
from tracker.storage.labelling.audits import Audit

SIZE, LATE = 4, 3


def result_of(labelled, low, high):
    """The record of an audit that knows the accuracy, by so many labels of a class."""
    ends = {"accuracy": None, "low": float(low), "high": float(high)}
    return AuditResult.model_construct(
        classes=[
            ClassEstimate(name=name, correct=0, labelled=number, **ends)
            for name, number in zip(("YES", "NO"), labelled, strict=True)
        ],
        balanced=Accuracy(**ends),
        overall=Score(correct=0, labelled=sum(labelled), **ends),
    )


def ways_of(size):
    """Yield right, all and labelled of a class of up to *size* clear queries."""
    for of in range(1, size + 1):
        for right, labelled in product(range(of + 1), range(of + 1)):
            yield right, of, labelled


def later(right, of, late):
    """Return the least and the largest accuracy with up to *late* more."""
    found = [
        Fraction(right + good, of + more)
        for more in range(late + 1)
        for good in range(more + 1)
    ]
    return min(found), max(found)


@pytest.mark.parametrize("aim", ["overall", "YES"])
def test_late_queries_move_an_accuracy_no_further_than_is_said(aim):
    audit = Audit(classes=["YES", "NO"], aim=aim, half_width=0.05)
    for (right, of, labelled), late in product(ways_of(SIZE), range(LATE + 1)):
        truth = Fraction(right, of)
        result = result_of((labelled, 0), truth, truth)
        if not labelled and not late:
            continue
        said = include_late(audit, result, late)
        least, most = later(right, of, late)
        assert said.low <= least + Fraction(1, 10**12)
        assert said.high >= most - Fraction(1, 10**12)
        if labelled == of:
            # Where all is labelled it is no wider than it must be.
            assert said.low == pytest.approx(float(least))
            assert said.high == pytest.approx(float(most))


def test_late_queries_move_the_balanced_accuracy_no_further_than_is_said():
    audit = Audit(classes=["YES", "NO"], aim=None, half_width=0.05)
    for first, second in product(ways_of(3), repeat=2):
        truth = (Fraction(*first[:2]) + Fraction(*second[:2])) / 2
        result = result_of((first[2], second[2]), truth, truth)
        for late in range(1, LATE + 1):
            said = include_late(audit, result, late)
            for ours in range(late + 1):
                theirs = later(*second[:2], late - ours)
                ends = zip(later(*first[:2], ours), theirs, strict=True)
                least, most = (sum(pair) / 2 for pair in ends)
                assert said.low <= least + Fraction(1, 10**12)
                assert said.high >= most - Fraction(1, 10**12)
