"""Databases that are as durable as in use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.postgres import Postgres
from tests.conftest import DATABASES
from tracker.storage.database import open_database
from tracker.storage.operations import schema


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(params=DATABASES)
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh, migrated database that syncs every commit to the disk."""
    return new_durable_url(request, tmp_path, request.param)


def new_durable_url(request: Any, tmp_path: Path, kind: str) -> str:
    if kind == "postgresql":
        return str(request.getfixturevalue("postgres").create_database())
    url = f"sqlite:///{tmp_path / 'chaos.db'}"
    database = open_database(url)
    schema.upgrade(database)
    database.close()
    return url
