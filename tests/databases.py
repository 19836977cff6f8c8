"""Databases that tests borrow: migrated once, and as if new each time.

Making a PostgreSQL database takes ten times as long as emptying one, and an engine
that is kept need not connect and compile its statements again.
"""

import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.orm import Session

from tracker.storage.base import Base, find_by_id
from tracker.storage.database import Database, open_database
from tracker.storage.operations import schema

_Row = TypeVar("_Row", bound=Base)
# From here on files are emptied at once, not row by row.
_LARGE_BYTES = 2**19
# What a test changes when it changes the schema, and the size of the largest table.
_STATE = text(
    "SELECT md5(string_agg(concat_ws(' ', oid, relname, relnatts), ',' ORDER BY oid)),"
    " max(pg_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace"
)
# A process that was killed may have left a transaction behind.
_END_OTHERS = text(
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND state <> 'idle' AND backend_type = 'client backend'"
)
_RESTART_SEQUENCES = text(
    "SELECT setval(oid::regclass, 1, false) FROM pg_class"
    " WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"
)
_TABLES = [table.name for table in schema.metadata.sorted_tables]
_FIND_FILLED = text(
    " UNION ALL ".join(
        f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in _TABLES
    )
)


class Databases(ABC):
    """The databases of one kind that a process of tests has made and lends."""

    def __init__(self) -> None:
        self._idle: list[Database] = []

    def borrow(self) -> Database:
        """Lend a migrated database without a row."""
        return self._idle.pop() if self._idle else self._make()

    def give_back(self, database: Database) -> None:
        """Take back what was lent, whatever has become of it."""
        if self.renew(database):
            self._idle.append(database)

    def close(self) -> None:
        """Close all that were given back."""
        for database in self._idle:
            database.close()

    @abstractmethod
    def _make(self) -> Database:
        """Make one more."""

    @abstractmethod
    def renew(self, database: Database) -> bool:
        """Bring *database* back to how it was made; False if that cannot be."""


class SqliteDatabases(Databases):
    """Files, each a copy of a migrated one."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._made = 0
        self.template = folder / "template.db"
        database = open_database(f"sqlite:///{self.template}")
        schema.upgrade(database)
        with database.engine.connect() as connection:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()

    def _make(self) -> Database:
        self._made += 1
        path = self._folder / str(self._made) / "tracker.db"
        path.parent.mkdir()
        shutil.copy(self.template, path)
        return open_database(f"sqlite:///{path}")

    def renew(self, database: Database) -> bool:
        database.close()
        path = Path(str(database.engine.url.database))
        # With what lies beside it.
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        shutil.copy(self.template, path)
        return True


class PostgresDatabases(Databases):
    """Databases of one server, emptied each time; its user must be a superuser."""

    def __init__(self, server_url: str) -> None:
        super().__init__()
        self._server_url = server_url
        self._template = f"template_{uuid.uuid4().hex[:12]}"
        administer(
            server_url,
            f"CREATE DATABASE {self._template} TEMPLATE template0 ENCODING 'UTF8'",
        )
        database = open_database(renamed(server_url, self._template))
        schema.upgrade(database)
        with database.engine.connect() as connection:
            self._schema, _ = connection.execute(_STATE).one()
        database.close()

    def _make(self) -> Database:
        name = f"test_{uuid.uuid4().hex[:12]}"
        administer(
            self._server_url,
            f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY file_copy",
        )
        return open_database(renamed(self._server_url, name))

    def renew(self, database: Database) -> bool:
        if _empty(database, self._schema):
            return True
        database.close()
        name = database.engine.url.database
        administer(self._server_url, f"DROP DATABASE {name} WITH (FORCE)")
        return False


def _empty(database: Database, schema_before: str) -> bool:
    """Delete every row; False if the schema is not as it was, and all stays so."""
    with database.engine.begin() as connection:
        connection.execute(_END_OTHERS)
        schema_now, largest = connection.execute(_STATE).one()
        if schema_now != schema_before:
            return False
        version = connection.scalar(text("SELECT version_num FROM alembic_version"))
        if version != schema.head_revision():
            return False
        # Foreign keys are not checked, and no trigger refuses it.
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        if largest > _LARGE_BYTES:
            connection.execute(text(f"TRUNCATE {', '.join(_TABLES)}"))
        for name in connection.scalars(_FIND_FILLED).all():
            connection.execute(text(f"DELETE FROM {name}"))
        connection.execute(_RESTART_SEQUENCES)
    return True


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to *revision*; what newer tables held is lost."""
    command.downgrade(schema.alembic_config(database), revision)


def renamed(url: str, name: str) -> str:
    """Return *url* with the name of another database of that server."""
    parsed = make_url(url).set(drivername="postgresql+psycopg", database=name)
    return parsed.render_as_string(hide_password=False)


def administer(url: str, statement: str) -> None:
    """Run *statement* on the server of *url*, outside of any transaction."""
    engine: Any = create_engine(renamed(url, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


@contextmanager
def noted_statements(database: Database) -> Iterator[list[str]]:
    """Give a list to which each statement is added while the block runs."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


@contextmanager
def held_statements(
    database: Database, is_held: Callable[[str], bool]
) -> Iterator[threading.Event]:
    """Hold statements of other threads until the event is set, or the block ends."""
    may_go = threading.Event()

    def hold(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not may_go.is_set() and is_held(statement):
            may_go.wait()

    # It stays: a thread that goes through the listeners may not find one less.
    event.listen(database.engine, "before_cursor_execute", hold)
    try:
        yield may_go
    finally:
        may_go.set()


def url_of(database: Database) -> str:
    """Return the URL of *database*, with its password."""
    return database.engine.url.render_as_string(hide_password=False)


def get_by_id(session: Session, entity: type[_Row], number: int) -> _Row:
    """Return the row with that id, of whatever detector."""
    found = find_by_id(session, entity, number)
    assert found is not None
    return found
