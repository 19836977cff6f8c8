"""Transactions are as separate as promised."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import event, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.conftest import START, by
from tracker.errors import UnavailableError
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector, Version, add_versions
from tracker.storage.dialect import lacks_statistics
from tracker.storage.estimates.pending import PendingBatch, add_batch, advance_revisions


def at_once(work: Callable[[int], Any], *, writers: int = 8) -> list[Any]:
    """What *work* gives in so many threads, none of which begins before the others."""
    gate = threading.Barrier(writers)

    def run(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(run, range(writers)))


def test_a_read_leaves_nothing_behind(database: Database, detector_id: int) -> None:
    def change(session: Session) -> None:
        session.execute(text("UPDATE detectors SET name = 'changed'"))

    if database.is_sqlite:
        with database.read() as session:
            change(session)
    else:
        with (
            pytest.raises(Exception, match="read-only transaction"),
            database.read() as session,
        ):
            change(session)

    with database.read() as session:
        assert session.get_one(Detector, detector_id).name == "door"


def test_a_read_sees_one_snapshot_however_long_it_takes(
    database: Database, detector_id: int
) -> None:
    with database.read() as session:
        before = session.scalar(select(func.count()).select_from(PendingBatch))
        with database.write() as other:
            add_batch(other, detector_id, created_at=START)
        after = session.scalar(select(func.count()).select_from(PendingBatch))

    assert (before, after) == (0, 0)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(PendingBatch)) == 1


def test_a_look_leaves_its_connection_as_it_was(
    database: Database, detector_id: int
) -> None:
    with database.look() as session:
        before = session.scalar(select(func.count()).select_from(PendingBatch))
        with database.write() as other:
            add_batch(other, detector_id, created_at=START)
        after = session.scalar(select(func.count()).select_from(PendingBatch))

    # No transaction is opened for it.
    assert (before, after) == (0, 1)
    # The same connections, and transactions are as separate as before.
    with database.read() as session, database.write() as other:
        count = session.scalar(select(func.count()).select_from(PendingBatch))
        add_batch(other, detector_id, created_at=START)
        other.rollback()
    assert count == 1
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(PendingBatch)) == 1


def test_a_write_that_fails_writes_nothing(
    database: Database, detector_id: int
) -> None:
    def work(session: Session) -> float:
        add_batch(session, detector_id, created_at=START)
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        database.run(work)

    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(PendingBatch)) == 0


def test_a_naive_instant_is_refused(database: Database, detector_id: int) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - what is refused.
    with (
        pytest.raises(ValueError, match="naive instant"),
        database.write() as session,
    ):
        add_batch(session, detector_id, created_at=naive)


def test_an_instant_comes_back_equal_and_in_utc(
    database: Database, detector_id: int
) -> None:
    here = timezone(timedelta(hours=-5, minutes=-30))
    given = datetime(2026, 3, 29, 23, 59, 59, 999_999, tzinfo=here)
    with database.write() as session:
        add_batch(session, detector_id, created_at=given)
    with database.read() as session:
        [stored] = session.scalars(select(PendingBatch.created_at))

    assert stored == given
    assert stored.tzinfo is UTC
    assert stored.microsecond == 999_999


def test_eight_writers_at_once_all_get_through(
    database: Database, detector_id: int
) -> None:
    def write(_: int) -> list[int]:
        numbers = []
        for _ in range(25):
            with database.write() as session:
                numbers.append(add_batch(session, detector_id, created_at=START))
        return numbers

    drawn = [number for numbers in at_once(write) for number in numbers]

    assert len(set(drawn)) == 8 * 25
    with database.read() as session:
        stored = session.scalars(select(PendingBatch.id)).all()
    assert sorted(stored) == sorted(drawn)


def test_of_eight_that_claim_a_revision_one_gets_it(
    database: Database, detector_id: int
) -> None:
    def claim(_: int) -> bool:
        with database.write() as session:
            return advance_revisions(session, {detector_id: 0})

    assert sorted(at_once(claim)) == [False] * 7 + [True]
    with database.read() as session:
        assert session.get_one(Detector, detector_id).revision == 1


def test_run_tries_again_after_somebody_else_was_faster(
    database: Database, detector_id: int
) -> None:
    def work(session: Session) -> dict[str, int]:
        return add_versions(session, detector_id, ["v1"], created_at=START)

    found = at_once(lambda _: database.run(work))

    assert len({ids["v1"] for ids in found}) == 1
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Version)) == 1


def test_run_calls_the_work_anew_until_it_gets_through(
    database: Database, detector_id: int
) -> None:
    calls = []

    def add(session: Session, name: str) -> str:
        version = Version(
            detector_id=detector_id, name=name, created_at=START, last_label_at=None
        )
        session.add(version)
        session.flush()
        return name

    def work(session: Session) -> str:
        calls.append(len(calls))
        add(session, f"try {len(calls)}")
        return add(session, "taken" if len(calls) < 3 else "free")

    with database.write() as session:
        add(session, "taken")

    assert database.run(work) == "free"
    assert calls == [0, 1, 2]
    with database.read() as session:
        assert set(session.scalars(select(Version.name))) == {"taken", "try 3", "free"}


def test_two_that_wait_for_each_other_both_get_through(database: Database) -> None:
    names = ["left", "right"]
    with database.write() as session:
        for name in names:
            new = NewDetector(name=name, question="Is it closed?")
            create_detector(session, new, by(at=START))
    both_hold_one = threading.Barrier(2)
    rename = text("UPDATE detectors SET question = :by WHERE name = :name")
    tries = [0, 0]

    def cross(number: int) -> None:
        def work(session: Session) -> None:
            tries[number] += 1
            session.execute(rename, {"name": names[number], "by": str(number)})
            if not database.is_sqlite and tries[number] == 1:
                both_hold_one.wait(30)
            session.execute(rename, {"name": names[1 - number], "by": str(number)})

        database.run(work)

    at_once(cross, writers=2)

    # On SQLite one waits for the other before it begins, and nobody is stopped.
    # On PostgreSQL one is, and on a busy machine perhaps once more.
    assert sum(tries) == 2 if database.is_sqlite else sum(tries) >= 3
    with database.read() as session:
        assert len(set(session.scalars(select(Detector.question)))) == 1


def test_run_gives_up_where_trying_again_does_not_help(
    database: Database, detector_id: int
) -> None:
    calls = []

    def work(session: Session) -> None:
        calls.append(1)
        session.execute(
            text("INSERT INTO detectors (id, name) VALUES (:id, 'x')"),
            {"id": detector_id},
        )

    with pytest.raises(IntegrityError):
        database.run(work)
    assert len(calls) == 5


def test_whoever_waits_too_long_for_a_lock_is_told_to_come_again(
    database: Database, detector_id: int
) -> None:
    rename = text("UPDATE detectors SET name = 'mine'")
    other = open_database(database.engine.url.render_as_string(hide_password=False))
    if database.is_sqlite:
        event.listen(
            other.engine,
            "connect",
            lambda connection, _: connection.execute("PRAGMA busy_timeout = 50"),
        )

    def impatient(session: Session) -> None:
        if not database.is_sqlite:
            session.execute(text("SET LOCAL lock_timeout = '50ms'"))
        session.execute(rename)

    with database.write() as holder:
        holder.execute(rename)
        with pytest.raises(UnavailableError, match=r"others are writing|lock timeout"):
            other.run(impatient)
    other.run(lambda session: session.execute(rename))
    other.close()


def test_the_threads_of_a_process_take_turns_to_write(
    database: Database, detector_id: int
) -> None:
    other = open_database(database.engine.url.render_as_string(hide_password=False))
    if database.is_sqlite:
        # A connection that finds the lock taken fails at once.
        event.listen(
            other.engine,
            "connect",
            lambda connection, _: connection.execute("PRAGMA busy_timeout = 0"),
        )

    def add(_number: int) -> int:
        return other.run(
            lambda session: add_batch(session, detector_id, created_at=START)
        )

    at_once(lambda _: [add(number) for number in range(5)])
    other.close()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(PendingBatch)) == 40


@pytest.mark.thorough
def test_the_log_of_sqlite_does_not_stay_as_large_as_an_import(tmp_path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'large.db'}")
    with database.write() as session:
        session.execute(text("CREATE TABLE large (content BLOB)"))
    with database.write() as session:
        for _ in range(100):
            session.execute(text("INSERT INTO large VALUES (zeroblob(1000000))"))
    log = tmp_path / "large.db-wal"
    assert log.stat().st_size > 90e6
    database.settle()
    # The next write begins the log from the start, and cuts off the rest.
    with database.write() as session:
        session.execute(text("INSERT INTO large VALUES (zeroblob(1))"))
    assert log.stat().st_size <= 64 * 2**20
    database.close()


def test_postgresql_has_statistics_after_the_first_import_however_small(
    database,
) -> None:
    if database.is_sqlite:
        return
    with database.write() as session:
        session.execute(text("CREATE TABLE unknown (number BIGINT)"))
        assert lacks_statistics(session, "unknown")
        session.execute(text("DROP TABLE unknown"))
    database.settle(is_large=False)
    with database.read() as session:
        assert not lacks_statistics(session, "queries")


def test_postgresql_counts_a_table_again_that_has_grown_tenfold(database) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite is not told how large its tables are")
    with database.write() as session:
        session.execute(text("CREATE TABLE grown (number BIGINT)"))
        session.execute(text("INSERT INTO grown VALUES (1)"))
        session.execute(text("ANALYZE grown"))
        assert not lacks_statistics(session, "grown")
        add = text("INSERT INTO grown SELECT generate_series(1, 3000)")
        session.execute(add)
        assert lacks_statistics(session, "grown")
        session.execute(text("ANALYZE grown"))
        session.execute(add)
        assert not lacks_statistics(session, "grown")
        session.execute(text("DROP TABLE grown"))


def test_a_write_that_does_not_wait_ends_at_once(database) -> None:
    if not database.is_sqlite:
        with database.write(), database.write_if_free():
            return
    other = open_database(str(database.engine.url))
    begun = time.monotonic()
    for one in (other, database):
        with database.write() as busy:
            # A transaction begins with its first statement.
            busy.connection()
            with pytest.raises(UnavailableError), one.write_if_free() as session:
                session.connection()
    # To wait is to wait for the 30 seconds of the lock.
    assert time.monotonic() - begun < 25
    with other.write_if_free() as session:
        asked = session.connection().exec_driver_sql("PRAGMA busy_timeout")
        assert asked.scalar() == 30_000
    other.close()
