"""A backup of either database fills either, and nothing but a whole one does."""

import errno
import hashlib
import io
import json
import os
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tests.cli.test_commands import Shell
from tests.conftest import DATABASES, START, Clock
from tests.services.conftest import Bench
from tests.services.irises import IRIS
from tracker.cli.setup import now
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputer
from tracker.services.answers import add_answer
from tracker.services.background_imports import NewImport, add_import
from tracker.services.backup import create_backup
from tracker.services.detectors import archive_detector
from tracker.services.keys import create_key
from tracker.services.queries import NewQuery, log_query
from tracker.services.recount import compare_with_recount
from tracker.services.reservations import skip
from tracker.storage import backup as storage
from tracker.storage import schema
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.images import ImageFolder
from tracker.storage.import_pieces import ImportPiece
from tracker.storage.imports import FileImport
from tracker.storage.labels import Label
from tracker.storage.pending import PendingBatch
from tracker.storage.queries import Query

NewShell = Callable[[str], Shell]


@pytest.fixture
def new_shell(new_database_url: Callable[[str], str], tmp_path: Path) -> NewShell:
    """Makes a shell over an empty database of a kind, with a data folder of its own."""
    made: list[Shell] = []

    def make(kind: str) -> Shell:
        folder = tmp_path / f"shell{len(made)}"
        folder.mkdir()
        made.append(Shell(new_database_url(kind), folder))
        return made[-1]

    return make


@contextmanager
def opened(shell: Shell) -> Iterator[Database]:
    database = open_database(shell.environ["TRACKER_DATABASE_URL"])
    try:
        yield database
    finally:
        database.close()


def images_of(shell: Shell) -> ImageFolder:
    return ImageFolder(Path(shell.environ["TRACKER_DATA_DIR"]) / "images")


def image_files(shell: Shell) -> dict[str, bytes]:
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def picture(shade: int) -> bytes:
    drawn = io.BytesIO()
    Image.new("L", (20, 20), shade).save(drawn, "PNG")
    return drawn.getvalue()


def fill(shell: Shell) -> None:
    """Put something into every table, with values that are easily bent."""
    with opened(shell) as database:
        clock = Clock()
        bench = Bench(database, clock, ["YES", "ÑO", "[b] 'x'"], "dö or")
        for number in range(60):
            bench.log("YES", "ÑO", confidence=number / 97, key=f"k{number}")
        Recomputer(database, "test", clock).run()
        bench.log("YES", confidence=0.1 + 0.2, metadata={"a": [1e-7, None, "é\n"]})
        bench.log("ÑO", "UNCLEAR", image_url="https://x.example/é")
        wrong = bench.log("[b] 'x'", "YES", sampling="targeted", version="v\u00e9")
        bench.label(wrong, "[b] 'x'", note="looked\u2028 again")
        for shade in (10, 200, 10):
            add_picture(bench, images_of(shell).put(picture(shade), "png"))
        old = Bench(database, clock, ["YES", "NO"], "old")
        old.log("YES", "NO", input="same")
        with database.write() as session:
            archive_detector(old.attached(session), archived_at=clock())
            create_key(
                session, "camera", "editor", created_at=START, detectors=["dö or"]
            )
            leave_import(session, old.attached(session), b"predicted\nYES\n")
            add_answer(
                session,
                "camera",
                "a word",
                digest="0" * 64,
                status=201,
                body='{"note":"é"}',
                at=START,
            )
        Importer(database, "test", clock).run()
        Recomputer(database, "test", clock).run()
        bench.log("YES", "YES")
        later = bench.log("YES")
        with database.write() as session:
            skip(session, later, labeler="alice", skipped_at=clock())
    shell("accounts", "create", "ann", "--role", "viewer", "--detector", "dö or")
    shell("studies", "add", "dö or", str(IRIS), "--name", "t", "--kind", "bootstrap")


def leave_import(session: Session, detector: Detector, content: bytes) -> FileImport:
    """Leave a file to a worker."""
    new = NewImport("csv", "skip", "0" * 64, "ann", "account", "::1")
    return add_import(session, detector, io.BytesIO(content), new, created_at=START)


