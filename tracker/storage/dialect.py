"""What differs between the two databases, and so is asked in one place."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    cast,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from tracker.storage.base import Base

# An error goes into the log with its statement, whose values are labels and hashes.
NO_PARAMETERS = True
# PostgreSQL's own is 100: this many hundred times three rows are sampled.
_STATISTICS = 25


def is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"


def takes_writes(session: Session) -> bool:
    """Return whether the server takes writes at all: a replica of PostgreSQL does not.

    Of SQLite the disk is all that says so.
    """
    if is_sqlite(session):
        return True
    is_replica = func.pg_is_in_recovery()
    asked = func.current_setting("default_transaction_read_only")
    return not session.scalar(select(is_replica | (asked == "on")))


def find_damage(session: Session) -> str | None:
    """Return the first damage to the file of SQLite, after a look at all of it.

    PostgreSQL looks after its files itself.
    """
    if not is_sqlite(session):
        return None
    found = session.scalar(text("PRAGMA integrity_check(1)"))
    return None if found == "ok" else str(found).partition("\n")[0]


def lock(session: Session, name: str, *, waits: bool = True) -> bool:
    """Keep others from the same *name* until this transaction ends.

    False, if it does not wait, where somebody else has it.  Two names may share a
    lock by chance, which costs time and nothing else.  SQLite has one writer at a
    time, so that a write is alone in any case.
    """
    if is_sqlite(session):
        return True
    number = func.hashtextextended(name, 0)
    if not waits:
        return bool(session.scalar(select(func.pg_try_advisory_xact_lock(number))))
    session.execute(select(func.pg_advisory_xact_lock(number)))
    return True


def upsert(
    session: Session,
    rows_of: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    keeping: Collection[str] = (),
    where: ColumnElement[bool] | None = None,
) -> int:
    """Insert *rows*, or change those that have the same primary key.

    All rows give the same columns.  A row that is there keeps the columns *keeping*,
    and is left as it is unless *where* is true of it.  Returns how many rows were
    written, which is right for a single one.
    """
    if not rows:
        return 0
    statement: Any = (sqlite if is_sqlite(session) else postgresql).insert(
        rows_of.__table__
    )
    key = [column.name for column in inspect(rows_of).primary_key]
    changed = rows[0].keys() - {*key, *keeping}
    statement = statement.on_conflict_do_update(
        index_elements=key,
        set_={name: statement.excluded[name] for name in changed},
        where=where,
    )
    options = {"preserve_rowcount": True}
    result: Any = session.execute(statement, [*rows], execution_options=options)
    return int(result.rowcount)


def floor(session: Session, value: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the largest whole number that is not above *value*, which is no negative.

    A cast cuts off on SQLite, which may lack the function, and rounds on PostgreSQL.
    """
    return cast(value if is_sqlite(session) else func.floor(value), BigInteger)


def day_of(session: Session, instant: Any) -> ColumnElement[str]:
    if is_sqlite(session):
        return func.substr(instant, 1, 10, type_=String())
    return func.to_char(func.timezone("UTC", instant), "YYYY-MM-DD", type_=String())


def minute_of(session: Session, instant: Any) -> ColumnElement[str]:
    if is_sqlite(session):
        return func.substr(instant, 1, 16, type_=String())
    in_utc = func.timezone("UTC", instant)
    return func.to_char(in_utc, "YYYY-MM-DD HH24:MI", type_=String())


def hour_of(session: Session, *instants: Any) -> ColumnElement[str]:
    """Return the hour of the earliest of *instants* in UTC, as 2026-01-31 09."""
    if is_sqlite(session):
        return func.substr(func.min(*instants), 1, 13, type_=String())
    earliest = func.timezone("UTC", func.least(*instants))
    return func.to_char(earliest, "YYYY-MM-DD HH24", type_=String())


def gather_statistics(session: Session, tables: Iterable[str]) -> None:
    """Tell PostgreSQL at once how much there is in *tables*, after a large write.

    It would look by itself within minutes, and until then it plans as for the tables
    that it has looked at, maybe empty ones.
    A quarter of the usual sample says what a plan needs, and takes a quarter of the
    time; what it looks at by itself it then samples as usual.
    """
    if not is_sqlite(session):
        session.execute(text(f"SET LOCAL default_statistics_target = {_STATISTICS}"))
        session.execute(text(f"ANALYZE {', '.join(tables)}"))


def forget_plans(session: Session) -> None:
    """Let PostgreSQL plan again what this connection has planned before.

    It plans the check of a foreign key once for each connection.  If the tables were
    small then, every label of an import reads all of its detector's queries, and
    nothing ends that: only what is committed makes PostgreSQL look again.
    """
    if not is_sqlite(session):
        session.execute(text("DISCARD PLANS"))


def commit_without_waiting(session: Session) -> None:
    """Let PostgreSQL commit this transaction without waiting for the disk.

    The next commit that waits brings it to the disk too.  If the server crashes
    before, the transaction is lost as a whole: nothing may have been acknowledged.
    """
    if not is_sqlite(session):
        session.execute(text("SET LOCAL synchronous_commit = off"))


@contextmanager
def planned_for_now(session: Session) -> Iterator[None]:
    """Let PostgreSQL plan a statement for the values and tables of this moment.

    A plan for any keys is kept.  If it was made while the table was small, or was
    taken for empty after an import that was killed, it reads every query of the
    detector once for each of thousands of keys.  Only for this statement: the checks
    of foreign keys, one for each row that is added, would be planned again too.
    What is not prepared is planned for the values that come with it.
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
