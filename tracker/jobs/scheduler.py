"""The clockwork of the worker; the only module that knows APScheduler."""

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC
from types import FrameType

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from tracker.clock import utc_now
from tracker.errors import UnavailableError
from tracker.jobs.imports import Importer
from tracker.jobs.mail import Postman
from tracker.jobs.predictors import Asker
from tracker.jobs.recompute import Recomputer
from tracker.jobs.retention import Retention
from tracker.jobs.telemetry import Exporter
from tracker.jobs.webhooks import Courier

log = structlog.get_logger("tracker.worker")

_WATCH_SECONDS = 1.0
_RETENTION_SECONDS = 60.0
_IMPORT_SECONDS = 1.0
_COURIER_SECONDS = 1.0
_LOOK_AROUND_SECONDS = 60.0
_ASKER_SECONDS = 1.0
_POSTMAN_SECONDS = 5.0
_EXPORTER_SECONDS = 10.0


def run_worker(  # noqa: PLR0913 - one for each job.
    recomputer: Recomputer,
    *,
    every_seconds: float,
    beside: Recomputer | None = None,
    importer: Importer | None = None,
    retention: Retention | None = None,
    courier: Courier | None = None,
    asker: Asker | None = None,
    postman: Postman | None = None,
    exporter: Exporter | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the job every so many seconds until SIGTERM, SIGINT or *stop*.

    Each other argument is a job that runs beside it; with a second recomputer, *beside*
    the first, the labels of a large import hold up no other detector.  At the end a
    current run is finished, but an import, which may take long, is given up.  Two
    workers at once are harmless: see ``services/operations/recompute.py``.
    """
    stop = stop or threading.Event()
    _stop_on_signals(stop)
    scheduler = _build_scheduler()
    runner = _Runner(stop)
    works: list[tuple[Callable[[], object], float]] = [(recomputer.run, every_seconds)]
    works += [(beside.run, every_seconds)] if beside else []
    works += [(importer.run, _IMPORT_SECONDS)] if importer else []
    works += [(retention.run, _RETENTION_SECONDS)] if retention else []
    if courier:
        works.append((courier.run, _COURIER_SECONDS))
        works.append((courier.look_around, _LOOK_AROUND_SECONDS))
    works += [(asker.run, _ASKER_SECONDS)] if asker else []
    works += [(postman.run, _POSTMAN_SECONDS)] if postman else []
    works += [(exporter.run, _EXPORTER_SECONDS)] if exporter else []
    for work, seconds in works:
        _add(scheduler, runner.run, work, seconds)
    scheduler.start()
    log.info("worker started", worker=recomputer.worker, every_seconds=every_seconds)
    _watch_clock(scheduler, stop)
    for lasting in (importer, courier, asker, postman):
        if lasting is not None:
            lasting.stop()
    scheduler.shutdown(wait=True)
    log.info("worker stopped", worker=recomputer.worker)


def _stop_on_signals(stop: threading.Event) -> None:
    """Set *stop* on SIGTERM and SIGINT, which only a main thread can receive."""
    if threading.current_thread() is not threading.main_thread():
        return

    def _stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)


def _watch_clock(scheduler: BackgroundScheduler, stop: threading.Event) -> None:
    """Wait for *stop*, and run every job at once when the clock was set back."""
    offset = _wall_offset()
    while not stop.wait(_WATCH_SECONDS):
        # The scheduler waits for a time on the wall: were the clock set back by an
        # hour, it would sleep for that hour.
        if _wall_offset() < offset - _WATCH_SECONDS:
            log.warning("the clock was set back; the next run is now")
            for job in scheduler.get_jobs():
                job.modify(next_run_time=utc_now())
        offset = _wall_offset()


def _build_scheduler() -> BackgroundScheduler:
    return BackgroundScheduler(
        timezone=UTC,
        # One for each of the nine jobs, so that none waits for another.
        executors={"default": ThreadPoolExecutor(9)},
        # A late run is still wanted (there is no grace after which it would be
        # dropped), several late ones are one, and never two at the same time.
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )


def _add(
    scheduler: BackgroundScheduler,
    run: Callable[[Callable[[], object], float], None],
    work: Callable[[], object],
    seconds: float,
) -> None:
    scheduler.add_job(
        run,
        "interval",
        seconds=seconds,
        args=[work, seconds],
        next_run_time=utc_now(),
    )


def _wall_offset() -> float:
    return time.time() - time.monotonic()


class _Runner:
    """Runs the jobs; says once that the database is away, and once that it is back.

    Each job finds out by itself, one of them every second, and would fill the log.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._failing: set[Callable[[], object]] = set()

    def run(self, work: Callable[[], object], seconds: float) -> None:
        """Run *work*, and again at once where it took so many *seconds* or more.

        The scheduler passes over a run that is due during another, and would wait for
        the one after that.
        """
        is_due = True
        while is_due:
            begun = time.monotonic()
            self._run_once(work)
            took = time.monotonic() - begun
            is_due = took >= seconds and not self._stop.is_set()

    def _run_once(self, work: Callable[[], object]) -> None:
        """Run *work*; that the database is away is no failure of it."""
        try:
            work()
        except UnavailableError as error:
            with self._lock:
                if not self._failing:
                    log.warning(
                        "the database is away; the next run tries again",
                        error=str(error),
                    )
                self._failing.add(work)
        else:
            with self._lock:
                if work in self._failing:
                    self._failing.remove(work)
                    if not self._failing:
                        log.info("the database is back")
