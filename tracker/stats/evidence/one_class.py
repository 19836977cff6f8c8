"""Bounds for the accuracy of one class that hold after every label at once."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincc, betaln, xlog1py, xlogy

from tracker.stats.arguments import (
    Floats,
    checked_counts,
    checked_fraction,
    tail_share,
)
from tracker.stats.exact import Interval

# The logarithm of the evidence is a difference of terms that grow with n; against
# 60 digits it was off by at most 6e-15 per label.  A bound is believed only with
# this much to spare, which costs a millionth of the width for 10**9 labels and
# nothing to speak of below.
_MARGIN = 1e-9
_MARGIN_PER_LABEL = 2e-14

# Three steps are usual, and ten the most that was seen.
_MOST_STEPS = 60


def anytime(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return an interval that may be looked at after every label.

    *k* correct among *n* labelled broadcast; both bounds have the broadcast shape,
    in [0, 1].  Let one class be labelled query by query: the intervals after
    1, 2, 3... labels hold the true accuracy *all at once* with a probability of at
    least *confidence_level*, floating point included.  So labelling may stop, or
    turn to another class, for any reason that the results so far suggest.  Each
    side fails with at most half of the error.  Without labels the interval is
    [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    H. Robbins, Annals of Mathematical Statistics 41 (1970), 1397-1409;
    S. R. Howard, A. Ramdas, J. McAuliffe and J. Sekhon, Annals of Statistics 49
    (2021), 1055-1080.
    """
    correct, labelled = checked_counts(k, n)
    share = tail_share(confidence_level, 2)
    return Interval(
        _lower(correct, labelled, share), _mirrored(correct, labelled, share)
    )


def anytime_lower_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the accuracy exceeds after every label, but for a chance of *error*.

    *k* correct among *n* labelled broadcast; the bound has the broadcast shape,
    in [0, 1].  It is one side of `anytime`, with all of the error: the chance that
    the bound is ever above the true accuracy is at most *error*, floating point
    included.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < error < 1.
    """
    correct, labelled = checked_counts(k, n)
    return _lower(correct, labelled, checked_fraction("error", error))


def anytime_upper_bound(k: npt.ArrayLike, n: npt.ArrayLike, error: float) -> Floats:
    """Return what the accuracy stays below at all times, but for a chance of *error*.

    *k* correct among *n* labelled broadcast; the bound has the broadcast shape,
    in [0, 1].  It is one side of `anytime`, with all of the error: the chance that
    the bound is ever below the true accuracy is at most *error*, floating point
    included.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < error < 1.
    """
    correct, labelled = checked_counts(k, n)
    return _mirrored(correct, labelled, checked_fraction("error", error))


def log_evidence_above(
    k: npt.ArrayLike, n: npt.ArrayLike, accuracy: npt.ArrayLike
) -> Floats:
    """Return the logarithm of the evidence that the true accuracy is above *accuracy*.

    *k* correct among *n* labelled broadcast, and with them *accuracy*.  The evidence
    is the mean, over accuracies spread evenly from *accuracy* to 1, of how many
    times likelier than under *accuracy* they make what was seen.  While the true
    accuracy is no higher, the evidence after 1, 2, 3... labels ever reaches 1/error
    with a probability of at most error (Ville's inequality).  The logarithm is
    exact to 1e-9 + 2e-14 n where it is not negative.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < accuracy < 1.
    """
    correct, labelled = checked_counts(k, n)
    claimed = np.asarray(accuracy, dtype=np.float64)
    if not ((claimed > 0) & (claimed < 1)).all():
        raise ValueError(f"accuracy must lie between 0 and 1, not {accuracy!r:.80}")
    correct, labelled, claimed = np.broadcast_arrays(correct, labelled, claimed)
    return np.asarray(_log_evidence(correct, labelled, claimed))


def _log_evidence(k: Floats, n: Floats, p: Floats) -> Floats:
    wrong = n - k
    # Far above k/n the evidence is smaller than any double, and its logarithm is
    # taken for minus infinity.
    with np.errstate(divide="ignore"):
        log_chance_above = np.log(betaincc(k + 1.0, wrong + 1.0, p))
    evidence: Floats = (
        betaln(k + 1.0, wrong + 1.0) - xlogy(k, p) - xlog1py(wrong + 1.0, -p)
    ) + log_chance_above
    return evidence


def _mirrored(correct: Floats, labelled: Floats, share: float) -> Floats:
    missed = _lower(labelled - correct, labelled, share)
    return np.asarray(np.minimum(np.nextafter(1.0 - missed, 2.0), 1.0))


def _lower(correct: Floats, labelled: Floats, share: float) -> Floats:
    low = np.zeros(correct.size)
    # With nothing correct the evidence never reaches 1, and the bound is 0.
    searched = np.flatnonzero(correct)
    k, n = correct.ravel()[searched], labelled.ravel()[searched]
    p = _first_guess(k, n, share)
    for _ in range(_MOST_STEPS):
        if not searched.size:
            break
        margin = _MARGIN + _MARGIN_PER_LABEL * n
        evidence = _log_evidence(k, n, p)
        excess = evidence + math.log(share) - margin
        # The evidence falls as p grows, so where it is large enough the bound that
        # was meant is not below p.  NaN compares as false and is not believed.
        is_proven = excess >= 0
        proven = searched[is_proven]
        low[proven] = np.maximum(low[proven], p[is_proven])
        rest = np.flatnonzero(~(is_proven & (excess <= margin)))
        step = _step(k, n, p, evidence, excess - margin / 2)
        searched, k, n, p = searched[rest], k[rest], n[rest], (p * np.exp(step))[rest]
    return low.reshape(correct.shape)


def _first_guess(k: Floats, n: Floats, share: float) -> Floats:
    # Wilson's limit, with the deviate at which the evidence is about 1/share.
    odds = (n - k + 1.0) / (k + 1.0)
    square = np.log(np.maximum(n * odds / (2.0 * math.pi), 1.0)) - 2.0 * math.log(share)
    square = np.maximum(square, 0.01)
    spread = np.sqrt(square * (k * (n - k) / n + square / 4.0))
    guess: Floats = (k + square / 2.0 - spread) / (n + square)
    return guess


def _step(k: Floats, n: Floats, p: Floats, evidence: Floats, excess: Floats) -> Floats:
    # As a function of log p the logarithm of the evidence is convex and falls, so
    # one Newton step from anywhere ends left of the crossing, on the safe side,
    # and further ones approach it from there.
    with np.errstate(over="ignore", invalid="ignore"):
        slope = ((n + 1.0) * p - k - p * np.exp(-evidence)) / (1.0 - p)
        unlimited = -excess / np.minimum(slope, -1e-3)
    step: Floats = np.clip(unlimited, -50.0, -np.log(p) / 2.0)
    return step
