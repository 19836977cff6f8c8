"""The balanced accuracy, bounded for all classes together."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..arguments import (
    MOST_LABELS,
    Floats,
    checked_class_counts,
    checked_fraction,
    tail_share,
)
from ..exact import Interval, distance_to_one, lower_bound
from .modulus import modulus_limits
from .outcomes import LEAST_ERROR_SUMMED, MOST_LABELS_SUMMED
from .three import MOST_WORK, three_class_limit, work_of_three
from .two import two_class_limit

# The accuracy for which the weights of the classes are best.  It is a guess about
# detectors, made before any label is seen, and costs width where it is wrong.
_EXPECTED_ACCURACY = 0.9

# With more labels in all, two classes take more than 20 milliseconds; more classes
# than this may take more than 10.
_MOST_CHEAP_LABELS = 200_000
_MOST_CHEAP_CLASSES = 64
_USUAL_ERROR = 0.025

# Where nearly all doubt is about one class, nothing is gained by more than the union
# bound.  This is how many equally doubtful classes there must seem to be.
_LEAST_CLASSES_IN_DOUBT = 1.02

# One label of a class beside so many of another hardly says more than none, and a
# joint interval then often comes out wider than the union bound.
_MANY_BESIDE_ONE = 10

_Counts = tuple[int, ...]
_Limit = Callable[[_Counts, _Counts, float], float]


def balanced_joint(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return an interval for the balanced accuracy that bounds all classes at once.

    The last axis of *k* and *n* runs over the K classes; both bounds have the shape
    that remains, in [0, 1].  Each bound is on the wrong side of the balanced
    accuracy with a probability of at most (1 - confidence_level) / 2, whatever the
    class accuracies, floating point included.  So coverage is at least
    *confidence_level*, as it is for `balanced_union`.

    The labels alone decide how a bound is found, else the guarantee would be lost.  A
    class without labels may have any accuracy, so the rest are bounded without it:

    * two or three classes of which one has a single label and another ten or more:
      the union bound;
    * two classes with up to 10**6 labels each, and three where that takes no more
      than `MOST_WORK`: Buehler's limit, within a box of exact class intervals;
    * other classes with equally many labels: the exact limit for all of them
      pooled, by Hoeffding's inequality for unequal chances;
    * all others: Buehler's limit with the chance bounded by exponential moments, or
      the union bound where nearly all doubt is about one class.

    The bounds depend neither on the order of the classes nor on how many rows are
    computed at once, to the last bit; `joint_is_costly` tells which take long.  With
    right and wrong exchanged they are mirrored, but for unequal classes bounded by
    moments.  One more correct label may, rarely, lower a bound a little: the box moves.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.

    R. J. Buehler, Journal of the American Statistical Association 52 (1957),
    482-493; W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721;
    R. L. Berger and D. D. Boos, Journal of the American Statistical Association 89
    (1994), 1012-1016.
    """
    correct, labelled = checked_class_counts(k, n)
    # Both sides at once: rows that are bounded together cost little more than one.
    sides = np.stack([correct, labelled - correct]), np.stack([labelled, labelled])
    expected = np.array([_EXPECTED_ACCURACY, 1.0 - _EXPECTED_ACCURACY])
    low, missed = _each_row(*sides, tail_share(confidence_level, 2), expected)
    return Interval(low, distance_to_one(missed))


