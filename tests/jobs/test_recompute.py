"""The job over many detectors, by many workers, with one that fails."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine

from tests.conftest import START, Clock, by
from tests.processes import wait_until
from tracker.jobs.recompute import Recomputer, utc_now
from tracker.jobs.scheduler import run_worker
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.stream.recount import recount
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.estimates.pending import list_pending_detectors
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.storage.operations.job_runs import find_last_heartbeat, list_job_runs
from tracker.storage.operations.leases import count_failing


def make_detectors(database: Database, number: int, labels: int) -> None:
    with database.write() as session:
        for index in range(number):
            new = NewDetector(name=f"d{index}", question="Closed?")
            detector = create_detector(session, new, by(at=START))
            for label in range(labels):
                query = NewQuery(predicted="YES", label=("YES", "NO")[label % 2])
                log_query(session, detector, query, by("a", START))


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
            Recomputer(database, name, clock).run()
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
    first = Recomputer(database, "w", clock).run()
    # Not even by another worker, or by this one after a restart.
    second = Recomputer(database, "other", clock).run()

    assert [done.detector_id for done in first] == [broken_id + 1, broken_id + 2]
    assert second == []
    with database.read() as session:
        runs = list_job_runs(session, broken_id, limit=10)
        assert [run.outcome for run in runs] == ["failed"]
        assert runs[0].error


def test_a_repaired_detector_is_brought_up_to_date_by_another_worker(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    with database.write() as session:
        list_detectors(session)[0].classes = ["only one"]
    Recomputer(database, "w", clock).run()
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["YES", "NO"]
    other = Recomputer(database, "other", clock)

    assert other.run() == []
    clock.at += timedelta(seconds=10)
    other.run()

    assert sequences(database) == {"d0": [1, 2, 3, 4, 5]}
    with database.read() as session:
        assert count_failing(session) == 0


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
    stop = threading.Event()
    thread = threading.Thread(
        target=run_worker,
        args=(Recomputer(database, "w"),),
        kwargs={"every_seconds": 0.1, "stop": stop},
    )
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
        stop.set()
        thread.join(10)


def test_the_worker_runs_until_it_is_stopped_and_says_that_it_is_alive(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 3)
    stop = threading.Event()
    thread = threading.Thread(
        target=run_worker,
        args=(Recomputer(database, "w", clock),),
        kwargs={"every_seconds": 0.1, "stop": stop},
    )
    thread.start()
    for _ in range(100):
        if sequences(database)["d0"] == [1, 2, 3]:
            break
        stop.wait(0.1)
    stop.set()
    thread.join(10)

    assert not thread.is_alive()
    assert sequences(database) == {"d0": [1, 2, 3]}
    with database.read() as session:
        assert find_last_heartbeat(session) is not None
