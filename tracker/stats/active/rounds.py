"""What is fixed while a round of draws lasts: weights, the model and the bets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import Floats
from .strata import Ints, Strata

UNIT = 2**20
"""Chances of the model are whole multiples of 1/UNIT, so that their sums are exact."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round: everything here was written down before its first draw.

    *start* is the number of the first draw.  *weights* (strata) are positive
    integers, the chance of a query being its weight over the sum of those left.
    *wrong* (strata) and *rows* (strata, label) say in units of 1/UNIT how likely
    the model thinks a query to be wrong, and as which class.  *directions* (classes)
    and *spreads* (classes, overall, balanced) scale the bets, of which two are for a
    truth that is about *wanted* away.  None of it needs to be right for the intervals
    to be valid.
    """

    start: int
    weights: Ints
    wrong: Ints
    rows: Ints
    directions: Floats
    spreads: Floats
    wanted: float

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers that `from_json` reads back to the last bit."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Round":
        values: dict[str, Any] = {
            name: np.asarray(value) if isinstance(value, list) else value
            for name, value in stored.items()
        }
        return cls(**values)


def label_chances(strata: Strata, wrong: Ints, rows: Ints) -> Ints:
    """Return the model's chance of each label, (strata, classes) in units of 1/UNIT."""
    chances: Ints = (wrong[:, None] * rows) // UNIT
    chances[strata.own] = UNIT - wrong[strata.own[0]]
    return chances


def counted(strata: Strata, label: Ints, stratum: Ints) -> tuple[Ints, Ints]:
    """Return what each label counts for, as numerators and denominators.

    The last axis runs over the classes and ends with all of them together; an
    unclear label counts for nothing.
    """
    classes = np.arange(strata.classes)
    of = (label[:, None] == classes).astype(np.int64)
    right = of * (strata.predicted[stratum][:, None] == classes)
    return with_overall(right), with_overall(of)


def with_overall(by_class: Ints) -> Ints:
    """Return counts by class with their sum appended on the last axis."""
    together: Ints = np.concatenate(
        [by_class, by_class.sum(axis=-1, keepdims=True)], axis=-1
    )
    return together


def expected_counts(strata: Strata, chances: Ints) -> tuple[Ints, Ints]:
    """Return what the model expects of each stratum in place of `counted`."""
    is_said = strata.predicted[:, None] == np.arange(strata.classes)
    return with_overall(chances * is_said), with_overall(chances)
