"""The accuracy of the last labels, which may have drifted within the window."""

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import checked_counts, shared_level
from tracker.stats.binomial import Interval, clopper_pearson


def window_intervals(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    shown: int = 1,
) -> Interval:
    """Return the interval of the average accuracy in a window.

    *correct* and *labelled* broadcast; both bounds have that shape.  Coverage is at
    least *confidence_level* even where the chance of being right changes from label
    to label, for a window that was fixed before its labels were seen; all of *shown*
    windows together are covered as often.  One window of many that is picked for what
    it shows is not.

    It is the interval of Clopper and Pearson, but the lower bound is at most
    (k - 1) / n and the upper one at least (k + 1) / n.  Up to there unequal chances
    make a high count no likelier than equal ones.  At usual levels that matters for
    a single right label or a single wrong one, where the bound becomes 0 or 1.

    Raises ValueError as `clopper_pearson` and `shared_level` do.

    W. Hoeffding, Annals of Mathematical Statistics 27 (1956), 713-721.
    """
    level = shared_level(confidence_level, shown)
    low, high = clopper_pearson(correct, labelled, level)
    k, n = checked_counts(correct, labelled)
    one_less = np.nextafter((k - 1.0) / np.maximum(n, 1.0), 0.0)
    one_more = np.nextafter((k + 1.0) / np.maximum(n, 1.0), 2.0)
    return Interval(
        np.asarray(np.clip(low, 0.0, np.maximum(one_less, 0.0))),
        np.asarray(np.clip(high, np.minimum(one_more, 1.0), 1.0)),
    )


def rolling_counts(
    is_right: npt.ArrayLike, size: int, *, step: int = 1
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where windows of *size* labels end, and how many are right in each.

    *is_right* holds the labels in order.  A window ends at the last label and every
    *step* before it, as far as a whole one fits; ends count labels from 1.

    Raises ValueError unless *size* and *step* are at least 1.
    """
    if size < 1 or step < 1:
        raise ValueError(f"size and step must be at least 1, not {size} and {step}")
    right = np.concatenate([[0], np.cumsum(np.asarray(is_right, dtype=np.int64))])
    ends = np.arange(right.size - 1, size - 1, -step, dtype=np.int64)[::-1]
    return ends, right[ends] - right[ends - size]
