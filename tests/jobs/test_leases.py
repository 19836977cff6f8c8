"""Workers share out detectors, take over from one that died, let failing ones be."""

import os
import socket
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from tests.conftest import START, Clock
from tests.jobs.test_recompute import make_detectors, sequences
from tests.services.folds import compute_fold
from tracker.cli.setup import is_alive
from tracker.jobs.recompute import Recomputer, recompute_detector
from tracker.services.estimates.stream.fold import StaleFoldError, store_folds
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.operations.job_runs import (
    Heartbeat,
    beat,
    find_last_heartbeat,
    list_job_runs,
)
from tracker.storage.operations.leases import (
    LEASE_SECONDS,
    Lease,
    find_failure,
    release_dead,
    release_leases,
    renew_leases,
    take_leases,
)

AFTER_A_LEASE = START + timedelta(seconds=LEASE_SECONDS + 0.001)


def take(database: Database, worker: str, at: datetime = START, **more: bool) -> set:
    with database.write() as session:
        return set(take_leases(session, worker, at=at, **more))


def test_what_one_worker_has_taken_up_no_other_gets(database: Database) -> None:
    make_detectors(database, 10, 1)
    taken = [take(database, f"w{number}") for number in range(12)]

    assert set.union(*taken) == set(range(1, 11))
    assert sum(map(len, taken)) == 10
    # Each takes a part, the longest waiting first, and leaves something to the next.
    assert taken[:3] == [{1, 2, 3}, {4, 5}, {6, 7}]


def test_workers_that_take_at_once_all_get_something(database: Database) -> None:
    make_detectors(database, 40, 1)
    barrier = threading.Barrier(4)
    taken: list[set[int]] = []

    def work(name: str) -> None:
        barrier.wait()
        taken.append(take(database, name))

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(len, taken), reverse=True) == [10, 8, 6, 4]
    assert len(set.union(*taken)) == 28


def test_what_a_dead_worker_of_this_machine_held_is_free_at_once(
    database: Database,
) -> None:
    make_detectors(database, 8, 1)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = socket.gethostname()
    names = [f"{here}-{ended.pid}.2", f"{here}-{os.getpid()}", f"{here}.other-1"]
    dead, alive, elsewhere = (take(database, name) for name in names)
    assert min(map(len, (dead, alive, elsewhere))) > 0

    with database.write() as session:
        release_dead(session, is_alive, at=START)

    free = take(database, "next") | take(database, "last")
    assert dead <= free
    assert not free & (alive | elsewhere)


def test_another_takes_over_from_one_that_died_and_a_late_write_is_refused(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    assert take(database, "paused") == {1}
    with database.read() as session:
        late = compute_fold(session, session.get_one(Detector, 1))
    assert late is not None
    other = Recomputer(database, "other", clock)

    assert other.run() == []
    clock.at = AFTER_A_LEASE
    assert [done.labels for done in other.run()] == [5]

    with pytest.raises(StaleFoldError), database.write() as session:
        store_folds(session, [late], worker="paused", computed_at=clock(), seconds=60.0)
    assert sequences(database) == {"d0": [1, 2, 3, 4, 5]}


def test_a_worker_that_lives_keeps_what_it_has_taken_up(database: Database) -> None:
    make_detectors(database, 1, 1)
    assert take(database, "slow") == {1}
    with database.write() as session:
        renew_leases(session, "slow", at=START + timedelta(seconds=3))

    assert take(database, "other", AFTER_A_LEASE) == set()
    with database.write() as session:
        release_leases(session, "slow", at=AFTER_A_LEASE)
    assert take(database, "other", AFTER_A_LEASE) == {1}


@pytest.mark.thorough
def test_leases_are_renewed_while_the_job_runs(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 1)
    recomputer = Recomputer(database, "slow", clock)
    with recomputer._renewing():
        assert take(database, "slow") == {1}
        clock.at = AFTER_A_LEASE
        for _ in range(200):
            with database.read() as session:
                if session.get_one(Lease, 1).since >= AFTER_A_LEASE:
                    break
            threading.Event().wait(0.05)
        assert take(database, "other", AFTER_A_LEASE) == set()
        with database.read() as session:
            seen_at = find_last_heartbeat(session)
            assert seen_at is not None
            assert seen_at >= AFTER_A_LEASE


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)])
def test_a_lease_from_before_the_clock_was_set_back_is_none(
    database: Database, back: timedelta
) -> None:
    make_detectors(database, 1, 1)
    assert take(database, "died") == {1}

    assert take(database, "other", START - timedelta(seconds=4)) == set()
    assert take(database, "other", START - back) == {1}


def test_a_detector_that_fails_rests_longer_each_time(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 1, 5)
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["only one"]
    rests = []
    for number in range(11):
        # Another process each time, as where one dies of it.
        Recomputer(database, f"w{number}", clock).run()
        with database.read() as session:
            failure = find_failure(session, 1)
            assert failure is not None
            assert failure.failures == number + 1
            rests.append((failure.until - failure.since).total_seconds())
        clock.at = failure.until

    assert rests == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    with database.read() as session:
        assert len(list_job_runs(session, 1, limit=20)) == 11


def test_by_force_a_resting_detector_is_tried_at_once_and_then_forgotten(
    database: Database, clock: Clock
) -> None:
    make_detectors(database, 2, 5)
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["only one"]
    recomputer = Recomputer(database, "w", clock)
    assert [done.detector_id for done in recomputer.run()] == [2]
    with database.write() as session:
        session.get_one(Detector, 1).classes = ["YES", "NO"]

    assert recomputer.run() == []
    assert [done.detector_id for done in recomputer.run(is_forced=True)] == [1]
    with database.read() as session:
        assert session.query(Lease).all() == []


def test_a_recompute_by_hand_needs_no_lease(database: Database, clock: Clock) -> None:
    make_detectors(database, 1, 5)
    assert take(database, "slow") == {1}

    done = recompute_detector(database, 1, worker="web", clock=clock)

    assert done is not None
    assert done.labels == 5
    with database.read() as session:
        assert session.query(Lease).all() == []


def test_a_worker_that_was_not_seen_for_a_day_is_forgotten(database: Database) -> None:
    day = timedelta(days=1)
    for worker, seen_at in (("old", START), ("new", START + day)):
        with database.write() as session:
            beat(session, worker, seen_at=seen_at)
    with database.write() as session:
        beat(session, "newest", seen_at=START + day + timedelta(seconds=1))
        left = session.scalars(select(Heartbeat.worker).order_by(Heartbeat.worker))
        assert left.all() == ["new", "newest"]
