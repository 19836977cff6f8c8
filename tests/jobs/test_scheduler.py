"""What the worker says while its database is away."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from tests.jobs.test_recompute import make_detectors
from tests.processes import wait_until
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputed, Recomputer
from tracker.jobs.scheduler import _Runner, run_worker
from tracker.storage.database import Database, open_database
from tracker.storage.estimates.pending import list_pending_detectors


def test_a_large_fold_holds_up_no_other_detector(database: Database) -> None:
    make_detectors(database, 3, 1)
    is_held, go_on, stop = threading.Event(), threading.Event(), threading.Event()

    class Held(Recomputer):
        def _recompute_some(self, detector_ids: Sequence[int]) -> list[Recomputed]:
            if 1 in detector_ids:
                is_held.set()
                assert go_on.wait(60)
            return super()._recompute_some(detector_ids)

    thread = threading.Thread(
        target=run_worker,
        args=(Held(database, "w"),),
        kwargs={
            "every_seconds": 0.1,
            "beside": Held(database, "w.2"),
            "stop": stop,
        },
    )

    def waiting() -> list[int]:
        with database.read() as session:
            return list(list_pending_detectors(session))

    thread.start()
    try:
        assert is_held.wait(60)
        wait_until(lambda: waiting() == [1])
        go_on.set()
        wait_until(lambda: not waiting())
    finally:
        go_on.set()
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_database_that_is_away_is_reported_once_and_so_is_its_return(
    database_url: str,
) -> None:
    database = open_database(database_url)
    is_away, stop = threading.Event(), threading.Event()
    tried: list[str] = []

    def connect(dialect: Any, *_rest: Any) -> None:
        if is_away.is_set():
            tried.append(threading.current_thread().name)
            raise dialect.loaded_dbapi.OperationalError("nobody answers")

    event.listen(database.engine, "do_connect", connect)
    is_away.set()
    database.engine.dispose()
    recomputer = Recomputer(database, "w")
    thread = threading.Thread(
        target=run_worker,
        args=(recomputer,),
        kwargs={
            "every_seconds": 0.1,
            "importer": Importer(database, "w"),
            "stop": stop,
        },
    )
    with capture_logs() as logs:

        def said() -> list[str]:
            return [str(log["event"]) for log in logs if "database" in log["event"]]

        thread.start()
        try:
            # Of both jobs: one of them tries every second, the other one more often.
            wait_until(lambda: len(tried) >= 20)
            assert said() == ["the database is away; the next run tries again"]
            is_away.clear()
            wait_until(lambda: len(said()) > 1)
        finally:
            stop.set()
            thread.join(10)
            database.close()

    assert not thread.is_alive()
    assert said()[1:] == ["the database is back"]
    [warning] = [log for log in logs if log["log_level"] == "warning"]
    assert "nobody answers" in warning["error"]


@pytest.mark.parametrize(("seconds", "runs"), [(0.0, 3), (60.0, 1)])
def test_a_run_that_took_too_long_is_followed_by_the_next_at_once(
    seconds: float, runs: int
) -> None:
    stop, done = threading.Event(), []

    def work() -> None:
        done.append(True)
        if len(done) == 3:
            stop.set()

    _Runner(stop).run(work, seconds)
    assert len(done) == runs
