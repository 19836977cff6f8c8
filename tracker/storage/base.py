"""The base of all tables: naming, column types, and ids."""

import json
import re
from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

# Only a column declared INTEGER is SQLite's row id.
BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# Classes, versions and keys compare by code point on both databases, whatever the
# locale of the PostgreSQL cluster.
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def where(condition: str) -> dict[str, Any]:
    """Return the options of a partial index over rows that meet *condition*."""
    found = text(condition)
    return {"sqlite_where": found, "postgresql_where": found}


def _in_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"naive instant {instant!r}: give it a time zone")
    return instant.astimezone(UTC)


class UtcDateTime(sa.TypeDecorator[datetime]):
    """An aware instant, stored and returned in UTC; naive ones are refused."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: sa.Dialect,  # noqa: ARG002
    ) -> datetime | None:
        """Convert to UTC, because SQLite would drop the offset silently."""
        return None if value is None else _in_utc(value)

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
        """Return the function that converts a value for the driver.

        SQLite stores text.  SQLAlchemy's own conversion takes three times as long,
        which is a tenth of an import.
        """
        if dialect.name != "sqlite":
            return super().bind_processor(dialect)

        def write(value: datetime | None) -> str | None:
            if value is None:
                return None
            # Cuts the offset, which follows the first 26 characters.
            return _in_utc(value).isoformat(" ", "microseconds")[:26]

        return write

    def process_result_value(
        self,
        value: Any,
        dialect: sa.Dialect,  # noqa: ARG002
    ) -> datetime | None:
        """Attach UTC, which SQLite does not store."""
        if value is None:
            return None
        assert isinstance(value, datetime)
        return (
            value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        )

    def result_processor(
        self, dialect: sa.Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        """Return the function that converts a value of the driver; fast on SQLite."""
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)

        def read(value: str | None) -> datetime | None:
            return None if value is None else datetime.fromisoformat(f"{value}+00:00")

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


def remember(
    session: Session, statement: Any, values: Mapping[str, Hashable]
) -> Sequence[Any]:
    """Return the rows of a *statement*; a read sees one snapshot, so it asks once."""
    if not session.get_bind().get_execution_options().get("tracker_read", False):
        return session.execute(statement, values).all()
    known: dict[Hashable, Sequence[Any]] = session.info.setdefault("remembered", {})
    key = id(statement), *values.values()
    if key not in known:
        known[key] = session.execute(statement, values).all()
    return known[key]


def recall(session: Session, statement: Any, *values: Hashable) -> Sequence[Any] | None:
    """Return the rows that `remember` keeps of a *statement*, None if it has none."""
    known: Mapping[Hashable, Sequence[Any]] = session.info.get("remembered", {})
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
    before: int | None,
    limit: int | None,
) -> Sequence[_Row]:
    """Return the newest rows that meet *conditions*, with ids below *before*."""
    key = entity.__table__.c.id
    if before is not None:
        conditions = (*conditions, key < before)
    statement = sa.select(entity).where(*conditions).order_by(key.desc()).limit(limit)
    return session.scalars(statement).all()


def list_detector_ids(
    session: Session | sa.Connection, rows_of: Any, **owner: int
) -> Sequence[int]:
    """Return the detectors that rows name for one owner, such as a key, in order."""
    column = rows_of.detector_id
    statement = sa.select(column).filter_by(**owner).order_by(column)
    return session.scalars(statement).all()


def delete_rows(session: Session, rows_of: type[Base], **which: Any) -> None:
    """Delete the rows whose columns have these values."""
    session.execute(sa.delete(rows_of).filter_by(**which))


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
