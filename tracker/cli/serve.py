"""The command serve: the whole product in one process group."""

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

import click

from tracker.cli.processes import Supervisor
from tracker.cli.setup import (
    audit_command,
    check_host,
    check_port,
    configure_logging,
    is_loopback,
    load_settings,
    now,
    reach,
)
from tracker.errors import ConfigurationError
from tracker.services.accounts import create_account, find_admin_without_password
from tracker.services.sign_ins import create_link
from tracker.settings import Settings
from tracker.storage import schema
from tracker.storage.accounts import list_accounts
from tracker.storage.database import Database
from tracker.storage.images import open_image_store

_START_SECONDS = 60.0


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
def serve(host: str, port: int) -> None:
    """Run all of Tracker: the database upgraded, web server and worker started."""
    settings = load_settings()
    configure_logging(settings)
    link = prepare(settings, host, port)

    def ready(url: str, link: str | None) -> None:
        announce(settings.public_url or url, link)

    environ = os.environ  # noqa: TID251 - for the children.
    sys.exit(run(host, port, environ, link, on_ready=ready))


def prepare(settings: Settings, host: str, port: int) -> str | None:
    """Check that serving is possible, and upgrade the database.

    Returns what a link shows that signs in as the admin, where an admin could not
    sign in otherwise and whoever reads it sits at this machine.
    """
    open_image_store(settings)
    database = reach(settings)
    try:
        schema.upgrade(database)
        address = check_host(settings, host)
        check_port(host, address, port)
        settings.load_secret_key()
        if is_loopback(address):
            return _make_link(database)
        if not (settings.public_url or settings.trusted_hosts):
            click.echo(
                "Others are let in once TRACKER_PUBLIC_URL or TRACKER_TRUSTED_HOSTS "
                "says by which name they come.",
                err=True,
            )
        return None
    finally:
        database.close()


def _make_link(database: Database) -> str | None:
    with database.write() as session:
        if not list_accounts(session):
            create_account(session, "admin", "admin", created_at=now())
            audit_command(session, "account made", "admin", role="admin")
        admin = find_admin_without_password(session)
        return None if admin is None else create_link(session, admin, created_at=now())


def announce(url: str, link: str | None) -> None:
    """Print where Tracker is, and the link if there is one."""
    click.echo(f"Tracker is at {url}")
    if link is not None:
        click.echo(
            "Sign in as admin by this link; it works once and for an hour:\n"
            f"  {url}/sign-in?token={link}"
        )


def run(  # noqa: PLR0913 - where, with what, and what to do meanwhile.
    host: str,
    port: int,
    environ: Mapping[str, str],
    link: str | None,
    *,
    on_ready: Callable[[str, str | None], None] = announce,
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
            on_ready(url, link)
        elif time.monotonic() - state["begun"] > _START_SECONDS:
            raise ConfigurationError(
                f"{url} does not answer after {_START_SECONDS:.0f} seconds"
            )

    return supervisor.wait(tick)


def _answers(url: str) -> bool:
    # By a name that the server always knows, whatever address it listens at.
    known = {"Host": "localhost"}
    request = urllib.request.Request(f"{url}/healthz", headers=known)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
