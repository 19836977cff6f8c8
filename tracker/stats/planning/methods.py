"""How many more labels narrow the balanced interval of any method."""

import math
from collections.abc import Sequence

import numpy as np

from tracker.stats.arguments import Floats, checked_class_counts, checked_fraction
from tracker.stats.coverage.outcomes import IntervalFunction
from tracker.stats.planning.searching import least_enough
from tracker.stats.planning.widths import MOST_PLANNED


def labels_to_narrow(
    interval: IntervalFunction,
    ks: Sequence[int],
    ns: Sequence[int],
    width: float,
    confidence_level: float,
) -> tuple[int, ...] | None:
    """Return how many more labels of each class bring a balanced *interval* to width.

    *width* is high - low.  Accuracies are taken to stay what they are now, 0.5
    without labels.  Labels go where they take most off the variance of the balanced
    accuracy: the classes are filled up to a number in proportion to the standard
    deviation of one label, whichever have fewer.  The answer exceeds the fewest
    labels of that kind by about half a percent at most.  All are 0 when the interval
    at hand is narrow enough; None means more than 10**7 labels of a class.  Four to
    six intervals are usual, and 42 the most that are computed.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n in each, and
    width and confidence_level lie between 0 and 1.
    """
    correct, labelled = checked_class_counts(ks, ns)
    if correct.ndim != 1:
        raise ValueError(f"k and n must be one list each, not of shape {correct.shape}")
    width = checked_fraction("width", width)
    accuracy = np.where(labelled > 0, correct / np.maximum(labelled, 1.0), 0.5)
    spread = np.sqrt((correct + 1.0) * (labelled - correct + 1.0)) / (labelled + 2.0)

    def planned(size: float) -> Floats:
        return np.maximum(labelled, np.rint(size * spread))

    def reach(counts: Floats) -> float:
        right = np.where(counts > labelled, np.rint(counts * accuracy), correct)
        low, high = interval(
            right.astype(np.int64), counts.astype(np.int64), confidence_level
        )
        found = math.log(max(float(high - low), 1e-300) / width)
        return min(found, -1e-12) if high - low <= width else max(found, 0.0)

    if reach(labelled) < 0:
        return (0,) * correct.size
    start = max(float((labelled / spread).min()), 1.0)
    last = math.floor(MOST_PLANNED / float(spread.max()))
    if start >= last:
        return None
    enough = least_enough(
        lambda size: reach(planned(size)), (start, reach(planned(start))), last
    )
    if enough is None:
        return None
    return tuple(int(more) for more in planned(enough) - labelled)
