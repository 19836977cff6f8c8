"""Imports in the background, and what to look at."""

import io
from collections.abc import Generator
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from tests.conftest import START, Clock, by
from tests.processes import wait_until
from tracker.clock import Clock as AnyClock
from tracker.clock import utc_now
from tracker.jobs.imports import Clearing, Imports
from tracker.jobs.loop import Loop
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.imports.background import (
    add_import,
    attempting,
    finish_import,
    note_written,
    unpack_report,
)
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import PIECE_ROWS
from tracker.services.imports.writing import Order, Written
from tracker.services.people.accounts import iter_rows
from tracker.services.tasks import POLICIES
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageStore
from tracker.storage.imports import (
    RUNNING,
    FileImport,
    ImportPiece,
    change_import,
    find_import,
)
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query
from tracker.storage.tasks import CLEARING, HOLD_SECONDS, IMPORT, Task, find_task
from tracker.storage.tasks import take as take_tasks

AFTER_A_HOLD = timedelta(seconds=HOLD_SECONDS + 1)


def rows_of(number: int) -> bytes:
    """A file of labelled rows without keys, which are told apart by the file alone."""
    return b"predicted,label\n" + b"YES,NO\n" * number


def add(
    database: Database, content: bytes, choices: Choices = DEFAULT, **more: str
) -> int:
    """Leave a file to the worker, in a detector of its own."""
    said = {"format": "csv", "sha256": "f" * 64} | more
    on_error = said.pop("on_error", "reject")
    with database.write() as session:
        number = session.execute(select(func.count(Detector.id))).scalar_one()
        new = NewDetector(name=f"d{number}", question="?", classes=["YES", "NO"])
        detector = create_detector(session, new, by(at=START))
        file = RowFile(stream=io.BytesIO(content), choices=choices, **said)
        return add_import(session, Order(detector.name, file, by("alice"), on_error)).id


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


def importing(
    database: Database,
    clock: AnyClock = utc_now,
    worker: str = "w",
    images: ImageStore | None = None,
) -> Loop:
    """A worker that imports files."""
    said: Any = {"database": database, "clock": clock}
    handlers = [Imports(images=images, **said), Clearing(**said)]
    return Loop(database, worker, handlers, clock)


def take(database: Database, worker: str, clock: Clock) -> Task | None:
    """Take an import, as a worker does that is then paused or dies."""
    with database.write() as session:
        for task in take_tasks(session, "import", worker, at=clock()):
            change_import(session, task.row, state=RUNNING, started_at=clock())
            return task
    return None


def task_of(database: Database, import_id: int) -> Task:
    with database.read() as session:
        found = find_task(session, "import", str(import_id))
        assert found is not None
        return found


def list_tasks(database: Database) -> list[str]:
    """The kinds of open tasks of imports."""
    with database.read() as session:
        kinds = select(Task.kind).where(Task.ended_at.is_(None))
        return [kind for kind in session.scalars(kinds) if kind in {IMPORT, CLEARING}]


def write_pieces(
    database: Database, task: Task, clock: Clock, *, most: int = PIECE_ROWS
) -> Generator[Written]:
    """Write piece by piece as a worker does, and the end too."""
    size = look(database, int(task.key)).bytes
    with attempting(
        task, database.read, None, clock=clock, on_progress=lambda _: None
    ) as second:
        yield from second.write(
            database.run,
            lambda session, written: note_written(session, task, written),
            most=most,
        )
        with database.write() as session:
            rows = second.rows
            progress = {"rows_read": rows, "bytes_read": size, "rows": rows}
            finish_import(session, task, second, progress, at=clock())


def ends_import(statement: str) -> bool:
    """Whether this statement ends an import, in the transaction of its rows."""
    return statement.startswith("UPDATE imports ") and "finished_at=" in statement


def assert_imported_once(database: Database, import_id: int, rows: int) -> None:
    found = look(database, import_id)
    assert (found.state, found.error) == ("done", None)
    # A worker deletes the file after the import has ended.
    wait_until(lambda: not list_tasks(database))
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


def fail_halfway(database: Database, clock: Clock) -> None:
    """Kill a worker after the first piece of the next import, and then three more."""
    for number in range(1 + (POLICIES["import"].most_attempts or 0)):
        task = take(database, f"killed {number}", clock)
        assert task is not None
        if not number:
            pieces = write_pieces(database, task, clock)
            next(pieces)
            pieces.close()
        clock.at += AFTER_A_HOLD
    importing(database, clock).run()
