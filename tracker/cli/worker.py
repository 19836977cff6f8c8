"""The command worker."""

import socket
import threading

import click

from tracker.cli.processes import watch_parent
from tracker.cli.setup import (
    configure_logging,
    connected,
    load_settings,
    now,
    process_name,
)
from tracker.errors import UnavailableError
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputer
from tracker.jobs.retention import Retention
from tracker.jobs.scheduler import run_worker
from tracker.services.fields import dump_instant
from tracker.settings import Settings
from tracker.storage.job_runs import find_last_heartbeat, patience


@click.command()
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option(
    "--check",
    is_flag=True,
    help="Do nothing but look whether a worker of this machine was seen lately.",
)
def worker(parent: int | None, *, check: bool) -> None:
    """Recompute the intervals of detectors with new labels, and import large files."""
    settings = load_settings()
    configure_logging(settings)
    if check:
        _check(settings)
        return
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


def _check(settings: Settings) -> None:
    """Raise UnavailableError unless a worker of this machine was seen lately."""
    machine = socket.gethostname()
    with connected(settings, fill=False) as database, database.read() as session:
        seen_at = find_last_heartbeat(session, machine=machine)
    if seen_at is None:
        raise UnavailableError(f"no worker was ever seen on {machine}")
    silence = now() - seen_at
    if silence > patience(settings.recompute_seconds):
        raise UnavailableError(
            f"no worker was seen on {machine} for {silence.total_seconds():.0f} seconds"
        )
    click.echo(f"A worker was seen on {machine} at {dump_instant(seen_at)}.")
