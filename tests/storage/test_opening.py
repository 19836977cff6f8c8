"""What opens a database, and connections that are as durable as promised."""

import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tracker.errors import ConfigurationError, UnavailableError
from tracker.storage.database import Database, open_database


def settings_of(session: Session, names: Iterable[str]) -> dict[str, str]:
    """What a connection says of itself."""
    show = "PRAGMA" if session.get_bind().dialect.name == "sqlite" else "SHOW"
    return {
        name: str(session.execute(text(f"{show} {name}")).scalar_one())
        for name in names
    }


def test_a_database_that_answers_before_the_disk_has_it_is_refused(
    database_url: str,
) -> None:
    database = open_database(database_url)
    database.check_durability()
    ask, careless = (
        ("PRAGMA synchronous", "PRAGMA synchronous=NORMAL")
        if database.is_sqlite
        else ("SHOW synchronous_commit", "SET synchronous_commit=off")
    )

    def spoil(connection: Any, _record: Any) -> None:
        connection.cursor().execute(careless)
        connection.commit()

    event.listen(database.engine, "connect", spoil)
    database.engine.dispose()
    with pytest.raises(ConfigurationError, match=f"{ask} says (1|off): a label could"):
        database.check_durability()
    database.close()


def test_every_connection_writes_to_the_disk_before_it_answers(
    database: Database,
) -> None:
    wanted = (
        {
            "journal_mode": "wal",
            "synchronous": "2",
            "foreign_keys": "1",
            "busy_timeout": "30000",
        }
        if database.is_sqlite
        else {
            "synchronous_commit": "on",
            "timezone": "UTC",
            "lock_timeout": "30s",
            "idle_in_transaction_session_timeout": "1min",
        }
    )
    with ExitStack() as stack:
        # Open at the same time, so that no two of them share a connection.
        opened = [stack.enter_context(database.read()) for _ in range(3)]
        opened.append(stack.enter_context(database.write()))
        found = [settings_of(session, wanted) for session in opened]

    assert found == [wanted] * 4


def test_the_disk_is_waited_for_by_the_next_write_and_not_by_a_piece(
    database: Database,
) -> None:
    if not database.is_sqlite:
        pytest.skip("a piece says so itself, in its transaction")

    def ask(session: Session) -> str:
        return settings_of(session, ["synchronous"])["synchronous"]

    assert database.run_piece(ask) == "1"
    with database.write() as session:
        assert ask(session) == "2"
    assert database.run(ask) == "2"


def test_an_error_does_not_say_what_stood_in_the_statement(database: Database) -> None:
    statement = text("SELECT :given FROM nowhere")
    with pytest.raises(DBAPIError) as caught, database.read() as session:
        session.execute(statement, {"given": "pa55word"})

    assert "nowhere" in str(caught.value)
    assert "pa55word" not in str(caught.value)


def test_a_database_that_is_away_is_an_error_of_its_own_without_the_password() -> None:
    gone = open_database("postgresql+psycopg://tracker:pa55word@127.0.0.1:1/tracker")
    with pytest.raises(UnavailableError) as caught, gone.read() as session:
        session.connection()
    gone.close()

    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("nonsense", "not a URL"),
        # A password that is not encoded looks like other parts.
        ("postgresql://tracker:x@pa55word/y@db/x", "/ as %2F, @ as %40"),
        ("postgresql://tracker:x@pa55word@db/x", "too many @"),
        ("postgresql://tracker:x@y:pa55word@db/x", "is not a URL such as"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://root:pa55word@db/x", "must be sqlite:///FILE or postgresql+psycopg"),
        ("postgresql+asyncpg://db/x", "must be sqlite:///FILE or postgresql+psycopg"),
    ],
)
def test_a_url_of_another_kind_is_refused_with_what_would_be_right(
    url: str, right: str
) -> None:
    with pytest.raises(ConfigurationError, match="TRACKER_DATABASE_URL") as caught:
        open_database(url)

    assert right in str(caught.value)
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_way_to_write_postgresql_opens_it_through_psycopg(scheme: str) -> None:
    database = open_database(f"{scheme}://tracker@127.0.0.1:1/tracker")
    assert database.engine.url.drivername == "postgresql+psycopg"
    assert not database.is_sqlite
    database.close()


def test_the_folder_of_a_new_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "tracker.db"
    database = open_database(f"sqlite:///{path}")
    with database.write() as session:
        session.execute(text("CREATE TABLE t (x INTEGER)"))
        files = {found.name: found for found in path.parent.iterdir()}
        modes = {
            name: stat.S_IMODE(found.stat().st_mode) for name, found in files.items()
        }
    database.close()

    assert modes == dict.fromkeys(
        ("tracker.db", "tracker.db-wal", "tracker.db-shm"), 0o600
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_and_a_folder_that_are_there_keep_who_may_read_them(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o750)
    path = tmp_path / "tracker.db"
    path.touch(mode=0o640)
    path.chmod(0o640)
    open_database(f"sqlite:///{path}").close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
