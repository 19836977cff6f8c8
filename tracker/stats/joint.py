"""The balanced accuracy, bounded for all classes together."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import (
    MOST_LABELS,
    Floats,
    checked_class_counts,
    checked_fraction,
    tail_share,
)
from tracker.stats.binomial import Interval, lower_bound
from tracker.stats.joint_modulus import modulus_limit
from tracker.stats.joint_outcomes import LEAST_ERROR_SUMMED, MOST_LABELS_SUMMED
from tracker.stats.joint_pooled import pooled_limit
from tracker.stats.joint_three import outcomes_of_two, three_class_limit
from tracker.stats.joint_two import two_class_limit

# The accuracy for which the weights of the classes are best.  It is a guess about
# detectors, made before any label is seen, and costs width where it is wrong.
_EXPECTED_ACCURACY = 0.9

# Up to so many combinations of the smaller two's counts, three classes are summed
# over count by count.
_MOST_OUTCOMES_OF_TWO = 50_000

# With so few labels in all, or so few such combinations, 20 milliseconds suffice.
_MOST_CHEAP_LABELS = 200_000
_MOST_CHEAP_OUTCOMES = 500

# Where nearly all doubt is about one class, nothing is gained by more than the union
# bound.  This is how many equally doubtful classes there must seem to be.
_LEAST_CLASSES_IN_DOUBT = 1.02

_Counts = tuple[int, ...]
_Limit = Callable[[_Counts, _Counts, float, float], float]


def balanced_joint(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return an interval for the balanced accuracy that bounds all classes at once.

    The last axis of *k* and *n* runs over the K classes; both bounds have the shape
    that remains, in [0, 1].  Each bound is on the wrong side of the balanced
    accuracy with a probability of at most (1 - confidence_level) / 2, whatever the
    class accuracies, floating point included.  So coverage is at least
    *confidence_level*, as it is for `balanced_union`, but the interval is narrower.

    The labels alone decide how a bound is found, before what is correct is seen;
    else the guarantee would be lost.  A class without labels may have any accuracy,
    so the rest are bounded without it:

    * two classes with up to 10**6 labels each, and three where the outcomes of the
      smaller two are few: Buehler's limit, within a box of exact class intervals;
    * other classes with equally many labels: the exact limit for all of them
      pooled, by Hoeffding's inequality for unequal chances;
    * all others: Buehler's limit with the chance bounded by exponential moments, or
      the union bound where nearly all doubt is about one class.

    The bounds depend neither on the order of the classes nor on how many rows are
    computed at once, to the last bit.  Rows are computed one by one, and
    `joint_is_costly` tells which take long.  With right and wrong exchanged the
    bounds are mirrored, but for unequal classes bounded by moments.  One more correct
    label may, rarely, lower a bound a little: the box moves as well.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721;
    R. L. Berger and D. D. Boos, Journal of the American Statistical Association 89
    (1994), 1012-1016.
    """
    correct, labelled = checked_class_counts(k, n)
    share = tail_share(confidence_level, 2)
    return Interval(
        _lower(correct, labelled, share), _upper(labelled - correct, labelled, share)
    )


def joint_lower_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the balanced accuracy exceeds, but for a chance of *error*.

    It is the lower bound of `balanced_joint`, one-sided: whatever the class
    accuracies, the bound is above their mean with a probability of at most *error*.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < error < 1.
    """
    correct, labelled = checked_class_counts(k, n)
    return _lower(correct, labelled, checked_fraction("error", error))


def joint_upper_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the balanced accuracy stays below, but for a chance of *error*.

    It is the upper bound of `balanced_joint`, one-sided: whatever the class
    accuracies, the bound is below their mean with a probability of at most *error*.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < error < 1.
    """
    correct, labelled = checked_class_counts(k, n)
    return _upper(labelled - correct, labelled, checked_fraction("error", error))


