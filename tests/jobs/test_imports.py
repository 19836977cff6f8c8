"""A worker imports what was left to it: once, whole, and whatever happens to it."""

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from tests.conftest import START, Clock
from tests.processes import Process, clean_environ, wait_until
from tracker.errors import UnavailableError
from tracker.jobs.imports import Importer
from tracker.services.audit import iter_rows
from tracker.services.background_imports import NewImport, add_import, unpack_report
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.import_attempts import (
    MOST_ATTEMPTS,
    LostImportError,
    carry_out,
    claim_of,
    done,
    end_import,
    take_import,
)
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector
from tracker.storage.import_pieces import (
    PIECE_BYTES,
    ImportPiece,
    PieceFile,
    delete_pieces,
)
from tracker.storage.import_progress import find_progress, note_progress
from tracker.storage.imports import Claim, FileImport, Progress, find_import
from tracker.storage.labels import Label
from tracker.storage.leases import LEASE_SECONDS
from tracker.storage.queries import Query

AFTER_A_LEASE = timedelta(seconds=LEASE_SECONDS + 1)


def rows_of(number: int) -> bytes:
    """A file of labelled rows without keys, which are told apart by the file alone."""
    return b"predicted,label\n" + b"YES,NO\n" * number


def add(database: Database, content: bytes, **more: str) -> int:
    """Leave a file to the worker, in a detector of its own."""
    said = {"format": "csv", "on_error": "reject", "sha256": "f" * 64}
    who = {"actor": "alice", "actor_kind": "account", "address": "::1"}
    with database.write() as session:
        number = session.execute(select(func.count(Detector.id))).scalar_one()
        new = NewDetector(name=f"d{number}", question="?", classes=["YES", "NO"])
        detector = create_detector(session, new, created_at=START)
        file = io.BytesIO(content)
        described = NewImport(**{**said, **who, **more})
        return add_import(session, detector, file, described, created_at=START).id


def look(database: Database, import_id: int) -> FileImport:
    with database.read() as session:
        found = find_import(session, import_id)
        assert found is not None
        session.expunge(found)
        return found


def count(database: Database, table: type[Any]) -> int:
    with database.read() as session:
        statement = select(func.count()).select_from(table)
        return session.execute(statement).scalar_one()


def take(database: Database, worker: str, clock: Clock) -> Claim | None:
    with database.write() as session:
        found = take_import(session, worker, at=clock())
        return None if found is None else claim_of(found)


def assert_imported_once(database: Database, import_id: int, rows: int) -> None:
    found = look(database, import_id)
    assert (found.state, found.error, found.worker) == ("done", None, None)
    assert (found.rows_read, found.bytes_read) == (rows, found.bytes)
    assert found.finished_at is not None
    report = unpack_report(found)
    assert report is not None
    assert (report.queries_added, report.labels_added) == (rows, rows)
    assert count(database, Query) == count(database, Label) == rows
    assert count(database, ImportPiece) == 0
    with database.read() as session:
        (event,) = [e for e in iter_rows(session) if e["action"] == "imported"]
    assert (event["actor"], event["address"]) == ("alice", "::1")


def test_a_file_is_imported_with_its_end_its_report_and_its_event(
    database: Database, clock: Clock
) -> None:
    first, second = add(database, rows_of(3)), add(database, rows_of(0))
    assert count(database, ImportPiece) == 2

    assert Importer(database, "w", clock).run() == 2
    assert Importer(database, "w", clock).run() == 0

    assert_imported_once(database, first, 3)
    empty = look(database, second)
    assert (empty.state, empty.rows_read) == ("done", 0)


