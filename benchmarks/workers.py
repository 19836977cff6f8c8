"""Time how many workers bring many changed detectors up to date.

Every detector gets its new labels in one transaction, so that all wait at once.
Workers are processes of their own, started before; the clock runs from the commit
until nothing waits any more.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rig import (
    START,
    by,
    describe,
    describe_machine,
    fresh_databases,
    opened,
    parse_options,
)
from sqlalchemy import func, select

from tracker.services.detectors import NewDetector, create_detector
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import list_detectors
from tracker.storage.estimates.job_runs import Heartbeat, JobRun
from tracker.storage.estimates.pending import PendingBatch

WORKERS = (1, 2, 4, 8)
_LABELS = ("YES", "NO")


def add_detectors(database: Database, number: int) -> None:
    with database.write() as session:
        for place in range(number):
            new = NewDetector(name=f"d{place}", question="Is it?")
            create_detector(session, new, by(at=START))


def add_labels(database: Database) -> None:
    """Change every detector, in one transaction."""
    with database.write() as session:
        for detector in list_detectors(session):
            for label in _LABELS:
                query = NewQuery(predicted="YES", label=label)
                log_query(session, detector, query, by("b", START))


def count(database: Database, table: type) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


@contextmanager
def workers(url: str, number: int) -> Iterator[None]:
    """Run so many workers, from when all have been seen."""
    with tempfile.TemporaryDirectory() as folder, opened(url) as database:
        environ = os.environ | {  # noqa: TID251 - handed on to the workers.
            "TRACKER_DATABASE_URL": url,
            "TRACKER_DATA_DIR": folder,
            "TRACKER_RECOMPUTE_SECONDS": "0.2",
            "TRACKER_LOG_LEVEL": "error",
        }
        command = [sys.executable, "-m", "tracker", "worker"]
        running = [subprocess.Popen(command, env=environ) for _ in range(number)]
        try:
            while count(database, Heartbeat) < number:
                time.sleep(0.1)
            yield
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()


def time_workers(database: Database, number: int) -> float:
    """Return the seconds until nothing waits any more."""
    url = database.engine.url.render_as_string(hide_password=False)
    with workers(url, number):
        add_labels(database)
        begun = time.perf_counter()
        while count(database, PendingBatch):
            time.sleep(0.05)
        return time.perf_counter() - begun


def shares(database: Database) -> str:
    """Return how many detectors the least and the most busy worker did."""
    with database.read() as session:
        statement = select(JobRun.worker, func.count()).group_by(JobRun.worker)
        found = sorted(number for _, number in session.execute(statement))
    return f"{found[0]:,} to {found[-1]:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--detectors", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    options = parse_options(parser)
    number = 500 if options.quick else options.detectors
    print(f"{number:,} detectors, {len(_LABELS)} new labels each; {describe_machine()}")
    for kind in options.kinds:
        with fresh_databases(kind) as make:
            for place, many in enumerate(options.workers):
                url = make()
                if not place:
                    print(f"\n{describe(url)}")
                    print(f"{'workers':>8}{'s':>9}{'detectors/s':>13}{'each did':>18}")
                with opened(url) as database:
                    add_detectors(database, number)
                    seconds = time_workers(database, many)
                    rate = number / seconds
                    print(
                        f"{many:>8}{seconds:>9.1f}{rate:>13,.0f}{shares(database):>18}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
