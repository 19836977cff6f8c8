"""What SQLite hides: the rows and the changes of imports that have not ended.

Such an import writes in pieces, between which others write; see
storage/imports/staging.py.  Until it ends nobody may see its rows, however they ask.
So while there are any, each connection has views in its own temporary schema, which
SQLite looks into first: there ``queries`` are all but those of staged batches.
Whatever reads, reads the views.  What writes has to say ``main.queries``, which is
put into its statement here.

A query that others can see already is changed in its place.  A trigger on the
connection of the import notes in ``staged_changes`` what it was before.  The views of
all others show that, and triggers on their connections hold the query: who wants to
change it is told to try again.
"""

import json
import re
import sqlite3
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ExceptionContext,
    Select,
    event,
    text,
    true,
)
from sqlalchemy.orm import Session

from tracker.errors import UnavailableError

_Statement = TypeVar("_Statement", bound="Select[*tuple[Any, ...]]")
# The options of a connection that is shown everything, and of one that stages more.
SEES_STAGED = "tracker_sees_staged"
STAGES = "tracker_stages"
# In the information of a connection: whose staged rows are its own.
OWNER = "tracker_owner"
_STATE = "tracker_state"
# What a connection does: hides rows; restores what was changed as well; or, that of an
# import, notes what it changes.
_HIDES, _RESTORES, _NOTES = "hides", "restores", "notes"
# The batch of a row leads its id; see storage/estimates/pending.py.
BATCH_BITS = 24
CHANGED = (
    *("input", "label_id", "label", "sampling"),
    *("queue_rank", "agreement", "is_repeat"),
)
_STAGED = "SELECT id FROM main.staged_batches"
_OF_BATCH = f"(id >> 24) NOT IN ({_STAGED})"
_SHOWN = {
    "queries": _OF_BATCH,
    "labels": _OF_BATCH,
    "versions": "id NOT IN (SELECT version_id FROM main.staged_versions)",
}
_HELD = "an import that has not ended yet changes the same query"
_IS_HELD = (
    "EXISTS (SELECT 1 FROM main.staged_changes "  # noqa: S608 - all are ours.
    f"WHERE query_id = {{}} AND owner_id IN ({_STAGED}))"
)
_NOTE = (
    f"BEFORE UPDATE OF {', '.join(CHANGED)} ON main.queries "  # noqa: S608
    f"WHEN (OLD.id >> 24) NOT IN ({_STAGED}) BEGIN "
    f"SELECT RAISE(ABORT, '{_HELD}') WHERE EXISTS (SELECT 1 FROM main.staged_changes "
    "WHERE query_id = OLD.id AND owner_id IS NOT staging_owner() "
    f"AND owner_id IN ({_STAGED})); "
    f"INSERT OR REPLACE INTO staged_changes (query_id, owner_id, {', '.join(CHANGED)}) "
    f"SELECT OLD.id, staging_owner(), {', '.join('OLD.' + name for name in CHANGED)} "
    "WHERE NOT EXISTS (SELECT 1 FROM main.staged_changes "
    "WHERE query_id = OLD.id AND owner_id = staging_owner()); END"
)
_READS_TABLE = "tracker_reads_table"
_IS_FREE = text(
    f"(queries.id >> 24) NOT IN ({_STAGED}) "  # noqa: S608 - all are ours.
    "AND queries.id NOT IN (SELECT query_id FROM main.staged_changes)"
)
_SHOW_VERSIONS = text(
    "DELETE FROM staged_versions WHERE version_id IN ("
    "SELECT id FROM main.versions WHERE detector_id = :detector_id "
    "AND name IN (SELECT value FROM json_each(:names)))"
)
_LIST_BATCHES = text("SELECT id FROM main.staged_batches ORDER BY id DESC")
_FIND = (
    "SELECT EXISTS (SELECT 1 FROM main.staged_batches) * "
    "(1 + EXISTS (SELECT 1 FROM main.staged_changes))"
)
_WRITES = re.compile(rf"(INSERT INTO|UPDATE|DELETE FROM) ({'|'.join(_SHOWN)})\b")


def listen(engine: Engine) -> None:
    """Let what is written on the connections of *engine* go into the tables."""
    event.listen(engine, "before_cursor_execute", _write_into_table, retval=True)
    event.listen(engine, "handle_error", _explain)


def hides(connection: Connection) -> bool:
    """Return whether rows may be hidden from this connection."""
    return connection.info.get(_STATE) in {_HIDES, _RESTORES}


def show_versions(connection: Connection, detector_id: int, names: list[str]) -> None:
    """Show versions that an import brought and somebody else brings too."""
    if hides(connection):
        connection.execute(
            _SHOW_VERSIONS, {"detector_id": detector_id, "names": json.dumps(names)}
        )


def shown_ranges(session: Session, row_id: Any) -> list[ColumnElement[bool]]:
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
        is_newer = row_id >= (batch + 1) << BATCH_BITS
        ranges.append(is_newer if last is None else is_newer & (row_id < last))
        last = batch << BATCH_BITS
    return [*ranges, true() if last is None else row_id < last]


