"""The database and its transactions."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from tracker.errors import (
    ConfigurationError,
    DamagedError,
    DatabaseAwayError,
    UnavailableError,
)
from tracker.storage import dialect, opening

# Errors of PostgreSQL after which the same transaction may succeed.
_DEADLOCK, _SERIALIZATION = "40P01", "40001"
_LOCK_TIMEOUT, _DISK_FULL = "55P03", "53100"
_TRIES = 5
_PAUSE_SECONDS = 0.05
# Twice the sleep of a waiting writer of SQLite between two tries.
_GAP_SECONDS = 0.001
# The settings of both databases with which a commit waits for the disk.
_DURABLE = frozenset({"2", "3", "on", "remote_apply"})
_OTHERS_WRITE = "others are writing to the database; try again"
_TOO_MANY = "too many requests are waiting for the database"
_NO_ROOM = "the disk of the database is full"
_NO_WRITES = "the database takes no writes: it is a standby, or read-only"
_UNOPENED = "; its disk may be read-only, or its folder owned by somebody else"
_Result = TypeVar("_Result")
DATABASE_ERRORS = (DBAPIError, PoolTimeoutError)
# An UPDATE or DELETE does not search the loaded rows for what it changes.
_WRITING: dict[str, Any] = {
    "expire_on_commit": False,
    "execution_options": {"synchronize_session": False},
}


_DAMAGES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REPAIR = (
    "stop Tracker, keep a copy of the file, and restore the newest backup into a new "
    "one; docs/operations.md says how, in When the database is broken"
)


class _CollisionError(UnavailableError):
    """The database ended this transaction because it collided with another one."""


class _Slots:
    """Limits how many threads of this process are in one kind of transaction.

    A web process has far more threads than can work usefully, because each slow client
    takes one.  A thread that is inside may enter again.
    """

    def __init__(self, number: int, refusal: str = _TOO_MANY) -> None:
        self._free = threading.BoundedSemaphore(number)
        self._inside = threading.local()
        self._refusal = refusal

    @contextmanager
    def hold(
        self, database: "Database", *, writes: bool = False, waits: bool = True
    ) -> Iterator[None]:
        """Hold a slot during the block, and translate the errors of the database.

        Raises UnavailableError if none gets free, or at once unless it *waits*.
        """
        depth = getattr(self._inside, "depth", 0) if waits else 0
        seconds = opening.BUSY_SECONDS if waits else 0
        if depth == 0 and not self._free.acquire(timeout=seconds):
            raise UnavailableError(self._refusal if waits else _OTHERS_WRITE)
        self._inside.depth = depth + 1
        try:
            yield
        except DATABASE_ERRORS as error:
            found = find_unavailable(error, writes=writes)
            if found is None:
                raise
            database.is_damaged |= isinstance(found, DamagedError)
            raise found from error
        finally:
            self._inside.depth -= 1
            if self._inside.depth == 0:
                self._free.release()


class Database:
    """An engine with two kinds of transactions, ``read()`` and ``write()``.

    Both yield a session in one transaction.  A read sees one snapshot.  A write commits
    when the block ends and rolls back when it raises.  At most *at_once* of each kind
    are open in this process, and writes never take the slots of reads.
    """

    def __init__(self, engine: Engine, *, at_once: int) -> None:
        self.engine = engine
        # Whether this process has found SQLite's file damaged.
        self.is_damaged = False
        options: dict[str, Any] = {"tracker_read": True}
        if engine.dialect.name == "postgresql":
            options |= {
                "isolation_level": "REPEATABLE READ",
                "postgresql_readonly": True,
            }
        self._read_options = options
        self._read_engine = engine.execution_options(**options)
        looks: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
        if self.is_sqlite:
            looks = {"tracker_looks": True}
        self._look_engine = engine.execution_options(**looks)
        self._reader = _Slots(at_once)
        # SQLite has one writer at a time.  Without turns, each waiting connection
        # sleeps for up to a tenth of a second before it tries again, and a newcomer may
        # overtake it.
        self._writer = _Slots(1, _OTHERS_WRITE) if self.is_sqlite else _Slots(at_once)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def reading_from(self, replica: "Database") -> "Database":
        """Return this database with reads of a *replica*; raises ConfigurationError."""
        if replica.is_sqlite != self.is_sqlite:
            raise ConfigurationError(
                "TRACKER_DATABASE_READ_URL and TRACKER_DATABASE_URL must be of one kind"
            )
        made = copy(self)
        made._read_engine = replica.engine.execution_options(**self._read_options)
        return made

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only transaction that sees one snapshot."""
        with self._reader.hold(self), Session(self._read_engine) as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """Open a connection without a transaction, which saves two round trips."""
        with self._reader.hold(self), self._look_engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, **options: bool) -> Iterator[Session]:
        """Open a transaction that is committed when the block ends."""
        engine = self.engine.execution_options(**options) if options else self.engine
        with (
            self._writer.hold(self, writes=True),
            Session(engine, **_WRITING) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def write_if_free(self) -> Iterator[Session]:
        """Open a write, or raise UnavailableError at once if another write is open.

        For writes that can wait for the next request, such as a key's last use, so that
        no reader waits for an import.
        """
        engine = self.engine.execution_options(tracker_waits=False)
        with (
            self._writer.hold(self, writes=True, waits=False),
            Session(engine, **_WRITING) as session,
            session.begin(),
        ):
            yield session

    def run(
        self, work: Callable[..., _Result], *given: Any, **options: bool
    ) -> _Result:
        """Run *work* on the session of a write and *given*; retry if that can help.

        If two requests bring the same new key or version, the constraint refuses the
        second, whose retry finds the first one's row.  If they deadlock, the one that
        was ended pauses before its retry, so that the other one is through.
        """
        for tried in range(1, _TRIES):
            try:
                with suppress(IntegrityError), self.write(**options) as session:
                    return work(session, *given)
            except _CollisionError:
                time.sleep(_PAUSE_SECONDS * 2**tried)
        with self.write(**options) as session:
            return work(session, *given)

    def run_piece(self, work: Callable[[Session], _Result]) -> _Result:
        """Run *work* as ``run``, as one of many consecutive writes.

        On SQLite it then pauses, so that waiting writers get a turn, and it is on the
        disk with the next write that is none of these.
        """
        result = self.run(work, tracker_lasts=False)
        if self.is_sqlite:
            time.sleep(_GAP_SECONDS)
        return result

    def check_durability(self) -> None:
        """Raise ConfigurationError if a commit is answered before it is on the disk.

        Every connection asks for durable commits; a pooler in between may drop the
        setting.
        """
        ask = "PRAGMA synchronous" if self.is_sqlite else "SHOW synchronous_commit"
        with self.read() as session:
            found = str(session.connection().exec_driver_sql(ask).scalar())
        if found not in _DURABLE:
            raise ConfigurationError(
                f"{ask} says {found}: a label could be lost after it was acknowledged. "
                "Connect to the database itself"
            )

    def settle(
        self,
        *,
        is_large: bool = True,
        tables: Sequence[str] = dialect.LARGE_TABLES,
    ) -> None:
        """Tidy up after a large write to *tables*, or the first one.

        SQLite's log starts over.  PostgreSQL updates its statistics, which it would do
        a minute later, with bad plans until then.  Without any, or with those of a few
        rows, it compares each query with each other one.
        """
        if self.is_sqlite:
            if not is_large:
                return
            with closing(self.engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")
            return
        # The write is done even if this fails.
        with suppress(UnavailableError), self.write() as session:
            if is_large or any(dialect.lacks_statistics(session, t) for t in tables):
                dialect.gather_statistics(session, tables)

    def close(self) -> None:
        self.engine.dispose()


_EXAMPLE = "postgresql+psycopg://USER:PASSWORD@HOST/NAME"
_ENCODING = (
    "in a password : is written as %3A, / as %2F, @ as %40, # as %23 and % as %25"
)


def open_database(url: str, *, at_once: int = 8, must_exist: bool = False) -> Database:
    """Open the database at *url* without changing its schema.

    At most *at_once* threads read, and as many write, at the same time.  A file of
    SQLite is created, unless it *must_exist*.  Raises ConfigurationError for any URL
    other than SQLite in a file or PostgreSQL through psycopg.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The error does not quote the URL, which may contain a password.
        raise ConfigurationError(
            f"TRACKER_DATABASE_URL is not a URL such as {_EXAMPLE}; {_ENCODING}"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        engine = opening.open_sqlite(
            parsed.database, parsed, at_once, must_exist=must_exist
        )
        return Database(engine, at_once=at_once)
    if parsed.drivername == "postgresql+psycopg":
        if "@" in f"{parsed.host}{parsed.database}":
            raise ConfigurationError(
                f"TRACKER_DATABASE_URL has too many @; {_ENCODING}"
            )
        return Database(opening.open_postgresql(parsed, at_once), at_once=at_once)
    raise ConfigurationError(
        f"TRACKER_DATABASE_URL begins with {parsed.drivername}: it must be "
        f"sqlite:///FILE or {_EXAMPLE}"
    )


def find_unavailable(
    error: Exception, *, writes: bool = False
) -> UnavailableError | None:
    """Return the error of a database that is away, busy or damaged; None for a bug.

    With *writes* also of one that refuses writes; in a read that is a bug.
    """
    said = getattr(error, "orig", None)
    if isinstance(error, OperationalError | PoolTimeoutError):
        if getattr(said, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            return None
        return _translate(error, said, writes=writes)
    if writes and getattr(said, "sqlstate", None) == opening.READ_ONLY:
        return UnavailableError(_NO_WRITES)
    if getattr(error, "connection_invalidated", False):
        return UnavailableError("the connection to the database was lost")
    if getattr(said, "sqlite_errorcode", 0) & 0xFF in _DAMAGES:
        return DamagedError(describe_damage(first_line(error)))
    return None


def _translate(error: Exception, said: Any, *, writes: bool) -> UnavailableError:
    state = getattr(said, "sqlstate", None)
    if state in {_DEADLOCK, _SERIALIZATION}:
        return _CollisionError("too much is written at the same time")
    code = getattr(said, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY or state == _LOCK_TIMEOUT:
        return UnavailableError(_OTHERS_WRITE)
    if code == sqlite3.SQLITE_FULL or state == _DISK_FULL:
        return UnavailableError(_NO_ROOM)
    if code == sqlite3.SQLITE_READONLY and writes:
        return UnavailableError(_NO_WRITES)
    advice = _UNOPENED if code == sqlite3.SQLITE_CANTOPEN else ""
    return DatabaseAwayError(first_line(error) + advice)


def describe_damage(what: str) -> str:
    """Return the error of a damaged SQLite file, with the fix."""
    return f"the file of the database is damaged ({what}): {_REPAIR}"


def first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
