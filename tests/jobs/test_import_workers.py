"""Workers share out imports, take over from one that died, and write each once."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text

from tests.conftest import Clock, by
from tests.databases import get_by_id, held_statements
from tests.jobs.imports import (
    AFTER_A_HOLD,
    add,
    assert_imported_once,
    count,
    ends_import,
    fail_halfway,
    importing,
    list_tasks,
    look,
    rows_of,
    take,
    task_of,
    write_pieces,
)
from tests.processes import Process, clean_environ, wait_until
from tracker.errors import ConflictError
from tracker.jobs.imports import Clearing
from tracker.jobs.loop import Watch
from tracker.services.detectors import archive_detector
from tracker.services.imports.background import (
    attempting,
    finish_import,
    resume_import,
    unpack_report,
)
from tracker.services.imports.reading.rows import PIECE_ROWS
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.storage import imports as import_pieces
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import BATCH_LIMIT
from tracker.storage.imports import (
    FileImport,
    ImportBatch,
    ImportPiece,
    find_import,
)
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query
from tracker.storage.tasks import CLEARING, LostTaskError, Task
from tracker.storage.tasks import take as take_tasks


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


def test_a_late_worker_is_refused_and_its_piece_is_undone(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    late = take(database, "late", clock)
    assert late is not None
    attempt = attempting(
        late, database.read, None, clock=clock, on_progress=lambda _: None
    )
    with attempt as second:
        clock.at += AFTER_A_HOLD
        other = take(database, "other", clock)
        assert other is not None
        # It wakes up when it has written all but the end.
        read = {"rows_read": 3, "bytes_read": 37, "rows": 3}
        with pytest.raises(LostTaskError), database.write() as session:
            finish_import(session, late, second, read, at=clock())
    # It wakes up before it began to check.
    with pytest.raises(LostTaskError):
        list(write_pieces(database, late, clock))
    assert count(database, Query) == 0
    assert count(database, ImportPiece) == 1

    assert look(database, import_id).state == "running"
    assert list(write_pieces(database, other, clock)) == []
    importing(database, clock, "clears").run()
    assert_imported_once(database, import_id, 3)


@pytest.mark.parametrize("most", [PIECE_ROWS, 700])
def test_the_next_worker_goes_on_after_the_last_rows_of_one_that_was_killed(
    database: Database, clock: Clock, most: int
) -> None:
    rows = 3 * PIECE_ROWS + 5
    import_id = add(database, rows_of(rows))
    killed = take(database, "killed", clock)
    assert killed is not None
    pieces = write_pieces(database, killed, clock, most=most)
    assert [next(pieces).rows_done for _ in range(2)] == [most, 2 * most]
    pieces.close()

    found = look(database, import_id)
    assert (found.state, found.rows_done) == ("running", 2 * most)
    assert count(database, Query) == count(database, Label) == 2 * most
    # Somebody corrects a row that is written; the file is not to say it again.
    with database.write() as session:
        first = session.scalars(select(Query.id).order_by(Query.id)).first()
        assert first is not None
        add_label(session, first, NewLabel(label="YES"), by("ann"))

    clock.at += AFTER_A_HOLD
    assert importing(database, clock, "next").run() == 1

    with database.write() as session:
        assert get_by_id(session, Query, first).label == "YES"
        found_batches = session.scalars(
            select(ImportBatch.batch).where(ImportBatch.import_id == import_id)
        ).all()
        batches = session.scalars(select(Query.id // BATCH_LIMIT).distinct()).all()
        assert sorted(found_batches) == sorted(batches)
        assert len(batches) > 3
    assert count(database, Label) == rows + 1
    done = look(database, import_id)
    assert (done.state, done.rows) == ("done", rows)
    assert done.rows_done == done.rows_read == rows
    report = unpack_report(done)
    assert report is not None
    assert (report.queries_added, report.labels_added) == (rows, rows)
    assert (report.unchanged, report.bad_rows) == (0, 0)


def test_one_that_was_paused_and_comes_back_late_writes_no_more(
    database: Database, clock: Clock
) -> None:
    rows = 3 * PIECE_ROWS
    import_id = add(database, rows_of(rows))
    late = take(database, "late", clock)
    assert late is not None
    paused = write_pieces(database, late, clock)
    next(paused)
    clock.at += AFTER_A_HOLD
    assert importing(database, clock, "other").run() == 1
    assert_imported_once(database, import_id, rows)

    with pytest.raises(LostTaskError):
        next(paused)
    assert_imported_once(database, import_id, rows)


def test_bad_rows_are_told_once_by_the_attempt_that_ends_the_import(
    database: Database, clock: Clock
) -> None:
    good = b"YES,NO\n" * (PIECE_ROWS - 1)
    content = b"predicted,label\n" + (b"MAYBE,NO\n" + good) * 2 + b"NO,NO\n,\n"
    import_id = add(database, content, on_error="skip")
    killed = take(database, "killed", clock)
    assert killed is not None
    pieces = write_pieces(database, killed, clock)
    next(pieces)
    pieces.close()
    clock.at += AFTER_A_HOLD
    importing(database, clock, "next").run()

    report = unpack_report(look(database, import_id))
    assert report is not None
    assert (report.queries_added, report.bad_rows) == (2 * PIECE_ROWS - 1, 3)
    assert [(e.row, e.also) for e in report.errors] == [
        (1, [PIECE_ROWS + 1]),
        (2 * PIECE_ROWS + 2, []),
    ]
    assert count(database, Query) == 2 * PIECE_ROWS - 1


def test_an_import_that_cannot_go_on_says_how_far_it_came_and_is_resumed(
    database: Database, clock: Clock
) -> None:
    rows = 2 * PIECE_ROWS + 1
    import_id = add(database, rows_of(rows))
    fail_halfway(database, clock)

    failed = look(database, import_id)
    assert failed.state == "failed"
    assert str(failed.error).endswith(
        "the worker ended each time; 2,000 of 4,001 rows were written, and it can be "
        "resumed"
    )
    report = unpack_report(failed)
    assert report is not None
    assert report.queries_added == PIECE_ROWS
    assert count(database, ImportPiece) == 1

    with database.write() as session:
        resume_import(session, get_by_id(session, FileImport, import_id), by("alice"))
    assert look(database, import_id).state == "waiting"
    assert importing(database, clock, "w").run() == 1
    assert_imported_once(database, import_id, rows)
    with database.write() as session, pytest.raises(ConflictError):
        resume_import(session, get_by_id(session, FileImport, import_id), by("alice"))


def test_the_file_of_an_import_that_failed_is_kept_for_a_week(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(2 * PIECE_ROWS))
    task = take(database, "w", clock)
    assert task is not None
    pieces = write_pieces(database, task, clock)
    next(pieces)
    with database.write() as session:
        archive_detector(session, session.get_one(Detector, 1), by())
    pieces.close()
    clock.at += AFTER_A_HOLD
    importer = importing(database, clock, "w")
    importer.run()
    found = look(database, import_id)
    assert found.state == "failed"
    assert "archived" in str(found.error)
    assert "2,000 of 4,000 rows were written" in str(found.error)
    assert count(database, Query) == PIECE_ROWS

    for days, left in ((6, 1), (2, 0)):
        clock.at += timedelta(days=days)
        importer.run()
        assert count(database, ImportPiece) == left
    # Its detector is archived; and were it not, its file would be gone.
    with database.write() as session, pytest.raises(ConflictError):
        resume_import(session, get_by_id(session, FileImport, import_id), by("alice"))
    with database.write() as session:
        session.get_one(Detector, 1).archived_at = None
    with (
        database.write() as session,
        pytest.raises(ConflictError, match="send it again"),
    ):
        resume_import(session, get_by_id(session, FileImport, import_id), by("alice"))


def test_a_file_that_is_to_be_deleted_is_kept_when_its_import_is_resumed(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(2 * PIECE_ROWS))
    fail_halfway(database, clock)
    clock.at += timedelta(days=8)
    with database.write() as session:
        (late,) = take_tasks(session, CLEARING, "late", at=clock())
    with database.write() as session:
        resume_import(session, get_by_id(session, FileImport, import_id), by("alice"))

    clearing = Clearing(database=database, clock=clock)
    with pytest.raises(LostTaskError):
        clearing.work([late], Watch(threading.Event()))
    assert count(database, ImportPiece) == 1
    assert importing(database, clock).run() == 1
    assert_imported_once(database, import_id, 2 * PIECE_ROWS)


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
    seen: list[tuple[int, int]] = []
    importer = importing(database, clock, "w")
    thread = threading.Thread(target=importer.run)
    thread.start()
    while thread.is_alive():
        found = look(database, import_id)
        seen.append((found.rows_read, found.rows_done))
        thread.join(0.05)
    assert seen == sorted(seen)
    assert any(0 < done < 30_000 for _, done in seen)
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
    found, task = look(database, import_id), task_of(database, import_id)
    assert (found.state, task.attempts, task.worker) == ("waiting", 0, None)
    assert count(database, Query) == found.rows_done < 20_000

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
        wait_until(lambda: look(database, import_id).rows_done == PIECE_ROWS)
        with database.write() as session:
            session.execute(
                text(
                    # It waits until they have ended, or the next look meets one.
                    "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE"
                    " datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
    wait_until(lambda: look(database, import_id).state == "waiting")
    importer.stop.set()
    thread.join(60)
    found = look(database, import_id)
    assert task_of(database, import_id).attempts == 0
    assert count(database, Query) == found.rows_done == PIECE_ROWS


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
def test_a_worker_is_killed_in_the_middle_and_the_next_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    rows = 100_000
    database = open_database(database_url)
    import_id = add(database, rows_of(rows))
    seen: list[int] = []

    def is_under_way() -> bool:
        with database.read() as session:
            found = find_import(session, import_id)
            assert found is not None
            assert found.state in {"waiting", "running"}
            seen.append(found.rows_done)
        return seen[-1] > 0

    with worker_process(database_url, tmp_path) as process:
        wait_until(is_under_way)
        process.kill()
    assert 0 < count(database, Query) == look(database, import_id).rows_done < rows
    assert look(database, import_id).state == "running"

    with worker_process(database_url, tmp_path):
        wait_until(lambda: look(database, import_id).state == "done", 120)
        # The file goes when all else is done.
        wait_until(lambda: not list_tasks(database))
    assert_imported_once(database, import_id, rows)
    database.close()
