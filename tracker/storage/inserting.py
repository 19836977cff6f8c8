"""Fast inserts and prepared statements, with less overhead than SQLAlchemy's.

A prepared statement is compiled once for each kind of database and then goes straight
to the driver.  For a short one SQLAlchemy takes several times as long as SQLite, and on
SQLite all other writers wait meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import JSON, Column, Connection, Dialect, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tracker.storage.base import Base, TextList

Asked = Session | Connection
"""A session, or a connection if no transaction is needed."""
_Process = Callable[[Any], Any]


class Prepared:
    """A statement with named values, whose rows are plain tuples.

    It runs in the transaction of the given session, which it flushes first.
    """

    def __init__(self, statement: Any, *, columns: Iterable[str] = ()) -> None:
        """Take a *statement* of SQLAlchemy; it is compiled at its first run.

        Its values are named by its parameters, or for an INSERT by its *columns*.  A
        parameter cannot be a list.
        """
        self._statement = statement
        self._columns = list(columns) or None
        self._compiled: dict[str, _Compiled] = {}

    def first(self, session: Asked, values: Mapping[str, Any]) -> Any:
        return next(iter(self.run(session, values)), None)

    def run(self, session: Asked, *values: Mapping[str, Any]) -> list[Any]:
        """Run the statement for each of *values*, with the listeners of SQLAlchemy.

        Return its rows, if it has any, with values of their column types.
        """
        if isinstance(session, Connection):
            connection = session
        else:
            session.flush()
            connection = session.connection()
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = _compile(self._statement, self._columns, connection.dialect)
            self._compiled[connection.dialect.name] = compiled
        written: Any = []
        for one in values:
            given: Any = {**compiled.own, **one}
            for name, write in compiled.writers.items():
                given[name] = write(given[name])
            if compiled.places is not None:
                given = tuple(map(given.__getitem__, compiled.places))
            written.append(given)
        text, is_many = compiled.text, len(values) > 1
        written = written if is_many else written[0]
        cursor: Any = connection.connection.cursor()
        try:
            for listen in connection.dispatch.before_cursor_execute:
                text, written = listen(connection, cursor, text, written, None, is_many)
            (cursor.executemany if is_many else cursor.execute)(text, written)
        except connection.dialect.loaded_dbapi.Error as error:
            connection._handle_dbapi_exception(error, text, None, cursor, None)
        # Not by its description, which psycopg makes of all columns when it is read.
        has_rows = compiled.has_rows and not is_many
        rows = list(map(list, cursor.fetchall())) if has_rows else []
        cursor.close()
        for place, read in compiled.readers.items():
            for row in rows:
                row[place] = read(row[place])
        return list(map(tuple, rows))


class _Compiled(NamedTuple):
    """A statement compiled for the driver of one kind of database."""

    text: str
    # The names of the values in order, if the driver takes no names.
    places: Sequence[str] | None
    # The literal values of the statement, converted for the driver.
    own: Mapping[str, Any]
    writers: Mapping[str, _Process]
    # By the place of their column.
    readers: Mapping[int, _Process]
    has_rows: bool


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
    readers, shown = {}, [*statement.exported_columns]
    for place, column in enumerate(shown):
        read = column.type.dialect_impl(dialect).result_processor(dialect, None)
        if read is not None:
            readers[place] = read
    text, places = compiled.string, compiled.positiontup
    return _Compiled(text, places, own, writers, readers, has_rows=bool(shown))


# The types of the values in a binary COPY, by the first word of the column type.
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
    """Insert *rows*, each with a value for every column of the table *rows_of*."""
    if len(rows) == 1:
        _adding(rows_of).run(session, *rows)
        return
    names = [column.name for column in rows_of.__table__.c]
    columns = {name: [row[name] for row in rows] for name in names}
    insert_columns(session, rows_of, columns)


@cache
def _adding(rows_of: type[Base]) -> Prepared:
    table: Any = rows_of.__table__
    return Prepared(insert(table), columns=table.c.keys())


def insert_columns(
    session: Session, rows_of: type[Base], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Insert rows given as *columns*, all those of the table *rows_of*.

    Takes half the time of ``session.execute(insert(rows_of), rows)``: values are
    converted by column, each instant once.
    """
    table: Any = rows_of.__table__
    connection = session.connection()
    dialect = connection.dialect
    if columns.keys() != set(table.c.keys()):
        raise ValueError(f"columns {sorted(columns)} are not those of {table.name}")
    given, prepared = [], []
    for column in table.c:
        values = columns[column.name]
        if column.server_default is None and values.count(None) == len(values):
            # The database fills in a column without any value.
            continue
        process = column.type.dialect_impl(dialect).bind_processor(dialect)
        if process is not None and isinstance(column.type, JSON | TextList):
            # Lists cannot be keys of the cache.
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


def _copy(
    connection: Connection,
    target: str,
    columns: Sequence[Column[Any]],
    rows: Iterable[Sequence[Any]],
) -> None:
    """Send *rows* by COPY, which takes half the time of INSERTs.

    A single row would need one more round trip.  The binary format saves the server a
    seventh of its time, because it parses no text.
    """
    statement = f"COPY {target} FROM STDIN (FORMAT BINARY)"
    cursor: Any = connection.connection.cursor()
    dialect = connection.dialect
    types = [column.type.compile(dialect).split()[0] for column in columns]
    try:
        with cursor, cursor.copy(statement) as copy:
            copy.set_types([_BINARY[name] for name in types])
            for row in rows:
                copy.write_row(row)
    except dialect.loaded_dbapi.Error as error:
        raise DBAPIError.instance(
            statement, None, error, dialect.loaded_dbapi.Error, dialect=dialect
        ) from error
