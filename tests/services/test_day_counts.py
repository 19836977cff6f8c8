"""What was asked in a while: sums of whole days, and the queries of what is left."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any

import pytest

from tests.conftest import START
from tests.services.conftest import Bench
from tracker.services.estimates import counts
from tracker.services.estimates.counts import (
    compare_with_recount,
    count_asked,
    pool,
)
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.counts import VersionCounts, count_window
from tracker.storage.estimates.days import DayCounts, store_days
from tracker.storage.operations import schema

FIRST = START.replace(hour=0, minute=0, second=0, microsecond=0)
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
MOMENTS = (
    None,
    FIRST,
    FIRST + timedelta(hours=7),
    FIRST + timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999),
    FIRST + timedelta(days=1),
    FIRST + timedelta(days=2, hours=12),
    FIRST + timedelta(days=3),
    FIRST + timedelta(days=4, microseconds=1),
    LAST_DAY,
    LAST_DAY + timedelta(hours=12),
)


def log_some(bench: Bench, draw: random.Random, *, number: int) -> None:
    """Queries of five days and the last one of the calendar, and their corrections."""
    days = [*(FIRST + timedelta(days=day) for day in range(5)), LAST_DAY]
    for _ in range(number):
        asked = draw.choice(days) + draw.choice(
            [timedelta(), timedelta(hours=draw.randrange(24), microseconds=1)]
        )
        query = bench.log(
            draw.choice(["YES", "NO"]),
            draw.choice(["YES", "NO", "UNCLEAR", None]),
            sampling=draw.choice(["random", "targeted", "unstated"]),
            asked_at=asked.isoformat(),
            version=draw.choice(["v1", "v2"]),
            input=draw.choice([None, f"i{draw.randrange(4)}"]),
        )
        if draw.random() < 0.4:
            bench.label(
                query,
                draw.choice(["YES", "NO", "UNCLEAR"]),
                sampling=draw.choice(["random", "targeted"]),
            )


def count_plainly(session: Any, bench: Bench, **span: Any) -> VersionCounts:
    return pool(count_window(session, bench.detector.id, **span).values())


def test_what_was_asked_in_a_while_is_what_a_plain_count_finds(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(5)
    log_some(bench, draw, number=30)
    recompute()
    log_some(bench, draw, number=10)
    with bench.database.read() as session:
        detector = bench.attached(session)
        versions = list_versions(session, detector.id)
        for since, until in [
            *combinations_with_replacement(MOMENTS[1:], 2),
            *((None, until) for until in MOMENTS),
            *((since, None) for since in MOMENTS),
        ]:
            span = {"since": since, "until": until}
            asked = count_asked(session, detector, versions, **span)
            found = count_plainly(session, bench, **span)
            assert (asked.cells, asked.unstated, asked.repeats) == (
                *(found.cells, found.unstated, found.repeats),
            ), span
        assert compare_with_recount(session, detector) == []


def test_an_old_database_is_counted_by_day_when_it_is_upgraded(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(6)
    log_some(bench, draw, number=25)
    recompute()
    kept = list_days(bench)
    # These wait for the job before the upgrade and after it.
    log_some(bench, draw, number=10)
    schema.downgrade(bench.database, "0043")
    schema.upgrade(bench.database)

    assert list_days(bench) == kept
    recompute()
    with bench.database.read() as session:
        assert compare_with_recount(session, bench.attached(session)) == []


def list_days(bench: Bench) -> list[Any]:
    """What was counted of each day of each version, without what comes to nothing."""
    with bench.database.read() as session:
        rows = session.query(DayCounts).order_by(DayCounts.version_id, DayCounts.day)
        found = [
            (
                *(row.version_id, row.day, row.unstated, row.repeats),
                {
                    (label, predicted): pair
                    for label, of_label in row.cells.items()
                    for predicted, pair in of_label.items()
                    if pair != [0, 0]
                },
            )
            for row in rows
        ]
    return [row for row in found if row[-1] or row[2] or row[3]]


def test_whole_days_are_not_counted_again(
    bench: Bench, recompute: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.log_all(
        {"predicted": "YES", "label": "YES", "asked_at": asked.isoformat()}
        for asked in (FIRST + timedelta(hours=hour) for hour in range(72))
    )
    recompute()
    spans: list[tuple[datetime | None, datetime | None]] = []

    def note(*given: Any, since: Any, until: Any) -> dict[int, VersionCounts]:
        spans.append((since, until))
        return count_window(*given, since=since, until=until)

    monkeypatch.setattr(counts, "count_window", note)
    morning, noon = FIRST + timedelta(hours=6), FIRST + timedelta(days=2, hours=12)
    assert bench.estimate(since=morning, until=noon).labels == 54
    assert spans == [
        (morning, FIRST + timedelta(days=1)),
        (FIRST + timedelta(days=2), noon),
    ]
    spans.clear()
    assert bench.estimate(since=FIRST).labels == 72
    assert spans == []


def test_a_recount_sees_a_day_that_is_counted_wrongly(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    # What is right of the targeted label hides nothing of the other one.
    for sampling in ("unstated", "targeted"):
        bench.log("YES", "YES", asked_at=FIRST.isoformat(), sampling=sampling)
    recompute()
    with bench.database.write() as session:
        row = session.query(DayCounts).one()
        cells = {"YES": {"YES": [2, 1]}}
        kept = {"version_id": row.version_id, "day": row.day, "unstated": 3}
        store_days(session, [{**kept, "cells": cells, "repeats": 0}])
    with bench.database.read() as session:
        found = compare_with_recount(session, bench.attached(session))
    assert [(one.what, one.running, one.recounted) for one in found] == [
        ("label YES, predicted YES, by day", 2, 1),
        ("labels of unstated sampling, by day", 3, 1),
    ]
