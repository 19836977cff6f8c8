"""What each command does first, and the options and printing that commands share."""

import getpass
import ipaddress
import json
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import structlog
from rich.console import Console
from rich.table import Table

from tracker.clock import utc_now
from tracker.errors import ConfigurationError, DatabaseAwayError, UnavailableError
from tracker.services.by import Actor, By
from tracker.services.people.accounts import has_open_account
from tracker.settings import Settings
from tracker.shapes import Shape
from tracker.storage.database import Database, open_database
from tracker.storage.operations import schema
from tracker.words import ADMIN


def load_settings() -> Settings:
    # The one place where the environment is read; everybody else is handed it.
    return Settings.from_env(os.environ)  # noqa: TID251


def reach(settings: Settings, *, must_exist: bool = False) -> Database:
    """Open the database whatever its schema, once it has answered.

    Raises ConfigurationError, which says where it is, if it does not.
    """
    database = open_database(settings.database, must_exist=must_exist)
    try:
        database.check_durability()
    except UnavailableError as error:
        database.close()
        where = database.engine.url.render_as_string(hide_password=True)
        raise ConfigurationError(
            f"{_explain(error)} (TRACKER_DATABASE_URL is {where})"
        ) from error
    return database


def _explain(error: UnavailableError) -> str:
    return (
        f"{error}: {error.said}" if isinstance(error, DatabaseAwayError) else f"{error}"
    )


def connect(settings: Settings, *, fill: bool = False) -> Database:
    """Open the database, whose schema must be that of this program.

    One that is not there or empty is refused, because it is not the one that was
    meant, unless *fill* says to make it.  One of another version is refused, because to
    change it is a decision.
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
    """Open the database for the length of a command; see ``connect``."""
    database = connect(settings, fill=fill)
    try:
        yield database
    finally:
        database.close()


def process_name() -> str:
    """Return the name of this process among all of them, on all machines."""
    return f"{socket.gethostname()}-{os.getpid()}"


def is_alive(process: str) -> bool:
    """Return whether *process*, by its name, may be running.

    Of another machine nobody here can tell.
    """
    host, _, pid = process.rpartition("-")
    if host != socket.gethostname():
        return True
    try:
        # The second of the two that recompute in one process ends in ".2".
        os.kill(int(pid.removesuffix(".2")), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def find_address(host: str) -> str:
    """Return the address of *host*; raises ConfigurationError for no such host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ConfigurationError(
            f"--host {host}: there is no such host ({error})"
        ) from error
    return str(found)


def check_host(settings: Settings, host: str, address: str) -> None:
    """Raise ConfigurationError where others could reach *address* without sign-in.

    There is no account to ask them for, or no secret key of the operator's own choice.
    """
    if is_loopback(address):
        return
    if not settings.secret_key:
        raise ConfigurationError(
            f"--host {host} lets others on the network in, so TRACKER_SECRET_KEY must "
            "be set, for example to the output of: openssl rand -hex 32"
        )
    with connected(settings) as database, database.read() as session:
        if not has_open_account(session):
            raise ConfigurationError(
                f"--host {host} lets others on the network in, and there is no account "
                "to ask them for. Make one first: tracker accounts create NAME "
                "--role admin"
            )


def check_port(host: str, address: str, port: int, *, patience: float = 0) -> None:
    """Raise ConfigurationError if another program has *port* after so many seconds."""
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
                        f"--port {port} cannot be had on {host} ({error.strerror}); "
                        "choose another"
                    ) from error
            else:
                return
        time.sleep(0.1)


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches *address*."""
    return ipaddress.ip_address(address).is_loopback


def by() -> By:
    actor = Actor(getpass.getuser(), ADMIN, "command")
    return By(actor, utc_now(), socket.gethostname())


def configure_logging(level: str) -> None:
    """Log to stderr from *level* on: for a terminal, as JSON lines elsewhere."""
    renderer: structlog.typing.Processor = (
        # Rich tracebacks show local variables, and one of them may be an API key.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not sys.stderr.isatty():
        processors.append(structlog.processors.format_exc_info)
    least = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=max(least, logging.WARNING), stream=sys.stderr)
    # A run of the job that takes longer than its interval is no reason to warn.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
)

version_option = click.option(
    "--version", help="The version; by default the one that pages show; * pools all."
)


def print_json(found: Shape) -> None:
    """Print what a service answers, as the API does but with line breaks."""
    click.echo(json.dumps(found.dump(), ensure_ascii=False, indent=1))


_Found = TypeVar("_Found", bound=Shape)


def print_as(
    format_name: str, found: _Found, print_text: Callable[[_Found], None]
) -> None:
    """Print what a service answers as JSON, or as *print_text* does."""
    if format_name == "json":
        print_json(found)
    else:
        print_text(found)


# No table is as wide.
_WHOLE = 100_000


def print_table(table: Table) -> None:
    """Print *table*, whole where it goes to a file or another program.

    Square brackets in a name are not taken for colours.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WHOLE
    console.print(table)


def ask(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone, unless *yes*, and stop on a no.

    A script has nobody to ask, and means it.
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"{question} Go on?", abort=True)


class Share(click.FloatRange):
    """A number between 0 and 1, without these two unless they are *with_ends*."""

    name = "share"

    def __init__(self, *, with_ends: bool = False) -> None:
        super().__init__(0, 1, min_open=not with_ends, max_open=not with_ends)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return *value* as a number; NaN, which compares with nothing, is none."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number
