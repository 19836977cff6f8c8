"""What was asked in a while: sums of whole days, and the queries of what is left."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any

from tests.conftest import START, by
from tests.services.conftest import Bench
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates.counted import count_part
from tracker.services.estimates.counts import count_asked
from tracker.services.estimates.recount import recount
from tracker.services.queries.where import parse_where
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.estimates.counts import count_window

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
            metadata={"camera": draw.choice(["north", "south", 1])},
            input=draw.choice([None, f"i{draw.randrange(4)}"]),
        )
        if draw.random() < 0.4:
            bench.label(
                query,
                draw.choice(["YES", "NO", "UNCLEAR"]),
                sampling=draw.choice(["random", "targeted"]),
            )


def log_around(bench: Bench, recompute: Callable[[], None], *, seed: int) -> None:
    """Queries and labels of which some are folded and the others wait."""
    draw = random.Random(seed)
    log_some(bench, draw, number=30)
    recompute()
    log_some(bench, draw, number=10)


def count_plainly(session: Any, bench: Bench, **span: Any) -> Counts:
    return pool(count_window(session, bench.detector.id, **span).values())


def test_what_was_asked_in_a_while_is_what_a_plain_count_finds(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    log_around(bench, recompute, seed=5)
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
            assert asked.cells == found.cells, span
        assert recount(session, detector) == []


def test_a_midnight_that_clocks_pass_twice_parts_no_day(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    """At 00:01 of 7 November clocks went back to 23:01 of the day before."""
    with bench.database.write() as session:
        bench.attached(session).time_zone = "America/St_Johns"
    for hour in (-12, 2.75, 12):
        asked = datetime(2010, 11, 7, tzinfo=UTC) + timedelta(hours=hour)
        bench.log("YES", "NO", asked_at=asked.isoformat())
    recompute()
    with bench.database.read() as session:
        detector = bench.attached(session)
        versions = list_versions(session, detector.id)
        for hours in (2.5, 2.7, 3.7, 6):
            moment = datetime(2010, 11, 7, tzinfo=UTC) + timedelta(hours=hours)
            for span in (
                {"since": moment, "until": None},
                {"since": None, "until": moment},
            ):
                asked = count_asked(session, detector, versions, **span)
                assert asked.cells == count_plainly(session, bench, **span).cells


# Each with whether counts that are kept tell it, beside a span and alone.
PARTS: tuple[tuple[tuple[str, ...], bool, bool], ...] = (
    ((), True, True),
    (("predicted:YES",), True, True),
    (("predicted:YES", "predicted:NO"), True, True),
    (("version:v1",), True, True),
    (("version:v1", "version:v2", "predicted:NO"), True, True),
    (("asked_at:2026-02-01..2026-02-03",), True, True),
    (("asked_at:2026-01-31T07:00:00Z..", "predicted:NO"), True, True),
    (("metadata.camera:north",), False, True),
    (("metadata.camera:1", "predicted:NO", "version:v2"), False, True),
    (("metadata.camera:nobody",), False, True),
    (("metadata.camera:north", "asked_at:..2026-02-02"), False, False),
    (("metadata.camera:north", "metadata.camera:south"), False, False),
    (("metadata.site:a",), False, False),
    (("group:g",), False, False),
    (("confidence:0.5..",), False, False),
)


def test_what_is_kept_counts_any_part_as_the_queries_do(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    with bench.database.write() as session:
        change = DetectorChange(slices=["camera"])
        change_detector(session, bench.attached(session), change, by())
    log_around(bench, recompute, seed=6)
    with bench.database.read() as session:
        detector = bench.attached(session)
        versions = list_versions(session, detector.id)
        for texts, is_kept_in_span, is_kept in PARTS:
            where = parse_where(session, detector, texts, at=START)
            for since, until in ((None, None), (MOMENTS[2], MOMENTS[7])):
                filters = {"since": since, "until": until, "where": where}
                found = count_part(session, detector, versions, filters)
                assert (found is not None) == (is_kept_in_span if since else is_kept)
                if found is not None:
                    plain = count_plainly(session, bench, **filters)
                    assert found.cells == plain.cells, (texts, since)
