"""The goal of an audit, its record, and what each draw adds to the evidence."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arguments import Floats
from .rounds import UNIT, Round, counted, expected_counts, label_chances
from .strata import Ints, Strata

OPEN = -1
"""The label of a draw that was handed out and is not answered yet."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """All that the intervals of an audit follow from.

    *rounds* in their order; *known* has for each round the labels that were there
    without a draw when it began, (strata, classes + 1) counts, the last column for
    unclear ones; *drawn* the stratum of each draw in the order in which they were
    handed out, and *labels* its label: a class, `classes` for unclear, or OPEN.

    Raises ValueError for a record that cannot be: a stratum with more draws and
    known labels than queries, a draw before the first round, a label out of range.
    """

    strata: Strata
    rounds: tuple[Round, ...]
    known: tuple[Ints, ...]
    drawn: Ints
    labels: Ints

    def __post_init__(self) -> None:
        starts = [part.start for part in self.rounds]
        if len(self.known) != len(starts) or starts != sorted(set(starts)):
            raise ValueError("every round needs its own start and its known labels")
        if self.drawn.shape != self.labels.shape:
            raise ValueError("every draw needs a label, or OPEN")
        if self.drawn.size and (not starts or starts[0] != 0):
            raise ValueError("the first round must start with the first draw")
        if not ((self.labels >= OPEN) & (self.labels <= self.strata.classes)).all():
            raise ValueError("a label must be a class, unclear or open")
        if self.known and (self.left_before(len(self.drawn), -1) < 0).any():
            raise ValueError("a stratum has more labels than queries")

    @cached_property
    def settled(self) -> int:
        """Count the draws before the first one that is open: those are evidence."""
        open_ones = np.flatnonzero(self.labels == OPEN)
        return int(open_ones[0]) if open_ones.size else len(self.labels)

    def count_labels(self, known: Ints) -> Ints:
        """Return the labels of each stratum, (strata, classes + 1), with *known* ones.

        Open draws count for nothing.
        """
        counts = known.copy()
        answered = self.labels != OPEN
        np.add.at(counts, (self.drawn[answered], self.labels[answered]), 1)
        return counts

    def left_before(self, draws: int, which: int) -> Ints:
        """Return what is left of each stratum after *draws*, in round *which*."""
        drawn = np.bincount(self.drawn[:draws], minlength=len(self.strata.sizes))
        left: Ints = self.strata.sizes - drawn - self.known[which].sum(axis=1)
        return left

    def totals(self, draws: int, which: int) -> tuple[Ints, Ints]:
        """Count right and all labels of each class and overall after *draws*.

        Open draws count for nothing, labels known in round *which* are included.
        """
        right, of = counted(self.strata, self.labels[:draws], self.drawn[:draws])
        known_right, known_of = _known_counts(self.strata, self.known[which])
        return right.sum(axis=0) + known_right, of.sum(axis=0) + known_of


def _known_counts(strata: Strata, known: Ints) -> tuple[Ints, Ints]:
    right, of = expected_counts(strata, known[:, : strata.classes])
    return right.sum(axis=0), of.sum(axis=0)


def empty_ledger(strata: Strata) -> Ledger:
    none = np.zeros(0, dtype=np.int64)
    return Ledger(strata, (), (), none, none)


@dataclass(frozen=True, eq=False)
class Rows:
    """The settled draws as numbers, one row each; measures on the last axis.

    A measure is a class accuracy or, in the last place, the overall accuracy.  With
    r the true value of a measure, `right - r * of` has a mean of zero given all
    rows before; `right_off - r * of_off` is the part that was known before the draw.
    *size* bounds what rounding may be relative to, *reach* is the sum of the weights
    left, *wanted* the distance that the goal wants.  *ends* (sides, rounds, measures,
    2) bounds what a draw can be against the bet per unit of *reach*, at r = 0 and
    r = 1.
    """

    which: Ints
    reach: Floats
    right: Floats
    of: Floats
    right_off: Floats
    of_off: Floats
    size: Floats
    spreads: Floats
    directions: Floats
    wanted: Floats
    ends: Floats

    def first(self, draws: int) -> "Rows":
        cut: dict[str, Any] = {n: values[:draws] for n, values in vars(self).items()}
        return Rows(**cut | {"ends": self.ends})


def build_rows(ledger: Ledger) -> Rows:
    """Return the rows of all settled draws.

    Sums over the queries left are sums of integers below 2**53 and therefore exact; a
    row then takes fewer than ten roundings relative to its size.
    """
    strata, settled = ledger.strata, ledger.settled
    seen_all = counted(strata, ledger.labels[:settled], ledger.drawn[:settled])
    before_all = [np.cumsum(x, axis=0) - x for x in seen_all]
    parts, ends = [], []
    for number, frozen in enumerate(ledger.rounds):
        following = ledger.rounds[number + 1 :]
        stop = min(settled, following[0].start if following else settled)
        part = slice(frozen.start, max(frozen.start, stop))
        drawn = ledger.drawn[part]
        chances = label_chances(strata, frozen.wrong, frozen.rows)
        model = expected_counts(strata, chances)
        left = ledger.left_before(frozen.start, number)
        ends.append(_ends(strata, frozen, chances, left))
        known = _known_counts(strata, ledger.known[number])
        weight = frozen.weights[drawn]
        reach = int(left @ frozen.weights) - (np.cumsum(weight) - weight)
        factor = (reach / weight)[:, None]
        triples = []
        for seen, before, expected, there in zip(
            seen_all, before_all, model, known, strict=True
        ):
            share = expected[drawn]
            off = (left @ expected - (np.cumsum(share, axis=0) - share)) / UNIT
            off = off + (before[part] + there)
            surprise = (seen[part] * UNIT - share) / UNIT * factor
            triples.append((surprise + off, off, np.abs(surprise) + off))
        (right, right_off, right_size), (of, of_off, of_size) = triples
        shrunk = (reach / max(1, int(left @ frozen.weights)))[:, None] ** 2
        parts.append(
            (
                np.full(len(drawn), number),
                reach.astype(np.float64),
                *(right, of, right_off, of_off, right_size + of_size),
                frozen.spreads * shrunk,
                np.broadcast_to(frozen.directions, (len(drawn), strata.classes)),
                np.full(len(drawn), frozen.wanted),
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    names = [field.name for field in fields(Rows)]
    values = [*columns, np.stack(ends, axis=1)]
    return Rows(**dict(zip(names, values, strict=True)))


def _ends(strata: Strata, frozen: Round, chances: Ints, left: Ints) -> Floats:
    """Bound what one draw can be against a bet, over all queries left and all labels.

    A draw adds (right - r * of) - (what the model expects) over the query's weight.
    For one class that is a multiple of 1 - r where the class was said and of r
    where it was not, so that its two extremes tell it for every r.
    """
    there = left > 0
    q = chances[there] / UNIT / frozen.weights[there][:, None]
    all_of = 1.0 / frozen.weights[there][:, None]
    is_said = strata.predicted[there][:, None] == np.arange(strata.classes)
    said, some, one = (q * is_said).sum(axis=1), q.sum(axis=1), all_of[:, 0]
    # Against an accuracy that is too high the label is another class than was said.
    # Overall it may be right, wrong or unclear, at r = 0 and at r = 1.
    ends = [
        [(q * is_said, said), ((all_of - q) * ~is_said, said + one - some)],
        [((all_of - q) * is_said, one - said), (q * ~is_said, some - said)],
    ]
    most = [
        [
            np.append(by_class.max(axis=0, initial=0.0), whole.max(initial=0.0))
            for by_class, whole in side
        ]
        for side in ends
    ]
    return np.moveaxis(np.array(most), 1, -1)


# From a target the interval is told apart by no less than this.
_LEAST_DISTANCE = 0.005


class Step(NamedTuple):
    """The interval of what is aimed at after so many labels."""

    labels: int
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0


class Goal(NamedTuple):
    """What an audit is asked for: which accuracy, and how well.

    *aim* is a class, the number of classes for the overall accuracy, or None for the
    balanced one.  Either *half_width* is given, or a *target* that the interval is to
    lie above or below.
    """

    aim: int | None
    half_width: float | None
    target: float | None

    def is_reached(self, step: Step) -> bool:
        """Return whether nothing more is to be labelled."""
        if self.target is not None:
            return step.low > self.target or step.high < self.target
        return self.half_width is not None and step.half_width <= self.half_width

    def wanted(self, accuracy: float) -> float:
        """Return the half-width at which the goal would be reached."""
        if self.target is None:
            assert self.half_width is not None
            return self.half_width
        return max(_LEAST_DISTANCE, abs(accuracy - self.target))
