"""Bounds for the accuracy on a finite set, of which only a part is labelled."""

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import Floats, checked_counts, tail_share
from tracker.stats.binomial import Interval
from tracker.stats.laws import hypergeom

LARGEST_SET = 10**7
"""Queries in a set up to which the tails have been checked against 40 digits."""

# The tails are off by up to 1e-9 of their value, so a number of correct queries is
# ruled out only by a tail that has this to spare.
_FORWARD_MARGIN = 1.0 - 1e-7


def finite_set(
    k: npt.ArrayLike, n: npt.ArrayLike, size: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the exact interval for the accuracy on a whole set of *size* queries.

    *k* of *n* queries that were drawn at random from the set, none twice, are
    correct; the three broadcast, and both bounds have the broadcast shape, in
    [0, 1].  What is sought is the share of all *size* queries that would be found
    correct.  Coverage is at least *confidence_level* whatever it is, floating point
    included.  The more of the set is labelled, the narrower the interval is than
    `clopper_pearson`, until it is a point.  Without labels it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= size <= 10**7, 1 <= size and
    0 < confidence_level < 1.

    L. Katz, Journal of the American Statistical Association 48 (1953), 256-261.
    """
    correct, labelled = checked_counts(k, n)
    _, total = checked_counts(0, size)
    if (total > LARGEST_SET).any() or not total.all():
        raise ValueError(f"size must lie between 1 and 10**7, not {size!r:.80}")
    correct, labelled, total = np.broadcast_arrays(correct, labelled, total)
    if (labelled > total).any():
        raise ValueError(f"n must not exceed size, but is {n!r:.80} of {size!r:.80}")
    share = tail_share(confidence_level, 2)
    fewest = _fewest(correct, labelled, total, share)
    most = total - _fewest(labelled - correct, labelled, total, share)
    # Both counts are whole numbers.  Division keeps their order, so a bound is not
    # on the wrong side of the true share, computed by the same division.
    return Interval(np.asarray(fewest / total), np.asarray(most / total))


def _fewest(k: Floats, n: Floats, total: Floats, share: float) -> Floats:
    # The least number of correct queries in the set under which k or more among
    # the labelled is no surprise.  That is the likelier, the more there are; and
    # it is certain when only those n - k are wrong that were found to be.
    refuted, kept = k - 1.0, total - (n - k)
    while (kept - refuted > 1).any():
        middle = np.floor((refuted + kept) / 2.0)
        tail = hypergeom.sf(k - 1.0, total, middle, n)
        # NaN compares as false, so what cannot be computed refutes nothing.
        is_refuted = (tail <= share * _FORWARD_MARGIN) & (kept - refuted > 1)
        refuted = np.where(is_refuted, middle, refuted)
        kept = np.where(is_refuted | (kept - refuted <= 1), kept, middle)
    return np.asarray(kept, dtype=np.float64)
