"""The history along the days on which queries were asked."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from itertools import groupby
from typing import Any

import pytest

from tests.services.conftest import Bench
from tests.services.test_calendar import START, rows_of
from tests.services.test_day_counts import log_some
from tracker.services.estimates.history import HistoryRow, iter_history
from tracker.services.estimates.measures import add_measure
from tracker.storage.estimates.cells import day_in, midnight_in
from tracker.words import MEASURES


def history(bench: Bench, **chosen: Any) -> list[HistoryRow]:
    with bench.database.read() as session:
        rows = iter_history(
            session, bench.attached(session), **{"by": "asked_at", **chosen}
        )
        return [row for _, row in rows]


def days_of(rows: list[HistoryRow]) -> list[date]:
    asked = [row.asked_at for row in rows]
    return [at.date() for at, _ in groupby(asked) if at is not None]


@pytest.mark.parametrize("is_folded", [False, True])
def test_each_day_says_what_the_queries_asked_until_then_say(
    bench: Bench, recompute: Callable[[], None], is_folded: bool
) -> None:
    log_some(bench, random.Random(5), number=90)
    if is_folded:
        recompute()
    rows = history(bench, version="v1")
    assert [row.scope for row in rows[:3]] == ["balanced", "YES", "NO"]
    assert len(days_of(rows)) == len(rows) / 3 > 3
    zone = bench.detector.zone
    for whole, *classes in (rows[at : at + 3] for at in range(0, len(rows), 3)):
        day = day_in(whole.asked_at, zone)
        until = {}
        if day.year < 9999:
            until = {"until": midnight_in(day + timedelta(days=1), zone)}
        found = bench.estimate(version="v1", population="live", **until)
        assert whole.labels == found.labels
        assert (whole.low, whole.high) == (found.balanced.low, found.balanced.high)
        for row, one in zip(classes, found.classes, strict=True):
            assert (row.correct, row.labelled) == (one.correct, one.labelled)
            assert (row.low, row.high) == (one.low, one.high)
            assert row.population == "live"


def test_the_order_of_labels_changes_nothing(
    bench_of: Callable[[str], Bench], recompute: Callable[[], None]
) -> None:
    rows = rows_of([(12, 0.9, 6), (6, 0.5, 6)])
    found = []
    for name, order in (("first", rows), ("last", rows[::-1])):
        bench = bench_of(name)
        bench.log_all(order)
        recompute()
        told = history(bench, method="*")
        assert {row.method for row in told} == {"exact", "joint", "anytime"}
        fields = {"computed_at", "detector"}
        stored = [one for one in told if one.method != "anytime"]
        found.append([one.model_dump(exclude=fields) for one in stored])
        assert days_of(told) == [START + timedelta(days=day) for day in range(18)]
    assert found[0] == found[1]


@pytest.mark.parametrize("measure", MEASURES)
def test_the_last_day_agrees_with_the_estimate(
    bench: Bench, recompute: Callable[[], None], measure: str
) -> None:
    bench.log_all(rows_of([(9, 0.8, 14)]))
    recompute()
    for method in ("exact", "anytime", "wilson"):
        rows = history(bench, measure=measure, method=method)
        estimate = bench.estimate(method=method, span="all")
        found = add_measure(estimate, measure)
        whole = {
            "recall": found.balanced,
            "overall": found.overall,
            "precision": found.precision and found.precision.macro,
            "f1": found.f1 and found.f1.macro,
        }[measure]
        row = rows[-1 if measure == "overall" else -3]
        assert row.scope == {"recall": "balanced", "overall": "overall"}.get(
            measure, "macro"
        )
        assert (row.low, row.high) == (whole.low, whole.high)
        assert (row.measure, row.method) == (measure, method)


def test_a_part_of_the_days_is_that_of_all(bench: Bench) -> None:
    bench.log_all(rows_of([(9, 0.8, 4)]))
    whole = history(bench)
    zone = bench.detector.zone
    ends = [midnight_in(START + timedelta(days=day), zone) for day in (3, 6)]
    some = history(bench, since=ends[0], until=ends[1])
    assert some == whole[9:18]
    with bench.database.read() as session:
        placed = list(iter_history(session, bench.attached(session), by="asked_at"))
        place, _ = placed[11]
        rest = iter_history(
            session, bench.attached(session), by="asked_at", after=place
        )
        assert list(rest) == placed[12:]


def test_labels_count_as_they_were_known(bench: Bench) -> None:
    rows = rows_of([(4, 0.75, 4)])
    bench.log_all(rows[8:])
    known = history(bench)
    then = bench.clock()
    bench.log_all(rows[:8])
    assert len(history(bench)) == 2 * len(known)
    assert history(bench, known_at=then) == known
