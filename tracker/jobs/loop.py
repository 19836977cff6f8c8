"""The loop that takes tasks, runs their handlers and retries failures."""

import math
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.errors import UnavailableError
from tracker.services import tasks as services
from tracker.services.tasks import POLICIES
from tracker.storage import tasks as storage
from tracker.storage.database import Database
from tracker.storage.estimates.job_runs import beat, forget_future
from tracker.storage.tasks import HOLD_SECONDS, LostTaskError, Task

log = structlog.get_logger("tracker.job")

_LOOK_SECONDS = 0.25
_BEAT_SECONDS = 5.0
# Near the end of a long queue workers take few at once, so that all end together.
_SHARE = 4


class StoppedError(Exception):
    """The worker is stopping; its task is given back and the attempt not counted."""


@dataclass(slots=True)
class Watch:
    """Tells a slow handler that its worker stops or has lost the task."""

    stop: threading.Event
    is_lost: bool = False

    def check(self) -> None:
        if self.is_lost:
            raise LostTaskError("another worker has taken the task")
        if self.stop.is_set():
            raise StoppedError


@dataclass(slots=True, kw_only=True, eq=False)
class Handler:
    """Runs the tasks of one kind.

    ``work`` finishes, repeats or rests its tasks itself, in the transaction that writes
    their results, and returns how much was done.  It gets one task, unless the policy
    of the kind has batches.  An exception is a failed attempt, except for a database
    outage, a stopping worker and a lost task.
    """

    database: Database
    clock: Clock = utc_now
    kind: ClassVar[str]

    def lanes(self, session: Session, at: datetime) -> Collection[str]:  # noqa: ARG002
        return ("",)

    def has_unplanned(self, session: Session, at: datetime) -> bool:  # noqa: ARG002
        """Return whether there is work without a task; reads only."""
        return False

    def plan(self, session: Session, at: datetime) -> None:
        """Add tasks for work without a task."""

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        raise NotImplementedError

    def let_go(self, session: Session, task: Task) -> None:
        """Store that a task waits again, in the transaction that gives it back."""

    def give_up(self, session: Session, task: Task, error: str, at: datetime) -> None:
        """Store that a task failed for good, in the transaction that ends it."""

    def finish(self, *tasks: Task) -> None:
        """Delete those *tasks* that this worker still holds."""

        def end(session: Session) -> None:
            for task in tasks:
                with suppress(LostTaskError):
                    storage.finish(session, storage.hold(session, task))

        if tasks:
            self.database.run(end)


@dataclass(frozen=True, slots=True)
class _Flight:
    """Tasks that a thread is running."""

    handler: Handler
    tasks: Sequence[Task]
    watch: Watch


