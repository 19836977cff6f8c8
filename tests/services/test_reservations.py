"""Who is given which query to label."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from tests.conftest import by
from tests.databases import get_by_id
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.services.labelling.queues import (
    RESERVED_FOR,
    QueueChoice,
    build_queue,
    reserve,
    skip,
)
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.queries.queries import Query


def ask(bench: Bench, labeler: str, *, ahead: int = 0) -> list[int]:
    """The ids of what *labeler* is given now."""

    def work(session: Session) -> list[int]:
        queries = reserve(
            session,
            build_queue(session, bench.attached(session), QueueChoice(), by("alice")),
            by(labeler, bench.clock()),
            ahead=ahead,
        )
        return [query.id for query in queries]

    return bench.database.run(work)


def set_aside(bench: Bench, labeler: str, query_id: int) -> None:
    with bench.database.write() as session:
        query = get_by_id(session, Query, query_id)
        skip(session, query, by(labeler, bench.clock()))


def count(bench: Bench, rows_of: type[Reservation | Skip]) -> int:
    with bench.database.read() as session:
        return session.scalars(select(func.count()).select_from(rows_of)).one()


def test_the_same_query_comes_until_it_is_labelled(bench: Bench) -> None:
    queries = {query.id: query for query in (bench.log("YES") for _ in range(5))}
    seen = []
    for _ in range(5):
        [first] = ask(bench, "alice")
        assert ask(bench, "alice") == [first]
        bench.label(queries[first], "YES")
        seen.append(first)
    assert sorted(seen) == sorted(queries)
    assert ask(bench, "alice") == []
    assert count(bench, Reservation) == 0


def test_what_is_reserved_is_given_to_nobody_else(bench: Bench) -> None:
    for _ in range(2):
        bench.log("YES")
    assert ask(bench, "alice") != ask(bench, "bob")
    assert ask(bench, "carol") == []


def test_a_reservation_ends_unless_it_is_renewed(bench: Bench) -> None:
    query = bench.log("YES")
    assert ask(bench, "alice") == [query.id]
    bench.clock.at += RESERVED_FOR - timedelta(seconds=1)
    assert ask(bench, "alice") == [query.id]
    bench.clock.at += RESERVED_FOR - timedelta(seconds=1)
    assert ask(bench, "bob") == []
    bench.clock.at += timedelta(seconds=1)
    assert ask(bench, "bob") == [query.id]
    assert ask(bench, "alice") == []
    assert count(bench, Reservation) == 1


def test_the_query_after_next_becomes_the_next(bench: Bench) -> None:
    queries = {query.id: query for query in (bench.log("YES") for _ in range(9))}
    first, following = ask(bench, "alice", ahead=1)
    for _ in range(7):
        assert ask(bench, "alice", ahead=1) == [first, following]
        bench.label(queries[first], "NO")
        first, (shown, following) = following, ask(bench, "alice", ahead=1)
        assert shown == first
    bench.label(queries[first], "NO")
    assert ask(bench, "alice", ahead=1) == [following]


def test_a_query_labelled_by_somebody_else_does_not_come(bench: Bench) -> None:
    first, second = bench.log("YES"), bench.log("YES")
    [given] = ask(bench, "alice")
    other = second if given == first.id else first
    bench.label(first if given == first.id else second, "YES")
    assert ask(bench, "alice") == [other.id]


def test_a_skipped_query_goes_to_others_and_comes_back_last(bench: Bench) -> None:
    queries = {query.id: query for query in (bench.log("YES") for _ in range(3))}
    order = []
    for _ in range(6):
        [given] = ask(bench, "alice")
        order.append(given)
        set_aside(bench, "alice", given)
    assert sorted(order[:3]) == sorted(queries)
    assert order[3:] == order[:3]
    # What is loaded ahead is never what was set aside.
    assert ask(bench, "alice", ahead=1) == [order[0]]
    assert len(ask(bench, "bob", ahead=1)) == 2
    for query in queries.values():
        bench.label(query, "YES")
    assert count(bench, Skip) == 0


def test_a_labelled_query_is_not_set_aside(bench: Bench) -> None:
    query = bench.log("YES", "NO")
    set_aside(bench, "alice", query.id)
    assert count(bench, Skip) == 0


def test_detectors_are_apart(bench: Bench) -> None:
    query = bench.log("YES")
    other = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    assert ask(other, "alice") == []
    assert ask(bench, "alice") == [query.id]
    assert ask(other, "alice") == []


def test_people_who_ask_at_once_never_get_the_same_query(bench: Bench) -> None:
    people, rounds = 8, 5
    queries = {query.id: query for query in (bench.log("YES") for _ in range(45))}
    gate = threading.Barrier(people)

    def work(number: int) -> list[int]:
        seen = []
        for _ in range(rounds):
            gate.wait()
            given = ask(bench, f"labeler {number}", ahead=1)
            seen.append(given[0])
            gate.wait()
            bench.label(queries[given[0]], "YES")
        return seen + given[1:]

    with ThreadPoolExecutor(people) as pool:
        seen = [query for part in pool.map(work, range(people)) for query in part]
    assert len(seen) == len(set(seen)) >= people * rounds


def test_one_labeler_who_asks_twice_at_once_gets_one_query(bench: Bench) -> None:
    for _ in range(50):
        bench.log("YES")
    gate = threading.Barrier(8)

    def work(_: int) -> list[int]:
        gate.wait()
        return ask(bench, "alice")

    with ThreadPoolExecutor(8) as pool:
        assert len({tuple(given) for given in pool.map(work, range(8))}) == 1


def fill(bench: Bench, queries: int) -> None:
    """Import so many more queries, every other one without a label."""
    rows = [
        {"predicted": "YES", "confidence": number % 97 / 97}
        | ({"label": "NO"} if number % 2 else {})
        for number in range(queries)
    ]
    with bench.database.write() as session:
        import_rows(
            session,
            bench.attached(session),
            rows,
            by("alice", bench.clock()),
            digest=f"{queries} rows",
        )


def effort(bench: Bench, session: Session, queue: str) -> int:
    """What it costs to ask, in steps of SQLite or in rows that PostgreSQL reads."""

    def ask_once() -> None:
        reserve(
            session,
            build_queue(
                session, bench.attached(session), QueueChoice(queue=queue), by("alice")
            ),
            by("alice", bench.clock()),
            ahead=1,
        )

    if bench.database.is_sqlite:
        steps: list[None] = []
        raw: Any = session.connection().connection.driver_connection
        raw.set_progress_handler(lambda: steps.append(None), 10)
        ask_once()
        raw.set_progress_handler(None, 0)
        return len(steps)
    before = rows_read(session)
    ask_once()
    return rows_read(session) - before


def rows_read(session: Session) -> int:
    """How many queries this connection has read, as PostgreSQL counts them."""
    read = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
    of_partitions = "FROM pg_stat_xact_user_tables WHERE relname LIKE 'queries%'"
    statement = text(f"{read} {of_partitions}")
    return int(session.execute(statement).scalar_one() or 0)


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["random", "targeted"])
def test_asking_costs_the_same_however_much_there_is(bench: Bench, queue: str) -> None:
    costs = []
    for queries in (1_000, 20_000):
        fill(bench, queries)
        if not bench.database.is_sqlite:
            with bench.database.write() as session:
                session.execute(text("ANALYZE"))
        for query in ask(bench, "alice", ahead=5):
            set_aside(bench, "alice", query)
        with bench.database.write() as session:
            costs.append(effort(bench, session, queue))
    assert 0 < costs[1] < 2 * costs[0] + 20
