"""The job over many detectors, by many workers, with one that fails."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest
import time_machine
from sqlalchemy import select, text

from tests.conftest import START, Clock, by
from tests.processes import wait_until
from tests.services.folds import compute_fold
from tracker.clock import utc_now
from tracker.jobs.loop import Loop, Watch
from tracker.jobs.recompute import Recompute, recompute_all
from tracker.jobs.scheduler import run_worker
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.fold import StaleFoldError, store_folds
from tracker.services.estimates.recount import recount
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.dialect import lacks_statistics
from tracker.storage.estimates.job_runs import (
    Heartbeat,
    JobRun,
    beat,
    find_last_heartbeat,
)
from tracker.storage.estimates.pending import (
    list_pending_detectors,
    plan_recomputes,
)
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.storage.tasks import (
    RECOMPUTE,
    Task,
    count_failing,
    find_failures,
    take,
)

# As a worker takes detectors.
SHARED = {"limit": 64, "share": 4}


def make_detectors(database: Database, number: int, labels: int) -> None:
    with database.write() as session:
        for index in range(number):
            new = NewDetector(name=f"d{index}", question="Closed?")
            detector = create_detector(session, new, by(at=START))
            for label in range(labels):
                query = NewQuery(predicted="YES", label=("YES", "NO")[label % 2])
                log_query(session, detector, query, by("a", START))


def working(
    database: Database, worker: str, clock: Callable[[], datetime] = utc_now
) -> Loop:
    """A worker that recomputes."""
    handler = Recompute(database=database, worker=worker, clock=clock)
    return Loop(database, worker, [handler], clock)


def sequences(database: Database) -> dict[str, list[int]]:
    with database.read() as session:
        return {
            detector.name: [
                row.sequence
                for version in list_versions(session, detector.id)
                for row in iter_intervals(session, [version])
                if row.position == 0 and row.method == "exact"
            ]
            for detector in list_detectors(session)
        }


def test_postgresql_knows_how_long_a_history_is_once_it_is_long(database) -> None:
    if database.is_sqlite:
        return
    with database.write() as session:
        # As before the first snapshot.
        session.execute(
            text("UPDATE pg_class SET reltuples = -1 WHERE relname = 'snapshots'")
        )
    make_detectors(database, 1, 120)
    recompute_all(database, worker="w")
    with database.read() as session:
        assert not lacks_statistics(session, "snapshots")


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_workers_at_once_store_each_snapshot_once(
    database: Database, clock: Clock, workers: int
) -> None:
    make_detectors(database, 6, 20)
    barrier = threading.Barrier(workers)
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            barrier.wait()
            working(database, name, clock).run()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion.
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert sequences(database) == {f"d{i}": list(range(1, 21)) for i in range(6)}
    with database.read() as session:
        assert list_pending_detectors(session) == []
        for detector in list_detectors(session):
            assert recount(session, detector) == []


def test_a_detector_that_fails_is_set_aside_and_the_others_go_on(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 3, 5)
    with database.write() as session:
        broken = list_detectors(session)[0]
        broken_id = broken.id
        # The program cannot do this; a hand in the database can.
        broken.classes = ["only one"]
    assert working(database, "w", clock).run() == 2
    # Not even by another worker, or by this one after a restart.
    assert working(database, "other", clock).run() == 0
    with database.read() as session:
        runs = list(session.scalars(select(JobRun).filter_by(detector_id=broken_id)))
        assert [run.outcome for run in runs] == ["failed"]
        assert runs[0].error


def test_a_repaired_detector_is_brought_up_to_date_by_another_worker(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    with database.write() as session:
        list_detectors(session)[0].classes = ["only one"]
    working(database, "w", clock).run()
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["YES", "NO"]
    other = working(database, "other", clock)

    assert other.run() == 0
    clock.at += timedelta(seconds=11)
    assert other.run() == 1

    assert sequences(database) == {"d0": [1, 2, 3, 4, 5]}
    with database.read() as session:
        assert count_failing(session, RECOMPUTE) == 0


def test_history_stays_in_order_when_the_clock_is_set_back(
    database: Database, clock: Clock, recompute: Callable[[], None]
) -> None:
    make_detectors(database, 1, 3)
    recompute()
    clock.at = START - timedelta(days=1)
    with database.write() as session:
        detector = list_detectors(session)[0]
        query = NewQuery(predicted="YES", label="YES")
        log_query(session, detector, query, by("a", clock()))
    recompute()

    assert sequences(database) == {"d0": [1, 2, 3, 4]}


@pytest.mark.thorough
@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)])
def test_the_worker_goes_on_when_the_clock_is_set_back(
    database: Database, back: timedelta
) -> None:
    make_detectors(database, 1, 3)
    loop = working(database, "w")
    thread = threading.Thread(target=run_worker, args=(loop,))
    thread.start()
    try:
        wait_until(lambda: sequences(database)["d0"] == [1, 2, 3])
        with time_machine.travel(utc_now() - back, tick=True):
            with database.write() as session:
                detector = list_detectors(session)[0]
                query = NewQuery(predicted="YES", label="YES")
                now = utc_now()
                log_query(session, detector, query, by("a", now))
            wait_until(lambda: sequences(database)["d0"] == [1, 2, 3, 4])
    finally:
        loop.stop.set()
        thread.join(10)


def test_the_worker_runs_until_it_is_stopped_and_says_that_it_is_alive(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 3)
    loop = working(database, "w", clock)
    thread = threading.Thread(target=run_worker, args=(loop,))
    thread.start()
    for _ in range(100):
        if sequences(database)["d0"] == [1, 2, 3]:
            break
        loop.stop.wait(0.1)
    loop.stop.set()
    thread.join(10)

    assert not thread.is_alive()
    assert sequences(database) == {"d0": [1, 2, 3]}
    with database.read() as session:
        assert find_last_heartbeat(session) is not None


def test_another_takes_over_from_one_that_died_and_a_late_write_is_refused(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    with database.write() as session:
        plan_recomputes(session, at=clock())
        assert take(session, RECOMPUTE, "paused", at=clock())
    with database.read() as session:
        late = compute_fold(session, session.get_one(Detector, 1))
    assert late is not None
    other = working(database, "other", clock)

    assert other.run() == 0
    clock.at += timedelta(seconds=6)
    assert other.run() == 1

    with pytest.raises(StaleFoldError), database.write() as session:
        store_folds(session, [late], worker="paused", computed_at=clock(), seconds=60.0)
    assert sequences(database) == {"d0": [1, 2, 3, 4, 5]}


def test_a_detector_that_fails_rests_longer_each_time(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["only one"]
    rests = []
    for number in range(11):
        # Another process each time, as where one dies of it.
        working(database, f"w{number}", clock).run()
        with database.read() as session:
            failure = find_failures(session, RECOMPUTE, [1])[1]
            assert failure.attempts == number + 1
            rests.append((failure.due_at - clock.at).total_seconds())
        clock.at = failure.due_at

    wanted = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    for rest, least in zip(rests, wanted, strict=True):
        assert least - 1 <= rest <= 1.1 * least
    with database.read() as session:
        assert len(session.scalars(select(JobRun.id)).all()) == 11


def test_by_hand_a_detector_that_rests_or_is_held_is_done_at_once(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 3, 5)
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["only one"]
        plan_recomputes(session, at=clock())
        [held] = take(session, RECOMPUTE, "slow", at=clock(), limit=1)
    assert held.key == "1"
    by_hand = recompute_all(database, worker="hand", clock=clock)
    assert [done.detector_id for done in by_hand] == [2, 3]
    with database.write() as session:
        assert list(find_failures(session, RECOMPUTE, [1, 2, 3])) == [1]
        session.get_one(Detector, 1).classes = ["YES", "NO"]

    assert working(database, "w", clock).run() == 0
    by_hand = recompute_all(database, worker="hand", clock=clock)
    assert [done.detector_id for done in by_hand] == [1]
    with database.read() as session:
        assert session.query(Task).all() == []


def test_detectors_are_taken_longest_waiting_first_and_shared(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 10, 1)
    with database.write() as session:
        plan_recomputes(session, at=clock())
        plan_recomputes(session, at=clock())
        taken = [
            [task.key for task in take(session, RECOMPUTE, w, at=clock(), **SHARED)]
            for w in ("a", "b", "c")
        ]
    assert taken == [["1", "2", "3"], ["4", "5"], ["6", "7"]]


def test_a_worker_that_was_not_seen_for_a_day_is_forgotten(database: Database) -> None:
    day = timedelta(days=1)
    for worker, seen_at in (("old", START), ("new", START + day)):
        with database.write() as session:
            beat(session, worker, seen_at=seen_at)
    with database.write() as session:
        beat(session, "newest", seen_at=START + day + timedelta(seconds=1))
        left = session.scalars(select(Heartbeat.worker).order_by(Heartbeat.worker))
        assert left.all() == ["new", "newest"]


def test_a_large_fold_holds_up_no_other_detector(database: Database) -> None:
    make_detectors(database, 3, 1)
    is_held, go_on = threading.Event(), threading.Event()

    class Held(Recompute):
        def work(self, tasks: Sequence[Task], watch: Watch) -> int:
            if "1" in [task.key for task in tasks]:
                is_held.set()
                assert go_on.wait(60)
            return super().work(tasks, watch)

    loop = Loop(database, "w", [Held(database=database, worker="w")])
    thread = threading.Thread(target=run_worker, args=(loop,))

    def waiting() -> list[int]:
        with database.read() as session:
            return list(list_pending_detectors(session))

    thread.start()
    try:
        assert is_held.wait(60)
        wait_until(lambda: waiting() == [1])
        go_on.set()
        wait_until(lambda: not waiting())
    finally:
        go_on.set()
        loop.stop.set()
        thread.join(60)
    assert not thread.is_alive()
