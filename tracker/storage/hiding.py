"""What SQLite hides: the rows of imports that have not ended.

Such an import writes in pieces, between which others write; see
storage/imports/staging.py.  Until it ends nobody may see its rows, however they ask.
So while there are any, each connection has views in its own temporary schema, which
SQLite looks into first: there ``queries`` are all but those of staged batches.
Whatever reads, reads the views.  What writes has to say ``main.queries``, which is
put into its statement here.
"""

import json
import re
import sqlite3
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ExceptionContext,
    event,
    text,
    true,
)
from sqlalchemy.orm import Session

from tracker.errors import UnavailableError

# The option of a connection that is shown everything.
SEES_STAGED = "tracker_sees_staged"
_HIDES = "tracker_hides"
# The batch of a row leads its id; see storage/estimates/pending.py.
BATCH_BITS = 24
_OF_BATCH = "(id >> 24) NOT IN (SELECT id FROM main.staged_batches)"
_SHOWN = {
    "queries": _OF_BATCH,
    "labels": _OF_BATCH,
    "versions": "id NOT IN (SELECT version_id FROM main.staged_versions)",
}
_SHOW_VERSIONS = text(
    "DELETE FROM staged_versions WHERE version_id IN ("
    "SELECT id FROM main.versions WHERE detector_id = :detector_id "
    "AND name IN (SELECT value FROM json_each(:names)))"
)
_LIST_BATCHES = text("SELECT id FROM main.staged_batches ORDER BY id DESC")
_FIND = "SELECT EXISTS (SELECT 1 FROM main.staged_batches)"
_WRITES = re.compile(rf"(INSERT INTO|UPDATE|DELETE FROM) ({'|'.join(_SHOWN)})\b")


def listen(engine: Engine) -> None:
    """Let what is written on the connections of *engine* go into the tables."""
    event.listen(engine, "before_cursor_execute", _write_into_table, retval=True)
    event.listen(engine, "handle_error", _explain)


def hides(connection: Connection) -> bool:
    """Return whether rows may be hidden from this connection."""
    return bool(connection.info.get(_HIDES, False))


def show_versions(connection: Connection, detector_id: int, names: list[str]) -> None:
    """Show versions that an import brought and somebody else brings too."""
    if hides(connection):
        connection.execute(
            _SHOW_VERSIONS, {"detector_id": detector_id, "names": json.dumps(names)}
        )


def shown_ranges(session: Session, column: Any) -> list[ColumnElement[bool]]:
    """Return the ranges of ids that can be seen, the newest first: usually one.

    What asks for the newest rows alone goes by these, one after the other.  It would
    otherwise begin with a million that are staged.
    """
    connection = session.connection()
    if connection.dialect.name != "sqlite" or not hides(connection):
        return [true()]
    last: int | None = None
    ranges = []
    for (batch,) in connection.execute(_LIST_BATCHES).all():
        is_newer = column >= (batch + 1) << BATCH_BITS
        ranges.append(is_newer if last is None else is_newer & (column < last))
        last = batch << BATCH_BITS
    return [*ranges, true() if last is None else column < last]


def must_change(connection: Connection) -> bool:
    """Return whether this transaction must end first, to hide more or less."""
    is_shown = connection.get_execution_options().get(SEES_STAGED, False)
    return hides(connection) != (not is_shown and _has_staged(connection))


def change(connection: Connection) -> None:
    """Hide what is staged, or do so no more; no transaction may be open.

    One that is undone would undo this too.
    """
    driver = driver_of(connection)
    is_hidden = hides(connection)
    for table, condition in _SHOWN.items():
        driver.execute(
            f"DROP VIEW temp.{table}"
            if is_hidden
            else f"CREATE TEMP VIEW {table} AS "  # noqa: S608 - both are ours.
            f"SELECT * FROM main.{table} WHERE {condition}"
        )
    connection.info[_HIDES] = not is_hidden


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return the driver's own connection."""
    driver: Any = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _has_staged(connection: Connection) -> bool:
    try:
        # Each transaction asks, so not by way of SQLAlchemy.
        return bool(driver_of(connection).execute(_FIND).fetchone()[0])
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return False
        # Again, for the error to be given its usual name.
        return bool(connection.exec_driver_sql(_FIND).scalar())


def _write_into_table(
    connection: Connection,
    _cursor: Any,
    statement: str,
    parameters: Any,
    *_more: Any,
) -> tuple[str, Any]:
    if connection.info.get(_HIDES, False):
        found = _WRITES.match(statement)
        if found is not None:
            into, table = found.groups()
            statement = f"{into} main.{table}{statement[found.end() :]}"
    return statement, parameters


def _explain(context: ExceptionContext) -> UnavailableError | None:
    """Say what a hidden key does; on PostgreSQL one waits for it."""
    said, connection = str(context.original_exception), context.connection
    is_hidden = connection is not None and hides(connection)
    if is_hidden and said.startswith("UNIQUE constraint failed: queries."):
        return UnavailableError("an import that has not ended yet brings the same key")
    return None
