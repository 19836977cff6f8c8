"""Foresee how many labels an audit takes, by carrying it out on made-up labels."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..arguments import Floats
from .learning import AS_SAID, fitted, next_round
from .ledger import Goal, Ledger, Step, empty_ledger
from .looks import Standing, look_at_aim
from .rounds import UNIT, expected_counts, label_chances
from .strata import Ints, Strata

# Beyond so many draws, fewer of many classes, a forecast follows the usual law.
_MOST_WORK, _LEAST_DRAWS = 4000, 120
# One such audit alone may be lucky, and more so one that draws at random; of many
# classes each takes long.
_RUNS_UP_TO = {3: (5, 9), 20: (3, 3)}
# Longer rounds than those of an audit are far quicker, and hardly change its course.
_SHORTEST_ROUND, _LONGEST_ROUND, _ROUND_PART = 48, 800, 3


class Forecast(NamedTuple):
    """About how many labels reach a goal, drawn by an audit and at random."""

    labels: int
    at_random: int


def most_draws(classes: int) -> int:
    """Return how many draws are carried out at most for a forecast."""
    return max(_LEAST_DRAWS, _MOST_WORK // classes)


def foresee(strata: Strata, known: Ints, goal: Goal, level: float) -> Forecast:
    """Return how many labels to expect if confidences are worth what they say.

    Labels that are known correct that; a forecast is no promise, and another seed
    would give a somewhat different one.
    """
    runs = _runs(strata)
    chosen = foresee_labels(strata, known, goal, level, runs=runs[0])
    even = foresee_labels(strata, known, goal, level, is_even=True, runs=runs[1])
    return Forecast(chosen, even)


def foresee_labels(  # noqa: PLR0913 - a set, what is asked of it, and how well.
    strata: Strata,
    known: Ints,
    goal: Goal,
    level: float,
    *,
    is_even: bool = False,
    runs: int = 1,
) -> int:
    """Return the labels of one way to draw: the median of so many made-up audits.

    A target counts as decided once the half-width is the distance of the expected
    accuracy from it.  When a single audit crosses it varies by a factor of two or more.
    Where an interval so narrow is there before and has not decided, because it lies far
    from what is expected, the target counts as decided once the interval excludes it.
    """
    wrong, rows = fitted(strata, known, AS_SAID)
    chances = wrong[:, None] * rows
    chances[strata.own] = 1.0 - wrong[strata.own[0]]
    shares = _with_known(strata, known, chances)
    units = np.rint(shares[:, :-1] * UNIT).astype(np.int64)
    right, of = (strata.sizes @ one for one in expected_counts(strata, units))
    accuracies = right / np.maximum(1, of)
    mean = accuracies[:-1].mean() if goal.aim is None else accuracies[goal.aim]
    expected = float(mean)
    wanted = goal.wanted(expected)
    if goal.target is not None:
        # With few labels the interval ends at 0 or 1.  It then excludes the target once
        # its half-width is half the distance from that end to the target.
        beyond = 1.0 - goal.target if expected > goal.target else goal.target
        wanted = min(wanted, beyond / 2.0)
    asked, goal = goal, Goal(goal.aim, wanted, None)
    start = next(imagine(strata, shares, known, goal, level))
    if goal.is_reached(start) and not asked.is_reached(start):
        goal = asked
    left = int(strata.sizes.sum() - known.sum())
    found = []
    for seed in range(runs):
        imagined = strata, shares, known, goal, level
        stop = goal.is_reached
        course = imagine(*imagined, is_even=is_even, stop=stop, seed=seed)
        before, last = (None, *course)[-2:]
        assert last is not None
        found.append(_reached_between(before, last, goal, left))
    return int(np.median(found))


def imagine_average(  # noqa: PLR0913 - a set, what is asked of it, and how it is drawn.
    strata: Strata,
    shares: Floats,
    known: Ints,
    goal: Goal,
    level: float,
    *,
    is_even: bool,
    draws: int,
) -> list[Step]:
    """Return the means of the bounds of some audits that never were; see `imagine`.

    Short ones vary more and take less time, so that more of them are carried out.
    """
    runs, _ = _runs(strata)
    asked = strata, shares, known, goal, level
    end = min(draws, most_draws(strata.classes))
    courses = [
        list(imagine(*asked, is_even=is_even, draws=end, seed=seed))
        for seed in range(runs * max(1, min(4, 800 // max(1, draws))))
    ]
    # The rounds of all begin alike, for their lengths depend on the draws alone.
    means = np.mean(np.array(courses), axis=0)
    return [Step(round(float(n)), float(low), float(high)) for n, low, high in means]


def _runs(strata: Strata) -> tuple[int, int]:
    fitting = (runs for most, runs in _RUNS_UP_TO.items() if strata.classes <= most)
    return next(fitting, (1, 1))


def _reached_between(before: Step | None, last: Step, goal: Goal, total: int) -> int:
    if before is None or not before.labels or not goal.is_reached(last):
        return labels_needed(last, goal, total)
    # Within the last round, whose squared half-width went with 1 / labels.
    was, now, wanted = (
        one**2 for one in (before.half_width, last.half_width, _wanted(goal, before))
    )
    share = min(1.0, (was - wanted) / max(was - now, 1e-12))
    inverse = 1.0 / before.labels
    return math.ceil(1.0 / (inverse - share * (inverse - 1.0 / last.labels)))


def labels_needed(step: Step, goal: Goal, total: int) -> int:
    """Return at how many labels of *total* the goal is reached, seen from *step*.

    The square of the half-width goes with 1 / labels - 1 / total: nothing is unknown
    once all is labelled.
    """
    if goal.is_reached(step) or step.labels >= total:
        return step.labels
    grown = 1.0 / total
    if step.labels:
        share = (_wanted(goal, step) / step.half_width) ** 2
        grown += min(1.0, share) * (1.0 / step.labels - 1.0 / total)
    return min(total, max(step.labels + 1, math.ceil(1.0 / grown)))


def label_shares(ledger: Ledger, known: Ints, goal: Goal) -> Floats:
    """Return how often each label is expected in each stratum, unclear last.

    Labels that are there count as they are, the others as the model has learnt.
    """
    strata = ledger.strata
    latest = next_round(ledger, known, goal)
    chances = label_chances(strata, latest.wrong, latest.rows) / UNIT
    return _with_known(strata, ledger.count_labels(known), chances)


def _with_known(strata: Strata, counts: Ints, chances: Floats) -> Floats:
    rest = np.maximum(0.0, 1.0 - chances.sum(axis=1))
    left = (strata.sizes - counts.sum(axis=1))[:, None]
    expected = counts + left * np.column_stack([chances, rest])
    return np.asarray(expected / strata.sizes[:, None])


def without_judges(
    strata: Strata, shares: Floats, known: Ints
) -> tuple[Strata, Floats, Ints]:
    """Return strata by prediction and confidence alone, and the same of *shares*."""
    pairs, index = np.unique(
        np.column_stack([strata.predicted, strata.bins]), axis=0, return_inverse=True
    )
    together = np.equal(index.ravel(), np.arange(len(pairs))[:, None]).astype(np.int64)
    sizes = together @ strata.sizes
    none = strata.verdicts[: len(pairs), :0]
    merged = Strata(strata.classes, pairs[:, 0], pairs[:, 1], sizes, none)
    expected = together @ (strata.sizes[:, None] * shares)
    return merged, np.asarray(expected / sizes[:, None]), together @ known


def imagine(  # noqa: PLR0913 - a set, what is asked of it, and how it is drawn.
    strata: Strata,
    shares: Floats,
    known: Ints,
    goal: Goal,
    level: float,
    *,
    is_even: bool = False,
    stop: Callable[[Step], bool] | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Iterator[Step]:
    """Yield what stands at the starts of the rounds of an audit that never was.

    Labels come with the chances *shares* (strata, classes + 1), and if *is_even*
    every query that is left is as likely to be drawn as any other.  It ends at the
    first step that is enough for *stop*, or after so many draws.
    """
    rng = np.random.default_rng(seed)
    aim, left = goal.aim, strata.sizes - known.sum(axis=1)
    end = min(int(left.sum()), most_draws(strata.classes) if draws is None else draws)
    marks = np.cumsum(shares, axis=1)
    ledger = empty_ledger(strata)
    standings: tuple[Standing, ...] = ()
    drawn: list[int] = []
    labels: list[int] = []
    while True:
        following = next_round(ledger, known, goal, is_even=is_even)
        rounds, there = (*ledger.rounds, following), (*ledger.known, known)
        ledger = replace(ledger, rounds=rounds, known=there)
        found = look_at_aim(ledger, level, aim, standings=standings)
        standings = found.standings
        step = Step(len(drawn), *found.aimed(aim))
        yield step
        if len(drawn) >= end or (stop is not None and stop(step)):
            return
        length = min(_LONGEST_ROUND, max(_SHORTEST_ROUND, len(drawn) // _ROUND_PART))
        for _ in range(min(length, end - len(drawn))):
            masses = np.cumsum(left * following.weights)
            stratum = int(masses.searchsorted(rng.integers(masses[-1]), side="right"))
            label = int(marks[stratum].searchsorted(rng.random(), side="right"))
            left[stratum] -= 1
            drawn.append(stratum)
            labels.append(min(label, strata.classes))
        ledger = replace(ledger, drawn=np.array(drawn), labels=np.array(labels))


def _wanted(goal: Goal, step: Step) -> float:
    return goal.wanted((step.low + step.high) / 2.0)
