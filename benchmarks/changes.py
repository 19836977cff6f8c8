"""How soon a change of the accuracy is proved by the calendar, and what it costs.

A detector gets so many labels a day and is looked at on each day.  Its accuracy is
steady at first and then changes; the tables say how many days pass until the change is
found, and until the verdict since it is right.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt

from tracker.services.estimates import calendar
from tracker.services.estimates.calendar import Terms
from tracker.services.estimates.intervals import bound_all
from tracker.stats import (
    AccuracyChange,
    anytime,
    balanced_anytime,
    find_changes,
    level_since,
)
from tracker.words import BALANCED, RANDOM

BIRTH = 739_000
LEVEL = 0.95
MOST_DAYS = 240
FALLS = ((0.98, 0.6), (0.95, 0.8), (0.95, 0.85), (0.9, 0.8), (0.98, 0.95), (0.95, 0.9))
# Days and the accuracy in them, one span after the other; the target is 90 %.
LIVES = (
    ("98 -> 60", ((80, 0.98), (40, 0.6))),
    ("95 -> 85", ((120, 0.95), (120, 0.85))),
    ("98 -> 93", ((120, 0.98), (200, 0.93))),
    ("95/85/95/85", ((90, 0.95), (90, 0.85)) * 2),
    ("97, two weeks 80, 97", ((120, 0.97), (14, 0.8), (120, 0.97))),
)
TARGET = 0.9
ENGINES = (
    ("2 even classes, 95 -> 85", (0.5, 0.5), (0.85, 0.85)),
    ("90 and 10 %, 95 -> 85", (0.9, 0.1), (0.85, 0.85)),
    ("90 and 10 %, the rare one 95 -> 75", (0.9, 0.1), (0.95, 0.75)),
    ("5 even classes, 95 -> 85", (0.2,) * 5, (0.85,) * 5),
    ("5 even classes, one 95 -> 70", (0.2,) * 5, (0.95,) * 4 + (0.7,)),
)

Counts = npt.NDArray[np.int64]


def changes(
    right: Counts,
    counted: Counts,
    level: float = LEVEL,
    reference: float | None = None,
) -> tuple[AccuracyChange, ...]:
    """Return the changes of one number, (D,), or of a mean over classes, (D, K)."""
    several = right.ndim == 2
    k, n = (right, counted) if several else (right[:, None], counted[:, None])
    return find_changes(
        BIRTH + np.arange(len(k)),
        (k, n),
        (k, n) if several else None,
        birth=BIRTH,
        confidence_level=level,
        shares=n.sum(axis=0) + 1 if several else None,
        reference=reference,
    )


def days_until_found(
    right: Counts, counted: Counts, before: int, reference: float | None = None
) -> int:
    """Return after how many days with the new accuracy a fall is found."""
    for day in range(before + 1, len(right) + 1):
        found = changes(right[:day], counted[:day], reference=reference)
        if any(change.direction == "dropped" for change in found):
            return day - before
    return len(right)


def delays(
    before: int,
    daily: int,
    fall: tuple[float, float],
    runs: int,
    reference: float | None = None,
) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(7)
    accuracy = np.repeat(fall, (before, MOST_DAYS))
    counted = np.full(len(accuracy), daily)
    return np.array(
        [
            days_until_found(
                rng.binomial(counted, accuracy), counted, before, reference
            )
            for _ in range(runs)
        ]
    )


def shown(found: npt.NDArray[np.int64]) -> str:
    """Return the median in days, and within how many 9 of 10 are found."""
    is_found = found <= MOST_DAYS
    if is_found.mean() < 0.5:
        return f"({is_found.mean():.0%})"
    late = f"[{np.quantile(found, 0.9):.0f}]"
    if is_found.mean() < 0.9:
        late = f"({is_found.mean():.0%})"
    return f"{np.median(found):.0f} {late}"


def table_of_delays(runs: int, rates: Sequence[int]) -> Iterator[str]:
    heads = "".join(f"{f'{rate} a day':>24}" for rate in rates)
    yield f"{'':12}{heads}"
    for fall in FALLS:
        cells = ""
        for rate in rates:
            pair = (shown(delays(days, rate, fall, runs)) for days in (30, 120))
            cells += f"{' / '.join(pair):>24}"
        yield f"{fall[0]:>6.0%}{fall[1]:>5.0%} {cells}"


def table_of_references(runs: int) -> Iterator[str]:
    for before in (10, 30, 120):
        pair = (shown(delays(before, 30, (0.95, 0.9), runs, at)) for at in (None, 0.93))
        yield f"{before:>4} days before{' / '.join(pair):>24}"


def table_of_classes(runs: int) -> Iterator[str]:
    for name, shares, after in ENGINES:
        rng, found = np.random.default_rng(8), []
        accuracy = np.repeat([[0.95] * len(shares), after], (120, 120), axis=0)
        for _ in range(runs):
            counted = rng.poisson(30 * np.array(shares), accuracy.shape)
            right = rng.binomial(counted, accuracy)
            found.append(days_until_found(right, counted, 120))
        yield f"{name:38}{np.median(found):>6.1f}{np.quantile(found, 0.9):>8.0f}"


def verdict_since(right: Counts, counted: Counts, start: int | None) -> str:
    day = 0 if start is None else start - BIRTH
    level = level_since(LEVEL, start, BIRTH)
    low, high = anytime(right[day:].sum(), counted[day:].sum(), level)
    return "met" if low >= TARGET else "missed" if high < TARGET else "undecided"


def table_of_verdicts(runs: int) -> Iterator[str]:
    yield f"{'':24}{'change found':>14}{'right verdict':>16}{'false, ever':>13}"
    for name, spans in LIVES:
        rng, found, decided, false = np.random.default_rng(9), [], [], 0
        accuracy = np.concatenate([np.full(days, p) for days, p in spans])
        last = len(accuracy) - spans[-1][0]
        counted = np.full(len(accuracy), 30)
        wanted = "met" if spans[-1][1] > TARGET else "missed"
        direction = "rose" if spans[-1][1] > spans[-2][1] else "dropped"
        for _ in range(runs):
            right = rng.binomial(counted, accuracy)
            first = rightly = 10**6
            is_false = False
            for day in range(last - 20, len(accuracy) + 1):
                cuts = changes(right[:day], counted[:day])
                start = cuts[-1].since if cuts else None
                verdict = verdict_since(right[:day], counted[:day], start)
                since = 0 if start is None else start - BIRTH
                average = accuracy[since:day].mean()
                is_false |= verdict == ("missed" if average >= TARGET else "met")
                near = since > last - 15 and cuts[-1].direction == direction
                first = min(first, day - last) if near else first
                if near and verdict == wanted:
                    rightly = day - last
                    break
            found.append(first)
            decided.append(rightly)
            false += is_false
        cells = (
            f"{np.median(x):.0f} [{np.quantile(x, 0.9):.0f}]" for x in (found, decided)
        )
        yield f"{name:24}{next(cells):>14}{next(cells):>16}{false:>9} of {runs}"


def table_of_null(runs: int) -> Iterator[str]:
    rng = np.random.default_rng(10)
    for name, accuracy in (
        ("steady 90 %", np.full(365, 0.9)),
        ("90 to 98 % slowly", np.linspace(0.9, 0.98, 365)),
    ):
        counted = np.full(365, 30)
        false = sum(
            any(
                change.direction == "dropped" or name.startswith("steady")
                for day in range(7, 366, 7)
                for change in changes(right[:day], counted[:day], 0.5)
            )
            for right in (rng.binomial(counted, accuracy) for _ in range(runs))
        )
        yield f"{name:24}{false:>6} of {runs} (25 % a direction are allowed)"


def share_of_a_fold(right: Counts, counted: Counts) -> Callable[[], object]:
    """Return what a fold computes of the calendar of a version with these counts.

    The interval of the same counts is kept, so its time is not in it.
    """
    names = [f"class {place}" for place in range(right.shape[1])]
    beside = dict(zip(names, names[1:] + names[:1], strict=True))
    days = {
        date.fromordinal(BIRTH + day): {
            RANDOM: {
                name: {name: int(k), beside[name]: int(n - k)}
                for name, k, n in zip(names, *pair, strict=True)
            }
        }
        for day, pair in enumerate(zip(right, counted, strict=True))
    }
    terms = Terms(tuple(names), BALANCED, 1, LEVEL, RANDOM, None, "UTC")
    shares = tuple((counted.sum(axis=0) + 1.0).tolist())
    begun = terms, date.fromordinal(BIRTH), {}, days, shares

    def compute() -> None:
        calendar._prove.cache_clear()
        one = calendar.Calendar(*begun)
        [one.interval] = bound_all([one.find_claim()])
        one.dump(datetime.now(UTC))

    return compute


def milliseconds(work: Callable[[], object], repeats: int = 15) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1e3


def table_of_costs() -> Iterator[str]:
    for classes, days in ((2, 365), (10, 1000)):
        rng = np.random.default_rng(3)
        shares = rng.dirichlet(np.full(classes, 3.0))
        counted = rng.poisson(30 * shares, (days, classes))
        is_late = np.arange(days)[:, None] >= days * 3 // 4
        is_first = np.arange(classes) == 0
        for name, accuracy in (
            ("steady", np.full((days, classes), 0.95)),
            ("all classes 95 -> 85", np.where(is_late, 0.85, 0.95) * np.ones(classes)),
            ("one class 95 -> 80", np.where(is_late & is_first, 0.8, 0.95)),
        ):
            right = rng.binomial(counted, accuracy)
            took = milliseconds(lambda: changes(right, counted))  # noqa: B023
            fold = milliseconds(share_of_a_fold(right, counted))
            row = f"{classes} classes x {days} days, {name}"
            yield f"{row:48}{took:>8.1f}{fold:>8.1f}"
        k, n = right.sum(axis=0), counted.sum(axis=0)
        took = milliseconds(lambda: balanced_anytime(k, n, 0.99, shares=n))  # noqa: B023
        yield f"{'  an interval of its counts':48}{took:>8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    runs = 10 if arguments.quick else arguments.runs
    rates = (30,) if arguments.quick else (10, 30, 100)
    tables = (
        (
            "Days until a fall is found, 30 / 120 days after the first label: "
            f"median [9 of 10], or the part found within {MOST_DAYS} days",
            table_of_delays(runs, rates),
        ),
        (
            "The same with classes, 30 labels a day, 120 days before: median, 9 of 10",
            table_of_classes(runs),
        ),
        (
            "Days since the last change, target 90 %, 30 labels a day",
            table_of_verdicts(runs),
        ),
        (
            "95 to 90 %, 30 labels a day, without a reference and with 93 %",
            table_of_references(runs),
        ),
        (
            "Lives without a fall, a year, level 50 %: false changes",
            table_of_null(2 * runs),
        ),
        (
            "Processor time in ms: the changes alone, and all of a fold's share",
            table_of_costs(),
        ),
    )
    for title, rows in tables:
        print(title, flush=True)
        for row in rows:
            print(row, flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
