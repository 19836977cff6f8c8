"""What accuracies are worth where labels may be wrong."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import (
    Floats,
    checked_class_counts,
    checked_counts,
    shared_level,
    tail_share,
)
from tracker.stats.exact import Interval, clopper_pearson, lower_bound, upper_bound

_EVEN = 0.5

# Quotients and sums of a few numbers of at most 2 are off by less.
_ROUNDING = 2.0**-48


class CountedRechecks(NamedTuple):
    """Which of the labels drawn count, and by whose second labels."""

    labels: int
    only_trusted: bool


class NoiseAware(NamedTuple):
    """Bounds for the accuracy of each class, and for the balanced accuracy."""

    classes: Interval
    balanced: Interval


def label_error_bound(wrong: int, rechecked: int, error: float) -> float:
    """Return what the rate of wrong labels stays below, but for a chance of *error*.

    Of the labels, *rechecked* were drawn at random and given a second time, blindly,
    by someone trusted; *wrong* turned out to be wrong.  The bound is exact, and
    assumes nothing about how labels go wrong.

    Raises ValueError unless 0 <= wrong <= rechecked <= 10**9 and 0 < error < 1.
    """
    return float(upper_bound(wrong, rechecked, error))


def cheapest_prefix(is_answered: npt.ArrayLike, error: float) -> int:
    """Return how many of the labels drawn, the first ones, bound errors best.

    *is_answered* says of each label, in the order of the draw, whether it was given a
    second time.  What was not is counted as wrong, so a prefix with few gaps is worth
    more than all.  The choice knows nothing of what the answers were, and so any
    prefix stays a random sample.  It is 0 before the first answer.

    Raises ValueError unless 0 < error < 1.
    """
    answered = np.asarray(is_answered, dtype=bool)
    if not answered.any():
        return 0
    missing = np.cumsum(~answered)
    bounds = upper_bound(missing, np.arange(1, answered.size + 1), error)
    # Of equal ones the longest.
    return int(answered.size - np.argmin(bounds[::-1]))


def choose_counted(
    is_answered: npt.ArrayLike, is_trusted: npt.ArrayLike, error: float
) -> CountedRechecks:
    """Return how many of the labels drawn count, and whether untrusted answers do.

    *is_answered* and *is_trusted* say of each label, in the order of the draw, whether
    it was given a second time, and whether by someone trusted.  Either the trusted
    answers alone count, and every other one is treated as missing, or all of them do,
    and then `noise_aware` needs second labelers who are independent and right at least
    half of the time.  The first is chosen where its bound on the errors would be at
    most as high as the other's if no counted answer differed.  The labels are the
    first ones, as `cheapest_prefix` has it for the answers that count; 0 without any.

    The guarantee of what is chosen stays.  A missing answer counts as wrong and as
    any other class, and so never as less wrong than the answer that was treated as
    missing: the bounds from trusted answers alone assume nothing of the others.  And
    the choice is made from who answered, never from what was answered, so it cannot
    favour the outcome that happens to look better.

    Raises ValueError unless the two have the same length and 0 < error < 1.
    """
    answered = np.asarray(is_answered, dtype=bool)
    trusted = answered & np.asarray(is_trusted, dtype=bool)
    counted = cheapest_prefix(answered, error)
    by_trusted = cheapest_prefix(trusted, error)
    if not by_trusted:
        return CountedRechecks(counted, only_trusted=False)
    least = _least_error(trusted[:by_trusted], error)
    if least <= min(1.0, _least_error(answered[:counted], error) / _EVEN):
        return CountedRechecks(by_trusted, only_trusted=True)
    return CountedRechecks(counted, only_trusted=False)


def _least_error(is_answered: npt.NDArray[np.bool_], error: float) -> float:
    """Return the bound on the errors if no answer differs."""
    return float(upper_bound(int((~is_answered).sum()), is_answered.size, error))


def noise_aware(  # noqa: PLR0913 - counts of labels and of what became of some.
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    rechecks: npt.ArrayLike,
    confidence_level: float,
    *,
    others: int = 0,
    unanswered: npt.ArrayLike = 0,
    least_right: float = 1.0,
) -> NoiseAware:
    """Return bounds for class and balanced accuracy by the truth.

    *k* and *n* are the correct and the labelled of each of K classes.  *rechecks* is
    a K by K table of labels that were drawn at random from all labelled and given
    again blindly by someone trusted: a row for each first label, a column for each
    second one.  One more row and column stand for what is no class, of which *others*
    were labelled.  *unanswered* are those of each row that were drawn and not given
    again yet: each counts as wrong, and as any other class.  The labels must be a
    random sample, not drawn by class.  All bounds hold together with a probability of
    at least *confidence_level*, however labels go wrong and whatever they have to do
    with the predictions.

    Where nobody trusted gave the second label, let *least_right* be one half.  Then
    the bounds hold if the second labeler errs independently of the first, given the
    input, and is right on each input with a chance of at least *least_right*: of the
    wrong first labels so many at least are found out.

    Of what is labelled c a share of at most f is truly something else, and at most g
    times as much as is labelled c is truly c under another label.  So the accuracy p
    of the class lies between (q - f)/(1 - f + g) and (min(q, 1 - f) + g)/(1 - f + g),
    q being that by the labels, for the largest f and g.  A class spends a K-th of
    the error: half of it on the two sides of q, a sixth on f and on each of
    the two rates of which g is made.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9,
    0 < confidence_level < 1, 0 < least_right <= 1, and no label was checked more often
    than given.

    A. Tenenbein, Journal of the American Statistical Association 65 (1970),
    1350-1361, drew the samples so.
    """
    correct, labelled = checked_class_counts(k, n)
    table, missing = _checked_rechecks(labelled, rechecks, others, unanswered)
    if not 0 < least_right <= 1:
        raise ValueError(f"least_right must be above 0 and at most 1: {least_right!r}")
    classes = labelled.shape[-1]
    error = tail_share(confidence_level, 1) / classes
    counts = labelled.astype(np.int64)
    q = clopper_pearson(
        correct.astype(np.int64), counts, shared_level(confidence_level, 2 * classes)
    )
    sixth = math.nextafter(error / 6.0, 0.0)
    right = table.diagonal()
    drawn = table.sum(axis=1) + missing
    away = table.sum(axis=0) - right + missing.sum() - missing
    false = _upper(drawn - right, drawn, sixth)
    elsewhere = _upper(away, drawn.sum(), sixth)
    if least_right < 1.0:
        # What the second labeler overlooks is as wrong as what they find out.
        false, elsewhere = (
            np.minimum(one / least_right * (1.0 + _ROUNDING), 1.0)
            for one in (false, elsewhere)
        )
    share = lower_bound(counts, np.full_like(counts, counts.sum() + others), sixth)
    return _bounds(q, false[:classes], elsewhere[:classes], share)


def _checked_rechecks(
    labelled: Floats, rechecks: npt.ArrayLike, others: int, unanswered: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Return the table, and what is missing of each of its rows."""
    table, _ = checked_counts(rechecks, rechecks)
    classes = labelled.shape[-1]
    has_others = table.shape == (classes + 1, classes + 1)
    if labelled.ndim != 1 or not (has_others or table.shape == (classes, classes)):
        raise ValueError(
            f"rechecks must have a row and a column for each of {classes} classes, and "
            f"may have one more, not {table.shape}"
        )
    whole = (
        np.append(labelled, checked_counts(others, others)[0])
        if has_others
        else (labelled)
    )
    missing, _ = checked_counts(unanswered, whole.astype(np.int64))
    if (table.sum(axis=1) + missing > whole).any():
        raise ValueError("rechecks must not be more than the labels of a class")
    return table, missing


def _bounds(q: Interval, false: Floats, elsewhere: Floats, share: Floats) -> NoiseAware:
    # Multiplied by the share, so that a class that may be empty needs no quotient.
    rest = np.maximum((1.0 - false) * share, 0.0) + elsewhere
    is_known = rest > 0
    rest = np.where(is_known, rest, 1.0)
    low = np.maximum(q.low - false, 0.0) * share / rest
    high = (np.minimum(q.high, 1.0 - false) * share + elsewhere) / rest
    low = np.where(is_known, np.maximum(low - _ROUNDING, 0.0), 0.0)
    high = np.where(is_known, np.minimum(high + _ROUNDING, 1.0), 1.0)
    classes = low.size
    slack = _ROUNDING * classes
    mean = math.fsum(low.tolist()) / classes, math.fsum(high.tolist()) / classes
    return NoiseAware(
        Interval(low, high),
        Interval(
            np.asarray(max(mean[0] - slack, 0.0)), np.asarray(min(mean[1] + slack, 1.0))
        ),
    )


def _upper(k: Floats, n: npt.ArrayLike, error: float) -> Floats:
    counted = np.broadcast_to(np.asarray(n), k.shape).astype(np.int64)
    return upper_bound(k.astype(np.int64), counted, error)
