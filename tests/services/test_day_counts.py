"""What was asked in a while: sums of whole days, and the queries of what is left."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any

from tests.conftest import START
from tests.services.conftest import Bench
from tracker.services.estimates.counts import count_asked
from tracker.services.estimates.stream.recount import recount
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
            input=draw.choice([None, f"i{draw.randrange(4)}"]),
        )
        if draw.random() < 0.4:
            bench.label(
                query,
                draw.choice(["YES", "NO", "UNCLEAR"]),
                sampling=draw.choice(["random", "targeted"]),
            )


def count_plainly(session: Any, bench: Bench, **span: Any) -> Counts:
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
        assert recount(session, detector) == []
