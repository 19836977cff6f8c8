"""What the worker says while its database is away, and what it does now and then."""

import threading
from typing import Any

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from tests.jobs.test_recompute import working
from tests.processes import wait_until
from tracker.jobs.scheduler import run_worker
from tracker.storage.database import Database, open_database
from tracker.storage.tasks import find_task


@pytest.mark.slow
def test_a_database_that_is_away_is_reported_once_and_so_is_its_return(
    database_url: str,
) -> None:
    database = open_database(database_url)
    is_away = threading.Event()
    tried: list[str] = []

    def connect(dialect: Any, *_rest: Any) -> None:
        if is_away.is_set():
            tried.append(threading.current_thread().name)
            raise dialect.loaded_dbapi.OperationalError("nobody answers")

    event.listen(database.engine, "do_connect", connect)
    is_away.set()
    database.engine.dispose()
    loop = working(database, "w")
    thread = threading.Thread(
        target=run_worker, args=(loop,), kwargs={"every_seconds": 0.1}
    )
    with capture_logs() as logs:

        def said() -> list[str]:
            return [str(log["event"]) for log in logs if "database" in log["event"]]

        thread.start()
        try:
            wait_until(lambda: len(tried) >= 20)
            assert said() == ["the database is away; trying again"]
            is_away.clear()
            wait_until(lambda: len(said()) > 1)
        finally:
            loop.stop.set()
            thread.join(10)
            database.close()

    assert not thread.is_alive()
    assert said()[1:] == ["the database is back"]
    [warning] = [log for log in logs if log["log_level"] == "warning"]
    assert "nobody answers" in warning["error"]


def test_what_is_done_now_and_then_has_a_task_at_once(database: Database) -> None:
    loop = working(database, "w")
    thread = threading.Thread(target=run_worker, args=(loop,))

    def has_tasks() -> bool:
        with database.read() as session:
            found = [find_task(session, kind, "") for kind in ("retention", "stalls")]
        return None not in found

    thread.start()
    try:
        wait_until(has_tasks)
    finally:
        loop.stop.set()
        thread.join(10)
    assert not thread.is_alive()
