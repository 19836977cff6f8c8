"""Queries that were never labelled are deleted by age, and nothing else is."""

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.conftest import Clock, by
from tests.databases import get_by_id
from tests.jobs.unlabelled import (
    DAYS,
    age,
    ask,
    count,
    numbers,
    retention_of,
    run,
    there,
)
from tests.processes import wait_until
from tests.services.conftest import Bench
from tracker.errors import NotFoundError
from tracker.jobs.loop import Loop
from tracker.jobs.recompute import recompute_all
from tracker.jobs.retention import (
    ANSWERED_WITHIN,
    Retention,
    delete_old_queries,
    delete_records,
)
from tracker.services.estimates.query_lists import count_shown
from tracker.services.estimates.recount import recount
from tracker.services.evidence.populations import compared_standings
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.labelling.queues import RESERVED_FOR, skip
from tracker.storage.database import Database
from tracker.storage.deciding.comparison import count_pairs
from tracker.storage.detectors import Version, list_versions
from tracker.storage.estimates.job_runs import JobRun
from tracker.storage.labelling.inputs import set_inputs
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label
from tracker.storage.operations.retention import (
    delete_disposable,
    lock_disposable,
)
from tracker.storage.queries.queries import Query

Recompute = Callable[[], None]


@pytest.fixture
def bench(database: Database, clock: Clock) -> Bench:
    return Bench(database, clock, ["YES", "NO"])


def test_only_old_queries_without_a_label_go(
    bench: Bench, recompute: Recompute
) -> None:
    old = [bench.log("YES", "NO"), bench.log("NO", "UNCLEAR")]
    late = bench.log("NO")
    for _ in range(5):
        bench.log("YES")
    age(bench)
    young = [bench.log("YES"), bench.log("NO", "NO")]
    bench.label(late, "NO", sampling="targeted")
    recompute()
    before = numbers(bench)

    assert run(bench) == 5
    assert there(bench) == {query.id for query in [*old, late, *young]}
    assert run(bench) == 0
    recompute()
    assert numbers(bench) == before
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_what_the_job_has_not_counted_is_kept_until_it_has(
    bench: Bench, recompute: Recompute
) -> None:
    bench.log("YES")
    age(bench)

    assert run(bench) == 0
    recompute()
    assert run(bench) == 1
    with bench.database.read() as session:
        assert [v.queries for v in list_versions(session, bench.detector.id)] == [1]


def test_what_a_labeler_was_given_is_kept_for_a_day_after(
    bench: Bench, recompute: Recompute
) -> None:
    queries = [bench.log("YES") for _ in range(3)]
    recompute()
    age(bench)
    given = ask(bench, "alice")

    assert run(bench) == 2
    assert there(bench) == {given}
    age(bench, RESERVED_FOR + ANSWERED_WITHIN - timedelta(seconds=1))
    assert run(bench) == 0
    # Who was away for so long may still answer.
    bench.label(next(query for query in queries if query.id == given), "YES")
    age(bench)
    assert run(bench) == 0


def test_reservations_and_skips_go_with_their_query(
    bench: Bench, recompute: Recompute
) -> None:
    for _ in range(2):
        bench.log("YES")
    recompute()
    ask(bench, "alice")
    skipped = ask(bench, "bob")
    with bench.database.write() as session:
        query = get_by_id(session, Query, skipped)
        skip(session, query, by("bob", bench.clock()))
    age(bench)

    assert run(bench) == 2
    assert count(bench, Reservation) == count(bench, Skip) == 0


def test_versions_are_compared_by_the_same_pairs_as_before(
    bench: Bench, recompute: Recompute
) -> None:
    bench.log("YES", "YES", version="v1", input="a")
    pair = bench.log("NO", version="v2", input="a")
    bench.log("YES", version="v1", input="b")
    bench.log("NO", version="v2", input="b")
    other = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    other.log("YES", "YES", input="b")
    recompute()
    age(bench)

    def pairs() -> object:
        with bench.database.read() as session:
            old, new = list_versions(session, bench.detector.id)
            ids = {"old_id": old.id, "new_id": new.id}
            live = compared_standings("random")
            return count_pairs(session, bench.detector.id, **ids, standings=live)

    before = pairs()
    assert before
    assert run(bench) == 2
    assert pairs() == before
    assert pair.id in there(bench)


