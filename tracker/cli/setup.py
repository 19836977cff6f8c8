"""The settings and the database of every command, and checks before serving."""

import getpass
import ipaddress
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tracker.clock import utc_now
from tracker.errors import ConfigurationError, DatabaseAwayError, UnavailableError
from tracker.services.by import Actor, By
from tracker.services.people.accounts import has_open_account
from tracker.settings import Settings
from tracker.storage.database import Database, open_database
from tracker.storage.operations import schema
from tracker.words import ADMIN


def load_settings() -> Settings:
    # The only place where the environment is read.
    return Settings.from_env(os.environ)  # noqa: TID251


def reach(settings: Settings, *, must_exist: bool = False) -> Database:
    """Open the database once it has answered, whatever its schema.

    Raises ConfigurationError, which names its URL, if it does not answer.
    """
    database = open_database(settings.database, must_exist=must_exist)
    try:
        database.check_durability()
    except UnavailableError as error:
        database.close()
        where = database.engine.url.render_as_string(hide_password=True)
        more = f": {error.said}" if isinstance(error, DatabaseAwayError) else ""
        raise ConfigurationError(
            f"{error}{more} (TRACKER_DATABASE_URL is {where})"
        ) from error
    return database


def connect(settings: Settings, *, fill: bool = False) -> Database:
    """Open the database; its schema must be the one of this program.

    Refuses a missing or empty database (a mistyped URL) unless *fill* is true, and a
    database of another version, because upgrading is the operator's decision.
    """
    database = reach(settings, must_exist=not fill)
    try:
        if fill and schema.current_revision(database) is None:
            schema.upgrade(database)
        wrong = schema.find_mismatch(database)
        if wrong is not None:
            raise ConfigurationError(wrong)
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def connected(settings: Settings, *, fill: bool = False) -> Iterator[Database]:
    """Open the database during a command; see ``connect``."""
    database = connect(settings, fill=fill)
    try:
        yield database
    finally:
        database.close()


def process_name() -> str:
    """Return a name of this process that is unique on all machines."""
    return f"{socket.gethostname()}-{os.getpid()}"


def is_alive(process: str) -> bool:
    """Return whether *process* may be running; True for any of another machine."""
    host, _, pid = process.rpartition("-")
    if host != socket.gethostname():
        return True
    try:
        # The second recompute of a process has ".2" after its id.
        os.kill(int(pid.removesuffix(".2")), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def find_address(host: str) -> str:
    """Return the address of *host*; raises ConfigurationError if there is none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ConfigurationError(
            f"--host {host}: there is no such host ({error})"
        ) from error
    return str(found)


def check_host(settings: Settings, host: str, address: str) -> None:
    """Raise ConfigurationError if *address* is public but sign-in is not set up.

    A public address needs an account and a secret key chosen by the operator.
    """
    if is_loopback(address):
        return
    if not settings.secret_key:
        raise ConfigurationError(
            f"--host {host} lets others on the network in, so TRACKER_SECRET_KEY must "
            "be set. Make one with: openssl rand -hex 32"
        )
    with connected(settings) as database, database.read() as session:
        if not has_open_account(session):
            raise ConfigurationError(
                f"--host {host} lets others on the network in, but there is no account "
                "yet. Create one first: tracker accounts create NAME --role admin"
            )


def check_port(host: str, address: str, port: int, *, patience: float = 0) -> None:
    """Raise ConfigurationError if *port* is still taken after *patience* seconds."""
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


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def by() -> By:
    actor = Actor(getpass.getuser(), ADMIN, "command")
    return By(actor, utc_now(), socket.gethostname())
