"""Accuracy by the calendar: proved changes, and levels for intervals since a day.

All of it is a function of counts by day and class, so no order of arrival matters.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import (
    Floats,
    checked_counts,
    checked_fraction,
    tail_share,
    total_of,
)
from .falls import Split, log_evidence_of_fall, log_most_below, smoothed
from .intervals import checked_shares, log_evidence_above

Direction = Literal["dropped", "rose"]

# Twenty years.  Days further from the birth have no part of the error.
_FURTHEST = 7304

# Splits whose evidence is computed: those that may have the most, fewer if each is of
# many classes.  The others count as nothing, which is always allowed.
_MOST_SPLITS, _MOST_BALANCED_SPLITS, _MOST_CELLS = 32, 8, 40
_NEGLIGIBLE = 10.0

# More than rounding adds to a logarithm of counts of this size.
_ROUNDING, _COARSE_ROUNDING = 1e-9, 1e-6

# The parts of the error of verdicts: by all labels of a version, by those since any
# day, and by a replay.
_WHOLE_STAKE = 0.75
_DAYS_STAKE = _REPLAY_STAKE = (1.0 - _WHOLE_STAKE) / 2.0
_MEASURE_SHARE, _CLASSES_SHARE = 0.5, 0.5

Ints = npt.NDArray[np.int64]
Counts = tuple[npt.ArrayLike, npt.ArrayLike]


class AccuracyChange(NamedTuple):
    """A proved change: the average since some day differs from that before it.

    *scope* is the position of a class, or None for the measure.  *since* is the day
    with the most evidence, as an ordinal.  If the accuracy changed once, it did so
    on a day from *since_from* to *since_to*.  With a *reference* the claim is that the
    average since some day is below it, be it the first one.
    """

    direction: Direction
    scope: int | None
    since: int
    since_from: int
    since_to: int
    reference: float | None = None


def find_changes(  # noqa: PLR0913 - counts, and what the promise was fixed by.
    days: npt.ArrayLike,
    measure: Counts,
    classes: Counts | None,
    *,
    birth: int,
    confidence_level: float,
    shares: npt.ArrayLike | None = None,
    reference: float | None = None,
) -> tuple[AccuracyChange, ...]:
    """Return the proved changes in the order found, each later than the one before.

    *days* are D ordinals in ascending order.  *measure* and *classes* are the right
    and the counted labels of the queries asked on each day: of the measure (D, 1), or
    (D, K) if it is the mean over K classes; and of each class, (D, K).  *birth* is the
    earliest asked day known when the first label came, and never moves.  *shares* are
    those of `balanced_anytime`, and only for a mean over classes.

    With error 1 - confidence_level, over all looks and all numbers together, a change
    of each direction is ever claimed falsely with a chance of at most half the error.
    "Dropped" claims that since some day the average was below that before, among the
    labels since the last change; days may differ in any way.  `since_from` and
    `since_to` leave out the day of a single change with a chance of at most the
    error, for each number by itself.

    Where no change is proved, "dropped" also claims that the measure's average since
    some day is below the *reference*: until it has dropped, and again once it rose.
    The chance is of all references together, so the results may pick one.

    Raises ValueError for counts that no labels can have, days that do not ascend,
    shares that are not positive and finite, and fractions outside of 0 to 1.
    """
    numbers = list(_numbers_of(days, measure, classes, shares))
    if reference is not None:
        checked_fraction("reference", reference)
    errors = _Errors(tail_share(confidence_level, 2), int(birth), reference)
    found: list[AccuracyChange] = []
    start: int | None = None
    while True:
        looks = (look for one in numbers for look in _looks_at(one, start, errors))
        change = _strongest(looks, start, errors) or _strongest(
            _look_below(numbers[0].since(start), start, errors), start, errors
        )
        if change is None:
            return tuple(found)
        found.append(change)
        start = change.since
        errors = errors._replace(
            reference=reference if change.direction == "rose" else None
        )


def level_since(confidence_level: float, since: int | None, birth: int) -> float:
    """Return the level at which intervals since a day hold for all days at once.

    At these levels `anytime` and `balanced_anytime` of the labels of the queries asked
    since a day hold the average since then, for every day and at every look together,
    with a probability of at least *confidence_level*; so the day may be picked by the
    results.  With *since* None it is the level for all labels of the version.

    Raises ValueError for a day more than twenty years from *birth*.
    """
    if since is not None and abs(since - birth) > _FURTHEST:
        raise ValueError(f"since must be within {_FURTHEST} days of birth, not {since}")
    return _level_of(confidence_level, _stake(since, int(birth)))


def replay_level(confidence_level: float) -> float:
    """Return the level at which a replay decides.

    With the intervals of `level_since` of all days, all hold together.
    """
    return _level_of(confidence_level, _REPLAY_STAKE)


# The sum of v ** -1.1 over all versions is 10.5844.
_FAMILY_POWER, _FAMILY_SUM = 1.1, 10.59


def family_level(confidence_level: float, number: int, passed: int) -> float:
    """Return the level for the *number*-th version that a gate is asked about.

    *passed* versions had passed when it was first asked about.  If each keeps its
    level, and what has passed is never taken back, the expected share of false passes
    among all passes is at most the error of one side, however the labels of versions
    depend on each other (e-LOND).

    Raises ValueError unless 0 <= passed < number, and where the level is too near 1.

    Z. Xu and A. Ramdas, Online multiple testing with e-values (2024).
    """
    if not 0 <= passed < number:
        raise ValueError(f"passed must be 0 to {number} - 1, not {passed!r}")
    stake = number**-_FAMILY_POWER / _FAMILY_SUM * (passed + 1)
    return _level_of(confidence_level, stake)


def _level_of(confidence_level: float, stake: float) -> float:
    level = math.nextafter(1.0 - tail_share(confidence_level, 1) * stake, 2.0)
    if level >= 1.0:
        raise ValueError(f"confidence_level {confidence_level!r} is too high")
    return level


def _weights() -> tuple[Floats, Floats]:
    """Return the running sums of the weights of days, and of days since a change.

    Both add up to a little less than 1: more than rounding can take.
    """
    later = np.arange(1, _FURTHEST + 1) + 30.0
    earlier = np.arange(_FURTHEST, -1, -1) + 30.0
    by_day = np.concatenate([[0.0], 1.0 / (60.0 * earlier), 1.0 / (6.2 * later)])
    return np.cumsum(by_day), np.cumsum(np.append(0.0, 1.0 / (5.5 * later)))


_UP_TO_DAY, _UP_TO_SPLIT = _weights()


def _stake(start: int | None, birth: int) -> float:
    if start is None:
        return _WHOLE_STAKE
    before, until = _up_to(np.array([start - 1, start]), None, birth)
    return _DAYS_STAKE * float(until - before)


def _up_to(days: Ints, start: int | None, birth: int) -> Floats:
    """Return the weight of all days up to each: of the version, or after a change."""
    if start is None:
        return _UP_TO_DAY[np.clip(days - birth + _FURTHEST + 1, 0, 2 * _FURTHEST + 1)]
    return _UP_TO_SPLIT[np.clip(days - start, 0, _FURTHEST)]


class _Errors(NamedTuple):
    each_direction: float
    birth: int
    # What the measure is compared with, too.
    reference: float | None


class _Number(NamedTuple):
    """Counts of one number by day, (D, K): without the days that have no label."""

    scope: int | None
    share: float
    days: Ints
    right: Floats
    counted: Floats
    shares: Floats | None

    def since(self, start: int | None) -> "_Number":
        if start is None:
            return self
        kept = slice(int(np.searchsorted(self.days, start)), None)
        return self._replace(
            days=self.days[kept], right=self.right[kept], counted=self.counted[kept]
        )


def _numbers_of(
    days: npt.ArrayLike,
    measure: Counts,
    classes: Counts | None,
    shares: npt.ArrayLike | None,
) -> Iterator[_Number]:
    at = np.asarray(days)
    if at.ndim != 1 or (at.size and not np.issubdtype(at.dtype, np.integer)):
        raise ValueError(f"days must be a list of integers, not {days!r:.80}")
    at = at.astype(np.int64)
    if (np.diff(at) <= 0).any():
        raise ValueError("days must ascend")
    right, counted = _checked("measure", measure, len(at))
    known = None
    if shares is not None and right.shape[1] > 1:
        known = checked_shares(shares, (1, right.shape[1]))
    kept = counted.any(axis=1)
    yield _Number(None, _MEASURE_SHARE, at[kept], right[kept], counted[kept], known)
    if classes is None:
        return
    right, counted = _checked("classes", classes, len(at))
    share = _CLASSES_SHARE / max(1, right.shape[1])
    for scope in range(right.shape[1]):
        kept = counted[:, scope] > 0
        of = right[kept, scope, None], counted[kept, scope, None]
        yield _Number(scope, share, at[kept], *of, None)


def _checked(name: str, counts: Counts, days: int) -> tuple[Floats, Floats]:
    right, counted = checked_counts(*counts)
    if right.ndim != 2 or len(right) != days or not right.shape[1]:
        raise ValueError(f"{name} must have counts by day and class, not {right.shape}")
    return right, counted


class _Look(NamedTuple):
    """Splits of a number that may prove a change of a direction after a start.

    *most_surplus* is what their evidence may exceed *needed* by.
    """

    number: _Number
    direction: Direction
    splits: Split
    log_weights: Floats
    days: Ints
    needed: float
    most_surplus: float
    reference: float | None = None

    def narrowed(self, bound: Floats) -> "Iterator[_Look]":
        """Yield the splits whose evidence may be largest, unless it cannot suffice.

        *bound* is what the log evidence of each cannot exceed.
        """
        bound = bound + self.log_weights
        surplus = _log_sum(bound) - self.needed
        if surplus < 0:
            return
        classes = self.number.right.shape[1]
        most = _MOST_SPLITS
        if classes > 1:
            most = min(_MOST_BALANCED_SPLITS, max(1, _MOST_CELLS // classes))
        at = np.argsort(-bound, kind="stable")[:most]
        at = np.sort(at[bound[at] > self.needed - _NEGLIGIBLE])
        yield self._replace(
            splits=self.splits.take(at),
            log_weights=self.log_weights[at],
            days=self.days[at],
            most_surplus=surplus,
        )


def _looks_at(whole: _Number, start: int | None, errors: _Errors) -> Iterator[_Look]:
    number = whole.since(start)
    if len(number.days) < 2:
        return
    days = number.days[1:]
    with np.errstate(divide="ignore"):
        weights = np.log(np.diff(_up_to(number.days, start, errors.birth)))
    # No start may be so far away that its intervals would have no error.
    weights = np.where(np.abs(days - errors.birth) > _FURTHEST, -np.inf, weights)
    falls = Split.of(number.right, number.counted)
    error = errors.each_direction * _stake(start, errors.birth) * number.share
    needed = -math.log(error)
    likelihood = falls.log_likelihood()
    ratio = likelihood - falls.log_steady()
    directions: tuple[Direction, ...] = ("dropped", "rose")
    for direction, splits in zip(directions, (falls, falls.mirrored()), strict=True):
        has_fallen = splits.has_fallen()
        bound = np.where(has_fallen, ratio, -np.inf)
        if number.right.shape[1] > 1 and _log_sum(bound + weights) >= needed:
            rows = np.flatnonzero(has_fallen)
            bound[rows] = splits.take(rows).log_most(likelihood[rows], ratio[rows])
        look = _Look(number, direction, splits, weights, days, needed, 0.0)
        yield from look.narrowed(bound)


def _look_below(number: _Number, start: int | None, errors: _Errors) -> Iterator[_Look]:
    """Yield the spans that may be below the reference: all days, or those since one.

    Since a later day only if those before it were not seen below.
    """
    reference = errors.reference
    if reference is None or not len(number.days):
        return
    nothing = np.zeros((1, number.right.shape[1]))
    splits = Split.of(
        np.vstack([nothing, number.right]), np.vstack([nothing, number.counted])
    )
    weights = np.diff(_up_to(number.days, None, errors.birth), prepend=0.0) / 2.0
    weights[0] = weights[0] + 0.5 if start is None else 0.0
    seen = smoothed(splits.right_before, splits.before)[1:]
    weights[1:][total_of(seen) / seen.shape[1] < reference] = 0.0
    # No replay takes part in changes: its part is for a stated reference.
    needed = -math.log(errors.each_direction * _REPLAY_STAKE)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    look = _Look(number, "dropped", splits, logs, number.days, needed, 0.0, reference)
    yield from look.narrowed(
        log_most_below(splits.right_since, splits.since, reference)
    )


def _log_sum(logarithms: Floats) -> float:
    """Return the logarithm of a sum, added from the smallest term to the largest."""
    most = float(logarithms.max())
    if most == -math.inf:
        return most
    terms = np.sort(np.exp(logarithms - most))
    return most + math.log(float(np.add.accumulate(terms)[-1]))


def _strongest(
    looks: Iterator[_Look], start: int | None, errors: _Errors
) -> AccuracyChange | None:
    best, most = None, 0.0
    for look in sorted(looks, key=lambda look: -look.most_surplus):
        if best is not None and look.most_surplus <= most:
            break
        splits, shares = look.splits, look.number.shares
        if look.reference is None:
            evidence = log_evidence_of_fall(splits, shares)
        else:
            counted = splits.since.astype(np.int64)
            wrong = counted - splits.right_since.astype(np.int64)
            above = 1.0 - look.reference
            evidence = log_evidence_above(wrong, counted, above, shares=shares)
        total = _log_sum(evidence + look.log_weights - _ROUNDING)
        surplus = total - _ROUNDING - look.needed
        if surplus > most or (best is None and surplus >= 0):
            best, most = (look, evidence), surplus
    if best is None:
        return None
    look, evidence = best
    number, since = look.number, int(look.days[np.argmax(evidence)])
    first, last = _located(number, start, errors)
    return AccuracyChange(
        look.direction,
        number.scope,
        since,
        min(first, since),
        max(last, since),
        look.reference,
    )


def _located(number: _Number, start: int | None, errors: _Errors) -> tuple[int, int]:
    """Return the first and the last day that one change of the number may have had.

    A day may be it if the largest likelihood by it is not below the error times that
    of a mixture over all days, which was fixed before any label.
    """
    if len(number.days) == 1:
        return int(number.days[0]), int(number.days[0])
    splits = Split.of(number.right, number.counted)
    fit, marginal = splits.log_likelihood(), splits.log_marginal()
    sums = _up_to(number.days, start, errors.birth)
    every = _UP_TO_DAY if start is None else _UP_TO_SPLIT
    # If it came before the first day, or is to come, the labels are of one accuracy.
    one = Split(
        number.right.sum(axis=0)[None, :],
        number.counted.sum(axis=0)[None, :],
        np.zeros((1, number.right.shape[1])),
        np.zeros((1, number.right.shape[1])),
    )
    rest = every[-1] - (sums[-1] - sums[0])
    with np.errstate(divide="ignore"):
        weights = np.log(np.append(np.diff(sums), max(rest, 0.0)))
    mixture = _log_sum(weights + np.append(marginal, one.log_marginal()))
    log_error = math.log(2.0 * errors.each_direction * _stake(start, errors.birth))
    kept = np.flatnonzero(fit >= mixture + log_error - _COARSE_ROUNDING)
    # Days without labels have the split of the next day with some.
    return int(number.days[kept[0]]) + 1, int(number.days[kept[-1] + 1])
