"""Intervals of many counts at once, by any method."""

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker import stats
from tracker.services.wording import check_one_of
from tracker.shapes import Score
from tracker.stats import Interval, clopper_pearson, window_intervals
from tracker.words import (
    DECIDING_METHOD,
    F1,
    OVERALL,
    PRECISION,
    RECALL,
    STORED_METHODS,
    one_of,
)

# Of answers; `check_method` checks what is asked for.
MethodWord = Annotated[str, one_of(stats.METHODS)]
ALL = "*"
# Classes in all for which a page or a chart computes what was not stored; the
# slowest method takes about a third of a millisecond for each.
_MOST_COMPUTED = 2_500

# So many counts at once are of an import, of which the last row alone is asked again.
_MOST_SHARED = 2**13

# The part of each class, of one moment.
SharesRow = tuple[float, ...] | None


def check_method(method: str, *, or_all: bool = False) -> None:
    """Raise InvalidInputError unless *method* is one that there is, or maybe ``*``."""
    known = (*stats.METHODS, ALL) if or_all else stats.METHODS
    check_one_of("method", method, known)


def max_snapshots(method: str, classes: int, *, of: int) -> int:
    """Return how many *of* so many snapshots *method* may be asked for at once."""
    if method in STORED_METHODS:
        return of
    return min(of, max(5, _MOST_COMPUTED // classes))


def thin_evenly(marks: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many marks, evenly, with the first and the last one."""
    if len(marks) <= most:
        return list(marks)
    last = len(marks) - 1
    return [marks[place * last // (most - 1)] for place in range(most)]


def score(
    correct: Sequence[Sequence[int]],
    trials: Sequence[Sequence[int]],
    *how: Any,
    measure: str = RECALL,
) -> list[list[Score]]:
    """Return the `figures` of each row as scores."""
    rows = figures(correct, trials, *how, measure=measure)
    return [[build_score(*one) for one in row] for row in rows]


Figures = tuple[int, int, float | None, float, float]
"""The fields of a score, in their order, as their numbers alone."""


def figures(  # noqa: PLR0913 - the counts, and what is told of them.
    correct: Sequence[Sequence[int]],
    trials: Sequence[Sequence[int]],
    method: str,
    confidence_level: float,
    shares: Sequence[SharesRow] = (),
    *,
    measure: str = RECALL,
) -> list[list[Figures]]:
    """Return, for each row of class counts, the score of all classes and each class's.

    The *correct* ones of a class are among its *trials*, which `count_trials` gives for
    a *measure*.  Overall accuracy has no score of a class.  Many rows at once cost
    little more than one, and give the same bits.  *shares*, of each row or of none, are
    those of `balanced_anytime`.
    """
    k, n = (np.array(counts, dtype=np.int64) for counts in (correct, trials))
    known = tuple(one for one in shares if one is not None) or None
    # Pages ask for the same counts again and again until there are other labels.
    compute = _intervals if len(k) == 1 else _intervals.__wrapped__
    how = measure, method, k.shape[1], known
    by_class, whole = compute(how, k.tobytes(), n.tobytes(), confidence_level)
    if measure == OVERALL:
        k, n = (counts.sum(axis=1, keepdims=True) for counts in (k, n))
    with np.errstate(invalid="ignore"):
        values = stats.f1_scores(k, k, n) if measure == F1 else k / n
    rows = _join(k, n, values, by_class, whole)
    return [row[1:] for row in rows] if measure == OVERALL else rows


@lru_cache(maxsize=2048)
def _intervals(
    how: tuple[Any, ...], correct: bytes, trials: bytes, level: float
) -> tuple[Interval, Interval]:
    """Return the intervals of the classes, and of all of them, for each row."""
    measure, method, classes, shares = how
    counts = (np.frombuffer(one, np.int64) for one in (correct, trials))
    k, n = (one.reshape(-1, classes) for one in counts)
    if measure == OVERALL:
        whole = stats.overall_interval(k, n, level, method=method)
        return Interval(whole.low[:, np.newaxis], whole.high[:, np.newaxis]), whole
    if measure == PRECISION:
        whole = stats.macro_precision_interval(k, n, level, method=method)
        return stats.precision_intervals(k, n, level, method=method), whole
    if measure == F1:
        # F1 asks how many have a class as label or prediction, not which of both.
        whole = stats.macro_f1_interval(k, k, n, level, method=method)
        return stats.f1_intervals(k, k, n, level, method=method), whole
    if method != DECIDING_METHOD or k.size > _MOST_SHARED:
        by_class = stats.class_intervals(method, k, n, level)
        return by_class, stats.balanced_interval(method, k, n, level, shares=shares)
    rows = [*zip(k.tolist(), n.tolist(), shares or [None] * len(k), strict=True)]
    if len(rows) == 1:
        ((correct_ones, labelled, bets),) = rows
        ends = np.array(bound_all(list_claims(correct_ones, labelled, level, bets))).T
        return Interval(*ends[:, np.newaxis, :-1]), Interval(*ends[:, -1:])
    # The calendar of a fold asks for the same, after the snapshots.
    means = [Claim(tuple(right), tuple(of), bets, level) for right, of, bets in rows]
    whole = Interval(*np.array(bound_all(means)).T)
    return stats.class_intervals(method, k, n, level), whole


class Claim(NamedTuple):
    """What a verdict claims: that a measure of these counts is above, or below."""

    right: tuple[int, ...]
    counted: tuple[int, ...]
    # Of the classes, for their mean.
    shares: SharesRow
    # That of its interval.
    level: float


# The intervals of claims: pages and the job ask for the same until there are labels.
_KEPT: dict[Claim, tuple[float, float]] = {}
_MOST_KEPT = 16_384


def bound(
    right: tuple[int, ...],
    counted: tuple[int, ...],
    confidence_level: float,
    shares: SharesRow = None,
) -> tuple[float, float]:
    """Return the interval that a measure's verdict goes by."""
    (found,) = bound_all([Claim(right, counted, shares, confidence_level)])
    return found


def bound_all(claims: Sequence[Claim]) -> list[tuple[float, float]]:
    """Return the intervals of *claims*: the same bits as one by one, in less time."""
    kept = ((one, _KEPT.get(one)) for one in claims)
    found = {one: ends for one, ends in kept if ends is not None}
    missing = dict.fromkeys(one for one in claims if one not in found)
    alike = defaultdict[tuple[int, float, bool], list[Claim]](list)
    for one in missing:
        alike[len(one.counted), one.level, one.shares is None].append(one)
    for (classes, level, _), some in alike.items():
        right, counted = [one.right for one in some], [one.counted for one in some]
        shares = [one.shares for one in some if one.shares is not None] or None
        if classes == 1:
            rows = stats.class_intervals(DECIDING_METHOD, right, counted, level)
        else:
            rows = stats.balanced_interval(
                DECIDING_METHOD, right, counted, level, shares=shares
            )
        ends = rows.low.ravel().tolist(), rows.high.ravel().tolist()
        found |= zip(some, zip(*ends, strict=True), strict=True)
    if missing and len(_KEPT) > _MOST_KEPT:
        _KEPT.clear()
    _KEPT.update((one, found[one]) for one in missing)
    return [found[one] for one in claims]


def list_claims(
    right: Sequence[int], counted: Sequence[int], level: float, shares: SharesRow
) -> list[Claim]:
    """Return the claims that an estimate makes: on each class, and on their mean."""
    of_classes = [
        Claim((k,), (n,), None, level) for k, n in zip(right, counted, strict=True)
    ]
    return [*of_classes, Claim(tuple(right), tuple(counted), shares, level)]


def _join(
    correct: NDArray[np.int64],
    trials: NDArray[np.int64],
    values: NDArray[np.float64],
    by_class: Interval,
    whole: Interval,
) -> list[list[Figures]]:
    """Return, for each row of classes, the figures of all of them and each class's.

    The *values* are the accuracies, NaN without trials; their mean is that of all.
    """
    known = values.astype(object)
    known[np.isnan(values)] = None
    columns = [one.tolist() for one in (correct, trials, known, *by_class, *whole)]
    means = [None if None in vs else math.fsum(vs) / len(vs) for vs in columns[2]]
    lists = zip(*columns[:3], means, *columns[3:], strict=True)
    return [
        [
            (sum(ks), sum(ns), mean, low, high),
            *zip(ks, ns, vs, lows, highs, strict=True),
        ]
        for ks, ns, vs, mean, lows, highs, low, high in lists
    ]


# Every page of a list asks for the same few.
@lru_cache(maxsize=1024)
def score_share(correct: int, labelled: int, confidence_level: float) -> Score:
    low, high = clopper_pearson(correct, labelled, confidence_level)
    value = correct / labelled if labelled else None
    return build_score(correct, labelled, value, float(low), float(high))


def score_window(
    correct: Sequence[Sequence[int]],
    labelled: Sequence[Sequence[int]],
    confidence_level: float,
) -> list[list[Score]]:
    """Return what `score` does by exact, of a window in which accuracies may drift."""
    k, n = (np.array(counts, dtype=np.int64) for counts in (correct, labelled))
    by_class = window_intervals(k, n, confidence_level)
    shared = window_intervals(k, n, confidence_level, shown=k.shape[1])
    means = [np.array([row.mean() for row in ends]) for ends in shared[:2]]
    with np.errstate(invalid="ignore"):
        rows = _join(k, n, k / n, by_class, Interval(*means))
    return [[build_score(*one) for one in row] for row in rows]


def build_score(
    correct: int, labelled: int, accuracy: float | None, low: float, high: float
) -> Score:
    return Score(
        correct=correct, labelled=labelled, accuracy=accuracy, low=low, high=high
    )
