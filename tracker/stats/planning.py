"""How many more labels narrow an interval or bring a verdict."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from .arguments import (
    Floats,
    checked_class_counts,
    checked_count_pair,
    checked_counts,
    checked_fraction,
    tail_share,
)
from .coverage import IntervalFunction
from .evidence.intervals import balanced_anytime
from .evidence.paired import paired_anytime
from .exact import balanced_union, clopper_pearson
from .laws import beta_quantile

MOST_PLANNED = 10**7
"""Labels per class beyond which no plan is made."""

# Against the sum over all outcomes, the mean width is off by 1e-10 of its value
# with 24 nodes and by 3e-4 with 4.
NODES = 24
_COARSE_NODES = 4

_GROWTH = 1.25
_FIRST_STEP = 8.0
_TRIMMING_STEPS = 1024
_NOTHING = 1e-9


def labels_to_reach_width(
    k: int, n: int, width: float, confidence_level: float
) -> int | None:
    """Return how many more labels of a class bring its interval to *width*.

    *width* is high - low.  The answer is 0 when the interval at hand is narrow
    enough, else the smallest number after which the exact interval is expected
    to be, if the accuracy stays what it is now (0.5 without labels).  None means
    more than 10**7 labels in all.

    Raises ValueError unless 0 <= k <= n, and width and confidence_level lie
    between 0 and 1.
    """
    k, n = checked_count_pair(k, n)
    width = checked_fraction("width", width)
    present = clopper_pearson(k, n, confidence_level)
    if present.high - present.low <= width:
        return 0
    share = tail_share(confidence_level, 2)
    accuracy = np.asarray(k / n if n else 0.5)

    def is_enough(labels: int) -> bool:
        planned = np.asarray(labels, dtype=np.float64)
        return bool(mean_width(planned, accuracy, share, NODES) <= width)

    if n >= MOST_PLANNED or not is_enough(MOST_PLANNED):
        return None
    return first_holding(is_enough, above=n, last=MOST_PLANNED) - n


def labels_to_reach_balanced_width(
    ks: Sequence[int], ns: Sequence[int], width: float, confidence_level: float
) -> tuple[int, ...] | None:
    """Return how many more labels of each class bring the balanced interval to width.

    *width* is high - low of the interval that `balanced_union` returns.  Labels go
    where they narrow it most; the plan is cut down in proportion, to a thousandth,
    until the expected width is just enough.  Accuracies are taken to stay what they are
    now (0.5 without labels).  All are 0 when the interval at hand is narrow enough;
    None means more than 10**7 labels of a class.

    Raises ValueError unless there are two classes or more, 0 <= k <= n in each,
    and width and confidence_level lie between 0 and 1.
    """
    correct, labelled = checked_class_counts(ks, ns)
    if correct.ndim != 1:
        raise ValueError(f"k and n must be one list each, not of shape {correct.shape}")
    width = checked_fraction("width", width)
    present = balanced_union(ks, ns, confidence_level)
    if present.high - present.low <= width:
        return (0,) * correct.size
    share = tail_share(confidence_level, 2 * correct.size)
    accuracy = np.where(labelled > 0, correct / np.maximum(labelled, 1.0), 0.5)

    def is_enough(extra: Floats) -> bool:
        widths = mean_width(labelled + extra, accuracy, share, NODES)
        return bool(widths.mean() <= width)

    # The coarse widths may promise a little too much, which the room above them covers.
    plan = 1.1 * _greedy_plan(labelled, accuracy, share, width)
    plan = np.clip(MOST_PLANNED - labelled, 0.0, plan)
    if not is_enough(np.ceil(plan)):
        return None
    steps = min(int(plan.max()) + 1, _TRIMMING_STEPS)
    enough = first_holding(
        lambda part: is_enough(np.ceil(plan * (part / steps))), above=0, last=steps
    )
    return tuple(int(extra) for extra in np.ceil(plan * (enough / steps)))


def _greedy_plan(
    labelled: Floats, accuracy: Floats, share: float, width: float
) -> Floats:
    first = np.ceil(np.maximum(labelled * _GROWTH, _FIRST_STEP))
    steps = int(np.log(MOST_PLANNED / _FIRST_STEP) / np.log(_GROWTH)) + 1
    grown = np.ceil(first[:, np.newaxis] * _GROWTH ** np.arange(steps))
    sizes = np.minimum(np.column_stack([labelled, grown]), MOST_PLANNED)
    widths = mean_width(sizes, accuracy[:, np.newaxis], share, _COARSE_NODES)
    cost, gain = np.diff(sizes), -np.diff(widths)
    rate = np.where(cost > 0, gain / np.maximum(cost, 1.0), 0.0)
    # The first few labels of a class narrow nothing by themselves; without looking
    # ahead to what they lead to, an empty class would never be given any.
    rate = np.maximum.accumulate(rate[:, ::-1], axis=1)[:, ::-1]
    order = np.argsort(-rate, axis=None, kind="stable")
    reached = widths[:, 0].sum() - np.cumsum(gain.ravel()[order])
    sufficient = np.flatnonzero(reached <= width * labelled.size)
    last = order[sufficient[0] if sufficient.size else -1]
    # Classes in the same position get the same step, whichever comes first.
    bought = rate >= rate.ravel()[last] * (1.0 - 1e-9)
    return np.asarray(np.where(bought, np.maximum(cost, 0.0), 0.0).sum(axis=1))


def mean_width(n: Floats, accuracy: Floats, share: float, nodes: int) -> Floats:
    """Return the mean width of the exact interval, *share* the error of each side.

    *n* labels and the true *accuracy* have one shape.  The mean is a Gauss quadrature
    for the binomial distribution, from the recurrence of the Krawtchouk polynomials: a
    sum over all outcomes takes a thousand times as long for a million labels.  With as
    many nodes as outcomes it is that sum; the surplus nodes get no weight.
    """
    n, accuracy = n[..., np.newaxis], accuracy[..., np.newaxis]
    degree = np.arange(nodes)
    centre = accuracy * (n - degree) + degree * (1.0 - accuracy)
    step = degree[1:]
    coupling = step * np.maximum(n - step + 1.0, 0.0) * accuracy * (1.0 - accuracy)
    matrix = np.zeros((*centre.shape, nodes))
    matrix[..., degree, degree] = centre
    matrix[..., step, step - 1] = np.sqrt(coupling)
    correct, vectors = np.linalg.eigh(matrix)
    weights = vectors[..., 0, :] ** 2
    # Between integers the bounds are the same functions; a plan needs no rounding
    # outward.
    k = np.clip(correct, 0.0, n)
    wrong = n - k
    low = beta_quantile(np.maximum(k, _NOTHING), wrong + 1.0, share)
    missed = beta_quantile(np.maximum(wrong, _NOTHING), k + 1.0, share)
    widths = 1.0 - np.where(wrong < _NOTHING, 0.0, missed)
    widths -= np.where(k < _NOTHING, 0.0, low)
    return np.asarray(np.sum(weights * widths, axis=-1))


def labels_to_narrow(
    interval: IntervalFunction,
    ks: Sequence[int],
    ns: Sequence[int],
    width: float,
    confidence_level: float,
) -> tuple[int, ...] | None:
    """Return how many more labels of each class bring a balanced *interval* to width.

    *width* is high - low.  Accuracies are taken to stay what they are now, 0.5 without
    labels.  The classes are filled up to a number in proportion to the standard
    deviation of one label, whichever have fewer; the answer exceeds the fewest labels
    of that kind by about half a percent at most.  All are 0 when the interval at hand
    is narrow enough; None means more than 10**7 labels of a class.  At most 42
    intervals are computed.

    Raises ValueError unless 0 <= k <= n in each, width and confidence_level lie between
    0 and 1, and for as many classes as *interval* is not for.
    """
    correct, labelled = checked_counts(ks, ns)
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


def balanced_labels_to_decide(
    correct: Sequence[int],
    labelled: Sequence[int],
    target: float,
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
) -> tuple[int, ...] | None:
    """Return how many more labels of each class decide whether *target* is met.

    It is decided once the interval of `balanced_anytime`, with the same *shares*, lies
    on one side of the target.  The parts of the classes and their accuracies are taken
    to stay what they are now; the answer exceeds the fewest labels by about half a
    percent at most.  All are 0 when it is decided now.  None means that no number
    decides: the accuracy is at the target, it is unknown for a class without labels, or
    more than 10**7 labels are needed.  At most 41 intervals are computed.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n in each, and
    target and confidence_level lie between 0 and 1.
    """
    right, total = checked_class_counts(correct, labelled)
    if right.ndim != 1:
        raise ValueError(f"k and n must be one list each, not of shape {right.shape}")
    target = checked_fraction("target", target)

    def reach_of(k: Floats, n: Floats) -> float:
        found = balanced_anytime(
            k.astype(np.int64), n.astype(np.int64), confidence_level, shares=shares
        )
        return _reach(k, n, target, found)

    reach = reach_of(right, total)
    if reach < 0:
        return (0,) * right.size
    now = float(total.sum())
    if not math.isfinite(reach) or now >= MOST_PLANNED:
        return None

    def planned(labels: float) -> tuple[Floats, Floats]:
        counts = np.rint(total * (labels / now))
        return np.rint(counts * (right / total)), counts

    enough = least_enough(
        lambda size: reach_of(*planned(size)), (now, reach), MOST_PLANNED
    )
    if enough is None:
        return None
    return tuple(int(more) for more in np.maximum(planned(enough)[1] - total, 0.0))


def pairs_to_decide(
    gained: Sequence[int],
    lost: Sequence[int],
    pairs: Sequence[int],
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
) -> int | None:
    """Return how many more pairs decide which version is better, 0 if it is decided.

    It is decided once the interval of `paired_anytime`, with the same *shares*, lies
    on one side of 0.  The rates of gaining and losing and how the pairs are shared
    among the classes are taken to stay what they are now.  None means that no number
    decides: no difference shows, a class has no pair, or more than 10**7 are needed.
    """
    counts = np.array([gained, lost, pairs], dtype=np.float64)
    now = float(counts[2].sum())

    def reach(size: float) -> float:
        more, fewer, of = np.rint(counts * (size / now)).astype(np.int64)
        fewer = np.minimum(fewer, of - more)
        found = paired_anytime(more, fewer, of, confidence_level, shares=shares)
        return _reach(more - fewer, of, 0.0, (found.low, found.high))

    if not now or now >= MOST_PLANNED or not math.isfinite(first := reach(now)):
        return None
    if first < 0:
        return 0
    enough = least_enough(reach, (now, first), MOST_PLANNED)
    return None if enough is None else math.ceil(enough - now)


def _reach(
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    target: float,
    interval: tuple[npt.ArrayLike, npt.ArrayLike],
) -> float:
    """Return the logarithm of how many times too wide an interval is to decide.

    It is negative where the target is decided, and infinite where no width would do.
    """
    low, high = (float(np.asarray(bound)) for bound in interval)
    is_decided = low > target or high < target
    if not np.all(n):
        return -math.inf if is_decided else math.inf
    accuracy = float(np.mean(np.divide(k, n)))
    if accuracy == target:
        return math.inf
    bound = low if accuracy > target else high
    reach = math.log(max((accuracy - bound) / (accuracy - target), 1e-300))
    return min(reach, -1e-12) if is_decided else max(reach, 0.0)


# Once an interval is this part narrower than it need be, half a percent fewer labels
# would hardly do, since widths shrink with the root of the labels.
_CLOSE_ENOUGH = 1 / 400
_MOST_STEPS = 40


def first_holding(holds: Callable[[int], bool], *, above: int, last: int) -> int:
    """Return the first number after *above* for which it *holds*.

    What holds for a number must hold for all greater ones.  The answer is *last*
    when it is not before; that one is never asked.  Steps that double find a number
    near *above* soon, however far away *last* is.
    """
    below, step = above, 1
    while below + step < last and not holds(below + step):
        below, step = below + step, 2 * step
    found = min(below + step, last)
    while found - below > 1:
        middle = (below + found) // 2
        below, found = (below, middle) if holds(middle) else (middle, found)
    return found


def least_enough(
    reach: Callable[[float], float], first: tuple[float, float], last: float
) -> float | None:
    """Return about the least size at which *reach* is negative, None beyond *last*.

    *reach* is the logarithm of how many times too wide an interval is; *first* is a
    size that is too small, and its reach.  The answer is a size that was tried.  It
    is at most a half percent, or 1, too large where the reach falls steadily; four
    to six sizes are tried as a rule, and never more than 40.
    """
    # The logarithm of the width is nearly a line, with a slope of about -1/2, in that
    # of the size.
    (few, outside), (many, inside) = first, (last + 1.0, math.nan)
    for step in range(_MOST_STEPS):
        is_near = many - few <= max(1.0, 2.0 * _CLOSE_ENOUGH * few)
        if is_near or inside > -_CLOSE_ENOUGH:
            break
        if math.isnan(inside):
            guess = few * math.exp(min(2.0 * outside + _CLOSE_ENOUGH, 40.0))
        elif step % 3 == 2 or not math.isfinite(outside):
            guess = math.sqrt(few * many)
        else:
            share = (outside + _CLOSE_ENOUGH / 2.0) / (outside - inside)
            guess = few * (many / few) ** min(share, 1.0)
        size = min(max(float(math.ceil(guess)), few + 1.0), many - 1.0)
        found = reach(size)
        if found < 0:
            many, inside = size, found
        else:
            few, outside = size, found
    return many if many <= last else None
