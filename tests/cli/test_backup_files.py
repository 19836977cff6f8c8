"""Only a whole backup is restored, into what is empty; a failed one leaves nothing."""

import errno
import hashlib
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.cli.filled import (
    NewShell,
    differences,
    exported,
    fill,
    image_files,
    is_empty,
    manifest_of,
    opened,
)
from tests.cli.test_commands import Shell
from tests.conftest import START
from tracker.services.backup import create_backup
from tracker.services.keys import create_key
from tracker.storage import schema


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
        assert f"Error: {file}: it is damaged or no backup" in refused.stderr
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
