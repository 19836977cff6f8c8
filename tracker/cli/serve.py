"""The command serve: the whole product in one process group."""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

import click

from tracker.cli.processes import Supervisor
from tracker.cli.setup import check_host, configure_logging, load_settings
from tracker.errors import ConfigurationError
from tracker.settings import Settings
from tracker.storage import schema
from tracker.storage.database import open_database

_START_SECONDS = 60.0


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
def serve(host: str, port: int) -> None:
    """Run all of Tracker: the database upgraded, web server and worker started."""
    settings = load_settings()
    configure_logging(settings)
    prepare(settings, host, port)
    sys.exit(run(host, port, os.environ))  # noqa: TID251 - handed on to the children.


def prepare(settings: Settings, host: str, port: int) -> None:
    """Check that serving is possible, and upgrade the database."""
    address = check_host(settings, host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise ConfigurationError(
                f"--port {port} cannot be had on {host} ({error.strerror}); "
                "choose another"
            ) from error
    database = open_database(settings.database)
    schema.upgrade(database)
    database.close()
    settings.load_secret_key()


def run(
    host: str,
    port: int,
    environ: Mapping[str, str],
    *,
    on_ready: Callable[[str], None] = lambda url: click.echo(f"Tracker is at {url}"),
    each_tick: Callable[[], None] = lambda: None,
) -> int:
    """Start web server and worker, and return the exit status when they have ended."""
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    supervisor = Supervisor(
        {"web": ["web", "--host", host, "--port", str(port)], "worker": ["worker"]},
        environ,
    )
    supervisor.start()
    state = {"is_ready": False, "begun": time.monotonic()}

    def tick() -> None:
        if state["is_ready"]:
            each_tick()
        elif _answers(url):
            state["is_ready"] = True
            on_ready(url)
        elif time.monotonic() - state["begun"] > _START_SECONDS:
            raise ConfigurationError(
                f"{url} does not answer after {_START_SECONDS:.0f} seconds"
            )

    return supervisor.wait(tick)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
