"""The base of all tables: naming, column types, and ids."""

import json
import re
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, MappedColumn, Session, mapped_column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

# Only a column declared INTEGER is SQLite's row id.
BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# Classes, versions and keys compare by code point on both databases, whatever the
# locale of the PostgreSQL cluster.
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def index_where(
    condition: str, name: str, *columns: str, unique: bool = False
) -> sa.Index:
    """Return the partial index over the rows that meet *condition*."""
    of: Any = {f"{kind}_where": text(condition) for kind in ("sqlite", "postgresql")}
    return sa.Index(name, *columns, unique=unique, **of)


def index_some(table: str, suffix: str, condition: str, *columns: str) -> sa.Index:
    name = f"ix_{table}_detector_id_{suffix}"
    return index_where(condition, name, "detector_id", *columns)


def owner(table: str) -> MappedColumn[int]:
    """Return the column of a key that names a row of *table*, such as a detector."""
    key = sa.ForeignKey(f"{table}.id")
    return mapped_column(key, primary_key=True, autoincrement=False)


def text_list(**options: Any) -> MappedColumn[list[Any]]:
    empty = sa.text("'[]'")
    return mapped_column(TextList, default=list, server_default=empty, **options)


class UtcDateTime(sa.TypeDecorator[datetime]):
    """An aware instant, stored and returned in UTC; naive ones are refused."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[Any], Any]:
        """Return the function that converts a value for the driver.

        SQLite stores text.  SQLAlchemy's own conversion takes three times as long,
        which is a tenth of an import.
        """
        is_sqlite = dialect.name == "sqlite"

        def write(value: datetime | None) -> datetime | str | None:
            if value is None:
                return None
            if value.tzinfo is None:
                raise ValueError(f"naive instant {value!r}: give it a time zone")
            instant = value.astimezone(UTC)
            # Cuts the offset, which follows the first 26 characters.
            return instant.isoformat(" ", "microseconds")[:26] if is_sqlite else instant

        return write

    def result_processor(
        self,
        dialect: sa.Dialect,
        coltype: object,  # noqa: ARG002
    ) -> Callable[[Any], Any]:
        """Return the function that converts a value of the driver."""
        is_sqlite = dialect.name == "sqlite"

        def read(value: Any) -> datetime | None:
            if value is None:
                return None
            if is_sqlite:
                return datetime.fromisoformat(f"{value}+00:00")
            instant: datetime = value.astimezone(UTC)
            return instant

        return read


class TextList(sa.TypeDecorator[list[Any]]):
    """A list, stored as JSON text.

    Not a JSON column, because PostgreSQL cannot compare those with a default.
    """

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: list[Any] | None,
        dialect: sa.Dialect,  # noqa: ARG002
    ) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(
        self,
        value: str | None,
        dialect: sa.Dialect,  # noqa: ARG002
    ) -> list[Any] | None:
        return None if value is None else list(json.loads(value))


class Base(DeclarativeBase):
    """Rows without behaviour; each table is in the module of its noun."""

    metadata = sa.MetaData(
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
    """A condition that is left out on SQLite."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(_OnPostgresql)
def _compile_condition(
    element: _OnPostgresql, compiler: SQLCompiler, **options: Any
) -> str:
    return compiler.process(element.clauses, **options)


@compiles(_OnPostgresql, "sqlite")
def _compile_true(*_arguments: Any, **_options: Any) -> str:
    return "1"


