"""How often a balanced interval holds the truth, where outcomes are too many to sum."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import checked_class_counts
from tracker.stats.coverage.outcomes import Coverage, IntervalFunction

MOST_DRAWS = 10**5
"""Samples up to which a simulation is run."""

_SEED = 20240501


class Simulated(NamedTuple):
    """What an interval did to a truth in a number of samples.

    *standard_error* is that of the share of samples whose interval holds the truth.
    It is never 0: where all samples agree, one more is supposed to have differed.
    """

    coverage: Coverage
    standard_error: float
    draws: int


def simulated_coverage(
    interval: IntervalFunction,
    n: Sequence[int],
    accuracy: Sequence[float],
    confidence_level: float,
    *,
    draws: int,
) -> Simulated:
    """Return how often a balanced *interval* held the truth in *draws* samples.

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
    if not ((truth >= 0) & (truth <= 1)).all():
        raise ValueError(f"accuracy must lie between 0 and 1, not {accuracy!r:.80}")
    if not 1 <= draws <= MOST_DRAWS:
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
    figures = (
        np.asarray(part / draws, dtype=np.float64)
        for part in (
            draws - missed,
            times[above].sum(),
            times[below].sum(),
            times @ (high - low),
        )
    )
    error = math.sqrt(spread * (1.0 - spread) / draws)
    return Simulated(Coverage(*figures), error, draws)
