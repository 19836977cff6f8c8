"""Whether a new version of a detector is better than the old one, and by how much."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from tracker.stats.arguments import (
    Floats,
    checked_count_pair,
    checked_counts,
)
from tracker.stats.comparison.paired import Difference
from tracker.stats.coverage import IntervalFunction
from tracker.stats.evidence.one_class import anytime
from tracker.stats.exact import balanced_union


def mcnemar(b: npt.ArrayLike, c: npt.ArrayLike) -> Floats:
    """Return the exact two-sided P value of two versions being equally accurate.

    On the same queries, only the new version was right *b* times and only the old
    one *c* times; the two broadcast.  It need not agree with `paired_difference`,
    which asks about the size of the difference: at b = 16 and c = 6 of 161 this is
    0.0525, and the interval at 95 % does not hold 0.

    Raises ValueError unless 0 <= b, c <= 10**9.

    Q. McNemar, Psychometrika 12 (1947), 153-157.
    """
    gained, _ = checked_counts(b, b)
    lost, _ = checked_counts(c, c)
    fewer, more = np.minimum(gained, lost), np.maximum(gained, lost)
    # Twice the chance of so few heads, or fewer, in as many tosses of a coin.
    doubled = 2.0 * betainc(np.maximum(more, 1.0), fewer + 1.0, 0.5)
    p_value: Floats = np.where(more == fewer, 1.0, np.minimum(doubled, 1.0))
    return p_value


def boxed_paired_difference(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Difference:
    """Return how much the balanced accuracy changed, on however many same queries.

    The last axis of *b*, *c* and *n* runs over the K classes, of which there may be
    one; their meaning is that of `paired_difference`, and the bounds have the shape
    that remains.  They come from an exact interval for each of the 2K chances of
    gaining and of losing, each of which may fail with a 2K-th of the error; so
    coverage is at least *confidence_level* for all true chances.  It takes no time,
    and the interval is about half again as wide as that of `paired_difference`.

    Raises ValueError unless 0 <= b and c, b + c <= n <= 10**9 and
    0 < confidence_level < 1, and for more than 2048 classes.
    """
    gained, _ = checked_counts(b, n)
    lost, pairs = checked_counts(c, n)
    if (gained + lost > pairs).any():
        raise ValueError(f"b + c must not exceed n, but are {b!r}, {c!r} of {n!r:.80}")
    # The chance of gaining less that of losing, for whose intervals it makes no
    # difference that the two are counted on the same queries.
    return unpaired_difference((b, n), (c, n), confidence_level)


def unpaired_difference(
    new: tuple[npt.ArrayLike, npt.ArrayLike],
    old: tuple[npt.ArrayLike, npt.ArrayLike],
    confidence_level: float,
    *,
    interval: IntervalFunction = balanced_union,
) -> Difference:
    """Return how much the balanced accuracy changed, from different queries.

    *new* and *old* each hold the correct and the labelled, whose last axes run over
    the K classes, of which there may be one; the bounds have the shape that
    remains.  The difference is twice the balanced accuracy of 2K classes, where
    those of the old version are counted by what it got wrong, less one.  So
    *interval* is one for the balanced accuracy, and the bounds are guaranteed if it
    is, as the default is.

    Raises ValueError unless both have the same number of classes, and as *interval*
    does.
    """
    k_new, n_new = checked_counts(*new)
    k_old, n_old = checked_counts(*old)
    if not n_new.ndim or n_new.shape != n_old.shape:
        raise ValueError(
            f"new and old must have the same shape, with a last axis for the classes, "
            f"not {n_new.shape} and {n_old.shape}"
        )
    k = np.concatenate([k_new, n_old - k_old], axis=-1).astype(np.int64)
    n = np.concatenate([n_new, n_old], axis=-1).astype(np.int64)
    low, high = interval(k, n, confidence_level)
    return Difference(
        np.asarray(np.maximum(np.nextafter(2.0 * low - 1.0, -2.0), -1.0)),
        np.asarray(np.minimum(np.nextafter(2.0 * high - 1.0, 2.0), 1.0)),
    )


Verdict = Literal["better", "worse", "undecided"]
_EVEN = 0.5


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
