"""The binomial distribution with one of its tails, as columns to be drawn."""

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from tracker.stats.arguments import Floats, checked_count_pair
from tracker.stats.laws import binom

TailSide = Literal["fewer", "more"]

# What lies further out is too low to be seen.
_UNSEEN = 1e-4


class Tail(NamedTuple):
    """Columns from left to right, and what the marked ones hold.

    Each column is for the counts from *first* to *last*, and *chance* is their
    probability; *is_marked* says whether they belong to the tail.  *probability* is
    that of the whole tail, drawn or not.
    """

    first: Floats
    last: Floats
    chance: Floats
    is_marked: np.ndarray[tuple[int], np.dtype[np.bool_]]
    probability: float


def binomial_tail(
    k: int, n: int, accuracy: float, side: TailSide, *, most: int = 100
) -> Tail:
    """Return how likely each number of correct ones among *n* is, as columns.

    The tail marked is *k* or "fewer", or *k* or "more".  There are about *most*
    columns at most, and no column holds counts of both kinds.

    Raises ValueError unless 0 <= k <= n <= 10**9, 0 < n and 0 <= accuracy <= 1.
    """
    k, n = checked_count_pair(k, n)
    if not n or not 0 <= accuracy <= 1:
        raise ValueError(
            f"n must be 1 or more and accuracy from 0 to 1, not {n} and {accuracy!r}"
        )
    start = min(k, int(binom.ppf(_UNSEEN, n, accuracy)))
    stop = max(k, int(binom.ppf(1.0 - _UNSEEN, n, accuracy)))
    step = -(-(stop - start + 1) // most)
    # Columns are laid out from the edge of the tail in both directions.
    edge = k + 1 if side == "fewer" else k
    left = np.arange(edge, start - step, -step, dtype=np.float64)[::-1]
    right = np.arange(edge + step, stop + 1 + step, step, dtype=np.float64)
    edges = np.unique(np.clip(np.concatenate([left, right]), 0, n + 1))
    below = np.where(edges > 0, bdtr(np.maximum(edges - 1, 0), n, accuracy), 0.0)
    tail = bdtr(k, n, accuracy) if side == "fewer" else _at_least(k, n, accuracy)
    first, last = edges[:-1], edges[1:] - 1
    return Tail(
        first=first,
        last=last,
        chance=np.asarray(np.diff(below)),
        is_marked=np.asarray(last <= k if side == "fewer" else first >= k),
        probability=float(tail),
    )


def _at_least(k: int, n: int, accuracy: float) -> float:
    return float(bdtrc(k - 1, n, accuracy)) if k else 1.0