def add_picture(bench: Bench, name: str) -> None:
    with bench.database.write() as session:
        log_query(
            session,
            bench.attached(session),
            NewQuery(predicted="YES", label="YES"),
            labeler="alice",
            created_at=bench.clock(),
            image=name,
        )


def exported(shell: Shell) -> list[bytes]:
    return [
        shell("export", "dö or", *words, "--format", name).stdout_bytes
        for words in (["--what", "labels"], ["--method", "*"])
        for name in ("csv", "jsonl")
    ]


def differences(shell: Shell) -> list[Any]:
    with opened(shell) as database, database.read() as session:
        return [
            wrong
            for detector in list_detectors(session)
            for wrong in compare_with_recount(session, detector)
        ]


def manifest_of(file: str) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read("manifest.json"))


def hashes_of(file: str) -> dict[str, str]:
    return {entry["name"]: entry["sha256"] for entry in manifest_of(file)["tables"]}


def is_empty(shell: Shell) -> bool:
    with opened(shell) as database, database.read() as session:
        return storage.find_filled_table(session) is None and not image_files(shell)


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
    assert all(entry["rows"] for entry in manifest_of(there)["tables"])
    assert differences(second) == differences(third) == []


@pytest.mark.parametrize("target", DATABASES)
@pytest.mark.parametrize("source", DATABASES)
def test_numbers_go_on_past_all_that_were_ever_given(
    new_shell: NewShell, source: str, target: str, tmp_path: Path
) -> None:
    first, second = new_shell(source), new_shell(target)
    fill(first)
    with opened(first) as database:
        # Folded batches are deleted, so no row tells how far their numbers went.
        Recomputer(database, "test", Clock()).run()
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
        Recomputer(database, "test", Clock()).run()
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
            assert Importer(database, "w", now).run() == 1
            with database.read() as session:
                found = session.get_one(FileImport, 1)
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
                Recomputer(database, "test", Clock()).run()

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


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    """The database that holds something; the others are filled from it."""
    shell = Shell(database_url, tmp_path)
    fill(shell)
    return shell


@pytest.fixture
def file(shell: Shell) -> Path:
    path = shell.folder / "backup.zip"
    shell("backup", str(path))
    return path


