"""What tests fill a database with: made once, and put into other databases as rows.

To log hundreds of queries and to compute their intervals takes longer than most of
the tests that look at them.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from tracker.storage.database import Database
from tracker.storage.operations import schema

# A worker beats again as time passes, so its row changes while a slow test fills.
_TABLES = [
    table.name for table in schema.metadata.sorted_tables if table.name != "heartbeats"
]
_COUNT = " UNION ALL ".join(
    f"SELECT '{name}' AS name, count(*) AS number FROM {name}" for name in _TABLES
)
_SEQUENCES = {
    "sqlite": "SELECT name, seq FROM sqlite_sequence ORDER BY name",
    "postgresql": "SELECT sequencename, last_value FROM pg_sequences"
    " WHERE schemaname = 'public' AND last_value IS NOT NULL ORDER BY 1",
}
Rows = dict[str, list[Any]]
State = tuple[Any, ...]


class Filling(NamedTuple):
    """The rows that were added, what stood after them, and the result."""

    rows: Rows
    at: datetime
    sequences: list[Any]
    made: Any


class Fillings:
    """All that this process has filled databases with."""

    def __init__(self) -> None:
        self._found: dict[State, Filling] = {}

    def fill(
        self, name: str, build: Callable[[], Any], database: Database, clock: Any
    ) -> Any:
        """Return what *build* returns, and have in *database* what it writes there.

        It is called once for each state that it finds, which is told by the clock,
        the sequences and the number of rows.  It must only add rows.
        """
        key = name, clock.at, database.engine.dialect.name, _state_of(database)
        if key in self._found:
            filling = self._found[key]
            _add(database, filling)
            clock.at = filling.at
            return filling.made
        before = _read(database)
        made = build()
        after = _read(database)
        rows: Rows = {}
        for table, found in after.items():
            old = set(before.pop(table, ()))
            assert old <= set(found), f"{name} changes rows of {table}"
            if new := [row for row in found if row not in old]:
                rows[table] = new
        assert not before, f"{name} deletes rows"
        with database.read() as session:
            sequences = _sequences_of(session.connection())
        self._found[key] = Filling(rows, clock.at, sequences, made)
        return made


def _sequences_of(connection: Connection) -> list[Any]:
    found = connection.exec_driver_sql(_SEQUENCES[connection.dialect.name])
    return [tuple(row) for row in found]


def _state_of(database: Database) -> State:
    with database.read() as session:
        connection = session.connection()
        return (*_counts(connection).items(), *_sequences_of(connection))


def _counts(connection: Connection) -> dict[str, int]:
    """Return the number of rows of each table that has some."""
    return {name: n for name, n in connection.exec_driver_sql(_COUNT) if n}


def _read(database: Database) -> Rows:
    """Return all rows: as they are stored, so that none comes back a little other."""
    with database.read() as session:
        connection = session.connection()
        rows: Rows = {}
        for name in _counts(connection):
            if database.is_sqlite:
                found = connection.exec_driver_sql(f"SELECT * FROM {name}")
                rows[name] = [tuple(row) for row in found]
            else:
                cursor: Any = connection.connection.cursor()
                with cursor.copy(f"COPY (SELECT * FROM {name}) TO STDOUT") as copy:
                    rows[name] = [bytes(row) for row in copy]
        return rows


def _add(database: Database, filling: Filling) -> None:
    with database.write() as session:
        connection = session.connection()
        if database.is_sqlite:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
            for name, rows in filling.rows.items():
                places = ", ".join("?" * len(rows[0]))
                connection.exec_driver_sql(
                    f"INSERT INTO {name} VALUES ({places})", rows
                )
            connection.exec_driver_sql("DELETE FROM sqlite_sequence")
            if filling.sequences:
                connection.exec_driver_sql(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
                    filling.sequences,
                )
            return
        # Foreign keys are not checked, row by row.
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        cursor: Any = connection.connection.cursor()
        for name, rows in filling.rows.items():
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                copy.write(b"".join(rows))
        for name, last in filling.sequences:
            connection.exec_driver_sql("SELECT setval(%s::regclass, %s)", (name, last))
