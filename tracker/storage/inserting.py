"""Inserting many rows, and running a statement, in less time than SQLAlchemy takes.

A prepared statement is compiled once for each kind of database, and from then on goes
to the driver as it is.  Around a short one SQLAlchemy takes several times as long as
SQLite takes for it, and on SQLite all others who write wait meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import JSON, Column, Connection, Dialect, Table, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tracker.storage.base import Base, TextList

Asked = Session | Connection
"""Who runs a statement: a session, or where no transaction is needed a connection."""
_Process = Callable[[Any], Any]


class Prepared:
    """A statement whose values have names, and whose rows are plain tuples.

    It belongs to the transaction of the session that it is given, which writes what it
    has not written yet.
    """

    def __init__(self, statement: Any, *, columns: Iterable[str] = ()) -> None:
        """Take a *statement* of SQLAlchemy; it is compiled when it is first run.

        Its values are named as its parameters are, those of an INSERT as its
        *columns*.  A parameter cannot be a list.
        """
        self._statement = statement
        self._columns = list(columns) or None
        self._compiled: dict[str, _Compiled] = {}

    @classmethod
    def adding(cls, table: Table) -> "Prepared":
        return cls(insert(table), columns=table.c.keys())

    def all(self, session: Asked, values: Mapping[str, Any]) -> list[Any]:
        compiled, cursor = self._execute(session, [values])
        rows = cursor.fetchall()
        cursor.close()
        return compiled.read(rows)

    def first(self, session: Asked, values: Mapping[str, Any]) -> Any:
        return next(iter(self.all(session, values)), None)

    def run(self, session: Asked, *values: Mapping[str, Any]) -> None:
        self._execute(session, values)[1].close()

    def _execute(
        self, session: Asked, values: Sequence[Mapping[str, Any]]
    ) -> tuple["_Compiled", Any]:
        if isinstance(session, Connection):
            connection = session
        else:
            session.flush()
            connection = session.connection()
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = _compile(self._statement, self._columns, connection.dialect)
            self._compiled[connection.dialect.name] = compiled
        return compiled, _send(
            connection, compiled.text, list(map(compiled.write, values))
        )


def _send(connection: Connection, text: str, written: Any) -> Any:
    """Run a statement once for each of *written*, and return the cursor.

    Listeners are told, and errors and lost connections dealt with, as SQLAlchemy does.
    """
    is_many = len(written) > 1
    values = written if is_many else written[0]
    cursor: Any = connection.connection.cursor()
    try:
        for listener in connection.dispatch.before_cursor_execute:
            text, values = listener(connection, cursor, text, values, None, is_many)
        (cursor.executemany if is_many else cursor.execute)(text, values)
    except connection.dialect.loaded_dbapi.Error as error:
        connection._handle_dbapi_exception(error, text, None, cursor, None)
    return cursor


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement as the driver of one kind of database takes it."""

    text: str
    # The names of the values by their places, if the driver does not go by names.
    places: Sequence[str] | None
    # The values that the statement has in itself, as the driver takes them.
    own: Mapping[str, Any]
    writers: Mapping[str, _Process]
    # By column.
    readers: Sequence[_Process | None]

    def write(self, values: Mapping[str, Any]) -> Any:
        """Return *values* as the driver takes them."""
        given = {**self.own, **values}
        for name, write in self.writers.items():
            given[name] = write(given[name])
        if self.places is None:
            return given
        return tuple([given[name] for name in self.places])

    def read(self, rows: list[Any]) -> list[Any]:
        """Return *rows* of the driver with the values that their types stand for."""
        if not any(self.readers):
            return rows
        return [
            tuple(
                [
                    value if read is None else read(value)
                    for read, value in zip(self.readers, row, strict=True)
                ]
            )
            for row in rows
        ]


