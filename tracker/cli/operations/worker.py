"""The command worker."""

import socket
import threading

import click

from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import watch_parent
from tracker.cli.setup import connected, is_alive, load_settings, process_name
from tracker.clock import utc_now
from tracker.errors import ConfigurationError, UnavailableError
from tracker.jobs.imports import Importer
from tracker.jobs.mail import MailServer, Postman
from tracker.jobs.predictors import Asker
from tracker.jobs.recompute import Recomputer
from tracker.jobs.retention import Retention
from tracker.jobs.scheduler import run_worker
from tracker.jobs.telemetry import Exporter
from tracker.jobs.webhooks import Courier
from tracker.services.telling.letters import Letterhead
from tracker.services.wording import dump_instant
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import open_image_store
from tracker.storage.operations.job_runs import find_last_heartbeat, patience
from tracker.storage.operations.leases import release_dead


@click.command()
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option(
    "--check",
    is_flag=True,
    help="Only check whether a worker of this machine was seen recently.",
)
def worker(parent: int | None, *, check: bool) -> None:
    """Recompute the intervals of detectors with new labels, and import large files."""
    settings = load_settings()
    configure_logging(settings.log_level)
    if check:
        _check(settings)
        return
    stop = threading.Event()
    if parent is not None:
        watch_parent(parent, stop.set)
    with connected(settings, fill=True) as database:
        recomputer = Recomputer(database, process_name())
        with database.write() as session:
            # Of the one before this that was killed, for example.
            release_dead(session, is_alive, at=utc_now())
        days = settings.keep_unlabelled_days
        run_worker(
            recomputer,
            every_seconds=settings.recompute_seconds,
            beside=Recomputer(database, f"{recomputer.worker}.2"),
            importer=Importer(
                database, recomputer.worker, images=open_image_store(settings)
            ),
            retention=Retention(database, days) if days else None,
            courier=Courier(database, recomputer.worker, settings.webhook_hosts),
            asker=Asker(database, open_image_store(settings), settings.predictor_hosts),
            postman=_hire_postman(settings, database, recomputer.worker),
            exporter=_build_exporter(settings, database),
            stop=stop,
        )


def _hire_postman(
    settings: Settings, database: Database, worker: str
) -> Postman | None:
    """Return who sends mail, None without a server; raises ConfigurationError."""
    if not settings.smtp_host:
        return None
    for name in ("mail_from", "public_url"):
        if not getattr(settings, name):
            raise ConfigurationError(
                f"TRACKER_{name.upper()} is needed with TRACKER_SMTP_HOST: mail has a "
                "sender and links"
            )
    return Postman(
        database,
        worker,
        MailServer(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_user,
            settings.smtp_password,
        ),
        Letterhead(settings.mail_from, settings.public_url, settings.load_secret_key()),
    )


def _build_exporter(settings: Settings, database: Database) -> Exporter | None:
    if not settings.otlp_endpoint:
        return None
    pairs = (pair.split("=", 1) for pair in settings.otlp_headers.split(",") if pair)
    return Exporter(database, settings.otlp_endpoint, dict(pairs))


def _check(settings: Settings) -> None:
    """Raise UnavailableError unless a worker of this machine was seen lately."""
    machine = socket.gethostname()
    with connected(settings) as database, database.read() as session:
        seen_at = find_last_heartbeat(session, machine=machine)
    if seen_at is None:
        raise UnavailableError(f"no worker was ever seen on {machine}")
    silence = utc_now() - seen_at
    if silence > patience(settings.recompute_seconds):
        raise UnavailableError(
            f"no worker was seen on {machine} for {silence.total_seconds():.0f} seconds"
        )
    click.echo(f"A worker was seen on {machine} at {dump_instant(seen_at)}.")
