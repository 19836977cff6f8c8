"""How much the balanced accuracy changed, bounded for all classes together."""

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import Floats, checked_counts, tail_share
from tracker.stats.comparison.modulus import modulus_difference
from tracker.stats.comparison.paired import Difference

_MOST_CLASSES = 4096


def joint_paired_difference(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Difference:
    """Return how much the balanced accuracy changed, for all classes at once.

    The last axis of *b*, *c* and *n* runs over the K classes, of which there may be
    one.  Of *n* queries of a class that were put to both versions, only the new one
    was right *b* times and only the old one *c* times.  The bounds have the shape
    that remains, in [-1, 1].  Each is on the wrong side of the difference of the
    balanced accuracies with a probability of at most (1 - confidence_level) / 2,
    for all chances of the outcomes in each class, floating point included.  A class
    without queries may have changed in any way.

    With the versions exchanged the bounds are mirrored, and the order of the classes
    does not matter, both to the last bit.  Rows are computed one by one, each in a
    tenth of a second for ten classes, however many queries they have.

    Raises ValueError unless 0 <= b and c, b + c <= n <= 10**9, there are 1 to 4096
    classes and 0 < confidence_level < 1.
    """
    gained, pairs = checked_counts(b, n)
    lost, pairs = checked_counts(c, pairs.astype(np.int64))
    gained, lost, pairs = np.broadcast_arrays(gained, lost, pairs)
    if (gained + lost > pairs).any():
        raise ValueError(f"b + c must not exceed n, but are {b!r}, {c!r} of {n!r:.80}")
    classes = pairs.shape[-1] if pairs.ndim else 0
    if not 1 <= classes <= _MOST_CLASSES:
        raise ValueError(
            f"b, c and n must have between 1 and {_MOST_CLASSES} classes on their "
            f"last axis, not {classes}"
        )
    share = tail_share(confidence_level, 2)
    low, high = np.empty(pairs.shape[:-1]), np.empty(pairs.shape[:-1])
    for row in np.ndindex(low.shape):
        one, other, of = gained[row], lost[row], pairs[row]
        low[row] = _lower(one, other, of, share)
        high[row] = -_lower(other, one, of, share)
    return Difference(low, high)


def _lower(b: Floats, c: Floats, n: Floats, error: float) -> float:
    known = n > 0
    if not known.any():
        return -1.0
    total = modulus_difference(b[known], c[known], n[known], error)
    least = (total - float(n.size - known.sum())) / n.size
    # One division and one difference, each off by half a unit.
    return max(-1.0, least - 2.0**-51 * (1.0 + abs(least)))
