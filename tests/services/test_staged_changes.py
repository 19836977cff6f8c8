"""What an import into SQLite changes of known queries is seen when it ends."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from tests.conftest import START, Clock
from tests.services.staged import (
    LATE,
    count_all,
    dump,
    give,
    import_now,
    label_of,
    log,
    make_door,
    rows_of,
    show,
    stage,
    staged,
)
from tracker.errors import UnavailableError
from tracker.jobs.recompute import recompute_all
from tracker.services.imports.staging import clear_ended
from tracker.storage.database import Database
from tracker.storage.labelling.queues import RandomQueue
from tracker.storage.labelling.reservations import find_free_query
from tracker.storage.operations.backup import iter_table, list_tables


@pytest.fixture
def database(new_database: Callable[[str], Database]) -> Database:
    return make_door(new_database)


CHANGED = (
    "SELECT key, input, label, label_id, sampling, queue_rank, agreement, is_repeat"
    " FROM queries ORDER BY id"
)


def read_all(database: Database, statement: str = CHANGED) -> list[Any]:
    with database.read() as session:
        return [tuple(row) for row in session.execute(text(statement))]


def test_what_changes_known_queries_is_seen_at_the_end_and_as_a_whole(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 5_000))
    log(database, key="bare")
    log(database, key="free")
    known = read_all(database), dump(database)
    seen = []

    def look(_rows: int) -> None:
        seen.append((read_all(database), dump(database)))
        # Others go on meanwhile, with what the file does not change.
        give(database, "free", "NO" if len(seen) % 2 else "YES")

    rows = rows_of(0, 4_500, label="NO") + "bare,YES,,,mine\n"
    with staged(database, rows, clock, on_progress=look) as found:
        assert len(seen) == 3
        assert seen[0] == known
        assert all(one[0][:5_001] == known[0][:5_001] for one in seen)
        assert count_changes(database) == 4_501
        report = show(database, found)
    assert (report.queries_added, report.labels_added) == (0, 4_500)
    assert [row[2] for row in read_all(database)[:5_000]] == (
        ["NO"] * 4_500 + ["YES"] * 500
    )
    assert [row[:3] for row in read_all(database)[5_000:]] == [
        ("bare", "mine", None),
        ("free", None, "NO"),
    ]
    assert count_changes(database) == 0


def test_a_backup_holds_nothing_of_an_import_that_goes_on(
    database: Database, clock: Clock
) -> None:
    def keep() -> dict[str, list[Any]]:
        with database.read() as session:
            return {
                table.name: [tuple(row) for row in iter_table(session, table)]
                for table in list_tables()
            }

    import_now(database, rows_of(0, 10))
    before = keep()
    assert len(before["queries"]) == 10
    with staged(database, rows_of(5, 2_500, label="NO", version="v1"), clock):
        assert keep() == before
        assert count_changes(database) == 5


def count_changes(database: Database) -> int:
    found: int = read_all(database, "SELECT count(*) FROM staged_changes")[0][0]
    return found


def test_a_query_that_is_being_changed_is_held(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 6))
    log(database, key="bare")
    log(database, key="free")
    rows = rows_of(0, 3, label="NO") + "bare,YES,YES,,\n"
    with staged(database, rows + rows_of(6, 3_000).partition("\n")[2], clock) as found:
        with pytest.raises(UnavailableError, match="changes the same query"):
            give(database, "bare", "NO")
        with pytest.raises(UnavailableError, match="same input"):
            give(database, "k1", "YES")
        with pytest.raises(UnavailableError, match="same input"):
            log(database, key="new", input="in1")
        for change in ("DELETE FROM queries", "UPDATE queries SET erased_at = '2026'"):
            with (
                pytest.raises(UnavailableError, match="changes the same query"),
                database.write() as session,
            ):
                session.execute(text(f"{change} WHERE key = 'bare'"))
        with (
            pytest.raises(UnavailableError, match="brings the same key"),
            staged(database, rows_of(2, 3_010, label="NO"), clock),
        ):
            pass
        # Nobody is given to label what the file labels already.
        assert next_key(database) == "free"
        give(database, "k5", "NO")
        show(database, found)
    give(database, "bare", "NO")
    assert [label_of(database, f"k{i}") for i in (0, 2, 3, 5)] == (
        ["NO", "NO", "YES", "NO"]
    )


def next_key(database: Database) -> str | None:
    with database.write() as session:
        queue = RandomQueue(1, rate=1.0)
        found = find_free_query(session, queue, "ann", at=START)
        return None if found is None else found.key


def test_an_input_alone_is_seen_at_the_end_too(
    database: Database, clock: Clock
) -> None:
    for number in range(3):
        log(database, key=f"bare{number}")
    known = read_all(database)
    rows = "key,input\nbare0,mine\nbare1,mine\n"
    with staged(database, rows, clock):
        assert read_all(database) == known
    assert read_all(database) == known
    with staged(database, rows, clock) as found:
        report = show(database, found)
    assert report.inputs_added == 2
    assert [row[1] for row in read_all(database)] == ["mine", "mine", None]
    recompute_all(database, worker="worker", clock=clock)
    assert count_all(database)["pending_batches"] == 0


def test_a_query_is_again_what_it_was_where_an_import_never_ends(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 3_000))
    log(database, key="bare")
    known = read_all(database), dump(database)
    # One gets no label of its own, but the truth of the input that it gets.
    rows = rows_of(0, 3_000, label="NO") + "bare,YES,,,in7\n"
    stage(database, rows, clock)
    assert (read_all(database), dump(database)) == known
    clock.at += LATE
    with database.staging() as writes:
        with writes() as session:
            raw = session.scalar(text("SELECT label FROM queries WHERE key = 'bare'"))
            assert raw == "NO"
        clear_ended(writes, at=clock())
    assert (read_all(database), dump(database)) == known
    assert count_changes(database) == 0
    assert count_all(database)["staged_batches"] == 0
    give(database, "k7", "NO")


def test_what_an_import_left_that_ended_serves_no_other(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 3_000))
    # Its process ends when all is shown.
    show(database, stage(database, rows_of(0, 10, label="NO"), clock))
    assert count_changes(database) == 10
    known = dump(database)
    assert [row[3] for row in known[:2]] == ["NO", "NO"]
    with staged(database, rows_of(0, 5, label="YES"), clock):
        assert dump(database) == known
        give(database, "k9", "YES")
    assert count_changes(database) == 0
    assert [label_of(database, f"k{i}") for i in (0, 8, 9)] == ["NO", "NO", "YES"]
