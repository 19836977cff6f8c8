"""Opening a database, and its two kinds of transaction."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from tracker.errors import ConfigurationError, UnavailableError

_BUSY_SECONDS = 30
# PostgreSQL ended the transaction, and the same one may succeed next time.
_DEADLOCK, _SERIALIZATION = "40P01", "40001"
_TRIES = 5
_PAUSE_SECONDS = 0.05
# What the two databases say where a commit waits for the disk.
_DURABLE = frozenset({"2", "3", "on", "remote_apply"})
# An error goes into the log with its statement, whose values are labels and hashes.
_NO_PARAMETERS = True
_Result = TypeVar("_Result")


class _CollisionError(UnavailableError):
    """Two transactions stood in each other's way, and this one was ended."""


class _Turns:
    """The turns that the threads of this process take to write to SQLite.

    It has one writer at a time.  Left to itself, each of those who wait sleeps for
    up to a tenth of a second before it looks again, and whoever comes by just then
    goes first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            raise UnavailableError("the database is locked: others are writing")

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


class Database:
    """An engine and the two ways to use it: ``read()`` and ``write()``.

    Both give a session inside one transaction.  A read sees one unchanging
    snapshot.  A write commits when the block ends and rolls back when it raises.
    """

    def __init__(self, engine: Engine) -> None:
        """Take over *engine*."""
        self.engine = engine
        options: dict[str, Any] = {"tracker_read": True}
        if engine.dialect.name == "postgresql":
            options |= {
                "isolation_level": "REPEATABLE READ",
                "postgresql_readonly": True,
            }
        self._read_engine = engine.execution_options(**options)
        self._writer = _Turns() if self.is_sqlite else nullcontext()

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the embedded database."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only transaction that sees one snapshot."""
        with translated(), Session(self._read_engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a transaction that is committed when the block ends."""
        with (
            self._writer,
            translated(),
            Session(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    def run(self, work: Callable[[Session], _Result]) -> _Result:
        """Return what *work* gives in a write, tried again where that can help.

        So it can when two requests brought the same new key or version at the
        same time: the constraint stopped the second one, whose next try finds
        the first one's row.  So it can when they waited for each other: the one
        that was ended pauses, so that the other one is through before it returns.
        """
        for tried in range(1, _TRIES):
            try:
                with suppress(IntegrityError), self.write() as session:
                    return work(session)
            except _CollisionError:
                time.sleep(_PAUSE_SECONDS * 2**tried)
        with self.write() as session:
            return work(session)

    def check_durability(self) -> None:
        """Raise ConfigurationError if a commit is answered before it is on the disk.

        Every connection asks for that; a pooler in between may drop the wish.
        """
        ask = "PRAGMA synchronous" if self.is_sqlite else "SHOW synchronous_commit"
        with self.read() as session:
            found = str(session.connection().exec_driver_sql(ask).scalar())
        if found not in _DURABLE:
            raise ConfigurationError(
                f"{ask} says {found}: a label could be lost after it was acknowledged. "
                "Connect to the database itself, or let the pooler pass on the options "
                "of a connection"
            )

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


_EXAMPLE = "postgresql+psycopg://USER:PASSWORD@HOST/NAME"
_ENCODING = (
    "in a password : is written as %3A, / as %2F, @ as %40, # as %23 and % as %25"
)


def open_database(url: str) -> Database:
    """Open the database at *url* without touching its schema.

    Raises ConfigurationError for a URL of any other kind than SQLite in a file
    or PostgreSQL through psycopg.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # What could not be read may be the password.
        raise ConfigurationError(
            f"TRACKER_DATABASE_URL is not a URL such as {_EXAMPLE}; {_ENCODING}"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        return Database(_open_sqlite(parsed.database, parsed))
    if parsed.drivername == "postgresql+psycopg":
        if "@" in f"{parsed.host}{parsed.database}":
            raise ConfigurationError(
                f"TRACKER_DATABASE_URL has too many @; {_ENCODING}"
            )
        return Database(_open_postgresql(parsed))
    raise ConfigurationError(
        f"TRACKER_DATABASE_URL begins with {parsed.drivername}: it must be "
        f"sqlite:///FILE or {_EXAMPLE}"
    )


def _open_sqlite(file: str | None, url: Any) -> Engine:
    if not file or file == ":memory:":
        raise ConfigurationError(
            "TRACKER_DATABASE_URL names no file: the web server and the worker are "
            "two processes and share the database by its file"
        )
    try:
        # For their owner alone, as a backup is; SQLite gives its other files the same.
        Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database, {Path(file).parent}, cannot be made: "
            f"{error.strerror}; TRACKER_DATA_DIR or TRACKER_DATABASE_URL names another"
        ) from error
    if not Path(file).exists():
        # Where that fails SQLite says why, at the first connection.
        with suppress(OSError):
            Path(file).touch(mode=0o600)
    engine = create_engine(
        url,
        connect_args={"timeout": _BUSY_SECONDS},
        pool_size=16,
        hide_parameters=_NO_PARAMETERS,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver's own idea of transactions begins them too late and not at all
    # for SELECT and DDL, which loses updates; _begin_sqlite does it instead.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        # NORMAL would be five times as fast and loses acknowledged labels when
        # the power fails.
        "synchronous=FULL",
        "foreign_keys=ON",
        # Without it INSERT OR REPLACE deletes rows past the triggers that keep
        # history append-only.
        "recursive_triggers=ON",
        f"busy_timeout={_BUSY_SECONDS * 1000}",
        "cache_size=-65536",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    is_read = connection.get_execution_options().get("tracker_read", False)
    # A transaction that began as a reader cannot become a writer once somebody
    # else has written: it fails at once, however long the timeout.
    connection.exec_driver_sql("BEGIN" if is_read else "BEGIN IMMEDIATE")


def _open_postgresql(url: Any) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=_NO_PARAMETERS,
        pool_pre_ping=True,
        pool_size=16,
        pool_timeout=5,
        connect_args={
            "connect_timeout": 5,
            # A paused process must not hold its locks for ever.
            "options": "-c idle_in_transaction_session_timeout=60s -c lock_timeout=30s "
            "-c synchronous_commit=on -c timezone=UTC",
        },
    )
    # Before SQLAlchemy asks for the version, which it cannot read in SQL_ASCII.
    event.listen(engine, "connect", _check_encoding, insert=True)
    return engine


def _check_encoding(connection: Any, _record: Any) -> None:
    found = connection.info.parameter_status("server_encoding")
    if found != "UTF8":
        connection.close()
        raise ConfigurationError(
            f"the encoding of the database is {found}: make one with ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


@contextmanager
def translated() -> Iterator[None]:
    """Raise UnavailableError where the database is away or busy."""
    try:
        yield
    except (OperationalError, PoolTimeoutError) as error:
        said = getattr(error, "orig", None)
        if getattr(said, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            # It does answer: there is no such table, or a mistake in the statement.
            raise
        state = getattr(said, "sqlstate", None)
        if state in {_DEADLOCK, _SERIALIZATION}:
            raise _CollisionError("too much is written at the same time") from error
        raise UnavailableError(
            f"the database does not answer: {first_line(error)}"
        ) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise UnavailableError("the connection to the database was lost") from error
        if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise UnavailableError(first_line(error)) from error
        raise


def first_line(error: Exception) -> str:
    """Return the first line of what the database said."""
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
