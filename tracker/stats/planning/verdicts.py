"""How many more labels show on which side of a target the balanced accuracy lies."""

import math
from collections.abc import Sequence

import numpy as np

from tracker.stats.anytime.balanced import balanced_anytime
from tracker.stats.arguments import Floats, checked_class_counts, checked_fraction
from tracker.stats.planning.searching import least_enough
from tracker.stats.planning.widths import MOST_PLANNED


def labels_to_decide(
    correct: Sequence[int],
    labelled: Sequence[int],
    target: float,
    confidence_level: float,
) -> tuple[int, ...] | None:
    """Return how many more labels of each class decide whether *target* is met.

    It is decided once the interval of `balanced_anytime` lies on one side of the
    target.  The shares of the classes among the labels, and their accuracies, are
    taken to stay what they are now; the answer exceeds the fewest labels by about
    half a percent at most.  All are 0 when it is decided now.  None means that no
    number decides: the accuracy is at the target, it is unknown for a class without
    labels, or more than 10**7 labels are needed.  Four to six intervals are usual,
    and 41 the most that are computed.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n in each, and
    target and confidence_level lie between 0 and 1.
    """
    right, total = checked_class_counts(correct, labelled)
    if right.ndim != 1:
        raise ValueError(f"k and n must be one list each, not of shape {right.shape}")
    target = checked_fraction("target", target)
    reach = _reach(right, total, target, confidence_level)
    if reach < 0:
        return (0,) * right.size
    now = float(total.sum())
    if not math.isfinite(reach) or now >= MOST_PLANNED:
        return None

    def planned(labels: float) -> tuple[Floats, Floats]:
        counts = np.rint(total * (labels / now))
        return np.rint(counts * (right / total)), counts

    enough = least_enough(
        lambda size: _reach(*planned(size), target, confidence_level),
        (now, reach),
        MOST_PLANNED,
    )
    if enough is None:
        return None
    more = np.maximum(planned(enough)[1] - total, 0.0)
    return tuple(int(labels) for labels in more)


def _reach(k: Floats, n: Floats, target: float, confidence_level: float) -> float:
    """Return the logarithm of how many times too wide an interval is to decide.

    It is negative where the target is decided, and infinite where no width would do.
    """
    low, high = balanced_anytime(
        k.astype(np.int64), n.astype(np.int64), confidence_level
    )
    is_decided = bool(low > target or high < target)
    if not n.all():
        return -math.inf if is_decided else math.inf
    accuracy = float(np.mean(k / n))
    if accuracy == target:
        return math.inf
    bound = low if accuracy > target else high
    reach = math.log(max((accuracy - float(bound)) / (accuracy - target), 1e-300))
    return min(reach, -1e-12) if is_decided else max(reach, 0.0)
