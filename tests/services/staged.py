"""Imports into SQLite that are staged, and what others see of them."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import func, select, text

from tests.conftest import by
from tracker.services.detectors import NewDetector, create_detector, get_open_detector
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.staging import Stage, clear
from tracker.services.imports.writing import Staged, import_file, stage_file
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Version
from tracker.storage.estimates.pending import PendingBatch
from tracker.storage.imports.staging import StagedBatch, StagedVersion
from tracker.storage.labelling.labels import Label
from tracker.storage.queries.queries import Query, find_query_by_key

TABLES = (Query, Label, Version, PendingBatch, StagedBatch, StagedVersion)
# Longer than any lease.
LATE = timedelta(days=1)


def make_door(new_database: Callable[[str], Database]) -> Database:
    database = new_database("sqlite")
    new = NewDetector(name="door", question="Is it?", classes=["YES", "NO"])
    with database.write() as session:
        create_detector(session, new, by())
    return database


def file_of(rows: str) -> RowFile:
    content = rows.encode()
    return RowFile("csv", sha256(content).hexdigest(), io.BytesIO(content))


def rows_of(first: int, last: int, *, label: str = "YES", version: str = "v1") -> str:
    lines = (f"k{i},YES,{label},{version},in{i}\n" for i in range(first, last))
    return "key,predicted,label,version,input\n" + "".join(lines)


@contextmanager
def staged(
    database: Database,
    rows: str,
    clock: Callable[[], Any],
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Staged]:
    """Write rows where nobody sees them; what is not shown is deleted at the end."""
    with database.read() as session:
        detector = get_open_detector(session, "door")
    stage = Stage(clock)
    with database.staging() as writes:
        try:
            yield stage_file(
                writes, detector, file_of(rows), by(), stage, on_progress=on_progress
            )
        finally:
            clear(writes, stage.owner_id)


def stage(database: Database, rows: str, clock: Callable[[], Any]) -> Staged:
    """Write rows where nobody sees them, as a process leaves them that is killed."""
    with database.read() as session:
        detector = get_open_detector(session, "door")
    with database.staging() as writes:
        return stage_file(writes, detector, file_of(rows), by(), Stage(clock))


def import_now(database: Database, rows: str) -> None:
    with database.write() as session:
        import_file(session, get_open_detector(session, "door"), file_of(rows), by())


def show(database: Database, found: Staged) -> Any:
    with database.write() as session:
        return found.show(session)


def count_all(database: Database) -> dict[str, int]:
    """Count what others see."""
    with database.read() as session:
        return {
            table.__tablename__: session.scalar(select(func.count()).select_from(table))
            or 0
            for table in TABLES
        }


def dump(database: Database) -> list[Any]:
    """What is known of each query, and every label it was given."""
    statement = text(
        "SELECT q.key, q.input, q.predicted, q.label, q.sampling, q.is_repeat, v.name,"
        " (SELECT group_concat(label) FROM"
        "  (SELECT l.label FROM labels l WHERE l.query_id = q.id ORDER BY l.id))"
        " FROM queries q JOIN versions v ON v.id = q.version_id ORDER BY q.key"
    )
    with database.read() as session:
        return [tuple(row) for row in session.execute(statement)]


def label_of(database: Database, key: str) -> str | None:
    with database.read() as session:
        query = find_query_by_key(session, 1, key)
        assert query is not None
        return query.label


def give(database: Database, key: str, label: str) -> None:
    with database.write() as session:
        query = find_query_by_key(session, 1, key)
        assert query is not None
        add_label(session, query.id, NewLabel(label=label), by())


def log(database: Database, **said: Any) -> None:
    with database.write() as session:
        detector = get_open_detector(session, "door")
        log_query(session, detector, NewQuery(predicted="YES", **said), by())
