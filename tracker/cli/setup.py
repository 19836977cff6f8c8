"""The settings and the database of every command."""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tracker.clock import utc_now
from tracker.errors import ConfigurationError, DatabaseAwayError, UnavailableError
from tracker.services.by import Actor, By
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


def by() -> By:
    actor = Actor(getpass.getuser(), ADMIN, "command")
    return By(actor, utc_now(), socket.gethostname())
