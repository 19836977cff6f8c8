"""Only a whole backup is restored, into what is empty; a failed one leaves nothing."""

import errno
import hashlib
import json
import os
import stat
import tracemalloc
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.cli.filled import (
    NewShell,
    differences,
    exported,
    filled,
    image_files,
    is_empty,
    manifest_of,
    opened,
)
from tests.cli.test_commands import Shell
from tests.conftest import START, FillOnce, by
from tracker.jobs.loop import Loop
from tracker.services.operations.backup import create_backup
from tracker.services.people.keys import create_key
from tracker.storage.operations import schema

KEYS = (sha256(b"mine").hexdigest(), sha256(b"yours").hexdigest())


@pytest.fixture
def shell(database_url: str, tmp_path: Path, fill_once: FillOnce) -> Shell:
    """The database that holds something; the others are filled from it."""
    return filled(database_url, tmp_path, fill_once)


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
    with (
        zipfile.ZipFile(file) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(*change(name, old.read(name)))
        new.comment = b"0" * 64
    seal(path)
    return path


@pytest.mark.slow
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
        assert f"Error: {file}: it is damaged or not a backup" in refused.stderr
        assert "nothing was written" in refused.stderr

    assert is_empty(empty)
    file.write_bytes(whole)
    empty("restore", str(file))
    assert exported(empty) == exported(shell)


@pytest.mark.thorough
def test_with_a_key_only_what_it_signed_is_restored(
    shell: Shell, file: Path, new_shell: NewShell, tmp_path: Path
) -> None:
    signed, other = tmp_path / "signed.zip", tmp_path / "other.zip"
    mine, yours = ({"TRACKER_BACKUP_KEY": key} for key in KEYS)
    shell("backup", str(signed), environ=mine)
    shell("backup", str(other), environ=yours)
    changed = rewritten(signed, lambda name, content: (name, content))
    empty = new_shell("sqlite")

    for wrong in (file, other, changed):
        refused = empty("restore", str(wrong), status=1, environ=mine)
        assert "it is not signed with TRACKER_BACKUP_KEY" in refused.stderr
    unknown = empty("restore", str(signed), status=1)
    assert "it is signed and TRACKER_BACKUP_KEY is missing" in unknown.stderr
    assert is_empty(empty)

    empty("restore", str(signed), environ=mine)
    assert exported(empty) == exported(shell)


@pytest.mark.thorough
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
    assert "the content does not match its hash" in renamed(f"images/{'a' * 64}.png")
    assert "not part of a backup" in renamed(f"images/{'a' * 64}.html")
    assert "has revision '0000'" in in_manifest(revision, '"revision": "0000"')
    assert "has format 2" in in_manifest('"format": 1', '"format": 2')
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


HOSTILE = {
    "an image that leaves the folder": ("queries", "image", "../../secret_key"),
    "an image that is no hash": ("queries", "image", "x.png"),
    "a text in the place of a number": ("labels", "query_id", "1; DROP TABLE labels"),
    "a number that no database keeps": ("labels", "query_id", 10**25),
    "a truth value in the place of a number": ("labels", "query_id", True),
    "nothing where something must be": ("labels", "labeler", None),
    "a NUL": ("labels", "labeler", "a\0b"),
    "an instant without a zone": ("labels", "created_at", "2026-01-01T00:00:00"),
    "no instant": ("labels", "created_at", "soon"),
    "a list in the place of a text": ("labels", "labeler", ["alice"]),
    "a share that is a text": ("detectors", "confidence_level", "0.95"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", [*HOSTILE, "a row too short", "NaN", "no JSON"])
def test_a_row_that_fits_no_table_is_refused_with_its_place(
    file: Path, database_url: str, new_shell: NewShell, what: str
) -> None:
    empty = new_shell("sqlite" if database_url.startswith("sqlite") else "postgresql")
    table, name, value = HOSTILE.get(what, ("labels", None, None))
    member = f"tables/{table}.jsonl"
    with zipfile.ZipFile(file) as archive:
        before = archive.read(member)
        entries = json.loads(archive.read("manifest.json"))["tables"]
    (columns,) = (one["columns"] for one in entries if one["name"] == table)
    lines = before.splitlines(keepends=True)
    row = json.loads(lines[0])
    if name is not None:
        row[columns.index(name)] = value
    changed = {
        "a row too short": json.dumps(row[1:]),
        "NaN": "[NaN" + ",null" * (len(row) - 1) + "]",
        "no JSON": "[" * 100_000,
    }.get(what, json.dumps(row))
    after = b"".join([changed.encode() + b"\n", *lines[1:]])
    # Somebody who changes a backup on purpose makes its hashes fit.
    hashes = [sha256(content).hexdigest().encode() for content in (before, after)]

    def change(member_name: str, content: bytes) -> tuple[str, bytes]:
        if member_name == member:
            return member_name, after
        return member_name, content.replace(*hashes)

    refused = empty("restore", str(rewritten(file, change)), status=1)
    assert f"row 1 of {table}" in refused.stderr
    assert "nothing was written" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert is_empty(empty)


@pytest.mark.slow
def test_a_manifest_that_is_too_large_is_refused_before_it_is_read(
    file: Path, new_shell: NewShell
) -> None:
    def change(name: str, content: bytes) -> tuple[str, bytes]:
        # 400 MB of blanks are half a megabyte in a zip.
        blanks = b" " * 400_000_000 if name == "manifest.json" else b""
        return name, content + blanks

    path = rewritten(file, change)
    tracemalloc.start()
    refused = new_shell("sqlite")("restore", str(path), status=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "manifest.json has more than 16,777,216 bytes" in refused.stderr
    assert most < 50e6


@pytest.mark.thorough
def test_a_database_that_holds_anything_is_refused(shell: Shell, file: Path) -> None:
    before = exported(shell)

    refused = shell("restore", str(file), status=1).stderr

    assert "not empty: the table accounts" in " ".join(refused.split())
    assert exported(shell) == before


@pytest.mark.slow
def test_a_database_without_tables_is_migrated_first(shell: Shell, file: Path) -> None:
    new = Shell(f"sqlite:///{shell.folder / 'new' / 'x.db'}", shell.folder / "new")

    new("restore", str(file))

    assert exported(new) == exported(shell)


def test_a_running_worker_does_not_make_a_database_full(
    file: Path, new_shell: NewShell
) -> None:
    idle = new_shell("sqlite")
    with opened(idle) as database:
        loop = Loop(database, "w", [])
        loop.enqueue("stalls")
        loop.run()
        with database.read() as session:
            assert session.execute(text("SELECT worker FROM heartbeats")).all()
            assert session.execute(text("SELECT kind FROM tasks")).all()

    idle("restore", str(file))

    assert differences(idle) == []


def test_an_existing_file_is_replaced_only_when_asked_for(
    shell: Shell, file: Path
) -> None:
    file.write_text("mine")

    assert "--overwrite" in shell("backup", str(file), status=1).stderr
    assert file.read_text() == "mine"
    said = shell("backup", str(file), "--overwrite").stdout

    assert "2 detectors, 73 queries, 68 labels" in said
    assert zipfile.is_zipfile(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(shell.folder.glob(".backup*")) == []


@pytest.mark.slow
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
            create_key(session, "later", "viewer", by(at=START))


def test_a_folder_that_is_not_there_is_named(shell: Shell) -> None:
    missing = shell.folder / "none"

    refused = shell("backup", str(missing / "x.zip"), status=1)

    assert refused.stderr == f"Error: there is no folder {missing}; make it first\n"


def test_an_image_that_is_missing_is_said_and_the_rest_kept(
    shell: Shell, file: Path, new_shell: NewShell
) -> None:
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    gone = sorted(path for path in folder.rglob("*.png"))[0]
    gone.unlink()
    other = new_shell("sqlite")

    assert gone.name in shell("backup", str(file), "--overwrite", status=1).stderr
    other("restore", str(file))

    assert manifest_of(str(file))["missing_images"] == [gone.name]
    assert image_files(other) == image_files(shell)


def test_one_of_a_thing_is_called_by_its_singular(tmp_path: Path) -> None:
    shell = Shell(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    shell("detectors", "create", "door", "--question", "Is the door closed?")

    said = shell("backup", str(tmp_path / "x.zip")).stdout

    assert "1 detector, 0 queries, 0 labels, 0 snapshots and 0 images" in said
