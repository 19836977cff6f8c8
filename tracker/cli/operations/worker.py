"""The worker command."""

import socket
import threading

import click

from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import watch_parent
from tracker.cli.setup import connected, is_alive, load_settings, process_name
from tracker.clock import utc_now
from tracker.errors import ConfigurationError, UnavailableError
from tracker.jobs import telling
from tracker.jobs.audits import Audits
from tracker.jobs.imports import Clearing, Imports
from tracker.jobs.loop import Handler, Loop
from tracker.jobs.predictors import Predictions
from tracker.jobs.recompute import Recompute
from tracker.jobs.retention import Retention
from tracker.jobs.scheduler import run_worker
from tracker.services.sandbox.readers import warm_up
from tracker.services.telling.mail import Letterhead
from tracker.services.wording import dump_instant
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.estimates.job_runs import find_last_heartbeat, patience
from tracker.storage.images import open_image_store
from tracker.storage.tasks import release_dead


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
    # Started now, so that no import waits for it.
    warm_up()
    with connected(settings, fill=True) as database:
        name, images = process_name(), open_image_store(settings)
        with database.write() as session:
            # A killed worker of this machine leaves its tasks held.
            release_dead(session, is_alive)
        handlers: list[Handler] = [
            Recompute(
                database=database,
                worker=name,
                every_seconds=settings.recompute_seconds,
                time_zone=settings.time_zone,
            ),
            Imports(
                database=database, images=images, most_unpacked=settings.max_body_bytes
            ),
            Clearing(database=database),
            telling.Deliveries(database=database, allowed_hosts=settings.webhook_hosts),
            telling.Stalls(database=database),
            Audits(database=database),
            Retention(database=database, days=settings.keep_unlabelled_days or 0),
            Predictions(
                database=database, images=images, allowed_hosts=settings.predictor_hosts
            ),
            *_send_mail(settings, database),
        ]
        if settings.otlp_endpoint:
            pairs = filter(None, settings.otlp_headers.split(","))
            headers = dict(pair.split("=", 1) for pair in pairs)
            place = settings.otlp_endpoint
            exporter = telling.Exporter(
                database=database, endpoint=place, headers=headers
            )
            handlers.append(exporter)
        loop = Loop(database, name, handlers, stop=stop)
        run_worker(loop, every_seconds=min(1.0, settings.recompute_seconds))


def _send_mail(settings: Settings, database: Database) -> list[Handler]:
    if not settings.smtp_host:
        return []
    for name in ("mail_from", "public_url"):
        if not getattr(settings, name):
            raise ConfigurationError(
                f"TRACKER_{name.upper()} is needed with TRACKER_SMTP_HOST: mail has a "
                "sender and links"
            )
    server = telling.MailServer(
        settings.smtp_host,
        settings.smtp_port,
        settings.smtp_security,
        settings.smtp_user,
        settings.smtp_password,
    )
    secret_key = settings.load_secret_key()
    head = Letterhead(settings.mail_from, settings.public_url, secret_key)
    return [
        kind(database=database, server=server, head=head)
        for kind in (telling.AddressMail, telling.DigestMail)
    ]


def _check(settings: Settings) -> None:
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
