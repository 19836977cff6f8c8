"""How often an interval holds the truth: summed, or simulated."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .arguments import (
    Floats,
    checked_accuracy,
    checked_class_counts,
    checked_fraction,
)
from .exact import Interval
from .laws import binom

IntervalFunction = Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
"""What takes correct, labelled and a confidence level, as `clopper_pearson` does."""

MOST_OUTCOMES = 10**6
"""Outcomes up to which they are summed."""


class Coverage(NamedTuple):
    """What an interval does to a truth, on average over all outcomes.

    Arrays of one shape: how likely it holds the truth, lies above it or lies below
    it, which add up to 1, and how wide it is expected to be.
    """

    holds: Floats
    above: Floats
    below: Floats
    width: Floats


def balanced_coverage(
    interval: IntervalFunction,
    n: tuple[int, int],
    accuracy: npt.ArrayLike,
    confidence_level: float,
) -> Coverage:
    """Return how often an *interval* of two classes holds the balanced accuracy.

    *n* holds the labels of each class.  The last axis of *accuracy* holds the true
    accuracies of both; the parts of the result have the shape that remains.  All
    pairs of numbers of correct labels are summed over, so the figures are exact but
    for rounding.

    Raises ValueError unless there are fewer than 10**6 such pairs and accuracies
    lie in [0, 1].
    """
    truth = checked_accuracy(accuracy)
    first, second = n
    if not truth.ndim or truth.shape[-1] != 2:
        raise ValueError(f"accuracy must end with two classes, not {truth.shape}")
    outcomes = (first + 1) * (second + 1)
    if not 1 <= outcomes <= MOST_OUTCOMES:
        raise ValueError(f"n must have between 1 and 10**6 outcomes, not {outcomes}")
    k = np.moveaxis(np.indices((first + 1, second + 1)), 0, -1)
    low, high = interval(k, np.array(n), confidence_level)
    pairs = truth.reshape(-1, 2)
    figures = np.empty((4, len(pairs)))
    for index, (p, q) in enumerate(pairs.tolist()):
        chance = np.outer(
            binom.pmf(np.arange(first + 1), first, p),
            binom.pmf(np.arange(second + 1), second, q),
        )
        mean = (p + q) / 2.0
        above, below = low > mean, high < mean
        figures[:, index] = (
            chance[~(above | below)].sum(),
            chance[above].sum(),
            chance[below].sum(),
            (chance * (high - low)).sum(),
        )
    return Coverage(*figures.reshape(4, *truth.shape[:-1]))


def chances_of_ever_missing(
    interval: IntervalFunction, n: int, accuracy: float, confidence_level: float
) -> Floats:
    """Return how likely an interval has missed the truth by the 1st to the nth label.

    The *interval* of one class whose true accuracy is *accuracy* is recomputed
    after each of *n* labels.  The chances are exact but for rounding: the number of
    correct ones is followed label by label, without any simulation.

    Raises ValueError unless 1 <= n <= 10**5 and 0 < accuracy < 1.
    """
    accuracy = checked_fraction("accuracy", accuracy)
    if not 1 <= n <= 10**5:
        raise ValueError(f"n must lie between 1 and 10**5, not {n!r}")
    first, chance, missed = 0, np.ones(1), np.zeros(n)
    for labelled in range(1, n + 1):
        step = np.zeros(chance.size + 1)
        step[1:] = accuracy * chance
        step[:-1] += (1.0 - accuracy) * chance
        k = np.arange(first, first + step.size)
        low, high = interval(k, labelled, confidence_level)
        misses = (accuracy < low) | (accuracy > high)
        missed[labelled - 1] = step[misses].sum()
        step[misses] = 0.0
        # What has missed once is followed no further, so few counts stay in play.
        alive = np.flatnonzero(step)
        if not alive.size:
            break
        first, chance = int(k[alive[0]]), step[alive[0] : alive[-1] + 1]
    return np.asarray(np.cumsum(missed), dtype=np.float64)


NEGLIGIBLE = 1e-12
"""More than the chance of all outcomes together that are left out."""

_TAIL = 1e-13


def likely_counts(n: int, accuracy: float) -> range:
    """Return the numbers of correct labels among *n* that are at all likely.

    The others have a chance of less than 3e-13 together.

    Raises ValueError unless 0 <= n <= 10**9 and accuracy lies in [0, 1].
    """
    if not 0 <= n <= 10**9 or not 0 <= accuracy <= 1:
        raise ValueError(f"there are no {n!r} labels with an accuracy of {accuracy!r}")
    first, last = (int(binom.ppf(q, n, accuracy)) for q in (_TAIL, 1.0 - _TAIL))
    return range(max(first, 0), min(last, n) + 1)


def count_likely(ns: Sequence[int], accuracies: Sequence[float]) -> int:
    """Return how many outcomes of classes with *ns* labels are at all likely."""
    ranges = (likely_counts(n, p) for n, p in zip(ns, accuracies, strict=True))
    return math.prod(len(counts) for counts in ranges)


def only_likely(
    interval: IntervalFunction, ns: Sequence[int], accuracies: Sequence[float]
) -> IntervalFunction:
    """Return *interval*, but computed for the likely outcomes alone.

    It takes all outcomes of classes with these *ns* and *accuracies*, an axis for each
    class, as `balanced_coverage` hands them to it.  For those that are not likely it is
    [0, 1], which changes no figure by more than `NEGLIGIBLE`.
    """
    ranges = [likely_counts(n, p) for n, p in zip(ns, accuracies, strict=True)]
    inside = tuple(slice(counts.start, counts.stop) for counts in ranges)

    def limited(
        k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
    ) -> Interval:
        outcomes = np.asarray(k)
        low = np.zeros(outcomes.shape[: len(inside)])
        high = np.ones_like(low)
        low[inside], high[inside] = interval(outcomes[inside], n, confidence_level)
        return Interval(low, high)

    return limited


_SEED = 20240501


def simulated_coverage(
    interval: IntervalFunction,
    n: Sequence[int],
    accuracy: Sequence[float],
    confidence_level: float,
    *,
    draws: int,
) -> tuple[Coverage, float]:
    """Return how often a balanced *interval* held the truth in *draws* samples.

    With it comes the standard error of the share that does.  It is never 0: where all
    samples agree, one more is supposed to have differed.

    *n* holds the labels of each of the K classes, and *accuracy* their true
    accuracies, whose mean is the truth.  The samples are drawn with a fixed seed, so
    the same arguments give the same figures.  Samples that come out alike are
    computed once, all of them in one call of *interval*.

    Raises ValueError unless there are 2 to 4096 classes with 0 <= n <= 10**9, as
    many accuracies in [0, 1], and 1 <= draws <= 10**5.
    """
    _, labelled = checked_class_counts(n, n)
    truth = np.asarray(accuracy, dtype=np.float64)
    if labelled.ndim != 1 or truth.shape != labelled.shape:
        raise ValueError(f"accuracy must be {labelled.size} numbers, not {truth.shape}")
    checked_accuracy(accuracy)
    if not 1 <= draws <= 10**5:
        raise ValueError(f"draws must lie between 1 and 10**5, not {draws!r}")
    counts = labelled.astype(np.int64)
    drawn = np.random.default_rng(_SEED).binomial(counts, truth, (draws, counts.size))
    outcomes, times = np.unique(drawn, axis=0, return_counts=True)
    low, high = interval(outcomes, counts, confidence_level)
    mean = math.fsum(truth.tolist()) / truth.size
    above, below = low > mean, high < mean
    missed = int(times[above | below].sum())
    # One sample more or less of each kind keeps the error from being nothing.
    spread = (missed + 0.5) / (draws + 1.0)
    # Quotients of whole numbers: 372 of 400 are 0.93, and no hair less.
    sums = draws - missed, times[above].sum(), times[below].sum(), times @ (high - low)
    figures = (np.asarray(part / draws, dtype=np.float64) for part in sums)
    return Coverage(*figures), math.sqrt(spread * (1.0 - spread) / draws)
