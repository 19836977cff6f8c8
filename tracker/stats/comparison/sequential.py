"""Which of two versions is better, by what they disagree on, after every label."""

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from tracker.stats.anytime import anytime, log_evidence_above
from tracker.stats.arguments import Floats, checked_count_pair, checked_counts
from tracker.stats.comparison.paired import Difference

Verdict = Literal["better", "worse", "undecided"]
Stop = Literal["decided", "small", "used up", "budget"]

_EVEN = 0.5

# Bets on the balanced difference, in parts of the largest that cannot lose all.
_BETS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])

# More than the sums and the logarithms of the bets are off by.
_ROUNDING = 1e-12


class Decision(NamedTuple):
    """Bounds for the share of disagreements that the new version wins, and a verdict.

    The verdict is what the bounds say: better above one half, worse below.
    """

    verdict: Verdict
    low: float
    high: float


def decide(won: int, lost: int, confidence_level: float) -> Decision:
    """Return whether the new version is better, to be looked at after every label.

    Of the inputs on which the versions disagree, in random order, the new one alone
    was right about *won* and the old one alone about *lost*.  Inputs on which both
    were wrong tell nothing and are not counted.  While the new version is no more
    accurate, it wins each that is counted with a chance of at most one half, given
    all before: so whatever is looked at, and whenever labelling stops, *better* is
    ever said wrongly with a probability of at most (1 - confidence_level) / 2, and
    the same holds for *worse*.  Accuracy is overall accuracy, with every input alike.

    Raises ValueError unless won and lost are from 0 to 10**9 in all and
    0 < confidence_level < 1.

    J. Ville, Etude critique de la notion de collectif (1939).
    """
    won, decided = checked_count_pair(won, won + lost)
    low, high = (float(side) for side in anytime(won, decided, confidence_level))
    if low > _EVEN:
        return Decision("better", low, high)
    return Decision("worse" if high < _EVEN else "undecided", low, high)


def log_evidence_better(won: npt.ArrayLike, lost: npt.ArrayLike) -> Floats:
    """Return the logarithm of the evidence that the new version is the better one.

    *won* and *lost* broadcast; exchange them for the evidence of *worse*.  While the
    new version is no better, the evidence ever reaches 1/error with a probability of
    at most error.  It is what many comparisons at once are judged by.

    Raises ValueError as `log_evidence_above` does.
    """
    one, other = np.asarray(won), np.asarray(lost)
    return log_evidence_above(one, one + other, _EVEN)


def difference_by_disagreements(
    counts: tuple[int, int, int],
    among: tuple[int, int],
    confidence_level: float,
    *,
    is_binary: bool,
) -> Difference:
    """Return how much more accurate the new version is overall, after every label.

    *among* are the number of disagreements and that of all inputs, which takes no
    label to know; their quotient is taken as given.  *counts* are how many of those
    labelled, in random order, the new version won, it lost, and neither was right
    about.  Where the detector *is_binary* the last cannot be, and the difference is
    that quotient times 2 P(won) - 1; else winning and losing are bounded by
    themselves, each with half of the error.

    Raises ValueError unless the labelled are at most the disagreements and these at
    most the inputs, if neither of two classes was right, and as `decide` does.
    """
    won, lost, neither = counts
    labelled, (disagreements, inputs) = sum(counts), among
    checked_counts([*counts, labelled, disagreements], [labelled] * 3 + [*among])
    if is_binary and neither:
        raise ValueError(f"of two classes one is right, but neither was {neither}")
    if not inputs:
        return Difference(np.asarray(-1.0), np.asarray(1.0))
    share = disagreements / inputs
    if is_binary:
        low, high = anytime(won, labelled, confidence_level)
        least, most = 2.0 * float(low) - 1.0, 2.0 * float(high) - 1.0
    else:
        level = math.nextafter((1.0 + confidence_level) / 2.0, 1.0)
        win, loss = (anytime(one, labelled, level) for one in (won, lost))
        least, most = float(win.low - loss.high), float(win.high - loss.low)
    # A quotient, a difference and a product, each off by half a unit of at most 1.
    return Difference(
        np.asarray(max(least * share - 2.0**-50, -1.0)),
        np.asarray(min(most * share + 2.0**-50, 1.0)),
    )


def log_balanced_evidence_better(
    won: npt.ArrayLike, lost: npt.ArrayLike, shares: npt.ArrayLike
) -> Floats:
    """Return the logarithm of the evidence for a higher balanced accuracy.

    The last axis of *won* and *lost* runs over the true classes, and *shares* are
    what part of all inputs each class is, in any unit.  They must have been fixed
    before labels were seen, and the evidence is as valid as they are true: shares
    cannot be learnt from disagreements.  A disagreement won in a class counts
    1 / share, one lost as much against; the evidence is a mean over bets of products
    of 1 + bet times that, each with a mean of at most 1 while the new version is no
    better.

    Raises ValueError unless shares are positive and finite and counts are at least
    0.

    I. Waudby-Smith and A. Ramdas, Journal of the Royal Statistical Society B 86
    (2024), 1-27.
    """
    one, _ = checked_counts(won, won)
    other, _ = checked_counts(lost, lost)
    parts = np.asarray(shares, dtype=np.float64)
    if not (np.isfinite(parts).all() and (parts > 0).all()):
        raise ValueError(f"shares must be positive numbers, not {shares!r:.80}")
    stakes = _BETS[:, np.newaxis] * (parts.min(axis=-1, keepdims=True) / parts)
    logs = one[..., np.newaxis, :] * np.log1p(stakes)
    logs = logs + other[..., np.newaxis, :] * np.log1p(-stakes)
    doubt = _ROUNDING * np.abs(logs).sum(axis=-1)
    products = logs.sum(axis=-1) - doubt - math.log(_BETS.size)
    return np.asarray(logsumexp(products, axis=-1))


def find_stop(
    decision: Decision,
    difference: Difference,
    *,
    remaining: int,
    margin: float | None = None,
    budget: int | None = None,
) -> Stop | None:
    """Return why labelling disagreements may stop, None while it should go on.

    It may at any look: a verdict was reached; the difference is within *margin*,
    where one was set; none of the disagreements *remaining* is left; the *budget* of
    labels that remains is spent.
    """
    if decision.verdict != "undecided":
        return "decided"
    if margin is not None and -margin <= difference.low and difference.high <= margin:
        return "small"
    if not remaining:
        return "used up"
    return "budget" if budget is not None and budget <= 0 else None
