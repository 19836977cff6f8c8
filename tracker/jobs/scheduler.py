"""The clockwork of the worker; the only module that knows APScheduler."""

import signal
import threading
import time
from datetime import UTC, datetime
from types import FrameType

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from tracker.errors import UnavailableError
from tracker.jobs.recompute import Recomputer

log = structlog.get_logger("tracker.worker")

_WATCH_SECONDS = 1.0


def run_worker(
    recomputer: Recomputer, *, every_seconds: float, stop: threading.Event | None = None
) -> None:
    """Run the job every so many seconds until SIGTERM, SIGINT or *stop*.

    A run that is under way is finished first.  Two workers at once are harmless:
    see ``services/recompute.py``.
    """
    stop = stop or threading.Event()
    if threading.current_thread() is threading.main_thread():

        def _stop(_signal: int, _frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)

    scheduler = BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(1)},
        # A late run is still wanted (there is no grace after which it would be
        # dropped), several late ones are one, and never two at the same time.
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    job = scheduler.add_job(
        _run_once,
        "interval",
        seconds=every_seconds,
        args=[recomputer],
        next_run_time=datetime.now(UTC),
    )
    scheduler.start()
    log.info("worker started", worker=recomputer.worker, every_seconds=every_seconds)
    offset = _wall_offset()
    while not stop.wait(_WATCH_SECONDS):
        # The scheduler waits for a time on the wall: were the clock set back by an
        # hour, it would sleep for that hour.
        if _wall_offset() < offset - _WATCH_SECONDS:
            log.warning("the clock was set back; the next run is now")
            job.modify(next_run_time=datetime.now(UTC))
        offset = _wall_offset()
    scheduler.shutdown(wait=True)
    log.info("worker stopped", worker=recomputer.worker)


def _wall_offset() -> float:
    return time.time() - time.monotonic()


def _run_once(recomputer: Recomputer) -> None:
    try:
        recomputer.run()
    except UnavailableError as error:
        log.warning("the database is away; the next run tries again", error=str(error))
