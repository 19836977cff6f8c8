"""A connection that PostgreSQL has ended is replaced before anybody uses it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import select, text

from tracker.storage import opening
from tracker.storage.database import Database, open_database

_PID = select(text("pg_backend_pid()"))


@pytest.fixture(params=["postgresql"])
def pool(
    request: pytest.FixtureRequest, new_database_url: Callable[[str], str]
) -> Iterator[Database]:
    """A database with connections of its own."""
    database = open_database(new_database_url(request.param))
    yield database
    database.close()


@pytest.fixture
def asked(pool: Database, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections that were asked whether they are alive."""
    found: list[object] = []
    ask = pool.engine.dialect.do_ping

    def note(connection: object) -> bool:
        found.append(connection)
        return ask(connection)  # type: ignore[arg-type]

    monkeypatch.setattr(pool.engine.dialect, "do_ping", note)
    return found


def open_some(pool: Database, number: int = 3) -> set[int]:
    """Have so many connections at the same time, and return their servers."""
    with ExitStack() as stack:
        reads = [stack.enter_context(pool.read()) for _ in range(number)]
        return {read.scalars(_PID).one() for read in reads}


def end(lent: Database, servers: set[int]) -> None:
    ended = text("SELECT pg_terminate_backend(pid, 10000) FROM unnest(:pids) AS pid")
    with lent.write() as session:
        assert all(session.scalars(ended, {"pids": list(servers)}))


@pytest.mark.parametrize("is_silent", [False, True])
def test_what_the_server_has_ended_is_replaced(
    pool: Database,
    new_database: Callable[[str], Database],
    monkeypatch: pytest.MonkeyPatch,
    is_silent: bool,
) -> None:
    if is_silent:
        # As where the cable is cut; then it takes a rest.
        monkeypatch.setattr(opening, "_has_news", lambda _connection: False)
    monkeypatch.setattr(opening, "_MOMENT_SECONDS", 0.0 if is_silent else 3600.0)
    ended = open_some(pool)
    end(new_database("postgresql"), ended)

    replaced = open_some(pool)
    assert len(replaced) == 3
    assert not replaced & ended


def test_only_who_has_rested_is_asked(
    pool: Database, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_MOMENT_SECONDS", 3600.0)
    servers = open_some(pool)
    assert open_some(pool) == servers
    assert asked == []

    monkeypatch.setattr(opening, "_MOMENT_SECONDS", 0.0)
    assert open_some(pool) == servers
    assert len(asked) == 3
