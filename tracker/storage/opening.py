"""Opening SQLite and PostgreSQL, and beginning their transactions."""

import select
import sqlite3
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from tracker.errors import ConfigurationError
from tracker.storage.dialect import NO_PARAMETERS

BUSY_SECONDS = 30
# SQLite itself would sleep for up to a tenth of a second between two tries, and miss
# the gaps that an import leaves.  A label holds the lock for about a millisecond, and
# between two labels a process releases it for a tenth of one.
_SHORTEST_SECONDS, _LONGEST_SECONDS, _GROWTH = 0.00002, 0.0005, 1.1
# The size to which a checkpoint cuts the log.
_LARGEST_LOG_BYTES = 64 * 2**20
# The pages that each connection keeps.  A process has one writer, whose changed pages
# would go into the log several times if they did not fit, and many readers, for whom
# the system keeps the file.
_WRITER_KIB, _READER_KIB = 32 * 2**10, 8 * 2**10


def open_sqlite(
    file: str | None, url: Any, at_once: int, *, must_exist: bool
) -> Engine:
    """Return the engine of the database in *file*; raises ConfigurationError."""
    if not file or file == ":memory:":
        raise ConfigurationError(
            "TRACKER_DATABASE_URL names no file: the web server and the worker are "
            "two processes and share the database by its file"
        )
    path = Path(file)
    if must_exist and not path.exists():
        raise ConfigurationError(
            f"there is no database at {file}: correct TRACKER_DATABASE_URL or "
            "TRACKER_DATA_DIR, or run tracker db upgrade to create one there"
        )
    try:
        # Private, like a backup; SQLite copies the mode to its other files.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database, {path.parent}, cannot be created: "
            f"{error.strerror}; choose another with TRACKER_DATA_DIR or "
            "TRACKER_DATABASE_URL"
        ) from error
    if not path.exists():
        # If it fails, SQLite reports why at the first connection.
        with suppress(OSError):
            path.touch(mode=0o600)
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=2 * at_once,
        hide_parameters=NO_PARAMETERS,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver begins transactions too late, and not at all for SELECT and DDL, which
    # loses updates; _begin_sqlite begins them instead.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        # NORMAL would be five times as fast, but a power failure would lose
        # acknowledged labels.
        "synchronous=FULL",
        "foreign_keys=ON",
        # Without it INSERT OR REPLACE bypasses the triggers that keep the history
        # append-only.
        "recursive_triggers=ON",
        f"busy_timeout={BUSY_SECONDS * 1000}",
        f"cache_size=-{_READER_KIB}",
        # The log would stay as large as the largest import.
        f"journal_size_limit={_LARGEST_LOG_BYTES}",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("tracker_looks", False):
        # Each statement is then its own transaction.
        return
    driver: Any = connection.connection.dbapi_connection
    if options.get("tracker_read", False):
        driver.execute(f"PRAGMA cache_size=-{_READER_KIB}")
        connection.exec_driver_sql("BEGIN")
        return
    driver.execute(f"PRAGMA cache_size=-{_WRITER_KIB}")
    lasts = options.get("tracker_lasts", True)
    driver.execute(f"PRAGMA synchronous={'FULL' if lasts else 'NORMAL'}")
    # A transaction that began as a reader cannot become a writer after another write:
    # it would fail at once, whatever the timeout.
    # Not through SQLAlchemy: they belong to no transaction.
    (milliseconds,) = driver.execute("PRAGMA busy_timeout").fetchone()
    waits = options.get("tracker_waits", True)
    last = time.monotonic() + (milliseconds / 1000 if waits else 0)
    driver.execute("PRAGMA busy_timeout=0")
    pause, begin = _SHORTEST_SECONDS, "BEGIN IMMEDIATE"
    try:
        while not driver.in_transaction:
            is_last = time.monotonic() >= last
            try:
                # Not through SQLAlchemy, because many tries may fail.
                driver.execute(begin)
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if is_last or not is_busy:
                    # Once more through SQLAlchemy, which converts the error.
                    connection.exec_driver_sql(begin)
                    break
                time.sleep(pause)
                pause = min(pause * _GROWTH, _LONGEST_SECONDS)
    finally:
        driver.execute(f"PRAGMA busy_timeout={milliseconds}")


