"""The scheduler of the worker; the only module that knows APScheduler."""

import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from tracker.errors import UnavailableError
from tracker.jobs.loop import Loop
from tracker.storage.tasks import AUDITS, RETENTION, STALLS

log = structlog.get_logger("tracker.worker")

_LOOK_SECONDS = 1.0
# Periodic tasks, and their seconds.
_PERIODIC = {RETENTION: 60.0, STALLS: 60.0, AUDITS: 60.0}


def run_worker(loop: Loop, *, every_seconds: float = _LOOK_SECONDS) -> None:
    """Run the loop until SIGTERM, SIGINT or its stop.

    The scheduler adds the periodic tasks; of two workers one runs each.  It follows the
    wall clock: if that is set back by an hour, these tasks come an hour late.  The loop
    does not follow it.
    """
    # Only a main thread can receive signals.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.stop.set())
    scheduler = BackgroundScheduler(
        timezone=UTC,
        # A late run is still wanted (there is no grace after which it would be
        # dropped), several late ones are one, and never two at the same time.
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    for kind, seconds in _PERIODIC.items():
        scheduler.add_job(
            _enqueue,
            "interval",
            seconds=seconds,
            args=[loop, kind],
            next_run_time=datetime.now(UTC),
        )
    scheduler.start()
    log.info("worker started", worker=loop.worker)
    loop.run_until_stopped(every_seconds)
    scheduler.shutdown(wait=True)
    log.info("worker stopped", worker=loop.worker)


def _enqueue(loop: Loop, kind: str) -> None:
    # The loop logs the outage; the next minute tries again.
    with suppress(UnavailableError):
        loop.enqueue(kind)
