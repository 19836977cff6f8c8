"""The hidden prepare command: checks before serving.

It runs in a process of its own, because most of what it imports is of no use to the
supervising process; see processes.py.
"""

import ipaddress
import os
import socket
import sys
import time

import click

from tracker.cli import setup
from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import Prepared
from tracker.errors import ConfigurationError
from tracker.services.people.accounts import (
    create_account,
    find_admin_without_password,
    has_open_account,
)
from tracker.services.people.sign_ins import create_link
from tracker.settings import Settings
from tracker.storage.base import list_rows
from tracker.storage.database import Database
from tracker.storage.images import open_image_store
from tracker.storage.operations import schema
from tracker.storage.people import Account
from tracker.web.people.provider import check_provider
from tracker.words import ADMIN

# The previous server may need a moment to end; two at one port would share the
# requests.
_PATIENCE_SECONDS = 5.0


@click.command(hidden=True)
@click.option("--host", required=True)
@click.option("--port", required=True, type=int)
@click.option("--upgrade", is_flag=True, help="Upgrade the database, and make a link.")
def prepare(host: str, port: int, *, upgrade: bool) -> None:
    """Check that serving is possible, and print the result for the supervisor."""
    settings = setup.load_settings()
    configure_logging(settings.log_level)
    open_image_store(settings)
    # Before anything is created: the port may be taken.
    address = _find_address(host)
    _check_port(host, address, port, patience=0 if upgrade else _PATIENCE_SECONDS)
    database = setup.reach(settings) if upgrade else setup.connect(settings, fill=True)
    try:
        if upgrade:
            schema.upgrade(database)
        _check_host(settings, host, address)
        settings.load_secret_key()
        check_provider(settings)
        is_local = ipaddress.ip_address(address).is_loopback
        if upgrade and not (is_local or settings.public_url or settings.trusted_hosts):
            click.echo(
                "Requests from other machines are refused until TRACKER_PUBLIC_URL or "
                "TRACKER_TRUSTED_HOSTS names this server.",
                err=True,
            )
        prepared = Prepared(
            address=address,
            processes=settings.web_processes or count_processes(settings, database),
            connections=settings.web_connections,
            log_level=settings.log_level,
            url=settings.public_url,
            link=_make_link(database) if upgrade and is_local else None,
        )
    finally:
        database.close()
    click.echo(prepared.dump())


def _find_address(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ConfigurationError(
            f"--host {host}: there is no such host ({error})"
        ) from error
    return str(found)


def _check_host(settings: Settings, host: str, address: str) -> None:
    # A public address needs an account and a secret key chosen by the operator.
    if ipaddress.ip_address(address).is_loopback:
        return
    if not settings.secret_key:
        raise ConfigurationError(
            f"--host {host} lets others on the network in, so TRACKER_SECRET_KEY must "
            "be set. Make one with: openssl rand -hex 32"
        )
    with setup.connected(settings) as database, database.read() as session:
        if not has_open_account(session):
            raise ConfigurationError(
                f"--host {host} lets others on the network in, but there is no account "
                "yet. Create one first: tracker accounts create NAME --role admin"
            )


def _check_port(host: str, address: str, port: int, *, patience: float) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    deadline = time.monotonic() + patience
    while True:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise ConfigurationError(
                        f"--port {port} is not available on {host} ({error.strerror}); "
                        "choose another"
                    ) from error
            else:
                return
        time.sleep(0.1)


def count_processes(settings: Settings, database: Database) -> int:
    """Return how many web processes to start: one for each processor.

    More than two would only wait for each other to write to SQLite; more than four
    would open more connections than PostgreSQL allows by default.  The rate limit is
    counted per process, so on SQLite, where one process will do, it is exact.
    """
    if database.is_sqlite and settings.requests_per_minute:
        return 1
    count = os.cpu_count() or 1
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    return min(count, 2 if database.is_sqlite else 4)


def _make_link(database: Database) -> str | None:
    """Return the token of a sign-in link for an admin without a password."""
    with database.write() as session:
        if not list_rows(session, Account):
            create_account(session, "admin", ADMIN, setup.by())
        admin = find_admin_without_password(session)
        return None if admin is None else create_link(session, admin, setup.by())
