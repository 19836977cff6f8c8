"""The serve command: all of Tracker in one process group."""

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace

import click

from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import Prepared, Supervisor, prepare
from tracker.errors import ConfigurationError

# A busy machine may take that long to import everything.
_START_SECONDS = 120.0


@click.command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=8000, type=click.IntRange(1, 65535))
def serve(host: str, port: int) -> None:
    """Run all of Tracker: the database upgraded, web server and worker started."""
    environ = os.environ  # noqa: TID251 - for the children.
    supervisor = supervise(host, port, environ)
    try:
        # The web process imports the application during the check and the upgrade.
        prepared = prepare(
            host, port, environ, upgrade=True, meanwhile=lambda: supervisor.start("web")
        )
    except BaseException:
        supervisor.end_all()
        raise
    configure_logging(prepared.log_level)
    sys.exit(run(supervisor, host, port, prepared))


def supervise(host: str, port: int, environ: Mapping[str, str]) -> Supervisor:
    web = ["web", "--host", host, "--port", str(port), "--prepared"]
    return Supervisor({"web": web, "worker": ["worker"]}, environ)


def announce(url: str, link: str | None) -> None:
    """Print Tracker's address, and the sign-in link if there is one."""
    click.echo(f"Tracker is at {url}")
    if link is not None:
        click.echo(
            "Sign in as admin with this link; it works once, within an hour:\n"
            f"  {url}/sign-in?token={link}"
        )


def run(  # noqa: PLR0913 - each is named.
    supervisor: Supervisor,
    host: str,
    port: int,
    prepared: Prepared,
    *,
    on_ready: Callable[[str, str | None], None] = announce,
    each_tick: Callable[[], None] = lambda: None,
) -> int:
    """Start the web server and the worker, and return their status at the end."""
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    # The web server does not need the secret link.
    supervisor.tell(replace(prepared, link=None).dump())
    supervisor.start("worker")
    state = {"is_ready": False, "begun": time.monotonic()}

    def tick() -> None:
        if state["is_ready"]:
            each_tick()
        elif _answers(url):
            state["is_ready"] = supervisor.has_worked = True
            on_ready(prepared.url or url, prepared.link)
        elif time.monotonic() - state["begun"] > _START_SECONDS:
            raise ConfigurationError(
                f"{url} does not answer after {_START_SECONDS:.0f} seconds"
            )

    return supervisor.wait(tick)


def _answers(url: str) -> bool:
    # The server always accepts this host, whatever address it listens at.
    known = {"Host": "localhost"}
    request = urllib.request.Request(f"{url}/healthz", headers=known)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
