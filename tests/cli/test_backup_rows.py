"""What is restored is checked row by row, and a refusal writes nothing."""

import errno
import io
import json
import os
import time
import tracemalloc
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from sqlalchemy import text

from tests.cli.filled import (
    NewShell,
    filled,
    image_files,
    images_of,
    is_empty,
    manifest_of,
    opened,
    picture,
)
from tests.cli.test_backup_files import seal
from tests.cli.test_commands import Shell
from tests.conftest import FillOnce
from tracker.services.operations.backup import open_backup
from tracker.storage.images import ImageFolder

MANIFEST = "manifest.json"


@pytest.fixture
def file(database_url: str, tmp_path: Path, fill_once: FillOnce) -> Path:
    shell = filled(database_url, tmp_path, fill_once)
    path = shell.folder / "backup.zip"
    shell("backup", str(path))
    return path


@pytest.fixture
def empty(database_url: str, new_shell: NewShell) -> Shell:
    return new_shell("sqlite" if database_url.startswith("sqlite") else "postgresql")


def rebuilt(
    file: Path,
    members: Mapping[str, bytes],
    *,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """A backup with these members in place of its own, all hashes made to fit."""
    with zipfile.ZipFile(file) as old:
        held = {name: old.read(name) for name in old.namelist()} | dict(members)
    manifest = json.loads(held[MANIFEST])
    for entry in manifest["tables"]:
        rows = held[f"tables/{entry['name']}.jsonl"]
        entry.update(rows=rows.count(b"\n"), sha256=sha256(rows).hexdigest())
    manifest["images"] = sum(name.startswith("images/") for name in held)
    path = file.with_name("rebuilt.zip")
    with zipfile.ZipFile(path, "w", compression) as new:
        for name, content in (held | {MANIFEST: json.dumps(manifest).encode()}).items():
            new.writestr(name, content)
        new.comment = b"0" * 64
    seal(path)
    return path


def rows_of(file: Path, table: str) -> list[dict[str, Any]]:
    tables = manifest_of(str(file))["tables"]
    (columns,) = (entry["columns"] for entry in tables if entry["name"] == table)
    with zipfile.ZipFile(file) as archive:
        lines = archive.read(f"tables/{table}.jsonl").splitlines()
    return [dict(zip(columns, json.loads(line), strict=True)) for line in lines]


def with_rows(file: Path, table: str, rows: list[dict[str, Any]]) -> Path:
    lines = [json.dumps(list(row.values())).encode() + b"\n" for row in rows]
    return rebuilt(file, {f"tables/{table}.jsonl": b"".join(lines)})


def refusal(empty: Shell, path: Path) -> str:
    """What is said of a file; it leaves neither rows nor images nor a traceback."""
    said = empty("restore", str(path), status=1).stderr
    assert said.endswith("; nothing was written\n")
    assert "Traceback" not in said
    assert len(said) < 600
    assert is_empty(empty)
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("queries", "confidence", [7, -0.5, 10**400, True]),
        ("queries", "key", ["", "k" * 10**6, " k"]),
        ("queries", "metadata", ["[]", "{", '{"a": NaN}', "[" * 100_000]),
        ("queries", "tags", ['{"a": 1}', '["a", 1]', "a"]),
        ("queries", "predicted", ["MAYBE", "UNCLEAR"]),
        ("queries", "detector_id", [77]),
        ("labels", "label", ["MAYBE", ""]),
        ("labels", "sampling", ["by chance"]),
        ("labels", "note", ["n" * 2001]),
        ("accounts", "role", ["god"]),
        ("accounts", "mail_events", [5, [5]]),
        ("detectors", "confidence_level", [5, 0]),
        ("detectors", "target", [9]),
        ("detectors", "name", ["", "n" * 10**6, "det_1", "a/b"]),
        ("detectors", "classes", [5, [], ["YES"], {"a": 1}, ["YES", "YES"], None]),
        ("detectors", "added_classes", [5, ["YES"], [["YES", "soon"]]]),
        ("detectors", "method", ["evil"]),
        ("detectors", "slices", [7, ["a"] * 2]),
        ("detectors", "labels_wanted", [0, 2**40]),
        ("snapshot_intervals", "position", [2**15, -(2**15) - 1]),
        ("webhooks", "events", [["evil"], {}]),
        (
            "labels",
            "created_at",
            ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"],
        ),
    ],
)
def test_what_no_service_would_store_is_refused_with_its_place(
    file: Path, empty: Shell, table: str, column: str, values: list[Any]
) -> None:
    rows = rows_of(file, table)
    for value in values:
        changed = [*rows[:-1], rows[-1] | {column: value}]
        said = refusal(empty, with_rows(file, table, changed))
        assert f"row {len(rows)} of {table} has " in said


