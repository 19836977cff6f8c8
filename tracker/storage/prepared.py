"""Statements that requests run all the time, in a fraction of SQLAlchemy's time.

A statement is compiled once for each kind of database, and from then on goes to the
driver as it is.  Around a short one SQLAlchemy takes several times as long as SQLite
takes for it, and on SQLite all others who write wait meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Table, insert
from sqlalchemy.orm import Session

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