def test_a_file_of_several_pieces_is_read_as_it_was(database: Database) -> None:
    content = bytes(range(256)) * (PIECE_BYTES // 256 * 2 + 3)
    import_id = add(database, content)
    with database.read() as session:
        assert count(database, ImportPiece) == 3
        whole = io.BufferedReader(PieceFile(session, import_id, len(content)))
        assert whole.read() == content
        for place in (PIECE_BYTES - 5, len(content) - 3, len(content) + 9, 0):
            whole.seek(place)
            assert whole.read(9) == content[place : place + 9]
        assert whole.seek(-4, io.SEEK_END) == len(content) - 4


@pytest.mark.parametrize(
    ("content", "said", "errors"),
    [
        (b"predicted\nYES\nMAYBE\n", "1 of 2 rows are wrong; nothing written", 1),
        (b"colour\nred\n", "colour: is not a known column", None),
        (b"\xff\xfe\x00", "body: it is not utf-16", None),
    ],
)
def test_a_file_that_is_wrong_is_rejected_at_once(
    database: Database, clock: Clock, content: bytes, said: str, errors: int | None
) -> None:
    import_id = add(database, content)
    assert Importer(database, "w", clock).run() == 1

    found, report = look(database, import_id), unpack_report(look(database, import_id))
    assert (found.state, found.attempts) == ("rejected", 1)
    assert said in str(found.error)
    assert (None if report is None else len(report.errors)) == errors
    assert report is None or report.queries_added == 0
    assert count(database, Query) == count(database, ImportPiece) == 0


def test_an_import_whose_file_is_gone_fails_and_says_what_to_do(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    with database.write() as session:
        delete_pieces(session, import_id)
    assert Importer(database, "w", clock).run() == 1

    found = look(database, import_id)
    assert found.state == "failed"
    assert "send the file again" in str(found.error)


def test_an_import_that_raises_is_tried_some_times_and_does_not_hold_up_others(
    database: Database, clock: Clock
) -> None:
    bad, good = add(database, rows_of(3)), add(database, rows_of(2))
    with database.write() as session:
        session.get_one(Detector, 1).classes = 7  # type: ignore[assignment]
    importer = Importer(database, "w", clock)

    assert importer.run() == 2
    assert look(database, bad).state == "waiting"
    assert look(database, good).state == "done"
    # It rests between two tries.
    assert importer.run() == 0
    for _ in range(1, MOST_ATTEMPTS):
        clock.at += AFTER_A_LEASE
        assert importer.run() == 1
    clock.at += AFTER_A_LEASE
    assert importer.run() == 0

    found = look(database, bad)
    assert (found.state, found.attempts) == ("failed", MOST_ATTEMPTS)
    assert f"it failed {MOST_ATTEMPTS} times, at last with TypeError" in str(
        found.error
    )
    assert count(database, Query) == 2
    assert count(database, ImportPiece) == 0


def test_an_import_that_kills_its_worker_each_time_fails(
    database: Database, clock: Clock
) -> None:
    bad, good = add(database, rows_of(3)), add(database, rows_of(2))
    for number in range(MOST_ATTEMPTS):
        claim = take(database, f"killed {number}", clock)
        assert claim == Claim(bad, f"killed {number}", number + 1)
        clock.at += AFTER_A_LEASE

    assert Importer(database, "w", clock).run() == 1

    assert look(database, bad).state == "failed"
    assert f"ended {MOST_ATTEMPTS} times" in str(look(database, bad).error)
    assert_imported_once(database, good, 2)


def test_what_one_worker_has_taken_up_no_other_gets_before_its_lease_ends(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    assert take(database, "died", clock) == Claim(import_id, "died", 1)
    assert take(database, "other", clock) is None
    clock.at += AFTER_A_LEASE
    assert take(database, "other", clock) == Claim(import_id, "other", 2)


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)])
def test_a_lease_from_before_the_clock_was_set_back_is_none(
    database: Database, clock: Clock, back: timedelta
) -> None:
    import_id = add(database, rows_of(3))
    assert take(database, "died", clock) is not None
    clock.at -= back
    assert take(database, "other", clock) == Claim(import_id, "other", 2)


def test_workers_that_take_at_once_get_different_imports(
    database: Database, clock: Clock
) -> None:
    expected = {add(database, rows_of(1)) for _ in range(4)}
    barrier = threading.Barrier(4)
    taken: list[Claim | None] = []

    def work(name: str) -> None:
        barrier.wait()
        # Whoever comes just when another one's row is locked looks again.
        claim = None
        while claim is None:
            claim = take(database, name, clock)
        taken.append(claim)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {claim.import_id for claim in taken if claim} == expected


def write(database: Database, claim: Claim, end: Claim, clock: Clock) -> None:
    """Import by one claim, and end the import by another."""
    with database.write() as session:
        report = carry_out(
            session, claim, created_at=clock(), on_progress=lambda _: None
        )
        end_import(session, end, done(report), Progress(3, 37), at=clock())