# PostgreSQL's error for a write in a read-only transaction, or on a standby.
READ_ONLY = "25006"
# Connections used within this time are not pinged.
_MOMENT_SECONDS = 1.0


_CONNECT_SECONDS = 5
# Not options of the connection: PgBouncer refuses those.
_BEGIN_SESSION = (
    # A paused process must not hold its locks for ever.
    "SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '30s';"
    "SET synchronous_commit = on; SET timezone = 'UTC';"
    # It takes longer to compile a statement of a page than to run it.
    "SET jit = off; SELECT pg_backend_pid()"
)
_SHARED = (
    "the pooler between Tracker and PostgreSQL gives each transaction another "
    "connection to the server: set pool_mode = session for this database, or connect "
    "to PostgreSQL itself"
)
_PROBES = 3
_PID = "SELECT pg_backend_pid()"


def open_postgresql(url: Any, at_once: int) -> Engine:
    """Return the engine of the database at *url* without connecting."""
    engine = create_engine(
        url,
        hide_parameters=NO_PARAMETERS,
        pool_size=2 * at_once,
        pool_timeout=5,
        connect_args={"connect_timeout": _CONNECT_SECONDS},
    )
    event.listen(engine, "connect", partial(_begin_session, engine), insert=True)
    # Before SQLAlchemy asks for the version, which it cannot read in SQL_ASCII.
    event.listen(engine, "connect", _check_encoding, insert=True)
    event.listen(engine, "handle_error", _leave_standby)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_check_life, engine.dialect))
    return engine


def _check_encoding(connection: Any, _record: Any) -> None:
    found = connection.info.parameter_status("server_encoding")
    if found != "UTF8":
        connection.close()
        raise ConfigurationError(
            f"the encoding of the database is {found}: create one with ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


def _begin_session(engine: Any, connection: Any, _record: Any) -> None:
    """Set the options of a session, in one round trip.

    Raises ConfigurationError for a pooler that shares sessions among its clients,
    because settings and prepared statements would be mixed up.
    """
    pid = _ask(connection, _BEGIN_SESSION)
    # A pooler reports another process id than the server's.
    if pid == connection.info.backend_pid:
        return
    arguments, options = engine.dialect.create_connect_args(engine.url)
    other = engine.dialect.connect(
        *arguments, connect_timeout=_CONNECT_SECONDS, **options
    )
    try:
        with closing(other):
            is_shared = _is_shared(connection, other)
    except engine.dialect.loaded_dbapi.errors.ProtocolViolation:
        # A pooler in statement mode refuses transactions.
        is_shared = True
    if is_shared:
        connection.close()
        raise ConfigurationError(_SHARED)


def _is_shared(connection: Any, other: Any) -> bool:
    pid = _ask(connection, _PID)
    for _ in range(_PROBES):
        # During its transaction a connection has a session of its own.
        with other.transaction():
            [theirs] = other.execute(_PID).fetchone()
            if theirs == pid or _ask(connection, _PID) != pid:
                return True
    return False


def _leave_standby(context: Any) -> None:
    """Make the pool reconnect after the server refused a write.

    It may have become a standby, with another host of the URL as the primary.
    """
    connection = context.connection
    is_read = connection and connection.get_execution_options().get("tracker_read")
    state = getattr(context.original_exception, "sqlstate", None)
    if state == READ_ONLY and not is_read:
        context.is_disconnect = True


def _ask(connection: Any, statements: str) -> Any:
    """Return the value of the last of *statements*, run outside a transaction."""
    connection.autocommit = True
    cursor = connection.execute(statements)
    while cursor.nextset():
        pass
    [value] = cursor.fetchone()
    connection.autocommit = False
    return value


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used_at"] = time.monotonic()


def _check_life(dialect: Any, connection: Any, record: Any, _fairy: Any) -> None:
    """Make the pool reconnect after a connection was lost.

    ``pool_pre_ping`` would ping the server at each use, two round trips for a label.  A
    server that stops tells its connections; for a machine that goes silent, a
    connection that has rested is pinged.
    """
    # After a read SQLAlchemy would begin READ WRITE and override the server's default.
    connection.read_only = None
    used_at = record.info.get("used_at")
    if used_at is None:
        return
    has_rested = time.monotonic() - used_at > _MOMENT_SECONDS
    try:
        if has_rested or _has_news(connection):
            dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def _has_news(connection: Any) -> bool:
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
