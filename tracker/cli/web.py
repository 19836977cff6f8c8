"""The command web."""

import multiprocessing
import os
import signal

import click
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

from tracker.cli.processes import watch_parent
from tracker.cli.setup import (
    check_host,
    check_port,
    configure_logging,
    connect,
    load_settings,
)
from tracker.storage.images import open_image_store
from tracker.web.provider import check_provider

_GRACE_SECONDS = 30
_PATIENCE_SECONDS = 5.0
_TO_STDERR = {
    "class": "logging.StreamHandler",
    "formatter": "generic",
    "stream": "ext://sys.stderr",
}


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
def web(host: str, port: int, parent: int | None) -> None:
    """Serve the pages and the API."""
    settings = load_settings()
    configure_logging(settings)
    connect(settings).close()
    address = check_host(settings, host)
    if parent is None:
        # What ran here before may need a moment to end; two at one port would each
        # get some of the requests.
        check_port(host, address, port, patience=_PATIENCE_SECONDS)
    settings.load_secret_key()
    check_provider(settings)
    open_image_store(settings)
    if parent is not None:
        watch_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Not forked: a copy of this process would share its locks and, once it has
    # drawn a chart, never draw again.
    multiprocessing.set_start_method("spawn")
    server = Server(
        "tracker.cli.wsgi:build_app",
        factory=True,
        interface=Interfaces.WSGI,
        address=address,
        port=port,
        workers=settings.web_processes,
        blocking_threads=settings.web_threads,
        respawn_failed_workers=True,
        respawn_interval=0.5,
        workers_kill_timeout=_GRACE_SECONDS,
        websockets=False,
        # Its one warning is that threads outnumber processors, which is meant.
        log_level=LogLevels.error,
        log_dictconfig={"handlers": {"console": _TO_STDERR, "access": _TO_STDERR}},
    )
    server.serve()