def test_a_late_writer_is_refused_and_all_that_it_wrote_is_undone(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    late = take(database, "late", clock)
    assert late is not None
    clock.at += AFTER_A_LEASE
    other = take(database, "other", clock)
    assert other is not None

    # It wakes up before it began to write.
    with pytest.raises(LostImportError), database.write() as session:
        carry_out(session, late, created_at=clock(), on_progress=lambda _: None)
    # It wakes up when it has written all but the end.
    with pytest.raises(LostImportError):
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
                report = carry_out(session, late, created_at=START, on_progress=pause)
                size = Progress(3, 37)
                end_import(session, late, done(report), size, at=START)
            ends.append("written")
        except LostImportError:
            ends.append("refused")

    paused = threading.Thread(target=work)
    paused.start()
    assert is_in_the_middle.wait(60)
    clock.at += AFTER_A_LEASE
    other = threading.Thread(target=Importer(database, "other", clock).run)
    other.start()
    if not database.is_sqlite:
        # It has taken over, and waits for the rows that the other holds.
        wait_until(lambda: look(database, import_id).worker == "other")
    may_go_on.set()
    paused.join(60)
    other.join(60)

    # On SQLite nobody can take over from the only writer.
    assert ends == ["written" if database.is_sqlite else "refused"]
    assert_imported_once(database, import_id, 3)


def test_progress_is_noted_beside_the_import_and_known_to_others(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    claim = take(database, "w", clock)
    assert claim is not None
    with database.write() as session:
        # The import's own transaction, in which it has been writing for a while.
        report = carry_out(
            session, claim, created_at=clock(), on_progress=lambda _: None
        )
        assert note_progress(database, claim, Progress(2, 20), at=clock())
        with database.read() as other:
            found = find_import(other, import_id)
            assert found is not None
            assert find_progress(other, found) == Progress(2, 20)
        end_import(session, claim, done(report), Progress(3, 37), at=clock())
    found = look(database, import_id)
    with database.read() as session:
        assert find_progress(session, found) == Progress(3, 37)


def test_without_its_file_progress_is_what_was_last_known(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    claim = take(database, "w", clock)
    assert claim is not None
    with database.read() as session:
        found = find_import(session, import_id)
        assert found is not None
        assert find_progress(session, found) == Progress(0, 0)
        if database.is_sqlite:
            path = Path(f"{database.engine.url.database}-imp_{import_id}.rows")
            for damaged in ("", "1", "a b", "1 2 3"):
                path.write_text(damaged)
                assert find_progress(session, found) == Progress(0, 0)


def test_a_lease_is_renewed_and_a_lost_one_is_noticed(
    database: Database, clock: Clock
) -> None:
    if database.is_sqlite:
        pytest.skip("on SQLite nobody can take an import from the only writer")
    import_id = add(database, rows_of(3))
    claim = take(database, "slow", clock)
    assert claim is not None
    for _ in range(3):
        clock.at += timedelta(seconds=LEASE_SECONDS - 1)
        assert note_progress(database, claim, Progress(1, 9), at=clock())
        assert take(database, "other", clock) is None
    clock.at += AFTER_A_LEASE
    assert take(database, "other", clock) == Claim(import_id, "other", 2)
    assert not note_progress(database, claim, Progress(2, 18), at=clock())


def test_a_worker_that_is_to_end_gives_its_import_back_and_no_try_is_counted(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(20_000))
    importer = Importer(database, "ends", clock)
    thread = threading.Thread(target=importer.run)
    thread.start()
    wait_until(lambda: look(database, import_id).state == "running")
    importer.stop()
    thread.join(60)
    found = look(database, import_id)
    assert (found.state, found.attempts, found.worker) == ("waiting", 0, None)
    assert count(database, Query) == 0

    assert Importer(database, "next", clock).run() == 1
    assert_imported_once(database, import_id, 20_000)


def test_a_database_that_went_away_is_no_fault_of_the_import(
    database: Database, clock: Clock
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite is no server that could go away")
    import_id = add(database, rows_of(100_000))
    errors: list[UnavailableError] = []

    def work() -> None:
        try:
            Importer(database, "w", clock).run()
        except UnavailableError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: look(database, import_id).rows_read > 0)
    with database.write() as session:
        session.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                " datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    thread.join(60)
    assert len(errors) == 1
    found = look(database, import_id)
    assert (found.state, found.attempts) == ("waiting", 0)
    assert count(database, Query) == 0


def test_an_attempt_after_one_that_was_undone_is_not_slower(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(60_000))
    first = take(database, "undone", clock)
    assert first is not None

    def end(progress: Progress) -> None:
        if progress.rows == 30_000:
            raise LostImportError

    with pytest.raises(LostImportError), database.write() as session:
        carry_out(session, first, created_at=clock(), on_progress=end)
    # What is counted now is a table without rows, as PostgreSQL does by itself.
    with database.write() as session:
        session.execute(text("ANALYZE queries"))
    clock.at += AFTER_A_LEASE
    # With a plan for such a table it takes many minutes, and the test its 300 seconds.
    assert Importer(database, "w", clock).run() == 1
    assert_imported_once(database, import_id, 60_000)


@contextmanager
def worker_process(url: str, folder: Path) -> Iterator[Process]:
    environ = clean_environ(
        TRACKER_DATABASE_URL=url,
        TRACKER_DATA_DIR=str(folder),
        TRACKER_SECRET_KEY="k" * 40,
    )
    process = Process([sys.executable, "-m", "tracker", "worker"], environ)
    try:
        yield process
    finally:
        process.kill()


def test_a_worker_is_killed_in_the_middle_and_the_next_imports_all_once(
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
            seen.append(find_progress(session, found).rows)
        return seen[-1] > 0

    with worker_process(database_url, tmp_path) as process:
        wait_until(is_under_way)
        process.kill()
    assert 0 < seen[-1] < rows
    assert count(database, Query) == 0
    assert look(database, import_id).state == "running"

    with worker_process(database_url, tmp_path):
        wait_until(lambda: look(database, import_id).state == "done", 120)
        # What was noted outside of the database goes when all else is done.
        wait_until(lambda: list(tmp_path.glob("*.rows")) == [])
    assert_imported_once(database, import_id, rows)
    assert look(database, import_id).attempts == 2
    database.close()
