"""The ways around UPDATE and DELETE are closed too."""

from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.conftest import Clock
from tests.services.conftest import Bench
from tracker.storage.database import Database


@pytest.fixture
def labelled(
    database: Database, clock: Clock, recompute: Callable[[], None]
) -> Database:
    Bench(database, clock, ["YES", "NO"]).log("YES", "NO")
    recompute()
    return database


@pytest.mark.thorough
@pytest.mark.parametrize(
    "table", ["labels", "snapshots", "snapshot_intervals", "snapshot_measures"]
)
def test_a_table_of_the_history_cannot_be_emptied_or_written_over(
    labelled: Database, table: str
) -> None:
    before = rows(labelled, table)
    statement = (
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"
        if labelled.is_sqlite
        else f"TRUNCATE {table} CASCADE"
    )
    with (
        pytest.raises(DBAPIError, match="append-only"),
        labelled.write() as session,
    ):
        session.execute(text(statement))

    assert rows(labelled, table) == before
    assert before


@pytest.mark.thorough
def test_a_note_can_be_taken_away_and_no_other_be_put_in_its_place(
    database: Database, clock: Clock
) -> None:
    bench = Bench(database, clock, ["YES", "NO"])
    bench.label(bench.log("YES"), "NO", note="Mr Smith")
    for note in ("'Mr Jones'", "''"):
        with (
            pytest.raises(DBAPIError, match="append-only"),
            database.write() as session,
        ):
            session.execute(text(f"UPDATE labels SET note = {note}"))
    with database.write() as session:
        session.execute(text("UPDATE labels SET note = NULL"))
    assert "Mr" not in repr(rows(database, "labels"))


def rows(database: Database, table: str) -> list[tuple[object, ...]]:
    with database.read() as session:
        return [tuple(row) for row in session.execute(text(f"SELECT * FROM {table}"))]
