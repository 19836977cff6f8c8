"""Refuse what no interval can be computed from, by name and by value."""

import math
from numbers import Real

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# So many sums of so few terms are quicker added up term by term.
_MANY_SUMS, _FEW_TERMS = 256, 32

MOST_LABELS = 10**9
"""Labels per class up to which the bounds have been checked against 40 digits."""


def checked_counts(k: npt.ArrayLike, n: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return *k* and *n* as float arrays of their common shape.

    Integers of this size are exact in floating point, so nothing is lost.

    Raises ValueError unless both hold integers with 0 <= k <= n <= 10**9 and
    their shapes broadcast.
    """
    arrays = []
    for name, value in (("k", k), ("n", n)):
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(
                f"{name} must be a rectangular array, not {value!r}"
            ) from None
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(
                f"{name} must hold integers of at most 64 bits, "
                f"not {array.dtype}: {value!r:.80}"
            )
        arrays.append(array)
    correct, labelled = arrays
    try:
        correct, labelled = np.broadcast_arrays(correct, labelled)
    except ValueError:
        raise ValueError(
            f"k and n must have shapes that broadcast, "
            f"not {correct.shape} and {labelled.shape}"
        ) from None
    for name, array, refused, reason in (
        ("k", correct, correct < 0, "must not be negative"),
        ("n", labelled, labelled < 0, "must not be negative"),
        ("n", labelled, labelled > MOST_LABELS, "must not exceed 10**9"),
    ):
        if refused.any():
            raise ValueError(f"{name} {reason}, but holds {array[refused][0]}")
    beyond = correct > labelled
    if beyond.any():
        first = tuple(np.argwhere(beyond)[0])
        raise ValueError(
            f"k must not exceed n, but k is {correct[first]} and n is {labelled[first]}"
        )
    return correct.astype(np.float64), labelled.astype(np.float64)


def checked_class_counts(ks: npt.ArrayLike, ns: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return counts whose last axis runs over at least two classes.

    Raises ValueError as `checked_counts` does, and for fewer than two or more
    than 4096 classes.
    """
    correct, labelled = checked_counts(ks, ns)
    classes = correct.shape[-1] if correct.ndim else 1
    if not 2 <= classes <= 4096:
        raise ValueError(
            f"k and n must have between 2 and 4096 classes on their last axis, "
            f"not {classes}"
        )
    return correct, labelled


def checked_pairs(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Return *b* gained and *c* lost of *n* pairs as float arrays of one shape.

    Raises ValueError as `checked_counts` does, and where b + c exceeds n.
    """
    gained, pairs = checked_counts(b, n)
    lost, pairs = checked_counts(c, pairs.astype(np.int64))
    gained, lost, pairs = np.broadcast_arrays(gained, lost, pairs)
    if (gained + lost > pairs).any():
        raise ValueError(f"b + c must not exceed n, but are {b!r}, {c!r} of {n!r:.80}")
    return gained, lost, pairs


def checked_count_pair(k: int, n: int) -> tuple[int, int]:
    """Return one class's *k* and *n* as plain integers.

    Raises ValueError as `checked_counts` does, and for anything but scalars.
    """
    correct, labelled = checked_counts(k, n)
    if correct.ndim:
        raise ValueError(f"k and n must be single counts, not of shape {correct.shape}")
    return int(correct), int(labelled)


def checked_fraction(name: str, value: float) -> float:
    """Return *value* when it lies strictly between 0 and 1.

    Raises ValueError, with *name*, for anything else, NaN included.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, not {value!r}")
    return float(value)


def half_error(confidence_level: float) -> float:
    """Return half the chance of error, as it is computed for approximations."""
    return (1.0 - checked_fraction("confidence_level", confidence_level)) / 2.0


def checked_accuracy(accuracy: npt.ArrayLike, name: str = "accuracy") -> Floats:
    """Return *accuracy* as a float array.

    Raises ValueError, with *name*, unless all of it lies in [0, 1].
    """
    found = np.asarray(accuracy, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError(f"{name} must lie between 0 and 1, not {accuracy!r:.80}")
    return found


def tail_share(confidence_level: float, tails: int) -> float:
    """Return the chance of error that each of *tails* tails may have.

    The result is never above the share of the decimal that was meant: the
    double called 0.95 lies a little below 0.95, so 1 - 0.95 is more than 0.05.
    Half a unit in the last place is as far as a decimal can be from its double.
    """
    level = checked_fraction("confidence_level", confidence_level)
    error = math.nextafter((1.0 - level) - math.ulp(level) / 2, 0.0)
    return math.nextafter(error / tails, 0.0)


def shared_level(confidence_level: float, statements: int) -> float:
    """Return the level at which each of so many *statements* must hold by itself.

    By the union bound all of them then hold together at *confidence_level*, however
    they depend on each other.  The result is rounded up, so that no error is gained.

    Raises ValueError unless 0 < confidence_level < 1 and there is a statement, or
    when the result is so near 1 that doubles end.
    """
    if statements < 1:
        raise ValueError(f"statements must be at least 1, not {statements!r}")
    if statements == 1:
        return checked_fraction("confidence_level", confidence_level)
    level = math.nextafter(1.0 - tail_share(confidence_level, statements), 2.0)
    if level >= 1.0:
        raise ValueError(
            f"confidence_level {confidence_level!r} is too high for {statements} "
            f"statements at once"
        )
    return level


def total_of(array: Floats, axis: int = -1) -> Floats:
    """Return the sums along an *axis*, added from the first to the last.

    NumPy's own sum may depend, in its last bits, on the shape of the whole array.
    """
    terms = array.shape[axis]
    before = (slice(None),) * axis if axis >= 0 else (...,)
    if terms > _FEW_TERMS or array.size < _MANY_SUMS * terms:
        total: Floats = np.add.accumulate(array, axis=axis)[(*before, -1)]
        return total
    total = array[(*before, 0)].copy()
    for position in range(1, terms):
        total += array[(*before, position)]
    return total
