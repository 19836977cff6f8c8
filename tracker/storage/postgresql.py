"""Opening PostgreSQL, and finding out that a connection is lost."""

import select
import time
from functools import partial
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from tracker.errors import ConfigurationError
from tracker.storage.dialect import NO_PARAMETERS

# So long after its last use a connection is not asked whether it is still there.
_MOMENT_SECONDS = 1.0


def open_postgresql(url: Any, at_once: int) -> Engine:
    """Return the engine of the database at *url*, which nobody asks yet."""
    engine = create_engine(
        url,
        hide_parameters=NO_PARAMETERS,
        pool_size=2 * at_once,
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
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_check_life, engine.dialect))
    return engine


def _check_encoding(connection: Any, _record: Any) -> None:
    found = connection.info.parameter_status("server_encoding")
    if found != "UTF8":
        connection.close()
        raise ConfigurationError(
            f"the encoding of the database is {found}: make one with ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


def _note_use(_connection: Any, record: Any) -> None:
    record.info["used_at"] = time.monotonic()


def _check_life(dialect: Any, connection: Any, record: Any, _fairy: Any) -> None:
    """Have the pool connect again where a connection was lost.

    With ``pool_pre_ping`` SQLAlchemy asks the server each time, which for a label are
    two round trips.  A server that ends says so, and where its machine goes silent a
    connection that has rested is asked.
    """
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
    """Return whether the server has sent something that nobody has read."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
