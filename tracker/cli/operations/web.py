"""The web command."""

import gc
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys

import click
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import Prepared, prepare, watch_parent

_GRACE_SECONDS = 30
_APP = "tracker.cli.operations.wsgi"
# A connection without a request, idle or with half a header, costs no thread.
_CONNECTIONS_PER_REQUEST = 8
# Files of the database, images and exports.
_FILES_PER_REQUEST = 2
_IS_COPIED = sys.platform == "linux"
_TO_STDERR = {
    "class": "logging.StreamHandler",
    "formatter": "generic",
    "stream": "ext://sys.stderr",
}


@click.command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=8000, type=click.IntRange(1, 65535))
@click.option("--parent", type=int, hidden=True, help="Stop when this process is gone.")
@click.option("--prepared", is_flag=True, hidden=True, help="Wait for it on stdin.")
def web(host: str, port: int, parent: int | None, *, prepared: bool) -> None:
    """Serve the pages and the API."""
    if parent is not None:
        watch_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    if prepared:
        _import_app()
        line = sys.stdin.readline()
        if not line:
            # The check has failed.
            return
        ready = Prepared(**json.loads(line))
    else:
        environ = os.environ  # noqa: TID251 - for the child.
        ready = prepare(host, port, environ, upgrade=False, meanwhile=_import_app)
    configure_logging(ready.log_level)
    # On Linux the web processes are forks of this one, which has imported everything:
    # they answer at once, even after a crash, and share its memory.  So it must not
    # draw a chart or use a database.  Elsewhere libraries do not survive a fork.
    if _IS_COPIED:
        # Imported objects are never freed, and a collection would unshare their pages.
        gc.collect()
        gc.freeze()
    multiprocessing.set_start_method("fork" if _IS_COPIED else "spawn")
    server = Server(
        f"{_APP}:build_app",
        factory=True,
        interface=Interfaces.WSGI,
        address=ready.address,
        port=port,
        workers=ready.processes,
        # A thread for each open request, so that slow clients hold up nobody; opening
        # a transaction limits how many of them work.
        blocking_threads=ready.connections,
        backpressure=_count_connections(ready.connections),
        respawn_failed_workers=True,
        respawn_interval=0.5,
        workers_kill_timeout=_GRACE_SECONDS,
        websockets=False,
        # Its only warning is that threads outnumber processors, as intended.
        log_level=LogLevels.error,
        log_dictconfig={"handlers": {"console": _TO_STDERR, "access": _TO_STDERR}},
    )
    server.serve()


def _count_connections(requests: int) -> int:
    """Return how many connections may be open while so many requests are worked on."""
    most = _CONNECTIONS_PER_REQUEST * requests
    # Granian has raised the limit of open files to the system's maximum.
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return most
    return min(most, max(files - _FILES_PER_REQUEST * requests, requests))


def _import_app() -> None:
    if _IS_COPIED:
        importlib.import_module(_APP)