def test_a_key_is_free_again(bench: Bench, recompute: Recompute) -> None:
    old = bench.log("YES", key="frame 1")
    recompute()
    age(bench)
    assert run(bench) == 1
    new = bench.log("NO", "NO", key="frame 1")

    assert there(bench) == {new.id}
    assert new.id > old.id


@pytest.mark.slow
def test_a_run_is_bounded_and_the_next_goes_on_behind_what_is_kept(
    bench: Bench, recompute: Recompute
) -> None:
    bench.log("YES", "YES", input="a")
    kept = [bench.log("NO") for _ in range(20)]
    # As they were stored before a query took over the label of its input.
    rows = [
        {"id": one.id, "input": "a", "is_repeat": False, "is_pooled": True}
        for one in kept
    ]
    with bench.database.write() as session:
        set_inputs(session, bench.detector.id, rows)
    for _ in range(5):
        bench.log("YES")
    recompute()
    age(bench)
    retention = Retention(
        database=bench.database, days=DAYS, clock=bench.clock, piece=1
    )

    # The first run is stopped after twenty pieces, and all of these are needed.
    pauses = itertools.count(1)
    assert retention.run(lambda _: next(pauses) == 20) == 0
    assert retention.run(lambda _: next(pauses) == 40) == 5
    assert [retention.run() for _ in range(2)] == [0, 0]
    # Unless it is stopped, a run goes on until nothing is left.
    assert next(pauses) < 40
    assert {query.id for query in kept} < there(bench)


def test_queries_of_a_detector_go_while_those_of_another_are_locked(
    bench: Bench, recompute: Recompute
) -> None:
    bench.log("YES")
    gate = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    gate.log("YES")
    recompute()
    age(bench)
    gone: list[int] = []
    worker = threading.Thread(target=lambda: gone.append(run(bench)))
    with bench.database.write() as session:
        session.scalars(
            select(Version)
            .where(Version.detector_id == gate.detector.id)
            .with_for_update()
        ).all()
        worker.start()
        if not bench.database.is_sqlite:
            # The first transaction ends while the second one waits.
            wait_until(lambda: len(there(bench)) == 1)
            assert gone == []
    worker.join()

    assert gone == [2]


@pytest.mark.parametrize("what", ["label", "reservation"])
def test_a_query_that_gets_something_after_it_was_found_stays(
    bench: Bench, recompute: Recompute, what: str
) -> None:
    queries = {query.id: query for query in (bench.log("YES") for _ in range(4))}
    recompute()
    age(bench)
    if what == "label":
        kept = next(iter(queries))
        bench.label(queries[kept], "YES")
    else:
        kept = ask(bench, "alice")
    with bench.database.write() as session:
        own = bench.detector.id, [*queries]
        assert delete_old_queries(session, *own, deleted_at=bench.clock()) == 3

    assert there(bench) == {kept}
    bench.log("YES")
    with bench.database.read() as session:
        assert count_shown(session, bench.detector.id) == 2


def test_what_is_being_labelled_is_neither_deleted_nor_waited_for(
    bench: Bench, recompute: Recompute
) -> None:
    query, other = bench.log("YES"), bench.log("YES")
    recompute()
    age(bench)
    gone: list[int] = []
    worker = threading.Thread(target=lambda: gone.append(run(bench)))
    with bench.database.write() as session:
        add_label(
            session,
            query.id,
            NewLabel(label="NO"),
            by("bob", bench.clock()),
        )
        worker.start()
        if not bench.database.is_sqlite:
            # There everybody waits, because it has one writer at a time.
            wait_until(lambda: gone == [1])
    worker.join()

    assert gone == [1]
    assert there(bench) == {query.id}
    assert other.id != query.id


