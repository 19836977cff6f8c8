"""A worker imports what was left to it: once, whole, and whatever happens to it."""

import io
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

import pytest
from sqlalchemy import select, text

from tests.conftest import Clock
from tests.jobs.imports import (
    AFTER_A_HOLD,
    add,
    assert_imported_once,
    count,
    importing,
    look,
    rows_of,
    take,
)
from tracker.services.imports.background import unpack_report
from tracker.services.imports.reading.choices import Choices
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.imports import (
    PIECE_BYTES,
    ImportPiece,
    PieceFile,
    delete_some_pieces,
)
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query


def test_a_file_is_imported_with_its_end_its_report_and_its_event(
    database: Database, clock: Clock
) -> None:
    first, second = add(database, rows_of(3)), add(database, rows_of(0))
    assert count(database, ImportPiece) == 2

    assert importing(database, clock).run() == 2
    assert importing(database, clock).run() == 0

    assert_imported_once(database, first, 3)
    empty = look(database, second)
    assert (empty.state, empty.rows_read) == ("done", 0)


def test_a_file_of_several_pieces_is_read_as_it_was(database: Database) -> None:
    content = bytes(range(256)) * (PIECE_BYTES // 256 * 2 + 3)
    import_id = add(database, content)
    with database.read() as session:
        assert count(database, ImportPiece) == 3
        whole = io.BufferedReader(
            PieceFile(lambda: nullcontext(session), (1, import_id), len(content))
        )
        assert whole.read() == content
        for place in (PIECE_BYTES - 5, len(content) - 3, len(content) + 9, 0):
            whole.seek(place)
            assert whole.read(9) == content[place : place + 9]
        assert whole.seek(-4, io.SEEK_END) == len(content) - 4


@pytest.mark.parametrize(
    ("content", "said", "errors"),
    [
        (b"predicted\nYES\nMAYBE\n", "1 of 2 rows are wrong; nothing was written", 1),
        (b"colour\nred\n", "colour: is not a known column", None),
        (b"\xff\xfe\x00", "body: it is not UTF-16", None),
    ],
)
def test_a_file_that_is_wrong_is_rejected_at_once(
    database: Database, clock: Clock, content: bytes, said: str, errors: int | None
) -> None:
    import_id = add(database, content)
    assert importing(database, clock).run() == 1

    found, report = look(database, import_id), unpack_report(look(database, import_id))
    assert found.state == "rejected"
    assert said in str(found.error)
    assert (None if report is None else len(report.errors)) == errors
    assert report is None or report.queries_added == 0
    assert count(database, Query) == count(database, ImportPiece) == 0


@pytest.mark.slow
def test_postgresql_counts_the_rows_of_a_large_import_at_once(
    new_database: Callable[[str], Database], clock: Clock
) -> None:
    database = new_database("postgresql")
    import_id = add(database, rows_of(40_000))
    assert importing(database, clock).run() == 1
    assert look(database, import_id).state == "done"
    known = text(
        "SELECT reltuples FROM pg_class WHERE relname = 'queries' AND relkind = 'r'"
    )
    with database.read() as session:
        assert session.scalar(known) == 40_000


def test_an_import_whose_file_is_gone_fails_and_says_what_to_do(
    database: Database, clock: Clock
) -> None:
    import_id = add(database, rows_of(3))
    with database.write() as session:
        delete_some_pieces(session, (1, import_id), limit=9)
    assert importing(database, clock).run() == 1

    found = look(database, import_id)
    assert found.state == "failed"
    assert "send it again" in str(found.error)


def test_an_import_that_raises_is_tried_some_times_and_does_not_hold_up_others(
    database: Database, clock: Clock
) -> None:
    bad, good = add(database, rows_of(3)), add(database, rows_of(2))
    with database.write() as session:
        session.get_one(Detector, 1).classes = 7  # type: ignore[assignment]
    importer = importing(database, clock)

    assert importer.run() == 1
    assert look(database, bad).state == "waiting"
    assert look(database, good).state == "done"
    # It rests between two tries.
    assert importer.run() == 0
    for _ in range(2):
        assert look(database, bad).state == "waiting"
        clock.at += timedelta(minutes=1)
        importer.run()

    found = look(database, bad)
    assert found.state == "failed"
    assert "it failed 3 times, at last with TypeError" in str(found.error)
    assert count(database, Query) == 2
    # To be resumed, once its cause is gone.
    assert count(database, ImportPiece) == 1


def test_an_import_that_kills_its_worker_each_time_fails(
    database: Database, clock: Clock
) -> None:
    bad, good = add(database, rows_of(3)), add(database, rows_of(2))
    for number in range(3):
        task = take(database, f"killed {number}", clock)
        assert task is not None
        assert (task.key, task.attempts) == (str(bad), number + 1)
        clock.at += AFTER_A_HOLD

    assert importing(database, clock).run() == 1

    assert look(database, bad).state == "failed"
    assert "the worker ended each time" in str(look(database, bad).error)
    assert "nothing was written" in str(look(database, bad).error)
    assert look(database, good).state == "done"
    assert count(database, Query) == 2


def test_a_file_left_to_a_worker_is_read_as_was_said(
    database: Database, clock: Clock
) -> None:
    chosen = Choices(columns={"predicted": "said"}, classes={"yep": "YES"}, labeler="x")
    import_id = add(database, b"said,label\nyep,no\n", chosen)
    assert importing(database, clock).run() == 1
    done = look(database, import_id)
    assert done.state == "done", done.error
    report = unpack_report(done)
    assert report is not None
    assert report.columns == {"predicted": "said"}
    assert [value[:3] for value in report.values] == [
        *[["predicted", "yep", "YES"], ["label", "no", "NO"]]
    ]
    with database.read() as session:
        assert session.scalars(select(Label.labeler)).one() == "x"
