"""Which version answers most of the queries that are new to a detector."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tracker.services.versions import Traffic
from tracker.storage.detectors import Detector
from tracker.storage.estimates.weeks import HourCount

START = datetime(2026, 3, 1, tzinfo=UTC)


def hour(number):
    return (START + timedelta(hours=number)).strftime("%Y-%m-%d %H")


def counted(*rows):
    return [HourCount(1, version, hour(at), new, new) for at, version, new in rows]


def follow(*pieces):
    traffic = Traffic()
    for piece in pieces:
        traffic.take(counted(*piece))
        traffic = Traffic.load(Detector(**traffic.dump()))
    return traffic


def test_a_version_takes_over_with_more_than_half_of_the_last_24_hours():
    before = [(at, 1, 10) for at in range(24)]
    after = [(at, 2, 10) for at in range(24, 36)]
    assert follow(before, after).version_id == 1
    found = follow(before, [*after, (36, 2, 10)])
    # Of the hours 13 to 36 it has 13 of 24.
    assert (found.version_id, found.since) == (2, START + timedelta(hours=36))


def test_hours_without_a_query_are_in_no_window():
    found = follow([(0, 1, 5)], [(1_000, 2, 1)])
    assert (found.version_id, found.since) == (2, START + timedelta(hours=1_000))


def test_what_comes_late_counts_in_its_hour_and_never_before_the_window():
    started = follow([(at, 1, 10) for at in range(50)])
    started.take(counted((20, 2, 10_000)))
    assert started.version_id == 1
    started.take(counted((30, 2, 10_000)))
    assert started.version_id == 2


def test_of_equal_first_ones_the_newest_is_shown_and_nobody_took_over():
    found = follow([(0, 1, 5), (0, 2, 5)])
    assert (found.version_id, found.since) == (2, None)
    found.take(counted((0, 1, 0)))
    assert found.version_id == 2


@pytest.mark.parametrize("seed", range(20))
def test_it_does_not_matter_in_which_pieces_the_hours_come(seed):
    chance = random.Random(seed)
    rows = [
        (at, chance.choice([1, 2, 2 + at // 60]), chance.randrange(1, 50))
        for at in range(150)
    ]
    cuts = sorted(chance.sample(range(1, 150), 5))
    pieces = [
        rows[start:end] for start, end in zip([0, *cuts], [*cuts, 150], strict=True)
    ]
    assert follow(*pieces) == follow(rows)
    assert len(follow(rows).hours) <= 24
