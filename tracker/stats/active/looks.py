"""Compute the intervals of an audit from its record."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arguments import Floats, tail_share
from ..exact import Interval
from .betting import GRID, BalancedBets, ClassBets, balanced_ends, refuted_to
from .ledger import OPEN, Ledger, Rows, build_rows
from .strata import Ints

# What part of the error of the balanced accuracy pays for the class intervals
# within which it is searched.
_BOX_PART = 0.1


@dataclass(frozen=True, eq=False)
class Standing:
    """What is refuted so far, in whole multiples of 1/GRID.

    *measures* (classes and overall, 2) are the intervals, *box* (classes, 2) the
    wider ones within which the balanced accuracy lies, *balanced* (2) is K times
    its interval.
    """

    measures: Ints
    box: Ints
    balanced: Ints

    def as_json(self) -> dict[str, Any]:
        return {name: value.tolist() for name, value in vars(self).items()}

    def intervals(self) -> tuple[Interval, Interval]:
        """Return the intervals of the measures, and that of the balanced accuracy."""
        exact = self.measures / GRID
        # GRID is a power of two; the other quotient may be off by half a last place.
        low, high = self.balanced / float(len(self.box) * GRID)
        low = np.nextafter(low, 0.0) if low > 0 else low
        high = np.nextafter(high, 1.0) if high < 1 else high
        return Interval(exact[:, 0], exact[:, 1]), Interval(low, high)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Standing":
        return cls(**{name: np.asarray(value) for name, value in stored.items()})


class Look(NamedTuple):
    """The intervals of an audit; *measures* are the classes, then overall.

    *estimates* has a number within each interval, NaN where nothing is known.
    *correct* and *labelled* count all labels, known ones included; *settled* is the
    number of draws that are evidence.  *standings* has one for the start of each
    round that evidence has reached.
    """

    measures: Interval
    balanced: Interval
    estimates: Floats
    correct: Ints
    labelled: Ints
    settled: int
    standings: tuple[Standing, ...]

    def aimed(self, aim: int | None) -> tuple[float, float]:
        """Return the bounds of a measure, of the balanced accuracy for None."""
        if aim is None:
            return float(self.balanced.low), float(self.balanced.high)
        return float(self.measures.low[aim]), float(self.measures.high[aim])


def look(
    ledger: Ledger,
    confidence_level: float,
    *,
    standings: tuple[Standing, ...] = (),
    wanted: Collection[int] | None = None,
    is_balanced: bool = True,
) -> Look:
    """Return the intervals for the accuracies of the whole set.

    For any set of queries, any labels and any confidences: each interval holds its
    accuracy at *all* looks at once with a chance of at least *confidence_level*,
    where draws were made with the chances that the record states.  The accuracy of a
    class without a query in the set is not defined, and any value is then right.
    The balanced accuracy is the mean over all classes.

    Bounds are the narrowest that were reached at the start of a round or now, unless
    they have crossed; they depend on the record alone.  *standings* of an earlier look
    at the same record, corrected in nothing, save their computation.  Where only the
    *wanted* measures are of interest, or not the balanced accuracy, the others stay as
    they were.

    Raises ValueError unless 0 < confidence_level < 1 and there is a round.
    """
    if not ledger.rounds:
        raise ValueError("an audit begins with a round")
    asked = range(ledger.strata.classes + 1) if wanted is None else wanted
    course = _Course(ledger, tail_share(confidence_level, 1), asked, is_balanced)
    starts = [part.start for part in ledger.rounds]
    reached = [one for one in starts if one < ledger.settled or one == 0]
    for number, start in enumerate(reached):
        if number < len(standings):
            course.reach(standings[number])
        else:
            certain = _certain(ledger, start, max(0, number - 1))
            course.reach(course.narrowed(start, certain))
    certain = _certain(ledger, len(ledger.labels), len(ledger.rounds) - 1)
    now = course.narrowed(ledger.settled, certain)
    correct, labelled = ledger.totals(len(ledger.labels), len(ledger.rounds) - 1)
    measures, balanced = now.intervals()
    return Look(
        measures,
        balanced,
        _estimates(course.rows, measures),
        correct,
        labelled,
        ledger.settled,
        tuple(course.standings),
    )


def _estimates(rows: Rows, measures: Interval) -> Floats:
    """Return ratios of what is unbiased for right and for all labels of a class."""
    worth = 1.0 / rows.spreads[:, :-1]
    right, of = (worth * rows.right).sum(axis=0), (worth * rows.of).sum(axis=0)
    ratio = np.divide(right, of, out=np.full(len(of), np.nan), where=of > 0)
    return np.asarray(np.clip(ratio, *measures))


def look_at_aim(
    ledger: Ledger,
    confidence_level: float,
    aim: int | None,
    *,
    standings: tuple[Standing, ...] = (),
) -> Look:
    """Return what `look` does of one measure alone, of the balanced one for None."""
    return look(
        ledger,
        confidence_level,
        standings=standings,
        wanted=() if aim is None else (aim,),
        is_balanced=aim is None,
    )


def _certain(ledger: Ledger, draws: int, which: int) -> Ints:
    """Return what the labels alone leave possible, whatever the others turn out."""
    strata, classes = ledger.strata, ledger.strata.classes
    right, of = ledger.totals(draws, which)
    open_ones = np.bincount(
        ledger.drawn[:draws][ledger.labels[:draws] == OPEN], minlength=len(strata.sizes)
    )
    left = ledger.left_before(draws, which) + open_ones
    said = np.bincount(strata.predicted, weights=left, minlength=classes)
    # A query without an answer cannot be right.
    said = np.append(said[:classes], said[:classes].sum()).astype(np.int64)
    others = np.append(left.sum() - said[:classes], left.sum())
    wrong = of - right
    # Where there is no query, nothing is right or wrong.
    worst, best = (np.maximum(1, of + one).astype(np.int64) for one in (others, said))
    return np.column_stack([right * GRID // worst, GRID - wrong * GRID // best])


class _Course:
    """The looks at one audit in their order."""

    def __init__(
        self, ledger: Ledger, error: float, wanted: Collection[int], is_balanced: bool
    ) -> None:
        self._wanted, self._is_balanced = wanted, is_balanced
        self._ledger, self.rows = ledger, build_rows(ledger)
        self._classes = ledger.strata.classes
        self.standings: list[Standing] = []
        self._ends: list[Floats] = []
        all_of = np.tile([0, GRID], (self._classes + 1, 1))
        self._open = Standing(all_of, all_of[1:], all_of[0] * self._classes)
        # A little less than the shares, for the rounding of these products.
        self._tail = error / 2.0 * (1.0 - 1e-12)
        self._box_tail = self._tail * _BOX_PART / self._classes
        self._side = self._tail * (1.0 - _BOX_PART)

    def reach(self, standing: Standing) -> None:
        """Begin the next round with what stands."""
        ends = balanced_ends(self._ledger, len(self.standings), standing.box)
        self._ends.append(ends)
        self.standings.append(standing)

    def narrowed(self, draws: int, certain: Ints) -> Standing:
        """Return what stands after *draws*, no wider than at the last round."""
        rows = self.rows.first(draws)
        before = self._open if not self.standings else self.standings[-1]
        measures, box = before.measures.copy(), before.box.copy()
        for measure in range(self._classes + 1):
            in_box = self._is_balanced and measure < self._classes
            if not in_box and measure not in self._wanted:
                continue
            known, asked = certain[measure].tolist(), []
            if measure in self._wanted:
                asked.append((measures[measure], self._tail))
            if in_box:
                asked.append((box[measure], self._box_tail))
            up, down = ClassBets(rows, measure, 1), ClassBets(rows, measure, -1)
            for bounds, error in asked:
                bounds[0] = refuted_to(up, int(max(bounds[0], known[0])), error)
                bounds[1] = refuted_to(down, int(min(bounds[1], known[1])), error)
        _uncross(measures, certain)
        _uncross(box, certain[:-1])
        balanced = before.balanced.copy()
        if self._is_balanced:
            shape = (len(self.standings), self._classes, 2)
            boxes = np.reshape([one.box for one in self.standings], shape)
            ends = np.reshape(self._ends, (len(self.standings), 2))
            for side, sign in ((0, 1), (1, -1)):
                bet = BalancedBets(rows, boxes[rows.which], ends[rows.which], sign)
                balanced[side] = bet.refuted(box, int(balanced[side]), self._side)
            _uncross(balanced, certain[:-1].sum(axis=0))
        return Standing(measures, box, balanced)


def _uncross(bounds: Ints, certain: Ints) -> None:
    """Put what is *certain* where the bounds of an interval have crossed.

    They do with a chance within the error: bets have then refuted what is true, and
    the labels show it.  Once all are there, what is certain is the accuracy itself.
    """
    crossed = bounds[..., 0] > bounds[..., 1]
    bounds[crossed] = certain[crossed]
