"""Bounds for the balanced accuracy that hold after every label at once."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import (
    Floats,
    checked_class_counts,
    tail_share,
    total_of,
)
from tracker.stats.evidence.mixtures import FORMULA, Mixture, mixture_of
from tracker.stats.evidence.one_class import anytime_lower_bound, anytime_upper_bound
from tracker.stats.exact import Interval

# What part of the error pays for the class intervals within which the accuracies
# are searched.
_BOX_PART = 0.1

# A sum of up to 4096 terms, each off by a few units in the last place, is off by
# less than this part of the sum of their absolute values.
_ROUNDING = 1e-12

# How much more evidence than needed a bound may have.  It grows by a factor with each
# step, so that rounding cannot keep the search from ending.
_TOLERANCE = 1e-9
_PATIENCE = 1.5
_MOST_STEPS = 60
_MOST_AT_ONCE = 2**20
_FURTHEST_SHARES = 1e9


def balanced_anytime(  # noqa: PLR0913 - the last three have their usual values.
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
    is_steady: bool = True,
    formula: int = FORMULA,
) -> Interval:
    """Return an interval for the balanced accuracy, to be looked at after every label.

    The last axis of *k* and *n* runs over the K classes; both bounds have the shape
    that remains, in [0, 1].  The intervals after 1, 2, 3... labels hold the true
    balanced accuracy *all at once* with a probability of at least
    *confidence_level*, floating point included, whatever rule decides by the
    results so far which class is labelled next and when to stop.

    *shares* are the shares of the labels that each class was expected to get,
    positive and in any unit; they broadcast with the counts.  They must have been
    fixed before the labels were seen.  Shares that turn out wrong make the interval
    wider, never false.  Without them the evidence is averaged over equal shares and,
    of up to five classes, over each class being much rarer than the others.

    *formula* 1 gives the bounds that were stored before the present one, 2.

    Unless *is_steady*, the accuracy of a class may change from label to label, and
    the interval, a little wider, is for the mean over classes of the average that
    it had at their labels so far.

    The bounds depend neither on the order of the classes nor on how many rows are
    computed at once, to the last bit.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9,
    shares are positive and finite, formula is 1 or 2 and 0 < confidence_level < 1.

    The evidence is a mean of the exponential martingales of H. Chernoff, Annals of
    Mathematical Statistics 23 (1952), 493-507, each over the largest expectation
    that the claim allows, as in S. R. Howard, A. Ramdas, J. McAuliffe and
    J. Sekhon, Annals of Statistics 49 (2021), 1055-1080; class intervals narrow the
    search as in R. L. Berger and D. D. Boos, Journal of the American Statistical
    Association 89 (1994), 1012-1016.
    """
    correct, labelled = checked_class_counts(k, n)
    weights = _checked_weights(shares, correct.shape)
    box_error, side_error = _parts_of_error(confidence_level, is_steady=is_steady)
    classes, shape = correct.shape[-1], correct.shape[:-1]
    # Sums then run over the same numbers in the same order, whatever the order of
    # the classes was.
    order = np.lexsort((weights, correct, labelled), axis=-1)
    right, total, weights = (
        np.take_along_axis(array, order, axis=-1).reshape(-1, classes)
        for array in (correct, labelled, weights)
    )
    low, high = np.zeros(len(right)), np.ones(len(right))
    mixture = mixture_of(classes, formula, is_declared=shares is not None)
    block = max(1, _MOST_AT_ONCE // (mixture.tilts.size * 2 * classes))
    for start in range(0, len(right), block):
        part = slice(start, start + block)
        one, of, weight = right[part], total[part], weights[part]
        box = _class_box(one, of, box_error)
        low[part] = _lower(one, of, weight, box, side_error, mixture)
        missed = _lower(of - one, of, weight, _mirrored(box), side_error, mixture)
        high[part] = _up(1.0 - missed)
    return Interval(low.reshape(shape), high.reshape(shape))


def _parts_of_error(confidence_level: float, *, is_steady: bool) -> tuple[float, float]:
    error = tail_share(confidence_level, 1)
    box_error = _BOX_PART * error if is_steady else 0.0
    return box_error, math.nextafter((error - box_error) / 2.0, 0.0)


def log_balanced_evidence_above(
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    accuracy: npt.ArrayLike,
    *,
    shares: npt.ArrayLike | None = None,
    box: Interval | None = None,
) -> Floats:
    """Return the logarithm of the evidence for more than this balanced *accuracy*.

    The last axis of *k* and *n* runs over the K classes; *accuracy* broadcasts with
    the axes that remain.  While the true balanced accuracy is no higher, the
    evidence after 1, 2, 3... labels ever reaches 1/error with a probability of at
    most error, under any rule for whom to label next.  *shares* are those of
    `balanced_anytime`.  With a *box*, two bounds for each class, this holds as long
    as the true accuracies lie in it, and an accuracy below all of the box has
    infinite evidence against it.  The logarithm is rounded down.

    Raises ValueError as `balanced_anytime` does, and unless 0 <= accuracy <= 1 and
    without any label at all.
    """
    correct, labelled = checked_class_counts(k, n)
    claimed = np.asarray(accuracy, dtype=np.float64)
    if not ((claimed >= 0) & (claimed <= 1)).all():
        raise ValueError(f"accuracy must lie between 0 and 1, not {accuracy!r:.80}")
    if not labelled.any(axis=-1).all():
        raise ValueError("n must hold a label in every row")
    weights = _checked_weights(shares, correct.shape)
    shape = np.broadcast_shapes(correct.shape, (*claimed.shape, 1))
    floor, ceiling = box or Interval(np.zeros(1), np.ones(1))
    right, total, weights, floor, ceiling = (
        np.broadcast_to(array, shape).reshape(-1, shape[-1])
        for array in (correct, labelled, weights, floor, ceiling)
    )
    claimed = np.broadcast_to(claimed, shape[:-1]).ravel()
    mixture = mixture_of(shape[-1], FORMULA, is_declared=shares is not None)
    water = _fill(right, total, weights, Interval(floor, ceiling), mixture)
    logarithm, _ = _evidence(water, claimed)
    logarithm[claimed * shape[-1] < total_of(floor)] = np.inf
    return logarithm.reshape(shape[:-1])


def _checked_weights(shares: npt.ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    expected = np.asarray(1.0 if shares is None else shares, dtype=np.float64)
    if not ((expected > 0) & np.isfinite(expected)).all():
        raise ValueError(f"shares must be positive and finite, not {shares!r:.80}")
    try:
        expected = np.broadcast_to(expected, shape)
    except ValueError:
        raise ValueError(
            f"shares must broadcast to the counts' shape {shape}, not {expected.shape}"
        ) from None
    # A class with half of the labels has its correct ones counted twice.  Only the
    # ratios matter; the rarest class then has a weight of 1, to which the tilts fit.
    weights: Floats = expected.min(axis=-1, keepdims=True) / expected
    if (weights < 1.0 / _FURTHEST_SHARES).any():
        raise ValueError("shares must lie within a factor of 10**9")
    return weights


def _class_box(k: Floats, n: Floats, error: float) -> Interval:
    if not error:
        return Interval(np.zeros(k.shape), np.ones(k.shape))
    tail = math.nextafter(error / (2.0 * k.shape[-1]), 0.0)
    correct, labelled = k.astype(np.int64), n.astype(np.int64)
    return Interval(
        anytime_lower_bound(correct, labelled, tail),
        anytime_upper_bound(correct, labelled, tail),
    )


def _mirrored(box: Interval) -> Interval:
    return Interval(
        np.maximum(np.nextafter(1.0 - box.high, -1.0), 0.0), _up(1.0 - box.low)
    )


def _up(high: Floats) -> Floats:
    raised: Floats = np.minimum(np.nextafter(high, 2.0), 1.0)
    return raised


class _Water(NamedTuple):
    """What does not change while the accuracy is searched, by row, tilt and class."""

    n: Floats
    growth: Floats
    offset: Floats
    floor: Floats
    ceiling: Floats
    score: Floats
    level: Floats
    held: Floats
    rate: Floats
    log_weights: Floats


def _fill(
    k: Floats, n: Floats, weights: Floats, box: Interval, mixture: Mixture
) -> _Water:
    # The largest expectation puts p_j = clip(n_j * level - 1 / growth_j, box), where
    # the level is such that they have the mean that is claimed.  Their sum is
    # piecewise linear in the level, so the level follows from the kinks.
    tilts, directions, log_weights = mixture
    directed = weights[:, np.newaxis] * directions
    growth = np.expm1(tilts[:, np.newaxis] * directed)
    offset = 1.0 / growth
    n, floor, ceiling = (a[:, np.newaxis] for a in (n, *box))
    kinks = np.concatenate([floor + offset, ceiling + offset], axis=-1)
    speed = np.concatenate([n, -n], axis=-1)
    # Classes without labels stay at the floor; they must not come first or last.
    kinks = np.where(speed == 0, np.inf, kinks / np.maximum(np.abs(speed), 1.0))
    lowest = kinks.min(axis=-1, keepdims=True)
    kinks = np.where(np.isinf(kinks), lowest, kinks)
    order = np.argsort(kinks, axis=-1, kind="stable")
    level = np.take_along_axis(kinks, order, axis=-1)
    speed = np.broadcast_to(speed, kinks.shape)
    rate = np.add.accumulate(np.take_along_axis(speed, order, axis=-1), axis=-1)
    gained = np.zeros_like(level)
    gained[..., 0] = total_of(floor)
    gained[..., 1:] = rate[..., :-1] * np.diff(level, axis=-1)
    held = np.add.accumulate(gained, axis=-1)
    score = tilts * total_of(directed * k[:, np.newaxis])
    return _Water(
        *(n, growth, offset, floor, ceiling, score, level, held, rate, log_weights)
    )


def _evidence(water: _Water, accuracy: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of the evidence, rounded down, and its derivative."""
    classes = water.growth.shape[-1]
    claimed = (classes * accuracy)[:, np.newaxis]
    reached = (water.held <= claimed[..., np.newaxis]).sum(axis=-1, keepdims=True)
    last = np.maximum(reached - 1, 0)
    level, held, rate = (
        np.take_along_axis(array, last, axis=-1)[..., 0]
        for array in (water.level, water.held, water.rate)
    )
    level = level + (claimed - held) / np.where(rate > 0, rate, np.inf)
    level = np.clip(level, water.level[..., 0], water.level[..., -1])
    # Whatever the price, Lagrange's dual value is an upper bound of the maximum, so
    # an error in it can only weaken the evidence.  Once all labelled classes are at
    # their ceilings, a higher claim costs nothing.
    price = np.where(claimed > water.held[..., -1], 0.0, 1.0 / level)
    p = np.clip(
        water.n * level[..., np.newaxis] - water.offset, water.floor, water.ceiling
    )
    most = total_of(water.n * np.log1p(p * water.growth))
    slack = price * (claimed - total_of(p))
    doubt = _ROUNDING * (water.score + most + price * claimed)
    exponents = water.log_weights + (water.score - most - slack - doubt)
    highest = exponents.max(axis=-1, keepdims=True)
    parts = np.exp(exponents - highest)
    sums = total_of(parts)
    logarithm = highest[:, 0] + np.log(sums)
    return logarithm, -classes * total_of(parts * price) / sums


