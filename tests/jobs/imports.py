"""Imports in the background, and what to look at."""

import io
from collections.abc import Generator
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from tests.conftest import START, Clock, by
from tracker.jobs.imports import Importer
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.imports.attempts import (
    MOST_ATTEMPTS,
    begin_attempt,
    claim_of,
    finish_import,
    note_written,
    take_import,
)
from tracker.services.imports.background import add_import, unpack_report
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Written
from tracker.services.people.audit import iter_rows
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.imports.files import Claim, FileImport, Progress, find_import
from tracker.storage.imports.import_pieces import (
    ImportPiece,
)
from tracker.storage.labelling.labels import Label
from tracker.storage.operations.leases import LEASE_SECONDS
from tracker.storage.queries.queries import Query

AFTER_A_LEASE = timedelta(seconds=LEASE_SECONDS + 1)


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
        return add_import(session, detector, file, by("alice"), on_error=on_error).id


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


def write_pieces(
    database: Database, claim: Claim, clock: Clock, choices: Choices = DEFAULT
) -> Generator[Written]:
    """Write piece by piece as a worker does, and the end too."""
    with database.read() as session:
        attempt = begin_attempt(
            session, claim, database.read, at=clock(), choices=choices
        )
    size = look(database, claim.import_id).bytes
    with attempt.checked(lambda _: None) as second:
        yield from second.write(
            database.run, lambda session, written: note_written(session, claim, written)
        )
        with database.write() as session:
            progress = Progress(second.rows, size, second.rows)
            finish_import(session, claim, second, progress, at=clock())


def ends_import(statement: str) -> bool:
    """Whether this statement ends an import, in the transaction of its rows."""
    return statement.startswith("UPDATE imports ") and "finished_at=" in statement


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


def fail_halfway(database: Database, clock: Clock) -> None:
    """Kill a worker after the first piece of the next import, and then two more."""
    for number in range(MOST_ATTEMPTS):
        claim = take(database, f"killed {number}", clock)
        assert claim is not None
        if not number:
            pieces = write_pieces(database, claim, clock)
            next(pieces)
            pieces.close()
        clock.at += AFTER_A_LEASE
    Importer(database, "w", clock).run()
