"""What an import writes is the same, by column or row by row."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text

from tests.conftest import START, by
from tests.imports import import_rows
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.imports.reading.rows import PIECE_ROWS
from tracker.services.imports.reports import RejectedImportError
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, Version
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

FULL = {
    "key": "a",
    "input": "1.jpg",
    "predicted": "YES",
    "confidence": 0.5,
    "version": "v1",
    "asked_at": (START - timedelta(days=1)).isoformat(),
    "metadata": {"lamp": "on", "é": [1, None]},
    "image_url": "https://example.org/1.png",
    "label": "NO",
    "sampling": "random",
    "note": "dark",
    "labeler": "ann",
    "labelled_at": (START - timedelta(hours=1)).isoformat(),
}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "everything": [FULL],
    "as little as can be": [{"predicted": "YES"}, {"predicted": "NO"}],
    "some labelled": [
        {"predicted": "YES", "label": "YES"},
        {"predicted": "NO"},
        {"predicted": "NO", "label": "UNCLEAR", "note": ""},
    ],
    "all mixed": [
        FULL,
        {"predicted": "NO", "label": "YES", "sampling": "targeted"},
        {"predicted": "NO", "sampling": "targeted"},
        {"predicted": "YES", "sampling": "random", "version": "v2"},
        {"predicted": "NO", "key": "b", "note": "without a label it says nothing"},
    ],
}


def add_detector(database: Database, name: str) -> Detector:
    new = NewDetector(name=name, question="?", classes=["YES", "NO"])
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        detector.queue_seed = "seed"
    return detector


def stored(database: Database, detector_name: str, rows: list[dict[str, Any]]) -> Any:
    """What an import of *rows* leaves behind, ids counted from the import's first."""
    detector = add_detector(database, detector_name)
    for name in ("v0", "v1", "v2", "default"):
        run(database, detector_name, [{"predicted": "YES", "version": name}], name)
    report = run(database, detector_name, rows, "file")
    with database.read() as session:
        query_rows = session.execute(
            select(Query.__table__, Version.name.label("version"))
            .join(Version, Version.id == Query.version_id)
            .where(Query.detector_id == detector.id)
            .order_by(Query.id)
        ).all()[4 : 4 + len(rows)]
        first = query_rows[0].id
        labels = session.execute(
            select(Label.__table__)
            .where(Label.query_id.between(first, first + len(rows) - 1))
            .order_by(Label.id)
        ).all()
    dropped = {"detector_id", "version_id", "queue_rank", "rank"}
    moved = {"id", "query_id", "label_id"}
    found = [
        {
            name: value - first if name in moved and value is not None else value
            for name, value in row._mapping.items()
            if name not in dropped
        }
        for row in (*query_rows, *labels)
    ]
    waiting = [row.queue_rank is not None for row in query_rows]
    return found, waiting, report


def run(
    database: Database, detector_name: str, rows: list[dict[str, Any]], digest: str
) -> Any:
    with database.write() as session:
        return import_rows(
            session,
            get_detector(session, detector_name),
            rows,
            by("alice", START),
            digest=digest,
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_written_by_column_as_one_by_one(
    database: Database, shape: str
) -> None:
    rows = SHAPES[shape]
    # The same key twice sends all of them the other way.
    twin = {"key": "twin", "predicted": "YES"}

    by_column, waiting, report = stored(database, "by column", rows)
    one_by_one, also_waiting, other = stored(
        database, "one by one", [*rows, twin, twin]
    )

    assert by_column == [row for row in one_by_one if row.get("key") != "twin"]
    assert waiting == also_waiting[: len(rows)]
    assert other.queries_added == report.queries_added + 1 == len(rows) + 1
    assert other.labels_added == report.labels_added
    assert (report.unchanged, other.unchanged) == (0, 1)


def test_what_turns_out_wrong_while_labels_are_written_undoes_them(
    database: Database,
) -> None:
    add_detector(database, "door")
    good = [{"predicted": "YES", "label": "NO"}] * PIECE_ROWS
    with pytest.raises(RejectedImportError):
        run(database, "door", [*good, {"predicted": "MAYBE"}], "bad")
    with database.read() as session:
        assert session.scalars(select(func.count()).select_from(Query)).one() == 0
        assert session.scalars(select(func.count()).select_from(Label)).one() == 0
    # The same connection takes the next one.
    report = run(database, "door", [*good, {"predicted": "NO", "label": "NO"}], "good")
    assert report.labels_added == PIECE_ROWS + 1
    with database.read() as session:
        pairs = select(Label.id).join(Query, Query.label_id == Label.id)
        assert len(session.scalars(pairs).all()) == PIECE_ROWS + 1


@pytest.mark.slow
def test_an_import_uses_indexes_on_a_connection_that_began_with_small_tables(
    database: Database,
) -> None:
    add_detector(database, "door")
    # As often as it takes PostgreSQL to keep its plans.
    for number in range(20):
        row = {"key": f"small {number}", "predicted": "YES", "label": "NO"}
        run(database, "door", [row], f"{number}")
    rows = [{**row, "key": f"large {number}"} for number in range(8_000)]
    with database.write() as session:
        detector = get_detector(session, "door")
        import_rows(session, detector, rows, by("a", START), digest="x")
        if not database.is_sqlite:
            read = session.scalar(
                text(
                    "SELECT sum(seq_tup_read + idx_tup_fetch) "
                    "FROM pg_stat_xact_user_tables "
                    "WHERE relname LIKE 'queries%'"
                )
            )
            # A piece may read the few rows that were there for each of its keys.
            # Reading what is there for each row would be tens of millions.
            assert read < 500_000
        labels = session.scalars(select(func.count()).select_from(Label)).one()
    assert labels == 8_020
