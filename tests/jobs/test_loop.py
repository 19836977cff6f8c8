"""Workers share tasks out, take over from one that died, and try again what failed."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from tests.conftest import START, Clock
from tests.processes import wait_until
from tracker.cli.setup import is_alive
from tracker.errors import UnavailableError
from tracker.jobs.loop import Handler, Loop, Watch
from tracker.services.tasks import POLICIES, Policy, rest_seconds, retry
from tracker.storage.database import Database
from tracker.storage.estimates.job_runs import beat
from tracker.storage.tasks import (
    ADDRESS,
    HOLD_SECONDS,
    LostTaskError,
    Task,
    advance,
    delete_ended,
    enqueue,
    find_task,
    finish,
    hold,
    let_go,
    release_dead,
    renew,
    take,
)

AFTER_A_HOLD = START + timedelta(seconds=HOLD_SECONDS + 0.001)
KIND = "test"


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        POLICIES,
        KIND,
        Policy(10.0, 2.0, 3600.0, most_attempts=3, at_once=4, at_once_in_lane=2),
    )


def add(database: Database, *keys: str, lane: str = "", at: datetime = START) -> None:
    with database.write() as session:
        for key in keys:
            enqueue(session, KIND, key, due_at=at, lane=lane)


def taken(database: Database, worker: str, at: datetime = START, **more: int) -> set:
    with database.write() as session:
        return {task.key for task in take(session, KIND, worker, at=at, **more)}


def rows(database: Database) -> list[Task]:
    with database.read() as session:
        return list(session.scalars(select(Task).order_by(Task.id)))


class Doing(Handler):
    """Finishes its tasks, but for those of which it raises something."""

    kind = KIND

    def __init__(self, database: Database, *lanes: str) -> None:
        super().__init__(database=database)
        self.open_lanes = lanes or ("",)
        self.done: list[str] = []
        self.raises: dict[str, Exception] = {}
        self.given_up: list[str] = []
        self.unplanned: list[str] = []

    def lanes(self, session: Session, at: datetime) -> Collection[str]:
        return self.open_lanes

    def has_unplanned(self, session: Session, at: datetime) -> bool:
        return bool(self.unplanned)

    def plan(self, session: Session, at: datetime) -> None:
        while self.unplanned:
            enqueue(session, KIND, self.unplanned.pop(), due_at=at)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        for task in tasks:
            if task.key in self.raises:
                raise self.raises[task.key]
            with self.database.write() as session:
                finish(session, hold(session, task))
            self.done.append(task.key)
        return len(tasks)

    def give_up(self, session: Session, task: Task, error: str, at: datetime) -> None:
        self.given_up.append(f"{task.key}: {error}")


def test_what_one_worker_has_taken_no_other_gets(database: Database) -> None:
    add(database, *"abcdefghij")
    found = [taken(database, f"w{n}", limit=64, share=4) for n in range(12)]

    assert set.union(*found) == set("abcdefghij")
    assert sum(map(len, found)) == 10
    # Each takes a part, the longest waiting first, and leaves something to the next.
    assert found[:3] == [{"a", "b", "c"}, {"d", "e"}, {"f", "g"}]


def test_workers_that_take_at_once_get_each_task_once(database: Database) -> None:
    add(database, *map(str, range(40)))
    barrier = threading.Barrier(4)
    found: list[set[str]] = []

    def work(name: str) -> None:
        barrier.wait()
        found.append(taken(database, name, limit=5))

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(map(len, found)) == len(set.union(*found)) == 20


def test_of_a_kind_and_key_one_task_is_open(database: Database) -> None:
    add(database, "a", "a", "b")
    assert [task.key for task in rows(database)] == ["a", "b"]
    with database.write() as session:
        [task] = take(session, KIND, "w", at=START)
        let_go(session, task, error="no", ended_at=START)
    add(database, "a")
    assert [task.key for task in rows(database)] == ["a", "b", "a"]


def test_what_replaces_a_task_takes_it_from_its_worker(database: Database) -> None:
    add(database, "a")
    with database.write() as session:
        [task] = take(session, KIND, "w", at=START)
    with database.write() as session:
        enqueue(session, KIND, "a", due_at=START, replaces=True)
    with pytest.raises(LostTaskError), database.write() as session:
        hold(session, task)
    assert taken(database, "w") == {"a"}


def test_another_takes_over_from_one_that_died_and_a_late_write_is_refused(
    database: Database,
) -> None:
    add(database, "a")
    with database.write() as session:
        [late] = take(session, KIND, "paused", at=START)
    assert taken(database, "other") == set()
    assert taken(database, "other", AFTER_A_HOLD) == {"a"}
    with pytest.raises(LostTaskError), database.write() as session:
        finish(session, hold(session, late))
    with database.write() as session:
        assert not renew(session, [late], at=AFTER_A_HOLD)
    [task] = rows(database)
    assert (task.worker, task.attempts) == ("other", 2)


def test_a_worker_that_lives_keeps_what_it_has_taken(database: Database) -> None:
    add(database, "a")
    with database.write() as session:
        [task] = take(session, KIND, "slow", at=START)
        renew(session, [task], at=START + timedelta(seconds=3))
    assert taken(database, "other", AFTER_A_HOLD) == set()


def test_what_a_dead_worker_of_this_machine_held_is_free_at_once(
    database: Database,
) -> None:
    add(database, *"abc")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = socket.gethostname()
    names = [f"{here}-{ended.pid}", f"{here}-{os.getpid()}", f"{here}.other-1"]
    assert [taken(database, name) for name in names] == [{"a"}, {"b"}, {"c"}]
    with database.write() as session:
        release_dead(session, is_alive)
    assert taken(database, "next", limit=3) == {"a"}


def test_what_is_written_with_an_enqueue_is_seen_before_its_task_ends(
    database: Database,
) -> None:
    add(database, "a")
    with database.write() as session:
        [task] = take(session, KIND, "w", at=START)
    seen: list[Task | None] = []

    def end() -> None:
        with database.write() as session:
            row = hold(session, task)
            # What the other transaction wrote beside its enqueue.
            seen.append(find_task(session, KIND, "beside"))
            finish(session, row)

    thread = threading.Thread(target=end)
    with database.write() as session:
        enqueue(session, KIND, "beside", due_at=START)
        enqueue(session, KIND, "a", due_at=START)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert seen != [None]


def test_a_task_that_fails_rests_longer_each_time_and_is_given_up(
    database: Database, clock: Clock
) -> None:
    add(database, "a", "b")
    doing = Doing(database)
    doing.raises = {"a": RuntimeError("no\x00 \ud800")}
    loop = Loop(database, "w", [doing], clock)
    assert loop.run() == 1
    rests = []
    while not doing.given_up:
        [task] = [task for task in rows(database) if task.key == "a"]
        rests.append((task.due_at - clock.at).total_seconds())
        assert loop.run() == 0
        clock.at = task.due_at
        loop.run()
    assert [round(rest, -1) for rest in rests] == [10, 20]
    assert doing.given_up == ["a: RuntimeError: no? ?"]
    [task] = rows(database)
    assert task.ended_at is not None
    with database.write() as session:
        delete_ended(session, before=clock(), limit=10)
    assert rows(database) == []


def test_the_pauses_double_up_to_the_longest() -> None:
    found = [rest_seconds(KIND, attempts) for attempts in range(1, 12)]
    wanted = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    for rest, least in zip(found, wanted, strict=True):
        assert least <= rest <= 1.1 * least
    assert rest_seconds(ADDRESS, 10**6) <= 1.1 * 12 * 3600


def test_a_task_that_is_tried_for_days_is_given_up(database: Database) -> None:
    with database.write() as session:
        enqueue(session, ADDRESS, "a", due_at=START)
    at, tried = START, []
    while len(tried) < 40:
        with database.write() as session:
            [task] = take(session, ADDRESS, "w", at=at)
            tried.append(at)
            if retry(session, task, "no", at=at):
                break
            at = task.due_at
    assert timedelta(days=3) <= at - START < timedelta(days=3, hours=14)
    assert len(tried) == 15


def test_a_task_that_ends_its_worker_three_times_is_given_up(
    database: Database, clock: Clock
) -> None:
    add(database, "a")
    for number in range(3):
        assert taken(database, f"w{number}", clock()) == {"a"}
        clock.at += timedelta(seconds=6)
    doing = Doing(database)
    assert Loop(database, "w", [doing], clock).run() == 0
    assert doing.given_up == ["a: the worker ended each time"]


def test_a_task_that_gets_further_each_time_is_not_given_up(
    database: Database, clock: Clock
) -> None:
    add(database, "a")
    for number in range(9):
        assert taken(database, f"w{number}", clock()) == {"a"}
        if number in {2, 5}:
            with database.write() as session:
                [row] = session.scalars(select(Task))
                advance(session, hold(session, row))
        clock.at += timedelta(seconds=6)
    doing = Doing(database)
    assert Loop(database, "w", [doing], clock).run() == 0
    assert doing.given_up == ["a: the worker ended each time"]


def test_a_database_that_is_away_counts_no_attempt(
    database: Database, clock: Clock
) -> None:
    add(database, "a")
    doing = Doing(database)
    doing.raises = {"a": UnavailableError("others write")}
    loop = Loop(database, "w", [doing], clock)
    assert loop.run() == 0
    [task] = rows(database)
    assert (task.attempts, task.worker, task.error) == (0, None, None)
    doing.raises.clear()
    clock.at += timedelta(seconds=11)
    assert loop.run() == 1


def test_work_without_a_task_is_planned(database: Database, clock: Clock) -> None:
    doing = Doing(database)
    doing.unplanned = ["a", "b"]
    assert Loop(database, "w", [doing], clock).run() == 2
    assert rows(database) == []


def test_a_lane_that_is_slow_holds_up_no_other(
    database: Database, clock: Clock
) -> None:
    add(database, *"abcdef", lane="slow")
    add(database, "x", "y", lane="quick")
    add(database, "z", lane="closed")
    go_on = threading.Event()
    most: list[int] = []

    class Held(Doing):
        flying = 0

        def work(self, tasks: Sequence[Task], watch: Watch) -> int:
            if tasks[0].lane == "slow":
                self.flying += 1
                most.append(self.flying)
                assert go_on.wait(60)
                self.flying -= 1
            return super().work(tasks, watch)

    doing = Held(database, "slow", "quick")
    loop = Loop(database, "w", [doing], clock)
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: sorted(doing.done) == ["x", "y"])
    go_on.set()
    thread.join(60)
    assert sorted(doing.done) == list("abcdefxy")
    assert max(most) == 2
    assert [task.key for task in rows(database)] == ["z"]


def test_a_task_is_held_while_it_is_done_and_given_back_at_a_stop(
    database: Database, clock: Clock
) -> None:
    add(database, "a")
    begun = threading.Event()

    class Long(Doing):
        def work(self, tasks: Sequence[Task], watch: Watch) -> int:
            begun.set()
            while not watch.stop.wait(0.01):
                watch.check()
            watch.check()
            return 1

    loop = Loop(database, "slow", [Long(database)], clock)
    thread = threading.Thread(target=loop.run_until_stopped, args=(0.01,))
    thread.start()
    assert begun.wait(60)
    clock.at = AFTER_A_HOLD

    def is_renewed() -> bool:
        held_until = rows(database)[0].held_until
        return held_until is not None and held_until > AFTER_A_HOLD

    wait_until(is_renewed)
    assert taken(database, "other", clock()) == set()
    loop.stop.set()
    thread.join(60)
    assert not thread.is_alive()
    [task] = rows(database)
    assert (task.attempts, task.worker) == (0, None)


def test_a_wait_under_load_is_no_clock_that_was_set_back(
    database: Database, clock: Clock
) -> None:
    later = START + timedelta(seconds=30)
    with database.write() as session:
        beat(session, "other", seen_at=later)
    add(database, "resting", at=later + timedelta(hours=1))

    # The other one beat while this one waited for its first statement to be run.
    def wait(*_statement: object) -> None:
        clock.at = later

    loop = Loop(database, "w", [Doing(database)], clock)
    event.listen(database.engine, "after_cursor_execute", wait)
    try:
        with capture_logs() as said:
            loop.run()
    finally:
        event.remove(database.engine, "after_cursor_execute", wait)

    assert said == []
    clock.at = later + timedelta(minutes=1)
    assert loop.run() == 0


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)])
def test_a_clock_that_was_set_back_holds_nothing_up(
    database: Database, clock: Clock, back: timedelta
) -> None:
    doing = Doing(database)
    doing.raises = {"failed": RuntimeError("no")}
    add(database, "failed")
    loop = Loop(database, "w", [doing], clock)
    loop.run()
    add(database, "late", at=clock())
    add(database, "held", at=clock())
    assert taken(database, "dead", clock(), limit=1) == {"late"}
    doing.raises.clear()
    clock.at -= back
    # Also a worker that was not there then.
    assert Loop(database, "other", [doing], clock).run() == 2
    clock.at += timedelta(seconds=6)
    assert loop.run() == 1
    assert sorted(doing.done) == ["failed", "held", "late"]
