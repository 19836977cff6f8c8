"""The commands with images in a bucket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.filled import (
    exported,
    fill,
    hashes_of,
    image_files,
    picture,
)
from tests.cli.test_commands import Shell
from tests.conftest import DATABASES
from tests.s3 import SECRET, S3Server
from tracker.settings import Settings
from tracker.storage.images import open_image_store

pytestmark = pytest.mark.slow


def move_images(shell: Shell, server: S3Server) -> None:
    """Copy the folder into the bucket, as an operator would, and use that."""
    for name, content in image_files(shell).items():
        path = server.bucket / "of" / "doors" / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for path in (Path(shell.environ["TRACKER_DATA_DIR"]) / "images").rglob("*.png"):
        path.unlink()
    shell.environ |= server.environ()


def stored(server: S3Server, prefix: str) -> dict[str, bytes]:
    return {
        name.rpartition("/")[2]: content
        for name, (_, content) in server.objects().items()
        if name.startswith(prefix)
    }


@pytest.mark.parametrize("kind", DATABASES)
def test_a_backup_goes_from_a_bucket_to_a_folder_and_back(
    new_database_url: Callable[[str], str],
    kind: str,
    tmp_path: Path,
    s3_server: S3Server,
) -> None:
    first, second, third = (
        Shell(new_database_url(kind), tmp_path / str(number)) for number in range(3)
    )
    fill(first)
    images = image_files(first)
    move_images(first, s3_server)
    third.environ |= s3_server.environ("s3://pictures/restored")
    there, back, again = (str(tmp_path / name) for name in ("a.zip", "b.zip", "c.zip"))

    first("backup", there)
    second("restore", there)
    second("backup", back)
    third("restore", back)
    third("backup", again)

    assert exported(first) == exported(second) == exported(third)
    assert image_files(second) == stored(s3_server, "restored/") == images
    assert hashes_of(there) == hashes_of(back) == hashes_of(again)
    assert "No problems" in third("doctor").stdout


def test_the_doctor_looks_into_the_bucket(
    database_url: str, tmp_path: Path, s3_server: S3Server
) -> None:
    shell = Shell(database_url, tmp_path)
    fill(shell)
    move_images(shell, s3_server)
    open_image_store(Settings(**s3_server.settings())).put(picture(77), "png")
    assert "without a query, which is harmless: 1." in shell("doctor").stdout

    for name in s3_server.objects():
        (s3_server.bucket / name).unlink()

    assert shell("doctor", status=1).stdout.count("is missing") == 2


def test_a_bucket_that_is_away_is_said_and_nothing_is_half_written(
    new_database_url: Callable[[str], str],
    tmp_path: Path,
    s3_server: S3Server,
) -> None:
    shell, empty = (
        Shell(new_database_url("sqlite"), tmp_path / name) for name in ("full", "empty")
    )
    fill(shell)
    move_images(shell, s3_server)
    empty.environ |= s3_server.environ("s3://pictures/restored")
    shell("backup", str(tmp_path / "whole.zip"))
    before = sorted(path.name for path in tmp_path.iterdir())
    s3_server.stop()

    for refused in (
        shell("backup", str(tmp_path / "x.zip"), status=1),
        shell("doctor", status=1),
        empty("restore", str(tmp_path / "whole.zip"), status=1),
    ):
        assert "does not answer" in refused.stderr
        assert SECRET not in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before

    s3_server.start()
    empty("restore", str(tmp_path / "whole.zip"))
    assert exported(empty) == exported(shell)


@pytest.mark.parametrize("command", ["serve", "web", "doctor", "backup", "restore"])
def test_a_bucket_that_cannot_be_used_is_said_at_the_start(
    database_url: str, tmp_path: Path, command: str, s3_server: S3Server
) -> None:
    shell = Shell(database_url, tmp_path)
    shell.environ |= s3_server.environ() | {"TRACKER_S3_ACCESS_KEY_ID": ""}
    words = [shell.file("x", "")] if command in {"backup", "restore"} else []
    words += ["--overwrite"] if command == "backup" else []

    refused = shell(command, *words, status=1)

    assert "TRACKER_S3_ACCESS_KEY_ID" in refused.stderr
    assert SECRET not in refused.output
