"""Workers share out imports, take over from one that died, and write each once."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.conftest import START, Clock
from tests.databases import held_statements
from tests.jobs.imports import (
    AFTER_A_HOLD,
    add,
    assert_imported_once,
    count,
    ends_import,
    importing,
    look,
    rows_of,
    take,
    task_of,
)
from tests.processes import Process, clean_environ, wait_until
from tracker.services.imports.attempts import begin_attempt, done, end_import
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.rows import PIECE_ROWS
from tracker.services.imports.reports import Outcome
from tracker.storage.database import Database, open_database
from tracker.storage.imports import import_pieces
from tracker.storage.imports.files import Progress, find_import
from tracker.storage.imports.import_pieces import (
    ImportPiece,
)
from tracker.storage.queries.queries import Query
from tracker.storage.tasks import LostTaskError, Task


def test_workers_that_take_at_once_get_different_imports(
    database: Database, clock: Clock
) -> None:
    expected = {str(add(database, rows_of(1))) for _ in range(4)}
    barrier = threading.Barrier(4)
    taken: list[Task | None] = []

    def work(name: str) -> None:
        barrier.wait()
        # A worker that comes just when another one's row is locked looks again.
        task = None
        while task is None:
            task = take(database, name, clock)
        taken.append(task)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {task.key for task in taken if task} == expected


def carry_out(
    database: Database,
    session: Session,
    task: Task,
    at: datetime,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Import in one transaction, as on PostgreSQL."""
    attempt = begin_attempt(session, task, database.read, at=at, choices=Choices())
    return attempt.carry_out(session, on_progress)


def write(database: Database, task: Task, end: Task, clock: Clock) -> None:
    """Import by one hold, and end the import by another."""
    with database.write() as session:
        report = carry_out(database, session, task, clock())
        end_import(session, end, done(report), Progress(3, 37), at=clock())
    importing(database, clock, "clears").run()


