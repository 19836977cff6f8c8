"""The command web."""

import multiprocessing
import os
import signal

import click
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

from tracker.cli.logs import configure_logging
from tracker.cli.operations.prepared import load, prepare
from tracker.cli.operations.processes import watch_parent

_GRACE_SECONDS = 30
_TO_STDERR = {
    "class": "logging.StreamHandler",
    "formatter": "generic",
    "stream": "ext://sys.stderr",
}


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option("--prepared", hidden=True, help="What has been checked already.")
def web(host: str, port: int, parent: int | None, prepared: str | None) -> None:
    """Serve the pages and the API."""
    if prepared is None:
        environ = os.environ  # noqa: TID251 - for the child.
        ready = prepare(host, port, environ, upgrade=False)
    else:
        ready = load(prepared)
    configure_logging(ready.log_level)
    if parent is not None:
        watch_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Not forked: a copy of this process would share its locks and, once it has
    # drawn a chart, never draw again.
    multiprocessing.set_start_method("spawn")
    server = Server(
        "tracker.cli.operations.wsgi:build_app",
        factory=True,
        interface=Interfaces.WSGI,
        address=ready.address,
        port=port,
        workers=ready.processes,
        # A thread for each request that is open, so that slow clients hold up nobody;
        # how many of them work is bounded where transactions are opened.
        blocking_threads=ready.connections,
        backpressure=2 * ready.connections,
        respawn_failed_workers=True,
        respawn_interval=0.5,
        workers_kill_timeout=_GRACE_SECONDS,
        websockets=False,
        # Its one warning is that threads outnumber processors, which is meant.
        log_level=LogLevels.error,
        log_dictconfig={"handlers": {"console": _TO_STDERR, "access": _TO_STDERR}},
    )
    server.serve()
