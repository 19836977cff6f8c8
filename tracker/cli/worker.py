"""The command worker."""

import threading

import click

from tracker.cli.processes import watch_parent
from tracker.cli.setup import configure_logging, connected, load_settings, process_name
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputer
from tracker.jobs.retention import Retention
from tracker.jobs.scheduler import run_worker


@click.command()
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
def worker(parent: int | None) -> None:
    """Recompute the intervals of detectors with new labels, and import large files."""
    settings = load_settings()
    configure_logging(settings)
    stop = threading.Event()
    if parent is not None:
        watch_parent(parent, stop.set)
    with connected(settings) as database:
        recomputer = Recomputer(database, process_name())
        days = settings.keep_unlabelled_days
        run_worker(
            recomputer,
            every_seconds=settings.recompute_seconds,
            importer=Importer(database, recomputer.worker),
            retention=Retention(database, days) if days else None,
            stop=stop,
        )
