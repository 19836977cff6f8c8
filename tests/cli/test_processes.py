"""How many web processes there are where nobody says."""

import os

import pytest

from tracker.cli.operations.preparation import count_processes
from tracker.settings import Settings
from tracker.storage.database import Database


@pytest.mark.parametrize(
    ("processors", "limit", "on_sqlite", "on_postgresql"),
    [(1, 0, 1, 1), (2, 0, 2, 2), (3, 0, 2, 3), (16, 0, 2, 4), (16, 600, 1, 4)],
)
def test_there_are_as_many_as_are_of_use(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    limit: int,
    on_sqlite: int,
    on_postgresql: int,
) -> None:
    # macOS has the one, Linux goes by the other.
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda _: range(processors), raising=False
    )
    expected = on_sqlite if database.is_sqlite else on_postgresql
    assert count_processes(Settings(requests_per_minute=limit), database) == expected