def _compile(
    statement: Any, columns: Sequence[str] | None, dialect: Dialect
) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=columns)
    if compiled.literal_execute_params or compiled.post_compile_params:
        raise ValueError(f"{compiled} has parameters that are written into its text")
    if compiled.prefetch:
        raise ValueError(f"{compiled} leaves columns to SQLAlchemy, which has defaults")
    own, writers = {}, {}
    for parameter, name in compiled.bind_names.items():
        write = parameter.type.dialect_impl(dialect).bind_processor(dialect)
        if not parameter.required:
            own[name] = parameter.value if write is None else write(parameter.value)
        elif write is not None:
            writers[name] = write
    readers = [
        column.type.dialect_impl(dialect).result_processor(dialect, None)
        for column in statement.exported_columns
    ]
    return _Compiled(compiled.string, compiled.positiontup, own, writers, readers)


# What the values of a binary COPY are written as, by the first word of their type.
_BINARY = {
    "BIGINT": "int8",
    "INTEGER": "int4",
    "SMALLINT": "int2",
    "BOOLEAN": "bool",
    "BYTEA": "bytea",
    "DOUBLE": "float8",
    "FLOAT": "float8",
    "JSON": "json",
    "TEXT": "text",
    "TIMESTAMP": "timestamptz",
}


def insert_rows(
    session: Session, rows_of: type[Base], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert *rows*, which have a value for every column of the table *rows_of*."""
    if len(rows) == 1:
        _adding(rows_of).run(session, *rows)
        return
    names = [column.name for column in _table(rows_of).c]
    columns = {name: [row[name] for row in rows] for name in names}
    insert_columns(session, rows_of, columns)


@cache
def _adding(rows_of: type[Base]) -> Prepared:
    return Prepared.adding(_table(rows_of))


def insert_columns(
    session: Session, rows_of: type[Base], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Insert rows given as *columns*, every one of the table *rows_of* and no other.

    It does what ``session.execute(insert(rows_of), rows)`` does in half the time:
    the values are prepared here, column by column and each instant once, instead
    of row by row.
    """
    table = _table(rows_of)
    connection = session.connection()
    dialect = connection.dialect
    if columns.keys() != set(table.c.keys()):
        raise ValueError(f"columns {sorted(columns)} are not those of {table.name}")
    given, prepared = [], []
    for column in table.c:
        values = columns[column.name]
        if column.server_default is None and values.count(None) == len(values):
            # The database fills in what nobody has.
            continue
        process = column.type.dialect_impl(dialect).bind_processor(dialect)
        if process is not None and isinstance(column.type, JSON | TextList):
            # A list is equal to others and yet cannot be looked up.
            values = [process(value) for value in values]
        elif process is not None:
            known = {value: process(value) for value in set(values)}
            values = [known[value] for value in values]
        given.append(column)
        prepared.append(values)
    rows = list(zip(*prepared, strict=True))
    if not rows:
        return
    format_column = dialect.identifier_preparer.format_column
    target = f"{table.name} ({', '.join(map(format_column, given))})"
    is_postgresql = dialect.name == "postgresql"
    if is_postgresql and len(rows) > 1:
        _copy(connection, target, given, rows)
    else:
        marks = ", ".join(["%s" if is_postgresql else "?"] * len(prepared))
        connection.exec_driver_sql(
            f"INSERT INTO {target} VALUES ({marks})",  # noqa: S608
            rows,
        )


def _table(rows_of: type[Base]) -> Table:
    table = rows_of.__table__
    assert isinstance(table, Table)
    return table


def _copy(
    connection: Connection,
    target: str,
    columns: Sequence[Column[Any]],
    rows: Iterable[Sequence[Any]],
) -> None:
    """Send *rows* by COPY, which takes half the time of as many INSERTs.

    For a single one it would be a round trip more.  In binary form the server has
    no text to read, which takes a seventh of its time.
    """
    statement = f"COPY {target} FROM STDIN (FORMAT BINARY)"
    cursor: Any = connection.connection.cursor()
    with _named(connection, statement), cursor, cursor.copy(statement) as copy:
        copy.set_types([_binary(column, connection) for column in columns])
        for row in rows:
            copy.write_row(row)


def _binary(column: Column[Any], connection: Connection) -> str:
    words = column.type.compile(connection.dialect).split()
    return _BINARY[words[0]]


@contextmanager
def _named(connection: Connection, statement: object) -> Iterator[None]:
    """Give errors their usual names where SQLAlchemy does not see them."""
    base = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except base as error:
        raise DBAPIError.instance(
            str(statement), None, error, base, dialect=connection.dialect
        ) from error
