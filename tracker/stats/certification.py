"""How many labels show that the accuracy of a class exceeds a target."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from .arguments import (
    Floats,
    checked_accuracy,
    checked_count_pair,
    checked_counts,
    checked_fraction,
    tail_share,
)
from .exact import lower_bound
from .planning import MOST_PLANNED, first_holding

# Numbers of wrong labels that are tried at once, beyond which nothing is expected.
_MOST_AT_ONCE = 20_000


def chance_to_certify(  # noqa: PLR0913 - the counts at hand, and what is supposed.
    more: int,
    target: float,
    confidence_level: float,
    *,
    accuracy: float | None = None,
    k: int = 0,
    n: int = 0,
) -> float:
    """Return how likely *target* is certified after *more* labels.

    *k* of *n* labels are correct already; of none, unless they are given, and then
    this is the power of a plan.  The further labels are correct with a probability
    of *accuracy*, which is k / n unless given, or 0.5 without labels.  Certified is
    what is so at the end, whatever it was before.  The chance is exact but for
    rounding.

    Raises ValueError unless 0 <= k <= n, 0 <= more, n + more <= 10**9, accuracy
    lies in [0, 1], and target and confidence_level between 0 and 1.
    """
    k, n = checked_count_pair(k, n)
    _, more = checked_count_pair(0, more)
    if accuracy is None:
        accuracy = k / n if n else 0.5
    accuracy = float(checked_accuracy(accuracy))
    _, total = checked_count_pair(0, n + more)
    target = checked_fraction("target", target)
    fewest = fewest_correct(total, target, tail_share(confidence_level, 2))
    if fewest is None:
        return 0.0
    spare = np.asarray(more - max(fewest - k, 0), dtype=np.float64)
    labels = np.asarray(more, dtype=np.float64)
    return float(_chance_of_at_most(spare, labels, accuracy))


def labels_to_certify(  # noqa: PLR0913 - the counts at hand, and what is supposed.
    target: float,
    accuracy: float,
    power: float,
    confidence_level: float,
    *,
    k: int = 0,
    n: int = 0,
) -> int | None:
    """Return how many more labels certify *target* with a chance of *power*.

    *k* of *n* labels are correct already; of none, unless they are given.  The
    further ones are correct with a probability of *accuracy*.  The chance rises and
    falls with the number of labels as a saw does; from the answer on it is always at
    least *power*.  It is 0 when the target is certified now, and None when the
    accuracy does not exceed the target or it takes more than 10**7 labels in all.

    Raises ValueError unless 0 <= k <= n, accuracy lies in [0, 1], and target, power
    and confidence_level between 0 and 1.
    """
    k, n = checked_count_pair(k, n)
    target, power = checked_fraction("target", target), checked_fraction("power", power)
    accuracy = float(checked_accuracy(accuracy))
    share = tail_share(confidence_level, 2)
    if _certifies(k, n, target, share):
        return 0
    # No fewer labels can certify the target than so many that are all correct.
    least = math.log(share) / math.log(target)
    if accuracy <= target or least > MOST_PLANNED or n >= MOST_PLANNED:
        return None

    def is_enough(wrong: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        # The chance falls until one more may be wrong, so its lowest is just before.
        allowed = np.asarray(wrong, dtype=np.float64)
        labels = _labels_with(allowed + 1.0, target, share) - 1.0 - n
        chance = _chance_of_at_most(allowed - (n - k), labels, accuracy)
        return np.asarray(chance >= power)

    fewest = fewest_correct(n, target, share)
    allowed = -1 if fewest is None else n - fewest
    most = math.ceil(MOST_PLANNED * (1.0 - target)) + 1
    allowed = first_holding(
        lambda wrong: bool(is_enough(wrong)), above=allowed, last=most
    )
    # The lows of the saw rise, but each is a little off the trend, by less than
    # what the trend makes up for in this many teeth.
    ahead = (1.0 - accuracy) * (1.0 - target) / (accuracy - target)
    stretch = np.arange(min(8 + 16 * ahead, _MOST_AT_ONCE))
    while (labels := _labels_with_exactly(allowed, target, share)) <= MOST_PLANNED:
        too_low = np.flatnonzero(~is_enough(allowed + stretch))
        if not too_low.size:
            return labels - n
        allowed += int(too_low[-1]) + 1
    return None


def next_class(ks: npt.ArrayLike, ns: npt.ArrayLike) -> int:
    """Return the index of the class whose next label is worth most.

    *ks* correct among *ns* labelled, a list each.  Classes without labels come first.
    Then it is the class where a label takes most off the variance of the balanced
    accuracy: q / (n (n + 1)), with q = (k + 1) (n - k + 1) / (n + 2)**2 for the class's
    own variance.  The first of equals wins.

    Raises ValueError unless there is a class and 0 <= k <= n in each.
    """
    correct, labelled = checked_counts(ks, ns)
    if correct.ndim != 1 or not correct.size:
        raise ValueError(f"k and n must be one list each, not of shape {correct.shape}")
    if not labelled.all():
        return int(np.argmin(labelled))
    spread = (correct + 1.0) * (labelled - correct + 1.0) / (labelled + 2.0) ** 2
    return int(np.argmax(spread / (labelled * (labelled + 1.0))))


def _certifies(k: int, n: int, target: float, share: float) -> bool:
    return bool(lower_bound(k, n, share) > target)


def fewest_correct(n: int, target: float, share: float) -> int | None:
    """Return how many of *n* labels must be correct to certify *target*.

    It is certified when `lower_bound`, at an error of *share*, lies above it, so an
    accuracy of no more than the target is certified with a chance of at most *share*.
    None when not even n of n do.
    """
    if not _certifies(n, n, target, share):
        return None
    guess = first_holding(
        lambda k: bool(betainc(k, n - k + 1, target) <= share), above=0, last=n
    )
    return _exactly(lambda k: _certifies(k, n, target, share), guess)


def _labels_with_exactly(wrong: int, target: float, share: float) -> int:
    guess = int(_labels_with(np.asarray(wrong, np.float64), target, share))
    if guess > MOST_PLANNED:
        return guess
    return _exactly(lambda n: _certifies(n - wrong, n, target, share), guess)


def _labels_with(wrong: Floats, target: float, share: float) -> Floats:
    """Return after how many labels *target* is certified in spite of some *wrong*."""
    missed, doubt = 1.0 - target, -math.log(share)
    # While the wrong ones are no fewer than expected nothing is certified, and
    # Chernoff's bound says when it is.
    too_few = np.maximum(wrong, np.floor(wrong / missed) - 1.0)
    expected = wrong + doubt + np.sqrt(doubt * (doubt + 2.0 * wrong))
    enough = np.maximum(np.ceil(expected / missed) + 1.0, too_few + 1.0)
    while (enough - too_few > 1.0).any():
        middle = np.floor((too_few + enough) / 2.0)
        middle = np.where(enough - too_few > 1.0, middle, enough)
        is_certified = betainc(middle - wrong, wrong + 1.0, target) <= share
        enough = np.where(is_certified, middle, enough)
        too_few = np.where(is_certified, too_few, middle)
    return np.asarray(enough, dtype=np.float64)


def _chance_of_at_most(wrong: Floats, labels: Floats, accuracy: float) -> Floats:
    inner = betainc(np.maximum(labels - wrong, 1.0), np.maximum(wrong, 0) + 1, accuracy)
    chance = np.where(wrong >= labels, 1.0, inner)
    return np.asarray(np.where(wrong < 0, 0.0, chance), dtype=np.float64)


def _exactly(holds: Callable[[int], bool], guess: int) -> int:
    # Bounds are rounded outward and proven with a margin, so that what the tail
    # says may be one off.
    while not holds(guess):
        guess += 1
    while guess > 0 and holds(guess - 1):
        guess -= 1
    return guess
