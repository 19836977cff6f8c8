"""What every table shares: naming, types of columns, and ids."""

import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

# SQLite makes only a column declared INTEGER its row id.
BigId = BigInteger().with_variant(Integer, "sqlite")

# A class, a version or a key must compare and sort by its code points on both
# databases, whatever the locale of the PostgreSQL cluster.
Name = Text().with_variant(Text(collation="C"), "postgresql")

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def _in_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"naive instant {instant!r}: give it a time zone")
    return instant.astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware instant, stored and given back in UTC; a naive one is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002
    ) -> datetime | None:
        """Convert to UTC, because SQLite would drop the offset without a word."""
        return None if value is None else _in_utc(value)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        """Return what prepares a value for the driver.

        SQLite keeps text.  SQLAlchemy's own way to write it takes three times as
        long, which is a tenth of an import.
        """
        if dialect.name != "sqlite":
            return super().bind_processor(dialect)

        def write(value: datetime | None) -> str | None:
            if value is None:
                return None
            # Without the offset, which follows the first 26 characters.
            return _in_utc(value).isoformat(" ", "microseconds")[:26]

        return write

    def process_result_value(
        self,
        value: Any,
        dialect: Dialect,  # noqa: ARG002
    ) -> datetime | None:
        """Say that it is UTC, because SQLite does not know."""
        if value is None:
            return None
        assert isinstance(value, datetime)
        return (
            value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        )

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        """Return what reads a value of the driver; of SQLite's text in one call."""
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)

        def read(value: str | None) -> datetime | None:
            return None if value is None else datetime.fromisoformat(f"{value}+00:00")

        return read


class TextList(TypeDecorator[list[Any]]):
    """A list, written as JSON.

    It is text, because PostgreSQL cannot compare JSON with its default.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(
        self,
        value: list[Any] | None,
        dialect: Dialect,  # noqa: ARG002
    ) -> str | None:
        """Write the list."""
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(
        self,
        value: str | None,
        dialect: Dialect,  # noqa: ARG002
    ) -> list[Any] | None:
        """Read the list."""
        return None if value is None else list(json.loads(value))


class Base(DeclarativeBase):
    """Rows without behaviour; each table stands in the module of its noun."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime}  # noqa: RUF012 - SQLAlchemy's own form.


class _OnPostgresql(FunctionElement[bool]):
    """A condition that only PostgreSQL gets."""

    type = Boolean()
    inherit_cache = True


@compiles(_OnPostgresql)
def _compile_condition(
    element: _OnPostgresql, compiler: SQLCompiler, **options: Any
) -> str:
    return compiler.process(element.clauses, **options)


@compiles(_OnPostgresql, "sqlite")
def _compile_true(*_arguments: Any, **_options: Any) -> str:
    return "1"


def on_postgresql(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return *condition*, which must follow from the others, for PostgreSQL alone.

    It says there in which partition to look, between which ids, or how to join.
    SQLite would take it for the most telling one, and begin with all queries of a
    detector instead of the few new ones.
    """
    return _OnPostgresql(condition)


def stream(
    session: Session,
    statement: Select[*tuple[Any, ...]],
    values: Mapping[str, Any] | None = None,
    *,
    rows: int = 1_000,
) -> Generator[Any]:
    """Yield the rows of *statement*, fetched so many at a time.

    A caller that may stop early closes the iterator, and with it the server's cursor.
    """
    options = {"yield_per": rows}
    with session.execute(statement, values, execution_options=options) as result:
        yield from result


def insert_rows(
    session: Session, rows_of: type[Base], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert *rows*, which have a value for every column of the table *rows_of*."""
    names = [column.name for column in _table(rows_of).c]
    columns = {name: [row[name] for row in rows] for name in names}
    insert_columns(session, rows_of, columns)


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
        given.append(dialect.identifier_preparer.format_column(column))
        prepared.append(values)
    rows = list(zip(*prepared, strict=True))
    if not rows:
        return
    target = f"{table.name} ({', '.join(given)})"
    is_postgresql = dialect.name == "postgresql"
    if is_postgresql and len(rows) > 1:
        _copy(connection, target, rows)
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


def _copy(connection: Connection, target: str, rows: Iterable[Sequence[Any]]) -> None:
    """Send *rows* by COPY, which takes half the time of as many INSERTs.

    For a single one it would be a round trip more.
    """
    statement = f"COPY {target} FROM STDIN"
    base = connection.dialect.loaded_dbapi.Error
    cursor: Any = connection.connection.cursor()
    try:
        with cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except base as error:
        # SQLAlchemy has no COPY, so nobody else gives the error its usual name.
        raise DBAPIError.instance(
            statement, None, error, base, dialect=connection.dialect
        ) from error


def dump_id(prefix: str, number: int) -> str:
    """Return the public id of row *number*, such as ``det_7``."""
    return f"{prefix}_{number}"


def parse_id(prefix: str, text: str) -> int | None:
    """Return the row number in a public id, or None if *text* is not one."""
    head, _, digits = text.partition("_")
    number = parse_whole(digits)
    if head != prefix or number is None or number < 0:
        return None
    return number if dump_id(prefix, number) == text else None


def parse_whole(text: str) -> int | None:
    """Return the whole number in *text*, None unless both databases can keep it.

    Every whole number that comes as text is read here: Python converts no text of
    more than 4,300 digits, and the databases take none of more than 63 bits.
    """
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