def only_free(session: Session, statement: _Statement) -> _Statement:
    """Return a *statement* that selects queries without those that an import holds.

    It reads the table, where they are what everybody is shown: a queue of a million
    has its order from an index, and a view has none.
    """
    connection = session.connection()
    if connection.dialect.name != "sqlite" or not _restores(connection):
        return statement
    return statement.where(_IS_FREE).execution_options(**{_READS_TABLE: True})


def must_change(connection: Connection) -> bool:
    """Return whether this transaction must end first, to hide more or less."""
    return _find_state(connection) != connection.info.get(_STATE)


def change(connection: Connection) -> None:
    """Hide what is staged, or do so no more; no transaction may be open.

    One that is undone would undo this too.
    """
    driver, info = driver_of(connection), connection.info
    state = _find_state(connection)
    for kind, name, _ in _list_objects(driver, info.get(_STATE)):
        driver.execute(f"DROP {kind} temp.{name}")
    driver.create_function("staging_owner", 0, lambda: info.get(OWNER))
    for kind, name, definition in _list_objects(driver, state):
        driver.execute(f"CREATE TEMP {kind} {name} {definition}")
    info[_STATE] = state


def _list_objects(
    driver: sqlite3.Connection, state: str | None
) -> list[tuple[str, str, str]]:
    """Return the kind, the name and the definition of what a state consists of."""
    if state is None:
        return []
    if state == _NOTES:
        return [("TRIGGER", "note_change", _NOTE)]
    views = {
        table: f"SELECT * FROM main.{table} WHERE {condition}"  # noqa: S608
        for table, condition in _SHOWN.items()
    }
    triggers = {}
    if state == _RESTORES:
        views["queries"] = _restored(driver)
        refuse = f"BEGIN SELECT RAISE(ABORT, '{_HELD}'); END"
        triggers = {
            f"hold_{name}": f"BEFORE {when} ON main.{table} "
            f"WHEN {_IS_HELD.format(row)} {refuse}"
            for name, when, table, row in (
                ("change", "UPDATE", "queries", "OLD.id"),
                ("query", "DELETE", "queries", "OLD.id"),
                ("label", "INSERT", "labels", "NEW.query_id"),
            )
        }
    return [
        *(("VIEW", name, f"AS {view}") for name, view in views.items()),
        *(("TRIGGER", name, trigger) for name, trigger in triggers.items()),
    ]


def _restored(driver: sqlite3.Connection) -> str:
    """Return the queries as they were before an import changed some.

    What is looked for by another column than those is found by its index.
    """
    names = [row[1] for row in driver.execute("PRAGMA main.table_info(queries)")]
    columns = ", ".join(
        f"CASE WHEN was.query_id IS NULL THEN now.{name} ELSE was.{name} END AS {name}"
        if name in CHANGED
        else f"now.{name} AS {name}"
        for name in names
    )
    return (
        f"SELECT {columns} FROM main.queries AS now "  # noqa: S608 - all are ours.
        "LEFT JOIN main.staged_changes AS was "
        f"ON was.query_id = now.id AND was.owner_id IN ({_STAGED}) "
        f"WHERE (now.id >> 24) NOT IN ({_STAGED})"
    )


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return the driver's own connection."""
    driver: Any = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _find_state(connection: Connection) -> str | None:
    """Return what a connection has to hide by now."""
    options = connection.get_execution_options()
    if options.get(STAGES, False):
        return _NOTES
    if options.get(SEES_STAGED, False):
        return None
    return (None, _HIDES, _RESTORES)[_count_kinds(connection)]


def _restores(connection: Connection) -> bool:
    return bool(connection.info.get(_STATE) == _RESTORES)


def _count_kinds(connection: Connection) -> int:
    """Return 0 if nothing is staged, 1 for rows, and 2 if changes are as well."""
    try:
        # Each transaction asks, so not by way of SQLAlchemy.
        return int(driver_of(connection).execute(_FIND).fetchone()[0])
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return 0
        # Again, for the error to be given its usual name.
        return int(connection.exec_driver_sql(_FIND).scalar() or 0)


def _write_into_table(
    connection: Connection,
    _cursor: Any,
    statement: str,
    parameters: Any,
    context: Any,
    *_more: Any,
) -> tuple[str, Any]:
    if hides(connection):
        found = _WRITES.match(statement)
        if found is not None:
            into, table = found.groups()
            statement = f"{into} main.{table}{statement[found.end() :]}"
        elif context is not None and _READS_TABLE in context.execution_options:
            statement = statement.replace("FROM queries", "FROM main.queries", 1)
    return statement, parameters


def _explain(context: ExceptionContext) -> UnavailableError | None:
    """Say what is hidden or held; on PostgreSQL one waits for it."""
    said, connection = str(context.original_exception), context.connection
    if _HELD in said:
        return UnavailableError(_HELD)
    is_hidden = connection is not None and hides(connection)
    if is_hidden and said.startswith("UNIQUE constraint failed: queries."):
        return UnavailableError("an import that has not ended yet brings the same key")
    return None
