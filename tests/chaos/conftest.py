"""A long profile and a short one, and databases that are as durable as in use."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.postgres import Postgres
from tests.conftest import DATABASES, IS_LONG
from tracker.storage import schema
from tracker.storage.database import open_database


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IS_LONG:
        for item in items:
            if "/chaos/" in item.nodeid:
                item.add_marker(pytest.mark.timeout(3600))


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


_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def record_figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a line that is shown when all tests have ended."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    return lambda line: figures.append(f"{request.node.name}: {line}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_FIGURES, []):
        terminalreporter.write_line(line)
