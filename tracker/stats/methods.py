"""The methods that an interval can be asked for, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy.typing as npt

from tracker.stats.anytime import anytime
from tracker.stats.anytime.balanced import balanced_anytime
from tracker.stats.anytime.mixtures import FORMULA
from tracker.stats.approximations import (
    agresti_coull,
    bootstrap,
    jeffreys,
    mid_p,
    normal,
    posterior,
    wilson,
    wilson_cc,
)
from tracker.stats.approximations.balanced import (
    balanced_agresti_coull,
    balanced_bootstrap,
    balanced_jeffreys,
    balanced_mid_p,
    balanced_normal,
    balanced_posterior,
    balanced_wilson,
    balanced_wilson_cc,
)
from tracker.stats.balanced import balanced_union
from tracker.stats.binomial import Interval, clopper_pearson
from tracker.stats.joint.balanced import balanced_joint


@dataclass(frozen=True)
class Method:
    """A way from counts to intervals, and what may be claimed for it.

    *formula* counts the ways in which it has been computed since the first one.
    """

    name: str
    class_interval: Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
    balanced_interval: Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
    is_guaranteed: bool
    description: str
    formula: int = 1


_TABLE = (
    Method(
        "exact",
        clopper_pearson,
        balanced_union,
        is_guaranteed=True,
        description="Clopper-Pearson for a class; the class bounds at an equal "
        "share of the error, averaged, for the balanced accuracy.",
    ),
    Method(
        "joint",
        clopper_pearson,
        balanced_joint,
        is_guaranteed=True,
        description="Clopper-Pearson for a class; for the balanced accuracy the "
        "classes together, which is narrower at the same guarantee.",
    ),
    Method(
        "anytime",
        anytime,
        balanced_anytime,
        is_guaranteed=True,
        description="Holds after every label at once, so it may be looked at as "
        "often as one likes; decisions go by it.",
        formula=FORMULA,
    ),
    Method(
        "wilson",
        wilson,
        balanced_wilson,
        is_guaranteed=False,
        description="Wilson's score interval; its class limits combined as standard "
        "deviations are.",
    ),
    Method(
        "wilson-cc",
        wilson_cc,
        balanced_wilson_cc,
        is_guaranteed=False,
        description="Wilson's score interval with the continuity correction, a "
        "cautious approximation.",
    ),
    Method(
        "agresti-coull",
        agresti_coull,
        balanced_agresti_coull,
        is_guaranteed=False,
        description="The normal approximation after about four more labels, half "
        "of them correct.",
    ),
    Method(
        "jeffreys",
        jeffreys,
        balanced_jeffreys,
        is_guaranteed=False,
        description="Equal tails of the Beta distribution that Jeffreys' prior leads "
        "to.",
    ),
    Method(
        "mid-p",
        mid_p,
        balanced_mid_p,
        is_guaranteed=False,
        description="Clopper-Pearson with half of the chance of what was seen, "
        "narrower and no longer safe.",
    ),
    Method(
        "normal",
        normal,
        balanced_normal,
        is_guaranteed=False,
        description="The textbook's normal approximation, poor near 0 % and 100 %.",
    ),
    Method(
        "bootstrap",
        bootstrap,
        balanced_bootstrap,
        is_guaranteed=False,
        description="Percentiles of the labelled predictions drawn again and again, "
        "in the limit of infinitely many rounds.",
    ),
    Method(
        "posterior",
        posterior,
        balanced_posterior,
        is_guaranteed=False,
        description="Equal tails of what a uniform prior makes of the counts; for "
        "the balanced accuracy of their mean.",
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
