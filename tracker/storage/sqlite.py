"""Opening SQLite, and how its transactions begin."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from tracker.errors import ConfigurationError
from tracker.storage.dialect import NO_PARAMETERS

BUSY_SECONDS = 30
# SQLite itself would sleep for up to a tenth of a second between two tries, and miss
# the moments that an import leaves to others.  A label holds the lock for about a
# millisecond, and a process with more of them leaves it for a tenth of one.
_SHORTEST_SECONDS, _LONGEST_SECONDS, _GROWTH = 0.00002, 0.0005, 1.1
# What a checkpoint leaves of the log.
_LARGEST_LOG_BYTES = 64 * 2**20


def open_sqlite(
    file: str | None, url: Any, at_once: int, *, must_exist: bool
) -> Engine:
    """Return the engine of a database in *file*, made with its folder if need be.

    Raises ConfigurationError if no file is named, if it must exist and does not, or if
    its folder cannot be made.
    """
    if not file or file == ":memory:":
        raise ConfigurationError(
            "TRACKER_DATABASE_URL names no file: the web server and the worker are "
            "two processes and share the database by its file"
        )
    if not must_exist:
        _make_file(Path(file))
    elif not Path(file).exists():
        raise ConfigurationError(
            f"there is no database at {file}: correct TRACKER_DATABASE_URL or "
            "TRACKER_DATA_DIR, or run tracker db upgrade to make one there"
        )
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=2 * at_once,
        hide_parameters=NO_PARAMETERS,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_file(file: Path) -> None:
    try:
        # For their owner alone, as a backup is; SQLite gives its other files the same.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database, {file.parent}, cannot be made: "
            f"{error.strerror}; TRACKER_DATA_DIR or TRACKER_DATABASE_URL names another"
        ) from error
    if not file.exists():
        # Where that fails SQLite says why, at the first connection.
        with suppress(OSError):
            file.touch(mode=0o600)


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
        f"busy_timeout={BUSY_SECONDS * 1000}",
        "cache_size=-32768",
        # After an import the log would stay as large as the import for ever.
        f"journal_size_limit={_LARGEST_LOG_BYTES}",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("tracker_looks", False):
        # Each statement is a transaction of its own then.
        return
    if options.get("tracker_read", False):
        connection.exec_driver_sql("BEGIN")
        return
    # A transaction that began as a reader cannot become a writer once somebody
    # else has written: it fails at once, however long the timeout.
    # Not by way of SQLAlchemy: they belong to no transaction.
    driver = _driver_of(connection)
    (milliseconds,) = driver.execute("PRAGMA busy_timeout").fetchone()
    waits = options.get("tracker_waits", True)
    last = time.monotonic() + (milliseconds / 1000 if waits else 0)
    driver.execute("PRAGMA busy_timeout=0")
    pause = _SHORTEST_SECONDS
    try:
        while not _has_begun(connection, is_last=time.monotonic() >= last):
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_SECONDS)
    finally:
        driver.execute(f"PRAGMA busy_timeout={milliseconds}")


def _has_begun(connection: Connection, *, is_last: bool) -> bool:
    begin = "BEGIN IMMEDIATE"
    try:
        # Many tries may fail, so not by way of SQLAlchemy.
        _driver_of(connection).execute(begin)
    except sqlite3.OperationalError as error:
        if not is_last and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        # Again, for the error to be given its usual name.
        connection.exec_driver_sql(begin)
    return True


def _driver_of(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