def _lower(  # noqa: PLR0913, PLR0917 - counts, and what they are bounded by.
    k: Floats,
    n: Floats,
    weights: Floats,
    box: Interval,
    error: float,
    mixture: Mixture,
) -> Floats:
    classes = k.shape[-1]
    # Below the floor of the box there is nothing left to refute.
    low: Floats = total_of(box.low) / classes * (1.0 - 2.0**-52 * (classes + 4))
    searched = np.flatnonzero(k.any(axis=-1))
    k, n, weights = k[searched], n[searched], weights[searched]
    box = Interval(box.low[searched], box.high[searched])
    water, least = _fill(k, n, weights, box, mixture), low[searched]
    best, guess = least.copy(), np.maximum(_first_guess(k, n, error), least)
    needed, tolerance = _TOLERANCE - math.log(error), _TOLERANCE
    is_open = np.ones(len(searched), dtype=bool)
    for _ in range(_MOST_STEPS):
        if not is_open.any():
            break
        logarithm, slope = _evidence(water, guess)
        excess = logarithm - needed
        is_proven = is_open & (excess >= 0)
        best[is_proven] = np.maximum(best, guess)[is_proven]
        is_open &= ~(is_proven & (excess <= tolerance))
        # The logarithm of the evidence is convex in the accuracy and falls, so that
        # Newton steps come from the left, where the evidence suffices.
        following = guess - (excess - tolerance / 2.0) / np.minimum(slope, -1e-12)
        following = np.maximum(following, least)
        is_open &= following != guess
        guess = np.where(is_open, following, guess)
        tolerance *= _PATIENCE
    low[searched] = best
    return low


def _first_guess(k: Floats, n: Floats, error: float) -> Floats:
    middle = (k + 0.5) / (n + 1.0)
    deviate = math.sqrt(5.0 - 2.0 * math.log(error))
    spread = np.sqrt(total_of(middle * (1.0 - middle) / (n + 1.0)))
    share = np.where(n > 0, k / np.maximum(n, 1.0), 0.0)
    guess: Floats = (total_of(share) - deviate * spread) / k.shape[-1]
    return guess
