"""The differences between SQLite and PostgreSQL."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from tracker.storage.base import Base

# Errors are logged with their statement; its values are labels and hashes.
NO_PARAMETERS = True
# The default is 100; PostgreSQL samples 300 times as many rows.
_STATISTICS = 25
_PAGE_BYTES = 8192
LARGE_TABLES = ("queries", "labels")
HISTORY_TABLES = ("snapshots", "snapshot_intervals", "snapshot_measures")
# A table that has so many times the pages that it had is analysed again.
_MOST_GROWN = 10


def is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"


def takes_writes(session: Session) -> bool:
    """Return whether the server takes writes; a replica of PostgreSQL does not."""
    if is_sqlite(session):
        return True
    is_replica = sa.func.pg_is_in_recovery()
    asked = sa.func.current_setting("default_transaction_read_only")
    return not session.scalar(sa.select(is_replica | (asked == "on")))


def find_damage(session: Session) -> str | None:
    """Return the first damage of SQLite's file; PostgreSQL checks its files itself."""
    if not is_sqlite(session):
        return None
    found = session.scalar(sa.text("PRAGMA integrity_check(1)"))
    return None if found == "ok" else str(found).partition("\n")[0]


def lock(session: Session, name: str, *, waits: bool = True) -> bool:
    """Lock *name* until this transaction ends.

    Without *waits*, returns False if another transaction has the lock.  Two names may
    share a lock by chance, which costs only time.  On SQLite a write is always alone.
    """
    if is_sqlite(session):
        return True
    number = sa.func.hashtextextended(name, 0)
    if not waits:
        return bool(
            session.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(number)))
        )
    session.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))
    return True


def insert(session: Session, rows_of: type[Base]) -> Any:
    return (sqlite if is_sqlite(session) else postgresql).insert(rows_of.__table__)


def upsert(
    session: Session,
    rows_of: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    keeping: Collection[str] = (),
    where: sa.ColumnElement[bool] | None = None,
) -> int:
    """Insert *rows*, or update those with the same primary key.

    All rows have the same columns.  An existing row keeps the columns *keeping*, and
    stays unchanged unless *where* is true of it.  Returns the number of rows written,
    which is right for a single row.
    """
    if not rows:
        return 0
    statement = insert(session, rows_of)
    key = [column.name for column in sa.inspect(rows_of).primary_key]
    changed = rows[0].keys() - {*key, *keeping}
    statement = statement.on_conflict_do_update(
        index_elements=key,
        set_={name: statement.excluded[name] for name in changed},
        where=where,
    )
    options = {"preserve_rowcount": True}
    result: Any = session.execute(statement, [*rows], execution_options=options)
    return int(result.rowcount)


def floor(session: Session, value: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return the floor of *value*, which must not be negative.

    A cast truncates on SQLite, which may lack the function, and rounds on PostgreSQL.
    """
    return sa.cast(value if is_sqlite(session) else sa.func.floor(value), sa.BigInteger)


def _cut(
    session: Session, instant: Any, form: str, letters: int
) -> sa.ColumnElement[str]:
    if is_sqlite(session):
        return sa.func.substr(instant, 1, letters, type_=sa.String())
    return sa.func.to_char(sa.func.timezone("UTC", instant), form, type_=sa.String())


def day_of(session: Session, instant: Any) -> sa.ColumnElement[str]:
    return _cut(session, instant, "YYYY-MM-DD", 10)


def minute_of(session: Session, instant: Any) -> sa.ColumnElement[str]:
    return _cut(session, instant, "YYYY-MM-DD HH24:MI", 16)


def hour_of(session: Session, *instants: Any) -> sa.ColumnElement[str]:
    """Return the hour of the earliest of *instants*."""
    earliest = sa.func.min if is_sqlite(session) else sa.func.least
    return _cut(session, earliest(*instants), "YYYY-MM-DD HH24", 13)


def gather_statistics(session: Session, tables: Iterable[str]) -> None:
    """Update PostgreSQL's statistics of *tables* after a large write.

    Its autovacuum would do so within minutes, and until then it plans for the old,
    maybe empty, tables.  A quarter of the default sample is enough and takes a quarter
    of the time; autovacuum later takes the full sample.
    """
    if not is_sqlite(session):
        session.execute(sa.text(f"SET LOCAL default_statistics_target = {_STATISTICS}"))
        session.execute(sa.text(f"ANALYZE {', '.join(tables)}"))


def lacks_statistics(session: Session, table: str) -> bool:
    """Return whether PostgreSQL never analysed *table*, or one a tenth of its size.

    After one that had a single row it believes that each detector has one query, and
    scans all queries of a detector for each key of an import.
    """
    known = sa.text(
        "SELECT reltuples < 0 OR pg_relation_size(oid) / :page > :most * "
        "greatest(relpages, 1) FROM pg_class WHERE oid = to_regclass(:table)"
    )
    sizes = {"page": _PAGE_BYTES, "most": _MOST_GROWN}
    return bool(session.scalar(known, sizes | {"table": table}))


def forget_plans(session: Session) -> None:
    """Discard PostgreSQL's plans of this connection.

    It plans the check of a foreign key once a connection.  If the tables were small
    then, every label of an import scans all queries of its detector, and only committed
    statistics would end that.
    """
    if not is_sqlite(session):
        session.execute(sa.text("DISCARD PLANS"))


def commit_without_waiting(session: Session) -> None:
    """Let PostgreSQL commit this transaction without waiting for the disk.

    The next commit that waits also flushes this one.  If the server crashes before, the
    whole transaction is lost, so nothing may have been acknowledged.
    """
    if not is_sqlite(session):
        session.execute(sa.text("SET LOCAL synchronous_commit = off"))


@contextmanager
def planned_for_now(session: Session) -> Iterator[None]:
    """Let PostgreSQL plan a statement for its values and the current tables.

    A generic plan is cached.  If it was made while the table was small, or seemed empty
    after a killed import, it scans every query of the detector for each of thousands of
    keys.  Only for this statement: foreign key checks, one for each new row, would be
    planned again too.  A statement that is not prepared is planned for its values.
    """
    if is_sqlite(session):
        yield
        return
    driver: Any = session.connection().connection.driver_connection
    threshold, driver.prepare_threshold = driver.prepare_threshold, None
    try:
        yield
    finally:
        driver.prepare_threshold = threshold
