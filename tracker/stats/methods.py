"""The methods that an interval can be asked for, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy.typing as npt

from tracker.stats.balanced import balanced_union
from tracker.stats.binomial import Interval, clopper_pearson


@dataclass(frozen=True)
class Method:
    """A way from counts to intervals, and what may be claimed for it."""

    name: str
    class_interval: Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
    balanced_interval: Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
    is_guaranteed: bool
    description: str


_TABLE = (
    Method(
        "exact",
        clopper_pearson,
        balanced_union,
        is_guaranteed=True,
        description="Clopper-Pearson for a class; the class bounds at an equal "
        "share of the error, averaged, for the balanced accuracy.",
    ),
)
_BY_NAME = {method.name: method for method in _TABLE}

METHODS: tuple[str, ...] = tuple(_BY_NAME)


def get_method(name: str) -> Method:
    """Return the method called *name*.

    Raises ValueError, with the names there are, for any other.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(METHODS)
        raise ValueError(f"method must be one of {known}, not {name!r}") from None


def class_intervals(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the interval for the accuracy of a class, by the method's name.

    *k* correct among *n* labelled broadcast; both bounds have that shape.

    Raises ValueError for an unknown method and for what the method refuses.
    """
    return get_method(method).class_interval(k, n, confidence_level)


def balanced_interval(
    method: str, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the interval for the balanced accuracy, by the method's name.

    The last axis of *k* and *n* runs over the classes; both bounds have the
    shape that remains.

    Raises ValueError for an unknown method and for what the method refuses.
    """
    return get_method(method).balanced_interval(k, n, confidence_level)
