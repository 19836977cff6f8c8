"""Accuracy above a confidence, calibration, and whether mistakes come in bursts.

Thresholds and calibration take the labels as a simple random sample of the queries,
while thresholds, bins, and how the queries fall into them come from all queries,
labelled or not.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from ..arguments import (
    Floats,
    checked_counts,
    checked_fraction,
    shared_level,
    tail_share,
)
from ..exact import Interval, lower_bound
from ..methods import Side, class_bounds

LEAST_SHARE = 0.1
"""Share of the queries that the strictest threshold must leave."""

# Sums of at most 2**20 shares and distances, each at most 1, are off by far less.
_DOUBT = 2.0**-40


class CalibrationError(NamedTuple):
    """The expected calibration error of some bins: its estimate and its bounds.

    *estimate* is None where a bin that has queries has no label.
    """

    estimate: float | None
    low: float
    high: float


def simultaneous_band(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    side: Side = "both",
) -> Interval:
    """Return the intervals of all thresholds, or of all bins, that hold together.

    *correct* and *labelled* hold, for each threshold on the last axis, how many labels
    lie above it; both bounds have their shape.  Exact intervals at a G-th of the error
    hold at all G thresholds at once, whichever of them is then chosen, at one look.
    With one *side* each bound has the whole G-th, and the bound that is not wanted is 0
    or 1.

    Raises ValueError as `class_bounds` and `shared_level` do.
    """
    count = np.broadcast(correct, labelled).shape[-1]
    level = shared_level(confidence_level, max(count, 1))
    return class_bounds("exact", correct, labelled, level, side)


def lowest_threshold(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    shares: npt.ArrayLike,
    *,
    target: float,
    confidence_level: float,
) -> int | None:
    """Return the index of the lowest threshold whose accuracy is surely the target.

    Thresholds stand in ascending order; for each, *correct* and *labelled* count the
    labels above it and *shares* is the share of all queries that are.  Beginning with
    the strictest threshold that leaves a tenth of the queries, the exact lower
    bound is compared with *target* at the whole error, and the first failure ends the
    search.  The order does not depend on labels, so only the first threshold whose
    accuracy is below the target can do harm: one below it is chosen with a probability
    of at most 1 - confidence_level, at one look, whether accuracy grows with the
    threshold or not.  None if the first one fails or leaves too few queries.

    Raises ValueError as `lower_bound` does, and unless 0 < target < 1.

    A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, Annals of
    Applied Statistics 19 (2025), on fixed sequences of hypotheses.
    """
    checked_fraction("target", target)
    low = lower_bound(correct, labelled, tail_share(confidence_level, 1))
    lowest = None
    for index in range(low.size - 1, -1, -1):
        if np.asarray(shares)[index] < LEAST_SHARE:
            continue
        if low[index] < target:
            break
        lowest = index
    return lowest


def lowest_in_band(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    shares: npt.ArrayLike,
    *,
    target: float,
    confidence_level: float,
) -> int | None:
    """Return what `lowest_threshold` does, for a *target* that was typed.

    Who types one may have seen the counts, and the order of that search holds for one
    target only.  Here the lower bounds of all thresholds hold at once, at a G-th of the
    error each, so that every target that anyone may type is certified together.
    """
    checked_fraction("target", target)
    band = simultaneous_band(correct, labelled, confidence_level, side="lower")
    enough = (band.low >= target) & (np.asarray(shares) >= LEAST_SHARE)
    return int(np.argmax(enough)) if enough.any() else None


def calibration_error(
    accuracies: Interval,
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidences: npt.ArrayLike,
    shares: npt.ArrayLike,
) -> CalibrationError:
    """Return the expected calibration error of bins, with the bounds that follow.

    For each bin there are its interval in *accuracies*, as `simultaneous_band` gives
    it, its *correct* and *labelled*, and of all queries in it the mean of the
    *confidences* and the share of all *shares*, which add up to 1.  The error is the
    mean distance of confidence and accuracy, weighted by the shares.  Its bounds hold
    whenever all the intervals do.  It says nothing about what happens within a bin.
    """
    ks, ns = checked_counts(correct, labelled)
    said, weights = (np.asarray(x, dtype=np.float64) for x in (confidences, shares))
    nearest = np.maximum(np.maximum(accuracies.low - said, said - accuracies.high), 0.0)
    farthest = np.maximum(said - accuracies.low, accuracies.high - said)
    distance = np.abs(ks / np.maximum(ns, 1.0) - said)
    seen, least, most = (
        math.fsum((weights * one).tolist()) for one in (distance, nearest, farthest)
    )
    is_known = ((ns > 0) | (weights == 0)).all()
    return CalibrationError(
        seen if is_known else None, max(least - _DOUBT, 0.0), min(most + _DOUBT, 1.0)
    )


_BLOCK = 50
_FIRST_LOOK, _FIRST_ERROR = 100, 0.01


class Bursts(NamedTuple):
    """How many mistakes follow one another, and how many would without bursts.

    *p_value* is the chance of as many or more if order told nothing about mistakes.
    """

    neighbours: int
    expected: float
    p_value: float


def find_bursts(classes: Sequence[Sequence[bool]]) -> Bursts:
    """Return whether the mistakes of each class come in bursts.

    For each class, *classes* says of its labels, in the order of their queries, which
    are mistakes.  They are cut into blocks of about 50, so that a slow change of the
    accuracy looks like no burst.  Given how many mistakes each block has, the number
    of mistakes that follow one another is summed exactly.

    W. L. Stevens, Annals of Eugenics 9 (1939), 10-17.
    """
    law, neighbours, expected = np.ones(1), 0, 0.0
    for wrong in classes:
        blocks = max(1, round(len(wrong) / _BLOCK))
        for block in np.array_split(np.asarray(wrong, dtype=bool), blocks):
            mistakes = int(block.sum())
            neighbours += int((block[1:] & block[:-1]).sum())
            expected += mistakes * (mistakes - 1) / max(block.size, 1)
            law = np.convolve(law, neighbour_law(block.size, mistakes))
    return Bursts(neighbours, expected, min(float(law[neighbours:].sum()), 1.0))


def neighbour_law(labels: int, mistakes: int) -> Floats:
    """Return the chances that 0, 1, 2... mistakes follow another, in random order.

    With m mistakes in r runs m - r of them do.
    """
    if not mistakes:
        return np.ones(1)
    runs = np.arange(1, mistakes + 1)
    right = labels - mistakes
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            _log_choose(mistakes - 1, runs - 1)
            + _log_choose(right + 1, runs)
            - _log_choose(labels, np.asarray(mistakes))
        )
    return np.asarray(np.where(runs <= right + 1, np.exp(logs), 0.0)[::-1])


def bursts_are_beyond_doubt(bursts: Bursts, labels: int) -> bool:
    """Return whether to warn of bursts after so many *labels*.

    Looks are at 100, 200, 400... labels, and the j-th spends 0.01 / 2**(j - 1); so a
    version is ever warned of falsely with a chance of at most 2 %.
    """
    look = burst_look(labels)
    return look > 0 and bursts.p_value <= _FIRST_ERROR / 2 ** (look - 1)


def burst_look(labels: int) -> int:
    """Return the number of looks that are due after so many *labels*, 0 before any."""
    return max(0, math.floor(math.log2(max(labels, 1) / _FIRST_LOOK)) + 1)


def _log_choose(n: int, k: npt.NDArray[np.int64]) -> Floats:
    rest = np.maximum(n - k, 0)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0))