def on_postgresql(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the redundant *condition* for PostgreSQL only.

    It tells PostgreSQL which ids to scan or how to join.  SQLite would prefer its index
    and scan all queries of a detector instead of the few new ones.
    """
    return _OnPostgresql(condition)


def stream(
    session: Session,
    statement: sa.Select[*tuple[Any, ...]],
    values: Mapping[str, Any] | None = None,
    *,
    rows: int = 1_000,
) -> Generator[Any]:
    """Yield the rows of *statement*, fetched in pieces of *rows*.

    A caller that may stop early must close the iterator, which closes the cursor.
    """
    options = {"yield_per": rows}
    with session.execute(statement, values, execution_options=options) as result:
        yield from result


# Where a session keeps what it remembers.
_REMEMBERED = "remembered"


def remember(
    session: Session, statement: Any, values: Mapping[str, Hashable]
) -> Sequence[Any]:
    """Return the rows of a *statement*; a read sees one snapshot, so it asks once."""
    if not session.get_bind().get_execution_options().get("tracker_read", False):
        return session.execute(statement, values).all()
    known: dict[Hashable, Sequence[Any]] = session.info.setdefault(_REMEMBERED, {})
    key = id(statement), *values.values()
    if key not in known:
        known[key] = session.execute(statement, values).all()
    return known[key]


def recall(session: Session, statement: Any, *values: Hashable) -> Sequence[Any] | None:
    """Return the rows of a *statement* that ``remember`` asked for, if it has."""
    known: dict[Hashable, Sequence[Any]] = session.info.get(_REMEMBERED, {})
    return known.get((id(statement), *values))


_Row = TypeVar("_Row", bound=Base)

Key = tuple[int, int]
"""The detector of a row and its id, which is the primary key."""


def find_by_id(session: Session, entity: type[_Row], number: int) -> _Row | None:
    """Return a row by an id that came without its detector; each is given once."""
    statement = sa.select(entity).where(entity.__table__.c.id == number)
    return session.scalars(statement).one_or_none()


def are_among(entity: type[_Row], keys: Collection[Key]) -> sa.ColumnElement[bool]:
    """Return the condition that a row has one of *keys*.

    An id is enough to know it by.  Pairs would be one condition, but SQLite finds none
    of them by an index that has the number of the row in it.
    """
    columns = entity.__table__.c
    return sa.and_(
        columns.detector_id.in_({detector_id for detector_id, _ in keys}),
        columns.id.in_([number for _, number in keys]),
    )


def list_newest(
    session: Session,
    entity: type[_Row],
    *conditions: sa.ColumnElement[bool],
    before: int | None = None,
    limit: int | None = None,
) -> Sequence[_Row]:
    """Return the newest rows that meet *conditions*, with ids below *before*."""
    key = entity.__table__.c.id
    if before is not None:
        conditions = (*conditions, key < before)
    statement = sa.select(entity).where(*conditions).order_by(key.desc()).limit(limit)
    return session.scalars(statement).all()


def columns_of(entity: type[Base], *names: str) -> list[Any]:
    return [entity.__table__.c[name] for name in names]


def equal(entity: type[Base], **which: Any) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that columns have these values, where they are given."""
    given = {name: value for name, value in which.items() if value is not None}
    return [getattr(entity, name) == value for name, value in given.items()]


def find_row(session: Session, entity: type[_Row], **which: Any) -> _Row | None:
    return session.scalars(sa.select(entity).filter_by(**which)).one_or_none()


def lock_row(session: Session, entity: type[_Row], key: Any) -> _Row | None:
    """Return the row of a key as it is now, locked until the transaction ends."""
    options: Any = {"with_for_update": True, "populate_existing": True}
    return session.get(entity, key, **options)


def list_rows(
    session: Session, entity: type[_Row], *conditions: Any, order: Any = None
) -> Sequence[_Row]:
    """Return the rows that meet *conditions* in the order of a column, or their ids."""
    order = entity.__table__.c.id if order is None else order
    return session.scalars(sa.select(entity).where(*conditions).order_by(order)).all()


def count_rows(session: Session, entity: type[Base], *conditions: Any) -> int:
    statement = sa.select(sa.func.count()).select_from(entity).where(*conditions)
    return session.scalars(statement).one()


def list_detector_ids(
    session: Session | sa.Connection, rows_of: Any, **owner: int
) -> Sequence[int]:
    """Return the detectors that rows name for one owner, such as a key, in order."""
    column = rows_of.detector_id
    statement = sa.select(column).filter_by(**owner).order_by(column)
    return session.scalars(statement).all()


def change_rows(
    session: Session, rows_of: type[Base], *conditions: Any, **values: Any
) -> int:
    """Set columns of the rows that meet *conditions*; return how many there are."""
    # Not by an object, which may have been read before others changed the row.
    statement = sa.update(rows_of).where(*conditions).values(values)
    result: Any = session.execute(statement)
    return int(result.rowcount)


def delete_rows(
    session: Session, rows_of: type[Base], *conditions: Any, **which: Any
) -> int:
    """Delete the rows that meet *conditions* and whose columns have these values."""
    statement = sa.delete(rows_of).where(*conditions).filter_by(**which)
    result: Any = session.execute(statement)
    return int(result.rowcount)


def set_rows(
    session: Session,
    rows_of: type[Base],
    rows: Iterable[Mapping[str, Any]],
    **owner: int,
) -> None:
    """Put *rows* in the place of those that an owner, such as an account, has."""
    delete_rows(session, rows_of, **owner)
    new = [{**row, **owner} for row in rows]
    if new:
        session.execute(sa.insert(rows_of), new)


def set_row(
    session: Session, rows_of: type[Base], *, is_there: bool, **key: int
) -> None:
    """Let there be a row with this key, which has no other columns, or none."""
    set_rows(session, rows_of, [{}] if is_there else [], **key)


def set_detector_ids(
    session: Session, rows_of: type[Base], ids: Iterable[int], **owner: int
) -> None:
    rows = [{"detector_id": detector_id} for detector_id in sorted(set(ids))]
    set_rows(session, rows_of, rows, **owner)


def dump_id(prefix: str, number: int) -> str:
    """Return a public id, such as ``det_7``."""
    return f"{prefix}_{number}"


def parse_id(prefix: str, text: str) -> int | None:
    """Return the row number in a public id, or None if *text* is not one."""
    head, _, digits = text.partition("_")
    number = parse_whole(digits)
    if head != prefix or number is None or number < 0:
        return None
    return number if dump_id(prefix, number) == text else None


def parse_whole(text: str) -> int | None:
    """Parse a whole number; None unless both databases can store it.

    Every whole number in a text is parsed here: Python refuses more than 4,300 digits,
    and the databases more than 63 bits.
    """
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