def label_if_there(bench: Bench, query: Query, labeler: str) -> bool:
    """Label a query as a request does; False if there is no such query any more."""

    def give(session: Session) -> None:
        add_label(
            session,
            query.id,
            NewLabel(label="NO"),
            by(labeler, bench.clock()),
        )

    try:
        bench.database.run(give)
    except NotFoundError:
        return False
    return True


def test_who_comes_while_a_query_is_being_deleted_waits_and_does_not_find_it(
    bench: Bench, recompute: Recompute
) -> None:
    old = [bench.log("YES") for _ in range(5)]
    recompute()
    age(bench)
    young = bench.log("YES")
    long_ago = bench.clock() - ANSWERED_WITHIN
    chosen = bench.detector.id, [query.id for query in old]
    with ThreadPoolExecutor(2) as pool:
        with bench.database.write() as session:
            locked = lock_disposable(session, *chosen, reserved_until=long_ago)
            labelling = pool.submit(label_if_there, bench, old[0], "bob")
            asking = pool.submit(ask, bench, "alice")
            deleted = delete_disposable(
                session, bench.detector.id, locked, reserved_until=long_ago
            )

        assert deleted == len(old)
        assert labelling.result() is False
        assert asking.result() == young.id
    assert there(bench) == {young.id}


@pytest.mark.slow
def test_labelers_who_race_the_worker_lose_no_label(
    bench: Bench, recompute: Recompute
) -> None:
    queries = [bench.log("YES") for _ in range(300)]
    recompute()
    age(bench)
    gate = threading.Barrier(5)

    def label(number: int) -> set[int]:
        mine = queries[number::3]
        random.Random(number).shuffle(mine)
        gate.wait()
        name = f"labeler {number}"
        return {query.id for query in mine if label_if_there(bench, query, name)}

    def delete() -> int:
        gate.wait()
        retention = Retention(
            database=bench.database, days=DAYS, clock=bench.clock, piece=7
        )
        return sum(retention.run() for _ in range(4))

    with ThreadPoolExecutor(5) as pool:
        deleting = [pool.submit(delete) for _ in range(2)]
        labelling = [pool.submit(label, number) for number in range(3)]
        labelled = set().union(*(one.result() for one in labelling))
        deleted = sum(one.result() for one in deleting)
    recompute()

    assert labelled
    assert deleted
    assert there(bench) == labelled
    assert len(labelled) + deleted == len(queries)
    with bench.database.read() as session:
        assert set(session.scalars(select(Label.query_id))) == labelled
        assert recount(session, bench.attached(session)) == []
        assert [v.queries for v in list_versions(session, bench.detector.id)] == [300]


def test_the_worker_does_it(bench: Bench) -> None:
    bench.log("YES")
    kept = bench.log("YES", "NO")
    recompute_all(bench.database, worker="w", clock=bench.clock)
    age(bench)
    keeper = retention_of(bench)
    loop = Loop(bench.database, "w", [keeper], bench.clock)
    loop.enqueue("retention")
    assert loop.run() == 1
    assert there(bench) == {kept.id}


def test_old_records_of_work_go_and_those_of_snapshots_stay(bench: Bench) -> None:
    bench.log("YES", "NO")
    recompute_all(bench.database, worker="w", clock=bench.clock)
    bench.log("YES")
    recompute_all(bench.database, worker="w", clock=bench.clock)

    def runs() -> list[int]:
        with bench.database.read() as session:
            statement = select(JobRun.snapshots).order_by(JobRun.id)
            return list(session.scalars(statement))

    assert runs() == [1, 0]
    for days, left in ((29, [1, 0]), (2, [1])):
        bench.clock.at += timedelta(days=days)
        with bench.database.write() as session:
            delete_records(session, bench.clock())
        assert runs() == left