def joint_is_costly(n: Sequence[int]) -> bool:
    """Tell whether one joint interval for these labels of each class takes long.

    More than about 20 milliseconds are long.  The labels alone decide.

    Raises ValueError unless there are 2 to 4096 classes and 0 <= n <= 10**9.
    """
    counts, _ = checked_class_counts(np.asarray(n), np.asarray(n))
    labelled = [int(count) for count in counts.ravel().tolist() if count]
    if not labelled:
        return False
    limit = _limit_for(tuple(sorted(labelled)), LEAST_ERROR_SUMMED)
    if limit is _two:
        return sum(labelled) > _MOST_CHEAP_LABELS
    if limit is _three:
        return outcomes_of_two(labelled) > _MOST_CHEAP_OUTCOMES
    return limit is _unequal


def _lower(correct: Floats, labelled: Floats, error: float) -> Floats:
    return _each_row(correct, labelled, error, _EXPECTED_ACCURACY)


def _upper(wrong: Floats, labelled: Floats, error: float) -> Floats:
    missed = _each_row(wrong, labelled, error, 1.0 - _EXPECTED_ACCURACY)
    # The difference is exact but where less than one half is missed.
    high = np.where(missed < 0.5, np.nextafter(1.0 - missed, 1.0), 1.0 - missed)
    return np.asarray(high)


def _each_row(
    correct: Floats, labelled: Floats, error: float, expected: float
) -> Floats:
    classes = correct.shape[-1]
    bounds = [
        _row(k, n, error, expected)
        for k, n in zip(
            correct.reshape(-1, classes).astype(np.int64).tolist(),
            labelled.reshape(-1, classes).astype(np.int64).tolist(),
            strict=True,
        )
    ]
    return np.array(bounds, dtype=np.float64).reshape(correct.shape[:-1])


def _row(k: list[int], n: list[int], error: float, expected: float) -> float:
    """Return the lower limit of one row.

    Classes without labels may have accuracy 0, so they only make the mean smaller.
    """
    # In the same order, whatever the order of the classes was.
    known = sorted((of, one) for one, of in zip(k, n, strict=True) if of)
    correct, labelled = tuple(one for _, one in known), tuple(of for of, _ in known)
    if not any(correct):
        return 0.0
    limit = _limit_for(labelled, error)(correct, labelled, error, expected)
    if len(known) == len(n):
        return limit
    return math.nextafter(limit * len(known) / len(n) * (1.0 - 2.0**-52), 0.0)


def _limit_for(labelled: _Counts, error: float) -> _Limit:
    """Return how classes with these labels, in ascending order, are bounded.

    Whoever chose by what is correct would choose the method that happens to err.
    """
    classes = len(labelled)
    is_summed = max(labelled) <= MOST_LABELS_SUMMED and error >= LEAST_ERROR_SUMMED
    if is_summed and classes == 2:
        return _two
    if (
        is_summed
        and classes == 3
        and outcomes_of_two(labelled) <= _MOST_OUTCOMES_OF_TWO
    ):
        return _three
    if classes > 1 and labelled[0] == labelled[-1] and sum(labelled) <= MOST_LABELS:
        return _equal
    doubts = [1.0 / of for of in labelled]
    in_doubt = math.fsum(map(math.sqrt, doubts)) ** 2 / math.fsum(doubts)
    return _union if in_doubt < _LEAST_CLASSES_IN_DOUBT else _unequal


def _two(k: _Counts, n: _Counts, error: float, _expected: float) -> float:
    return two_class_limit((k[0], k[1]), (n[0], n[1]), error)


def _three(k: _Counts, n: _Counts, error: float, _expected: float) -> float:
    return three_class_limit((k[0], k[1], k[2]), (n[0], n[1], n[2]), error)


def _equal(k: _Counts, n: _Counts, error: float, _expected: float) -> float:
    return pooled_limit(sum(k), sum(n), error)


def _unequal(k: _Counts, n: _Counts, error: float, expected: float) -> float:
    return modulus_limit(k, n, error, expected=expected)


def _union(k: _Counts, n: _Counts, error: float, _expected: float) -> float:
    lows = lower_bound(k, n, math.nextafter(error / len(n), 0.0)).tolist()
    return math.nextafter(math.fsum(lows) / len(n), 0.0)
