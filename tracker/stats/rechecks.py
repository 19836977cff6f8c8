"""Bound accuracies by the truth, from labels of which some were given a second time.

The labels of a set were frozen, and some were drawn by known chances and given again
by people who know the truth.  That is an audit whose judge is the first label.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .active.learning import next_round, round_length
from .active.ledger import Goal, Ledger
from .active.looks import Look, look
from .active.strata import (
    MISSING,
    NO_CONFIDENCE,
    Ints,
    Strata,
    rank_of,
)
from .arguments import tail_share
from .exact import Interval, lower_bound, upper_bound

_WEIGHTS = 1, 3
_HALF_WIDTH = 0.03
# What part of the error pays for the set not being the process that it came from.
_PROCESS_PART = 0.2
_LEFT_OVER = 1.0 - 1e-9


class Cell(NamedTuple):
    """Queries of a set with the same prediction and the same first label.

    *said* is the number of classes where the detector gave no answer, which is never
    right, and *first* is None for UNCLEAR.
    """

    said: int
    first: int | None
    queries: int


class Drawn(NamedTuple):
    """The cell of a drawn query, and what it was labelled then, None for UNCLEAR."""

    cell: int
    answer: int | None


class Rechecked(NamedTuple):
    """What re-checks tell; *measures* are the classes, then all queries together.

    These and *balanced* are of the queries of the set that can be told, *process* is
    the chance that any query of the like is right, where UNCLEAR is not.
    """

    measures: Interval
    balanced: Interval
    process: Interval


def draw_times(key: bytes, name: str, *, differs: bool) -> tuple[float, float]:
    """Return when a label's own clock rings, and when it is drawn.

    Labels are drawn in the order of the times.  Every one has a clock of rate 1; where
    it differs from the prediction a second one of rate 2 may ring first.  So it is
    always the next with a chance in proportion to 1 or 3.  Those whose own clock has
    rung by the time of the last one drawn are a random sample of all.  Who does not
    know the secret *key* cannot foresee them.
    """
    own, other = (
        -math.log1p(-(rank_of(key, f"{name} {clock}") >> 10) / 2**53)
        for clock in (1, 2)
    )
    return own, min(own, other / (_WEIGHTS[1] - _WEIGHTS[0])) if differs else own


@lru_cache(maxsize=64)
def recheck_accuracies(
    classes: int,
    cells: tuple[Cell, ...],
    known: tuple[tuple[Drawn, int], ...],
    draws: tuple[Drawn, ...],
    confidence_level: float,
) -> Rechecked:
    """Bound the accuracies of a set by the truth, at every look.

    *known* counts the answers that were there before the first draw, and *draws* are
    those since, in their order, up to the first without an answer.  Each bound holds
    with a chance of at least *confidence_level* however first labels go wrong, if
    second labels are right, as those of a random audit do.

    The accuracy of the process is bounded by Clopper and Pearson from the number of
    right ones in the set, which a fifth of the error is left for.
    """
    found = _look(classes, cells, known, draws, confidence_level, is_balanced=True)
    error = tail_share(confidence_level, 1)
    level = math.nextafter(1.0 - error * (1.0 - _PROCESS_PART), 2.0)
    low, high = _share(cells, known, draws, level, of_first=False)
    queries = sum(cell.queries for cell in cells)
    least = math.ceil(Fraction(low) * queries)
    most = math.floor(Fraction(high) * queries)
    tail = error * _PROCESS_PART / 2.0 * _LEFT_OVER
    process = Interval(
        lower_bound(least, queries, tail), upper_bound(most, queries, tail)
    )
    return Rechecked(found.measures, found.balanced, process)


@lru_cache(maxsize=64)
def label_error_bound(
    cells: tuple[Cell, ...],
    known: tuple[tuple[Drawn, int], ...],
    draws: tuple[Drawn, ...],
    confidence_level: float,
) -> float:
    """Bound the share of a set that a second label differs from, at every look.

    The arguments are those of `recheck_accuracies`.
    """
    low, _ = _share(cells, known, draws, confidence_level, of_first=True)
    return 1.0 - low


def _share(
    cells: Sequence[Cell],
    known: Sequence[tuple[Drawn, int]],
    draws: Sequence[Drawn],
    level: float,
    *,
    of_first: bool,
) -> tuple[float, float]:
    """Bound the share whose first label, or prediction, is the answer.

    UNCLEAR is an answer like any other, so that all queries of the set are counted.
    """
    agree = [Cell(0, int(one.said != one.first), one.queries) for one in cells]

    def turned(draw: Drawn) -> Drawn:
        cell = cells[draw.cell]
        claim = cell.first if of_first else cell.said
        return Drawn(draw.cell, int(draw.answer != claim))

    answers = [(turned(one), number) for one, number in known]
    found = _look(2, agree, answers, [*map(turned, draws)], level, is_balanced=False)
    return float(found.measures.low[2]), float(found.measures.high[2])


def _look(  # noqa: PLR0913 - the set, what is known of it, and how sure.
    classes: int,
    cells: Sequence[Cell],
    known: Sequence[tuple[Drawn, int]],
    draws: Sequence[Drawn],
    level: float,
    *,
    is_balanced: bool,
) -> Look:
    sizes = _whole([cell.queries for cell in cells])
    said = _whole([cell.said for cell in cells])
    first = _whole([MISSING if one.first is None else one.first for one in cells])
    bins = np.full_like(said, NO_CONFIDENCE)
    strata = Strata(classes, said, bins, sizes, first[:, np.newaxis])
    weights = _whole([_WEIGHTS[one.said != one.first] for one in cells])
    counts = np.zeros((len(cells), classes + 1), dtype=np.int64)
    for draw, number in known:
        counts[draw.cell, classes if draw.answer is None else draw.answer] += number
    drawn = _whole([draw.cell for draw in draws])
    labels = _whole([classes if one.answer is None else one.answer for one in draws])
    ledger = Ledger(strata, (), (), drawn[:0], labels[:0])
    goal = Goal(aim=classes, half_width=_HALF_WIDTH, target=None)
    start, rounds = 0, ledger.rounds
    # What a round believes follows from the answers before it, and from nothing else.
    while start < len(draws) or not start:
        ledger = Ledger(
            strata, rounds, (counts,) * len(rounds), drawn[:start], labels[:start]
        )
        following = next_round(ledger, counts, goal)
        rounds = (*rounds, replace(following, weights=weights))
        start += round_length(start)
    ledger = Ledger(strata, rounds, (counts,) * len(rounds), drawn, labels)
    wanted = None if is_balanced else (classes,)
    return look(ledger, level, wanted=wanted, is_balanced=is_balanced)


def _whole(numbers: Sequence[int]) -> Ints:
    return np.asarray(numbers, dtype=np.int64)
