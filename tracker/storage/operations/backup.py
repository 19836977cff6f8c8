"""Reading whole tables, and writing them into an empty database of either kind."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, get_args, get_type_hints

import sqlalchemy as sa
from sqlalchemy.orm import Session

from tracker.storage.base import Base, delete_rows, stream
from tracker.storage.dialect import is_sqlite
from tracker.storage.estimates.job_runs import Heartbeat
from tracker.storage.imports import ImportPiece
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.inputs import InputLock
from tracker.storage.labelling.reservations import Reservation
from tracker.storage.operations import schema
from tracker.storage.people import SignIn, SignInLink, SignInStep, SignInTry
from tracker.storage.queries.queries import Query
from tracker.storage.queries.waiting import WaitingQuery
from tracker.storage.tasks import Task

# Tables of running processes, sign-ins and waiting files are left out.  The worker asks
# for a missing file to be sent again.
_PASSING = tuple(
    rows_of.__table__
    for rows_of in (
        *(Heartbeat, InputLock, Reservation, ImportPiece),
        *(SignIn, SignInLink, SignInTry, SignInStep),
    )
)


def list_tables() -> list[sa.Table]:
    return [table for table in schema.metadata.sorted_tables if table not in _PASSING]


def iter_table(session: Session, table: sa.Table) -> Generator[Any]:
    """Stream every row of *table* in an order that both databases share."""
    # The locale of a PostgreSQL cluster would sort texts in its own way.
    order = [
        column.collate("C")
        if isinstance(column.type, sa.Text) and not is_sqlite(session)
        else column
        for column in table.primary_key
    ]
    return stream(session, sa.select(*table.c).where(*_kept(table)).order_by(*order))


def _kept(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    # Periodic tasks of the workers have no key.
    return [Task.key != ""] if table is Task.__table__ else []


def iter_image_names(session: Session) -> Iterator[str]:
    """Stream the name of every image of a query, each once."""
    kinds = (Query, WaitingQuery)
    each = (sa.select(kind.image).where(kind.image.is_not(None)) for kind in kinds)
    # A union removes duplicates.
    names = sa.union(*each).subquery()
    return (row.image for row in stream(session, sa.select(names.c.image)))


def find_last_id(session: Session, table: sa.Table) -> int | None:
    """Return the last id that the database assigned in *table*.

    None if it has not assigned any.  The row may be gone, as folded batches are, but
    its id must not be assigned again.
    """
    if table.autoincrement_column is None:
        return None
    ask = "SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id'))"
    if is_sqlite(session):
        ask = "SELECT seq FROM sqlite_sequence WHERE name = :name"
    last: int | None = session.scalar(sa.text(ask), {"name": table.name})
    return last


def set_last_id(session: Session, table: sa.Table, last_id: int) -> None:
    """Let the next id of *table* be above *last_id* and all existing ids."""
    highest = session.scalar(sa.select(sa.func.max(table.c.id)))
    values = {"name": table.name, "last": max(last_id, highest or 0)}
    statements = ["SELECT setval(pg_get_serial_sequence(:name, 'id'), :last)"]
    if is_sqlite(session):
        statements = [
            "DELETE FROM sqlite_sequence WHERE name = :name",
            "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)",
        ]
    for statement in statements:
        session.execute(sa.text(statement), values)


def lock_tables(session: Session) -> None:
    """Lock out other writers until the transaction ends; readers continue."""
    # On SQLite a write is alone from its beginning.
    if not is_sqlite(session):
        names = ", ".join(table.name for table in list_tables())
        session.execute(sa.text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def find_filled_table(session: Session) -> str | None:
    """Return the name of a table with a row, None if all are empty."""
    for table in list_tables():
        some = sa.select(1).select_from(table).where(*_kept(table)).limit(1)
        if session.execute(some).first():
            return table.name
    return None


def clear_passing_tasks(session: Session) -> None:
    """Delete the periodic tasks that a running worker has added."""
    delete_rows(session, Task, key="")


def add_table_rows(
    session: Session, table: sa.Table, rows: Sequence[Sequence[Any]]
) -> None:
    """Insert *rows* with their ids; each has the columns of *table* in order."""
    new = [dict(zip(table.c.keys(), row, strict=True)) for row in rows]
    insert_rows(session, _CLASSES[table.name], new)


def keep_alive(session: Session) -> None:
    session.execute(sa.select(1))


def find_json_type(column: sa.Column[Any]) -> Any:
    rows_of = _CLASSES[column.table.name]
    name = sa.inspect(rows_of).get_property_by_column(column).key
    (kind,) = get_args(get_type_hints(rows_of)[name])
    return kind


_CLASSES: dict[str, type[Base]] = {
    mapper.class_.__tablename__: mapper.class_ for mapper in Base.registry.mappers
}
