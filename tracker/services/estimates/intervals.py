"""Intervals of many counts at once, by any method."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker import stats
from tracker.services.wording import check_one_of
from tracker.shapes import Score
from tracker.stats import Interval, clopper_pearson, window_intervals
from tracker.words import DECIDING_METHOD, STORED_METHODS, one_of

# Of answers; `check_method` checks what is asked for.
MethodWord = Annotated[str, one_of(stats.METHODS)]
ALL = "*"
# Classes in all for which a page or a chart computes what was not stored; the
# slowest method takes about a third of a millisecond for each.
_MOST_COMPUTED = 2_500


Counts = NDArray[np.int64]
# The part of each class, of one moment.
SharesRow = tuple[float, ...] | None
# From how they are made, counts and level to the intervals of the classes, and of all
# of them together, for each row of counts.
IntervalRows = Callable[
    [tuple[Any, ...], Counts, Counts, float], tuple[Interval, Interval]
]


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
    labelled: Sequence[Sequence[int]],
    method: str,
    confidence_level: float,
    shares: Sequence[SharesRow] = (),
) -> list[list[Score]]:
    """Return, for each row of class counts, the balanced score and each class's.

    Many rows at once cost little more than one, and give the same bits.  *shares*, of
    each row or of none, are those of `balanced_anytime`.
    """
    k, n = (np.array(counts, dtype=np.int64) for counts in (correct, labelled))
    known = tuple(one for one in shares if one is not None) or None
    by_class, balanced = _intervals((method, known), k, n, confidence_level)
    with np.errstate(invalid="ignore"):
        return join_scores(k, n, k / n, by_class, balanced)


def keeps_rows(compute: IntervalRows) -> IntervalRows:
    """Keep what *compute* gives for one row of counts.

    Pages ask for the same counts again and again until there are other labels.
    """

    @lru_cache(maxsize=1024)
    def keep(
        how: tuple[Any, ...], correct: bytes, trials: bytes, level: float
    ) -> tuple[Interval, Interval]:
        k, n = (np.frombuffer(row, np.int64)[None] for row in (correct, trials))
        return compute(how, k, n, level)

    def compute_or_remember(
        how: tuple[Any, ...], k: Counts, n: Counts, level: float
    ) -> tuple[Interval, Interval]:
        if len(k) == 1:
            return keep(how, k.tobytes(), n.tobytes(), level)
        return compute(how, k, n, level)

    return compute_or_remember


@keeps_rows
def _intervals(
    how: tuple[Any, ...], k: Counts, n: Counts, level: float
) -> tuple[Interval, Interval]:
    method, shares = how
    if method == DECIDING_METHOD and len(k) == 1:
        claims = list_claims(k[0].tolist(), n[0].tolist(), level, shares and shares[0])
        ends = np.array(bound_all(claims)).T
        return Interval(*ends[:, np.newaxis, :-1]), Interval(*ends[:, -1:])
    by_class = stats.class_intervals(method, k, n, level)
    return by_class, stats.balanced_interval(method, k, n, level, shares=shares)


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


def join_scores(
    correct: NDArray[np.int64],
    trials: NDArray[np.int64],
    values: NDArray[np.float64],
    by_class: Interval,
    whole: Interval,
) -> list[list[Score]]:
    """Return, for each row of classes, the score of all of them and each class's.

    The *values* are the accuracies, NaN where there are no trials, and the one of all
    classes is their mean.  *by_class* and *whole* are their intervals.
    """
    columns = (correct, trials, values, *by_class, *whole)
    lists = zip(*(column.tolist() for column in columns), strict=True)
    return [
        [
            build_score(sum(ks), sum(ns), math.fsum(vs) / len(vs), low, high),
            *map(build_score, ks, ns, vs, lows, highs),
        ]
        for ks, ns, vs, lows, highs, low, high in lists
    ]


# Every page of a list asks for the same few.
@lru_cache(maxsize=1024)
def score_share(correct: int, labelled: int, confidence_level: float) -> Score:
    low, high = clopper_pearson(correct, labelled, confidence_level)
    value = correct / labelled if labelled else math.nan
    return build_score(correct, labelled, value, float(low), float(high))


def score_window(
    correct: Sequence[Sequence[int]],
    labelled: Sequence[Sequence[int]],
    confidence_level: float,
) -> list[list[Score]]:
    """Return what `score` does by exact, of a window in which the accuracy may drift.

    For each class, and as the published mean of all.
    """
    k, n = (np.array(counts, dtype=np.int64) for counts in (correct, labelled))
    by_class = window_intervals(k, n, confidence_level)
    shared = window_intervals(k, n, confidence_level, shown=k.shape[1])
    means = [np.array([row.mean() for row in ends]) for ends in shared[:2]]
    with np.errstate(invalid="ignore"):
        return join_scores(k, n, k / n, by_class, Interval(*means))


def build_score(
    correct: int, labelled: int, value: float, low: float, high: float
) -> Score:
    found = None if math.isnan(value) else value
    return Score(correct=correct, labelled=labelled, accuracy=found, low=low, high=high)