def joint_upper_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return the upper bound of `balanced_joint`, which errs with a chance of *error*.

    Raises ValueError as that does, and unless 0 < error < 1.
    """
    correct, labelled = checked_class_counts(k, n)
    tail, expected = checked_fraction("error", error), 1.0 - _EXPECTED_ACCURACY
    wrong = labelled - correct
    return distance_to_one(_each_row(wrong, labelled, tail, np.array(expected)))


def joint_is_costly(n: Sequence[int]) -> bool:
    """Tell whether one joint interval for these labels of each class takes long.

    More than about 10 to 20 milliseconds are long.  The labels alone decide.

    Raises ValueError unless there are 2 to 4096 classes and 0 <= n <= 10**9.
    """
    counts, _ = checked_class_counts(np.asarray(n), np.asarray(n))
    labelled = tuple(sorted(int(count) for count in counts.ravel().tolist() if count))
    limit = _limit_for(labelled, _USUAL_ERROR) if labelled else None
    if limit is two_class_limit:
        return sum(labelled) > _MOST_CHEAP_LABELS
    return limit is None and len(labelled) > _MOST_CHEAP_CLASSES


def _each_row(
    correct: Floats, labelled: Floats, error: float, expected: Floats
) -> Floats:
    """Return the limits of rows of classes, of accuracies *expected* by first axis."""
    classes = correct.shape[-1]
    k, n = (part.reshape(-1, classes) for part in (correct, labelled))
    guesses = np.repeat(expected, len(k) // expected.size)
    limits, together = np.zeros(len(k)), defaultdict[int, list[int]](list)
    for row, (right, of) in enumerate(zip(k.tolist(), n.tolist(), strict=True)):
        # In the same order, whatever the order of the classes was.
        known = sorted((int(b), int(a)) for a, b in zip(right, of, strict=True) if b)
        if not any(right):
            continue
        counts = tuple(b for b, _ in known)
        limit = _limit_for(counts, error)
        if limit is None:
            together[len(known)].append(row)
        else:
            found = limit(tuple(a for _, a in known), counts, error)
            limits[row] = _scaled(found, len(known), classes)
    for number, rows in together.items():
        # Classes without labels may have accuracy 0: they only make the mean smaller.
        order = np.argsort(n[rows] == 0, axis=-1, kind="stable")[:, :number]
        some, of_all = (
            np.take_along_axis(part[rows], order, axis=-1) for part in (k, n)
        )
        proved = modulus_limits(some, of_all, error, expected=guesses[rows])
        limits[rows] = [_scaled(one, number, classes) for one in proved.tolist()]
    return limits.reshape(correct.shape[:-1])


def _scaled(limit: float, known: int, classes: int) -> float:
    if known == classes:
        return limit
    return math.nextafter(limit * known / classes * (1.0 - 2.0**-52), 0.0)


def _limit_for(
    labelled: _Counts, error: float
) -> Callable[[_Counts, _Counts, float], float] | None:
    """Return how classes with these labels, in ascending order, are bounded.

    None means by moments.  Choosing by what is correct would favour the method that
    happens to err.
    """
    classes, is_even = len(labelled), labelled[0] == labelled[-1]
    is_summed = labelled[-1] <= MOST_LABELS_SUMMED and error >= LEAST_ERROR_SUMMED
    if classes <= 3 and labelled[0] == 1 and labelled[-1] >= _MANY_BESIDE_ONE:
        return _union
    if classes == 2 and is_summed:
        return two_class_limit
    if classes == 3 and is_summed and work_of_three(labelled, error) <= MOST_WORK:
        return three_class_limit
    if classes > 1 and is_even and sum(labelled) <= MOST_LABELS:
        return pooled_limit
    doubts = [1.0 / of for of in labelled]
    in_doubt = math.fsum(map(math.sqrt, doubts)) ** 2 / math.fsum(doubts)
    return _union if in_doubt < _LEAST_CLASSES_IN_DOUBT else None


def _union(k: _Counts, n: _Counts, error: float) -> float:
    lows = lower_bound(k, n, math.nextafter(error / len(n), 0.0)).tolist()
    return math.nextafter(math.fsum(lows) / len(n), 0.0)


def pooled_limit(k: _Counts, n: _Counts, error: float) -> float:
    """Return what the mean accuracy exceeds, but for a chance of at most *error*.

    All classes must have as many labels as the others, so the mean accuracy is the mean
    of the chances of all labels.  Among sums of independent trials with a given mean
    chance, the binomial one has the largest chance to reach s where that mean is
    at most (s - 1) / N: so the exact limit for a binomial s holds once it is no
    higher than that.  It holds even where the accuracies change from label to label.

    W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721.
    """
    correct, labelled = sum(k), sum(n)
    if correct <= 1:
        return 0.0
    least = math.nextafter((correct - 1) / labelled, 0.0)
    return min(float(lower_bound(correct, labelled, error)), least)