def test_a_late_writer_is_refused_and_all_that_it_wrote_is_undone(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    late = take(database, "late", clock)
    assert late is not None
    clock.at += AFTER_A_HOLD
    other = take(database, "other", clock)
    assert other is not None

    # It wakes up before it began to write.
    with pytest.raises(LostTaskError), database.write() as session:
        carry_out(database, session, late, clock())
    # It wakes up when it has written all but the end.
    with pytest.raises(LostTaskError):
        write(database, other, late, clock)
    assert count(database, Query) == 0
    assert count(database, ImportPiece) == 1

    assert look(database, import_id).state == "running"
    write(database, other, other, clock)
    assert_imported_once(database, import_id, 3)


def test_one_that_is_paused_in_the_middle_and_another_import_it_once(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    late = take(database, "late", clock)
    assert late is not None
    is_in_the_middle, may_go_on = threading.Event(), threading.Event()
    ends: list[str] = []

    def pause(_progress: Progress) -> None:
        is_in_the_middle.set()
        may_go_on.wait(60)

    def work() -> None:
        try:
            with database.write() as session:
                report = carry_out(database, session, late, START, pause)
                size = Progress(3, 37)
                end_import(session, late, done(report), size, at=START)
            ends.append("written")
        except LostTaskError:
            ends.append("refused")

    paused = threading.Thread(target=work)
    paused.start()
    assert is_in_the_middle.wait(60)
    clock.at += AFTER_A_HOLD
    other = threading.Thread(target=importing(database, clock, "other").run)
    other.start()
    if not database.is_sqlite:
        # It has taken over, and waits for the rows that the other holds.
        wait_until(lambda: task_of(database, import_id).worker == "other")
    may_go_on.set()
    paused.join(60)
    other.join(60)

    # On SQLite nobody can take over from the only writer.
    assert ends == ["written" if database.is_sqlite else "refused"]
    assert_imported_once(database, import_id, 3)


def test_a_file_of_many_pieces_is_read_while_its_rows_are_written(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_pieces, "PIECE_BYTES", 2**12)
    rows = 3 * PIECE_ROWS
    import_id = add(database, rows_of(rows))
    assert count(database, ImportPiece) > 3
    importing(database, clock, "w").run()
    assert_imported_once(database, import_id, rows)


@pytest.mark.slow
def test_progress_is_noted_beside_the_import_and_known_to_others(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(30_000))
    seen: list[int] = []
    importer = importing(database, clock, "w")
    thread = threading.Thread(target=importer.run)
    thread.start()
    while thread.is_alive():
        seen.append(look(database, import_id).rows_read)
        thread.join(0.05)
    assert seen == sorted(seen)
    assert look(database, import_id).rows_read == 30_000


@pytest.mark.thorough
def test_a_worker_that_is_to_end_gives_its_import_back_and_no_try_is_counted(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(20_000))
    importer = importing(database, clock, "ends")
    thread = threading.Thread(target=importer.run_until_stopped, args=(0.1,))
    thread.start()
    wait_until(lambda: look(database, import_id).state == "running")
    importer.stop.set()
    thread.join(60)
    assert look(database, import_id).state == "waiting"
    task = task_of(database, import_id)
    assert (task.attempts, task.worker) == (0, None)
    assert count(database, Query) == 0

    assert importing(database, clock, "next").run() == 1
    assert_imported_once(database, import_id, 20_000)


def test_a_database_that_went_away_is_no_fault_of_the_import(
    database: Database, clock: Clock
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite is no server that could go away")
    import_id = add(database, rows_of(4_000))
    importer = importing(database, clock, "w")
    thread = threading.Thread(target=importer.run_until_stopped, args=(0.1,))
    with held_statements(database, ends_import):
        thread.start()
        wait_until(lambda: look(database, import_id).rows_read > 0)
        with database.write() as session:
            session.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                    " datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
    wait_until(lambda: look(database, import_id).state == "waiting")
    importer.stop.set()
    thread.join(60)
    assert task_of(database, import_id).attempts == 0
    assert count(database, Query) == 0


@pytest.mark.slow
@pytest.mark.chaos_on("sqlite")
def test_an_attempt_after_one_that_was_undone_is_not_slower(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(60_000))
    first = take(database, "undone", clock)
    assert first is not None

    def end(progress: Progress) -> None:
        if progress.rows == 30_000:
            raise LostTaskError

    with pytest.raises(LostTaskError), database.write() as session:
        carry_out(database, session, first, clock(), end)
    # What is counted now is a table without rows, as PostgreSQL does by itself.
    with database.write() as session:
        session.execute(text("ANALYZE queries"))
    clock.at += AFTER_A_HOLD
    # With a plan for such a table it takes many minutes, and the test its 300 seconds.
    assert importing(database, clock, "w").run() == 1
    assert_imported_once(database, import_id, 60_000)


@contextmanager
def worker_process(url: str, folder: Path) -> Iterator[Process]:
    environ = clean_environ(
        TRACKER_DATABASE_URL=url,
        TRACKER_DATA_DIR=str(folder),
        TRACKER_SECRET_KEY="9f86d081884c7d659a2feaa0c55ad015",
    )
    process = Process([sys.executable, "-m", "tracker", "worker"], environ)
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.slow
@pytest.mark.chaos_on("postgresql")
def test_a_worker_is_killed_in_the_middle_and_the_next_imports_all_once(
    database_url: str, tmp_path: Path
) -> None:
    # A fast machine reads a hundred thousand before the first second is noted.
    rows = 400_000
    database = open_database(database_url)
    import_id = add(database, rows_of(rows))
    seen: list[int] = []

    def is_under_way() -> bool:
        with database.read() as session:
            found = find_import(session, import_id)
            assert found is not None
            assert found.state in {"waiting", "running"}
            seen.append(found.rows_read)
        return seen[-1] > 0

    with worker_process(database_url, tmp_path) as process:
        wait_until(is_under_way)
        process.kill()
    assert 0 < seen[-1] < rows
    assert count(database, Query) == 0
    assert look(database, import_id).state == "running"

    with worker_process(database_url, tmp_path):
        wait_until(lambda: look(database, import_id).state == "done", 120)
        # The file goes when all else is done.
        wait_until(lambda: count(database, ImportPiece) == 0)
    assert_imported_once(database, import_id, rows)
    database.close()