def seal(path: Path) -> None:
    """Make the last bytes fit the others, as they do in a file that is not damaged."""
    content = path.read_bytes()[:-64]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def rewritten(file: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    """A backup with other members, sealed like a true one."""
    path = file.with_name("rewritten.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(*change(name, old.read(name)))
        new.comment = b"0" * 64
    seal(path)
    return path


def test_a_damaged_file_is_refused_wherever_the_damage_is(
    shell: Shell, file: Path, new_shell: NewShell
) -> None:
    empty = new_shell("sqlite")
    whole = file.read_bytes()
    damaged = [whole[:cut] for cut in (0, 1, 63, 64, len(whole) // 2, len(whole) - 1)]
    step = len(whole) // 15
    for place in [*range(0, len(whole), step), len(whole) - 1]:
        flipped = bytearray(whole)
        flipped[place] ^= 4
        damaged.append(bytes(flipped))
    damaged.append(whole + b"\n")

    for content in damaged:
        file.write_bytes(content)
        refused = empty("restore", str(file), status=1)
        assert "damaged" in refused.stderr
        assert "nothing was written" in refused.stderr

    assert is_empty(empty)
    file.write_bytes(whole)
    empty("restore", str(file))
    assert exported(empty) == exported(shell)


def test_a_file_that_was_changed_on_purpose_is_refused(
    shell: Shell, file: Path, database_url: str, new_shell: NewShell
) -> None:
    empty = new_shell("sqlite" if database_url.startswith("sqlite") else "postgresql")

    def refused(change: Callable[[str, bytes], tuple[str, bytes]]) -> str:
        path = rewritten(file, change)
        return empty("restore", str(path), status=1).stderr

    def renamed(name: str) -> str:
        image = next(iter(image_files(shell)))
        return refused(lambda n, c: (n.replace(f"images/{image}", name), c))

    def in_manifest(old: str, new: str) -> str:
        return refused(
            lambda n, c: (
                (n, c.replace(old.encode(), new.encode()))
                if n == "manifest.json"
                else (n, c)
            )
        )

    revision = f'"revision": "{schema.head_revision()}"'
    assert "'images/../x'" in renamed("images/../x")
    assert "'../x'" in renamed("../x")
    assert "is not what its name says" in renamed(f"images/{'a' * 64}.png")
    assert "no part of a backup" in renamed(f"images/{'a' * 64}.html")
    assert "of revision 0000" in in_manifest(revision, '"revision": "0000"')
    assert "of format 2" in in_manifest('"format": 1', '"format": 2')
    assert "damaged" in in_manifest('"rows": 2', '"rows": 3')
    assert "damaged" in in_manifest('"last_id": ', '"last_id": -')
    assert "damaged" in in_manifest('"target"', '"aim"')
    assert "the table labels" in refused(
        lambda n, c: (n, c.replace(b"alice", b"mallo") if "/labels" in n else c)
    )
    assert "'else'" in refused(
        lambda n, c: ("else" if n == "tables/labels.jsonl" else n, c)
    )
    assert is_empty(empty)
    assert not (shell.folder / "x").exists()


def test_a_database_that_holds_anything_is_refused(shell: Shell, file: Path) -> None:
    before = exported(shell)

    refused = shell("restore", str(file), status=1).stderr

    assert "not empty: the table accounts" in " ".join(refused.split())
    assert exported(shell) == before


def test_a_database_without_tables_is_migrated_first(shell: Shell, file: Path) -> None:
    new = Shell(f"sqlite:///{shell.folder / 'new' / 'x.db'}", shell.folder / "new")

    new("restore", str(file))

    assert exported(new) == exported(shell)


def test_a_running_worker_does_not_make_a_database_full(
    file: Path, new_shell: NewShell
) -> None:
    idle = new_shell("sqlite")
    idle("recompute")
    with opened(idle) as database, database.read() as session:
        assert session.execute(text("SELECT worker FROM heartbeats")).all()

    idle("restore", str(file))

    assert differences(idle) == []


def test_an_existing_file_is_replaced_only_when_asked_for(
    shell: Shell, file: Path
) -> None:
    file.write_text("mine")

    assert "--overwrite" in shell("backup", str(file), status=1).stderr
    assert file.read_text() == "mine"
    said = shell("backup", str(file), "--overwrite").stdout

    assert "2 detectors, 69 queries, 68 labels" in said
    assert zipfile.is_zipfile(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(shell.folder.glob(".backup*")) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    shell: Shell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = file.read_bytes()
    names = sorted(path.name for path in shell.folder.iterdir())
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        said = shell("backup", str(file), "--overwrite", status=1).stderr

    assert "No space left on device" in said
    assert file.read_bytes() == before
    assert sorted(path.name for path in shell.folder.iterdir()) == names


def test_a_disk_that_fills_up_on_the_way_leaves_nothing(shell: Shell) -> None:
    def fail(doing: str, _number: int) -> None:
        if doing == "Writing labels":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(shell) as database:
        with (
            pytest.raises(OSError, match="No space left"),
            create_backup(shell.folder / "x.zip", fail) as writer,
            database.read() as session,
        ):
            writer.add_tables(session)
        assert list(shell.folder.glob("*x.zip*")) == []
        with database.write() as session:
            create_key(session, "later", "viewer", created_at=START)


def test_a_folder_that_is_not_there_is_named(shell: Shell) -> None:
    missing = shell.folder / "none"

    assert str(missing) in shell("backup", str(missing / "x.zip"), status=1).stderr


def test_an_image_that_is_missing_is_said_and_the_rest_kept(
    shell: Shell, file: Path, new_shell: NewShell
) -> None:
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    gone = sorted(path for path in folder.rglob("*.png"))[0]
    gone.unlink()
    other = new_shell("sqlite")

    assert gone.name in shell("backup", str(file), "--overwrite").stderr
    other("restore", str(file))

    assert manifest_of(str(file))["missing_images"] == [gone.name]
    assert image_files(other) == image_files(shell)
