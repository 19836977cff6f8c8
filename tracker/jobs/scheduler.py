"""The clockwork of the worker; the only module that knows APScheduler."""

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from tracker.errors import UnavailableError
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputer
from tracker.jobs.retention import Retention

log = structlog.get_logger("tracker.worker")

_WATCH_SECONDS = 1.0
_RETENTION_SECONDS = 60.0
_IMPORT_SECONDS = 1.0


def run_worker(
    recomputer: Recomputer,
    *,
    every_seconds: float,
    importer: Importer | None = None,
    retention: Retention | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the job every so many seconds until SIGTERM, SIGINT or *stop*.

    Beside it *importer* looks for imports every second and, where queries are not
    kept for ever, *retention* runs every minute.  A run that is under way is finished
    first; an import, which may take long, is given up.  Two workers at once are
    harmless: see ``services/recompute.py``.
    """
    stop = stop or threading.Event()
    if threading.current_thread() is threading.main_thread():

        def _stop(_signal: int, _frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)

    scheduler = _build_scheduler()
    run_once = _Runner().run_once
    _add(scheduler, run_once, recomputer.run, every_seconds)
    if importer is not None:
        _add(scheduler, run_once, importer.run, _IMPORT_SECONDS)
    if retention is not None:
        _add(scheduler, run_once, retention.run, _RETENTION_SECONDS)
    scheduler.start()
    log.info("worker started", worker=recomputer.worker, every_seconds=every_seconds)
    offset = _wall_offset()
    while not stop.wait(_WATCH_SECONDS):
        # The scheduler waits for a time on the wall: were the clock set back by an
        # hour, it would sleep for that hour.
        if _wall_offset() < offset - _WATCH_SECONDS:
            log.warning("the clock was set back; the next run is now")
            for job in scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
        offset = _wall_offset()
    if importer is not None:
        importer.stop()
    scheduler.shutdown(wait=True)
    log.info("worker stopped", worker=recomputer.worker)


def _build_scheduler() -> BackgroundScheduler:
    return BackgroundScheduler(
        timezone=UTC,
        # One for each of the three jobs, so that none waits for another.
        executors={"default": ThreadPoolExecutor(3)},
        # A late run is still wanted (there is no grace after which it would be
        # dropped), several late ones are one, and never two at the same time.
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )


def _add(
    scheduler: BackgroundScheduler,
    run_once: Callable[[Callable[[], object]], None],
    work: Callable[[], object],
    seconds: float,
) -> None:
    scheduler.add_job(
        run_once,
        "interval",
        seconds=seconds,
        args=[work],
        next_run_time=datetime.now(UTC),
    )


def _wall_offset() -> float:
    return time.time() - time.monotonic()


class _Runner:
    """Runs the jobs; says once that the database is away, and once that it is back.

    Each job finds out by itself, one of them every second, and would fill the log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: set[Callable[[], object]] = set()

    def run_once(self, work: Callable[[], object]) -> None:
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
