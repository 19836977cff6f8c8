"""Databases that older versions have left, with data, are upgraded and used on.

``scripts/keep_database.py`` has written them by the commands and the API of those
versions: what was stored, and which estimates were answered.
"""

import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from tests.conftest import DATABASES, Clock
from tests.databases import administer, renamed
from tracker.services.operations.doctor import check_detector
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import list_detectors
from tracker.storage.operations import schema

KEPT = Path(__file__).parent / "upgrades"
REVISIONS = sorted({path.name.partition("-")[0] for path in KEPT.glob("*.sql.gz")})
# What stays as it was stored, whatever the schema.
HISTORY = (
    "SELECT id, version_id, sequence, kind, computed_at, confidence_level, labels"
    " FROM snapshots ORDER BY id",
    "SELECT snapshot_id, method, position, correct, labelled, accuracy, low, high"
    " FROM snapshot_intervals ORDER BY snapshot_id, method, position",
    "SELECT id, query_id, label, sampling, labeler, labelled_at FROM labels"
    " ORDER BY id",
)
COUNTED = "labels", "unclear", "targeted_left_out", "balanced", "classes", "confusion"


def filled_sqlite(script: str, path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return f"sqlite:///{path}"


def filled_postgresql(script: str, server: str, name: str) -> str:
    administer(server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    url = renamed(server, name)
    database = open_database(url)
    with database.engine.begin() as connection:
        connection.connection.cursor().execute(script)
    database.close()
    return url


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def database(
    request: pytest.FixtureRequest, kind: str, revision: str, tmp_path: Path
) -> Iterator[Database]:
    """A database as that version has left it."""
    packed = (KEPT / f"{revision}-{kind}.sql.gz").read_bytes()
    script = gzip.decompress(packed).decode()
    if kind == "sqlite":
        database = open_database(filled_sqlite(script, tmp_path / "kept.db"))
        yield database
        database.close()
        return
    server, name = request.getfixturevalue("postgres_server_url"), f"kept_{revision}"
    database = open_database(filled_postgresql(script, server, name))
    yield database
    database.close()
    administer(server, f"DROP DATABASE {name} WITH (FORCE)")


def history(database: Database) -> list[list[tuple[Any, ...]]]:
    with database.engine.connect() as connection:
        found = [connection.execute(text(one)) for one in HISTORY]
        return [[tuple(row) for row in rows] for rows in found]


def problems(database: Database) -> list[str]:
    with database.read() as session:
        return [
            problem.what
            for detector in list_detectors(session, has_archived=True)
            for problem in check_detector(session, detector)
        ]


def test_a_kept_database_is_upgraded_and_used_on(
    request: pytest.FixtureRequest, database: Database, kind: str, revision: str
) -> None:
    stored = history(database)
    assert min(map(len, stored)) > 100
    schema.upgrade(database)

    assert history(database) == stored
    assert problems(database) == []

    # The application is made for the schema of today.
    clock: Clock = request.getfixturevalue("clock")
    clock.at = datetime(2026, 12, 1, tzinfo=UTC)
    app: Flask = request.getfixturevalue("app")
    keys: dict[str, str] = request.getfixturevalue("keys")
    recompute: Callable[[], None] = request.getfixturevalue("recompute")
    headers = {"Authorization": f"Bearer {keys['editor']}"}
    client = app.test_client()

    answers = json.loads((KEPT / f"{revision}-{kind}.json").read_text())
    for name, answered in answers.items():
        detector, version = name.split()
        found = client.get(
            f"/api/v1/detectors/{detector}/estimate",
            query_string={"version": version, "method": answered["method"]},
            headers=headers,
        ).get_json()
        for field in COUNTED:
            assert found[field] == answered[field], (name, field)

    said = {"predicted": "YES", "label": "YES", "version": "v1", "sampling": "random"}
    created = client.post("/api/v1/detectors/door/queries", json=said, headers=headers)
    assert created.status_code == 201, created.get_data(as_text=True)
    recompute()
    after = client.get(
        "/api/v1/detectors/door/estimate?version=v1", headers=headers
    ).get_json()
    assert after["labels"] == answers["door v1"]["labels"] + 1
    assert problems(database) == []
    for before, after_it in zip(stored, history(database), strict=True):
        assert after_it[: len(before)] == before


def test_databases_of_several_versions_are_kept_for_both_kinds() -> None:
    assert len(REVISIONS) >= 4
    for revision in REVISIONS:
        for kind in DATABASES:
            assert (KEPT / f"{revision}-{kind}.sql.gz").exists(), (revision, kind)
            assert (KEPT / f"{revision}-{kind}.json").exists(), (revision, kind)
