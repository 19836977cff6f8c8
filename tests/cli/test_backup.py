"""A backup of either database fills either, with all that was in it."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import select, text

from tests.cli.filled import (
    NewShell,
    differences,
    exported,
    fill,
    hashes_of,
    image_files,
    leave_import,
    manifest_of,
    opened,
)
from tests.cli.test_commands import Shell
from tests.conftest import DATABASES, Clock
from tests.databases import get_by_id
from tests.jobs.imports import importing
from tests.services.conftest import Bench
from tracker.clock import utc_now
from tracker.jobs.recompute import recompute_all
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import PendingBatch
from tracker.storage.imports import FileImport, ImportPiece
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", DATABASES)
@pytest.mark.parametrize("source", DATABASES)
def test_everything_comes_back_to_the_byte_in_either_database(
    new_shell: NewShell, source: str, target: str, tmp_path: Path
) -> None:
    first, second, third = new_shell(source), new_shell(target), new_shell(source)
    fill(first)
    there, back, again = (str(tmp_path / name) for name in ("a.zip", "b.zip", "c.zip"))

    first("backup", there)
    second("restore", there)
    second("backup", back)
    third("restore", back)
    third("backup", again)

    assert exported(first) == exported(second) == exported(third)
    assert image_files(first) == image_files(second) == image_files(third)
    assert len(image_files(first)) == 2
    # Every row of every table, whichever database it was in.
    assert hashes_of(there) == hashes_of(back) == hashes_of(again)
    assert len(exported(first)[0].splitlines()) == 68
    assert [e["name"] for e in manifest_of(there)["tables"] if not e["rows"]] == []
    assert differences(second) == differences(third) == []


def test_postgresql_knows_at_once_how_much_was_restored(
    new_shell: NewShell, tmp_path: Path
) -> None:
    first, second = new_shell("sqlite"), new_shell("postgresql")
    fill(first)
    first("backup", str(tmp_path / "x"))
    second("restore", str(tmp_path / "x"))
    with opened(second) as database, database.read() as session:
        known = session.scalars(text("SELECT DISTINCT tablename FROM pg_stats")).all()
    assert {"queries", "labels", "snapshots", "versions"} <= set(known)


@pytest.mark.parametrize("target", DATABASES)
@pytest.mark.parametrize("source", DATABASES)
def test_numbers_go_on_past_all_that_were_ever_given(
    new_shell: NewShell, source: str, target: str, tmp_path: Path
) -> None:
    first, second = new_shell(source), new_shell(target)
    fill(first)
    with opened(first) as database:
        # Folded batches are deleted, so no row tells how far their numbers went.
        recompute_all(database, worker="test", clock=Clock())
        with database.read() as session:
            assert session.scalars(select(PendingBatch.id)).all() == []
    first("backup", str(tmp_path / "x"))
    second("restore", str(tmp_path / "x"))

    def ids(shell: Shell) -> list[set[int]]:
        with opened(shell) as database, database.read() as session:
            return [set(session.scalars(select(x.id))) for x in (Label, Query)]

    before = ids(second)
    with opened(second) as database:
        bench = Bench(database, Clock(), ["YES", "NO"], "new")
        for _ in range(3):
            bench.log("YES", "NO")
        recompute_all(database, worker="test", clock=Clock())
    second("keys", "create", "another", "--role", "viewer")

    for old, new in zip(before, ids(second), strict=True):
        assert len(new - old) == 3
        assert min(new - old) > max(old)
    assert differences(second) == []
    assert "no difference" in second("recompute", "--all").stdout


@pytest.mark.parametrize("target", DATABASES)
def test_a_restored_import_that_waited_says_that_its_file_is_to_be_sent_again(
    new_shell: NewShell, target: str, tmp_path: Path
) -> None:
    first, second = new_shell("sqlite"), new_shell(target)
    first("detectors", "create", "door", "--question", "?")
    with opened(first) as database, database.write() as session:
        leave_import(session, session.get_one(Detector, 1), b"predicted\nYES\n")
    first("backup", str(tmp_path / "x"))
    second("restore", str(tmp_path / "x"))

    for shell, state in ((first, "done"), (second, "failed")):
        with opened(shell) as database:
            assert importing(database, utc_now).run() == 1
            with database.read() as session:
                found = get_by_id(session, FileImport, 1)
                assert found.state == state
                assert session.scalars(select(ImportPiece.position)).all() == []
    assert "send the file again" in second("doctor", status=1).stdout


@pytest.mark.parametrize("target", DATABASES)
@pytest.mark.parametrize("source", DATABASES)
def test_a_backup_under_load_holds_every_label_acknowledged_before_it(
    new_shell: NewShell, source: str, target: str, tmp_path: Path
) -> None:
    first, second = new_shell(source), new_shell(target)
    acknowledged: list[str] = []
    has_enough, is_over = threading.Event(), threading.Event()
    with opened(first) as database:
        bench = Bench(database, Clock(), ["YES", "NO"])
        bench.log("YES", "NO", key="the one that makes the version")
        acknowledged.append("the one that makes the version")

        def log(thread: int) -> None:
            number = 0
            while not is_over.is_set():
                key = f"t{thread}-{number}"
                bench.log("YES", "NO" if number % 3 else "YES", key=key)
                acknowledged.append(key)
                number += 1
                if len(acknowledged) > 60:
                    has_enough.set()

        def work() -> None:
            while not is_over.is_set():
                recompute_all(database, worker="test", clock=Clock())

        threads = [threading.Thread(target=log, args=[n]) for n in range(3)]
        threads.append(threading.Thread(target=work))
        for thread in threads:
            thread.start()
        try:
            assert has_enough.wait(60)
            before = list(acknowledged)
            first("backup", str(tmp_path / "x"))
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    second("restore", str(tmp_path / "x"))

    with opened(second) as database, database.read() as session:
        keys = select(Query.key).join(Label, Label.query_id == Query.id)
        restored = list(session.scalars(keys))
    assert set(before) <= set(restored) <= set(acknowledged)
    assert len(set(restored)) == len(restored)
    assert differences(second) == []
    assert "no difference" in second("recompute", "--all").stdout
