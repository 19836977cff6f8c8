"""How many labels were given today."""

from datetime import timedelta

import pytest

from tests.conftest import by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.services.labelling.labels import Today, count_today
from tracker.storage.labels import MOST_LOOKED_AT


def today(bench: Bench) -> Today:
    with bench.database.read() as session:
        detector = bench.attached(session)
        return count_today(session, detector, labeler="bob", at=bench.clock())


def test_labels_are_counted_since_midnight_for_one_and_for_all(bench: Bench) -> None:
    gate = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    assert today(bench) == Today(0, 0)
    query = bench.log("YES", "NO")
    bench.label(query, "YES")
    bench.label(query, "UNCLEAR")
    gate.label(gate.log("YES"), "NO")
    assert today(bench) == Today(2, 3)
    assert today(gate) == Today(1, 1)
    bench.clock.at = bench.clock.at.replace(hour=23, minute=59)
    assert today(bench).by_all == 3
    bench.clock.at += timedelta(minutes=2)
    assert today(bench) == Today(0, 0)


def test_the_pace_is_of_the_last_minutes_and_of_no_import(bench: Bench) -> None:
    bench.label(bench.log("YES"), "NO")
    bench.clock.at += timedelta(minutes=30)
    for _ in range(12):
        bench.label(bench.log("YES"), "NO")
        bench.clock.at += timedelta(seconds=10)
    assert today(bench).a_minute == 6
    bench.clock.at += timedelta(minutes=6)
    assert today(bench).a_minute == 0
    rows = [{"predicted": "YES", "label": "NO"}] * 1_000
    with bench.database.write() as session:
        detector, now = bench.attached(session), bench.clock()
        import_rows(session, detector, rows, by("bob", now), digest="x")
    bench.clock.at += timedelta(minutes=2)
    assert today(bench).a_minute == 0


def test_any_number_of_others_hides_no_label(bench: Bench) -> None:
    bench.label(bench.log("YES"), "NO")
    gate = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    rows = [{"predicted": "YES", "label": "NO"}] * 2_500
    with bench.database.write() as session:
        detector, now = gate.attached(session), bench.clock()
        import_rows(session, detector, rows, by("bob", now), digest="x")
    assert today(bench) == Today(1, 1)
    assert today(gate) == Today(2_500, 2_500)


@pytest.mark.slow
def test_where_not_all_are_looked_at_it_is_so_many_at_least(bench: Bench) -> None:
    bench.label(bench.log("YES"), "NO")
    gate = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    number = MOST_LOOKED_AT - 2
    rows = [{"predicted": "YES", "label": "NO"}] * number
    with bench.database.write() as session:
        detector, now = gate.attached(session), bench.clock()
        import_rows(session, detector, rows, by("bob", now), digest="x")
    gate.label(gate.log("YES"), "NO")
    assert today(gate).by_all == number + 1
    for _ in range(2):
        gate.label(gate.log("YES"), "NO")
        assert today(gate) == Today(MOST_LOOKED_AT, MOST_LOOKED_AT, is_all=False)
    # However many another detector was given.
    assert today(bench) == Today(1, 1)


def test_a_request_that_came_before_midnight_may_draw_its_ids_later(
    bench: Bench,
) -> None:
    midnight = bench.clock.at.replace(hour=0) + timedelta(days=1)
    for seconds in (-3, 4, -2, 5, -1):
        bench.clock.at = midnight + timedelta(seconds=seconds)
        bench.log("YES", "NO")
    bench.clock.at = midnight + timedelta(seconds=6)
    assert today(bench) == Today(0, 2)