@pytest.mark.slow
def test_what_only_the_database_refuses_leaves_no_image(
    file: Path, empty: Shell
) -> None:
    versions = rows_of(file, "versions")
    belongs_to_nothing = [*versions[:-1], versions[-1] | {"detector_id": 77}]
    for rows in ([*versions, versions[-1]], belongs_to_nothing):
        said = refusal(empty, with_rows(file, "versions", rows))
        assert "the database refuses a row of versions" in said

    empty("restore", str(file))
    assert len(image_files(empty)) == 2


@pytest.mark.slow
def test_rows_are_not_kept_without_their_images(
    file: Path, empty: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        assert "No space left" in empty("restore", str(file), status=1).stderr

    assert is_empty(empty)


@pytest.mark.slow
def test_postgresql_waits_for_many_images(file: Path, new_shell: NewShell) -> None:
    shell = new_shell("postgresql")

    class SlowFolder(ImageFolder):
        def put(self, content: bytes, suffix: str) -> str:
            time.sleep(2)
            return super().put(content, suffix)

    slow = SlowFolder(images_of(shell)._folder)
    with (
        opened(shell) as database,
        open_backup(file, lambda *_: None) as reader,
        database.write() as session,
    ):
        session.execute(text("SET idle_in_transaction_session_timeout = '3500ms'"))
        reader.write(session, slow)
    assert len(image_files(shell)) == 2
    assert not is_empty(shell)


def _jpeg() -> bytes:
    drawn = io.BytesIO()
    Image.new("L", (20, 20)).save(drawn, "JPEG")
    return drawn.getvalue()


@pytest.mark.slow
def test_an_image_that_cannot_be_shown_is_refused(file: Path, empty: Shell) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    for content, reason in (
        (svg, "it is not a PNG, JPEG or WebP"),
        (_jpeg(), "it is a JPEG"),
        (picture(7)[:-30], "it cannot be decoded"),
        (b"", "it is empty"),
    ):
        name = f"images/{sha256(content).hexdigest()}.png"
        assert f"{name}: {reason}" in refusal(empty, rebuilt(file, {name: content}))


def test_other_ways_to_pack_are_refused(file: Path, empty: Shell) -> None:
    for compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        said = refusal(empty, rebuilt(file, {}, compression=compression))
        assert "is packed in another way" in said


def test_what_a_manifest_says_cannot_steer_a_terminal(file: Path, empty: Shell) -> None:
    evil = "\x1b[31m" + "x" * 10_000
    manifest = manifest_of(str(file))
    for change in ({"revision": evil}, {evil: 1}, {"created_at": evil}):
        changed = json.dumps(manifest | change).encode()
        assert "\x1b" not in refusal(empty, rebuilt(file, {MANIFEST: changed}))
    assert "\x1b" not in refusal(empty, rebuilt(file, {evil: b""}))


@pytest.mark.slow
def test_large_rows_are_held_a_few_at_a_time(file: Path, new_shell: NewShell) -> None:
    (answer,) = rows_of(file, "stored_answers")
    large = {"body": "x" * 3_000_000}
    rows = [answer | large | {"id": n, "key": f"k{n}"} for n in range(1, 41)]
    path = with_rows(file, "stored_answers", rows)
    shell = new_shell("sqlite")
    tracemalloc.start()
    shell("restore", str(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6


@pytest.mark.slow
def test_an_image_unpacks_no_further_than_it_may(
    file: Path, new_shell: NewShell
) -> None:
    content = bytes(200 * 2**20)
    name = f"images/{sha256(content).hexdigest()}.png"
    path = rebuilt(file, {name: content})
    del content
    shell = new_shell("sqlite")
    tracemalloc.start()
    said = refusal(shell, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"{name} has more than 67,108,864 bytes" in said
    assert most < 150e6