@dataclass(slots=True)
class Loop:
    """Takes due tasks and runs them, each kind with the concurrency of its policy.

    Several workers share the tasks; see storage/tasks.py.
    """

    database: Database
    worker: str
    handlers: Sequence[Handler]
    clock: Clock = utc_now
    stop: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(init=False)
    _flights: dict[Future[int], _Flight] = field(default_factory=dict, init=False)
    # Tasks to give back, and after how many seconds they may be taken.
    _interrupted: list[tuple[_Flight, float]] = field(default_factory=list, init=False)
    _looked: float = field(default=-math.inf, init=False)
    _beaten: float = field(default=-math.inf, init=False)
    _beaten_at: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        at_once = sum(POLICIES[one.kind].at_once for one in self.handlers)
        self._pool = ThreadPoolExecutor(max(at_once, 1), "task")

    def run_until_stopped(self, every_seconds: float) -> None:
        """Run until stopped, independent of the wall clock.

        At the end running tasks are finished, except those that check their watch.
        """
        is_away = False
        while not self.stop.is_set() or self._flights:
            try:
                self.run()
            except UnavailableError as error:
                if not is_away:
                    log.warning(
                        "the database is away; trying again",
                        error=getattr(error, "said", str(error)),
                    )
                is_away = True
            except Exception as error:
                log.error("the loop failed; trying again", exc_info=error)
            else:
                if is_away:
                    log.info("the database is back")
                is_away = False
            self.stop.wait(every_seconds)
        self._pool.shutdown()

    def enqueue(self, kind: str) -> None:
        with self.database.write() as session:
            storage.enqueue(session, kind, due_at=self.clock())

    def run(self) -> int:
        """Run all tasks that are due, now or meanwhile, and count the work done."""
        done = self._turn()
        while self._flights:
            done += self._turn()
            if not self._flights:
                # The last tasks may have added tasks of another kind.
                done += self._turn()
        return done

    def _turn(self) -> int:
        done, handlers = 0, list(self.handlers)
        if self._flights:
            ended, _ = wait(self._flights, _LOOK_SECONDS, FIRST_COMPLETED)
            if time.monotonic() < self._looked + _LOOK_SECONDS:
                # The other kinds were looked up just now, and each statement of this
                # thread waits for the threads that compute.
                landing = [self._flights[one].handler for one in ended]
                handlers = [one for one in handlers if one in landing]
            for one in ended:
                done += self._land(one, self._flights.pop(one))
        self._beat()
        self._give_back()
        if not self.stop.is_set():
            for flight in self._take(handlers):
                work = self._pool.submit(
                    flight.handler.work, flight.tasks, flight.watch
                )
                self._flights[work] = flight
        return done

    def _beat(self) -> None:
        """Store that this worker is alive, and renew the hold on its tasks."""
        every = HOLD_SECONDS / 4 if self._flights else _BEAT_SECONDS
        is_early = time.monotonic() < self._beaten + every
        is_set_back = self._beaten_at is not None and self.clock() < self._beaten_at
        if is_early and not is_set_back:
            return
        flights = list(self._flights.values())
        tasks = [task for flight in flights for task in flight.tasks]
        with self.database.write() as session:
            is_set_back = forget_future(session, self.clock)
            at = self.clock()
            beat(session, self.worker, seen_at=at)
            if is_set_back:
                log.warning("the clock was set back")
                storage.set_back(session, at=at)
            held = storage.renew(session, tasks, at=at) if tasks else ()
        for flight in flights:
            flight.watch.is_lost |= all(task.id not in held for task in flight.tasks)
        self._beaten, self._beaten_at = time.monotonic(), at

    def _take(self, handlers: Sequence[Handler]) -> list[_Flight]:
        if len(handlers) == len(self.handlers):
            self._looked = time.monotonic()
        # SQLite has one writer at a time: do not write if nothing is due.
        with self.database.read() as session:
            at, ready = self.clock(), list[Handler]()
            for one in handlers:
                free = self._list_free(session, one, at)
                if (free and one.has_unplanned(session, at)) or any(
                    storage.is_due(session, one.kind, at=at, lane=lane)
                    for lane, _ in free
                ):
                    ready.append(one)
        if not ready:
            return []

        def take(session: Session) -> list[_Flight]:
            at = self.clock()
            return [
                flight
                for handler in ready
                for flight in self._take_of(session, handler, at)
            ]

        return self.database.run(take)

    def _list_free(
        self, session: Session, handler: Handler, at: datetime
    ) -> list[tuple[str, int]]:
        """Return the lanes with free places, and how many each has."""
        policy = POLICIES[handler.kind]
        flying = Counter(
            flight.tasks[0].lane
            for flight in self._flights.values()
            if flight.handler is handler
        )
        left = policy.at_once - flying.total()
        found = [
            (lane, min(left, policy.at_once_in_lane - flying[lane]))
            for lane in (handler.lanes(session, at) if left > 0 else ())
        ]
        return [(lane, free) for lane, free in found if free > 0]

    def _take_of(
        self, session: Session, handler: Handler, at: datetime
    ) -> list[_Flight]:
        policy = POLICIES[handler.kind]
        flying = sum(one.handler is handler for one in self._flights.values())
        handler.plan(session, at)
        taken: list[_Flight] = []
        for lane, free in self._list_free(session, handler, at):
            most = min(len(taken) + free, policy.at_once - flying)
            while len(taken) < most and (
                tasks := storage.take(
                    session,
                    handler.kind,
                    self.worker,
                    at=at,
                    lane=lane,
                    limit=policy.batch,
                    share=1 if policy.batch == 1 else _SHARE,
                )
            ):
                first, limit = tasks[0], policy.most_attempts
                if limit is None or first.vain_attempts <= limit:
                    taken.append(_Flight(handler, tasks, Watch(self.stop)))
                    continue
                # It has killed too many workers.
                first.attempts -= 1
                error = "the worker ended each time"
                storage.let_go(session, first, error=error, ended_at=at)
                handler.give_up(session, first, error, at)
        return taken

    def _land(self, work: Future[int], flight: _Flight) -> int:
        try:
            return work.result()
        except LostTaskError:
            log.info("left to another worker", task=flight.handler.kind)
        except StoppedError:
            self._interrupted.append((flight, 0.0))
        except UnavailableError as error:
            # Not counted as a failure, but it waits: the task may fill the disk.
            rest = POLICIES[flight.handler.kind].first_seconds
            self._interrupted.append((flight, rest))
            log.info("interrupted", task=flight.handler.kind, error=str(error))
        except Exception as error:  # noqa: BLE001 - the others go on.
            for task in flight.tasks:
                self._fail(flight.handler, task, error)
        return 0

    def _fail(self, handler: Handler, task: Task, error: Exception) -> None:
        reason = services.dump_error(error)

        def note(session: Session) -> bool:
            at, row = self.clock(), storage.hold(session, task)
            is_over = services.retry(session, row, reason, at=at)
            if is_over:
                handler.give_up(session, row, reason, at)
            else:
                handler.let_go(session, row)
            return is_over

        with suppress(LostTaskError):
            is_over = self.database.run(note)
            log.error(
                "a task failed",
                task=task.kind,
                key=task.key,
                attempts=task.attempts,
                given_up=is_over,
                exc_info=error,
            )

    def _give_back(self) -> None:
        """Give back interrupted tasks without counting the attempt."""
        if not self._interrupted:
            return
        with self.database.write() as session:
            at = self.clock()
            for flight, rest in self._interrupted:
                for task in flight.tasks:
                    with suppress(LostTaskError):
                        row = storage.hold(session, task)
                        row.attempts -= 1
                        due_at = at + timedelta(seconds=rest)
                        storage.let_go(session, row, due_at=due_at)
                        flight.handler.let_go(session, row)
        self._interrupted.clear()
