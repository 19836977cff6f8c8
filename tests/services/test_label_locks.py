"""Who labels waits for who changes the query, or the truth of its input."""

import threading

import pytest
from sqlalchemy import select, text

from tests.conftest import Clock, by
from tests.databases import get_by_id
from tests.processes import wait_until
from tests.services.conftest import Bench
from tracker.services.evidence.truths import join_input
from tracker.storage.database import Database
from tracker.storage.labelling.inputs import lock_groups, lock_inputs
from tracker.storage.queries.queries import Query

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def bench(database: Database, clock: Clock) -> Bench:
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    return Bench(database, clock, ["YES", "NO"])


def label_waits(bench: Bench, query: Query) -> threading.Thread:
    """Label a query by another thread, which waits until the caller commits."""
    worker = threading.Thread(target=bench.label, args=(query, "NO"))

    def is_waiting() -> bool:
        with bench.database.read() as session:
            return session.scalars(_WAITING).one() == 1

    worker.start()
    wait_until(lambda: not worker.is_alive() or is_waiting())
    assert worker.is_alive()
    assert label_of(bench, query) is None
    return worker


def label_of(bench: Bench, query: Query) -> str | None:
    with bench.database.read() as session:
        return get_by_id(session, Query, query.id).label


def test_the_truth_of_an_input_is_changed_by_one_at_a_time(bench: Bench) -> None:
    query, other = bench.log("YES", input="a"), bench.log("YES")
    with bench.database.write() as session:
        lock_inputs(session, bench.detector.id, ["a"])
        # It shares nothing with the input.
        bench.label(other, "NO")
        worker = label_waits(bench, query)
    worker.join()
    assert (label_of(bench, query), label_of(bench, other)) == ("NO", "NO")


def test_the_unit_of_a_group_is_chosen_by_one_at_a_time(bench: Bench) -> None:
    query, other = bench.log("YES", group="a"), bench.log("YES", group="b")
    with bench.database.write() as session:
        lock_groups(session, bench.detector.id, ["a"])
        # It shares nothing with the group.
        bench.label(other, "NO")
        worker = label_waits(bench, query)
    worker.join()
    assert (label_of(bench, query), label_of(bench, other)) == ("NO", "NO")


def test_of_those_who_label_a_group_at_once_one_chooses_its_unit(bench: Bench) -> None:
    frames = [bench.log("YES", group="a", input=f"x{n}") for n in range(8)]
    workers = [
        threading.Thread(target=bench.label, args=(frame, "YES")) for frame in frames
    ]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    with bench.database.read() as session:
        found = session.scalars(select(Query.standing)).all()
    assert sorted(map(str, found)) == ["grouped"] * 7 + ["unstated"]


def test_a_label_reaches_the_input_that_its_query_was_given_meanwhile(
    bench: Bench,
) -> None:
    query, same = bench.log("YES"), bench.log("YES", input="a", version="v2")
    with bench.database.write() as session:
        held = get_by_id(session, Query, query.id)
        join_input(session, bench.attached(session), held, "a", by())
        worker = label_waits(bench, query)
    worker.join()
    assert (label_of(bench, query), label_of(bench, same)) == ("NO", "NO")
