"""A database with everything in it, and what to look at once it has moved."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from sqlalchemy.orm import Session

from tests.cli.test_commands import Shell
from tests.conftest import START, Clock
from tests.services.conftest import Bench
from tests.services.irises import IRIS
from tracker.jobs.imports import Importer
from tracker.jobs.recompute import Recomputer
from tracker.services.answers import add_answer
from tracker.services.background_imports import NewImport, add_import
from tracker.services.detectors import archive_detector
from tracker.services.keys import create_key
from tracker.services.queries import NewQuery, log_query
from tracker.services.recount import compare_with_recount
from tracker.services.reservations import skip
from tracker.storage import backup as storage
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.images import ImageFolder
from tracker.storage.imports import FileImport

NewShell = Callable[[str], Shell]


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
