"""Imports into SQLite let others in between, and nobody sees them before they end."""

from collections.abc import Callable

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from tests.conftest import START, Clock, by
from tests.services.staged import (
    LATE,
    count_all,
    dump,
    file_of,
    give,
    import_now,
    label_of,
    log,
    make_door,
    rows_of,
    show,
    staged,
)
from tracker.errors import ConflictError, UnavailableError
from tracker.services.archive import archive_detector
from tracker.services.detectors import NewDetector, create_detector, get_open_detector
from tracker.services.imports.background import add_import, arriving
from tracker.services.imports.reports import RejectedImportError
from tracker.services.imports.staging import GivenUpError, clear_ended
from tracker.services.imports.writing import import_file
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions
from tracker.storage.imports.files import FileImport, count_waiting
from tracker.storage.imports.import_pieces import ImportPiece
from tracker.storage.queries.queries import Query, list_queries
from tracker.storage.tasks import is_due


@pytest.fixture
def database(new_database: Callable[[str], Database]) -> Database:
    return make_door(new_database)


def test_nothing_is_seen_before_the_end_and_then_all(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 10, version="v0"))
    before, known = count_all(database), dump(database)
    with staged(database, rows_of(10, 5_010), clock) as found:
        seen = count_all(database)
        assert seen.pop("staged_batches") > 0
        assert seen.pop("staged_versions") == 1
        assert seen == {name: before[name] for name in seen}
        assert dump(database) == known
        with database.read() as session:
            assert [v.name for v in list_versions(session, 1)] == ["v0"]
            assert len(list_queries(session, 1, limit=50)) == 10
            newest = session.scalar(select(func.max(Query.id)))
            assert newest is not None
        show(database, found)
    after = count_all(database)
    assert after["queries"] == after["labels"] == 5_010
    assert after["staged_batches"] == after["staged_versions"] == 0
    assert after["pending_batches"] > before["pending_batches"]


def test_others_write_between_two_pieces(database: Database, clock: Clock) -> None:
    import_now(database, rows_of(0, 3))
    labels = iter(["NO", "YES"] * 10)

    def label(_rows: int) -> None:
        give(database, "k0", next(labels))

    rows = rows_of(10, 8_010)
    with staged(database, rows, clock, on_progress=label) as found:
        assert count_all(database)["labels"] > 4
        show(database, found)
    assert count_all(database)["queries"] == 8_003


@pytest.mark.thorough
def test_what_is_not_shown_leaves_nothing_behind(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 10))
    before = count_all(database), dump(database)
    with staged(database, rows_of(5, 3_000, label="NO", version="v1"), clock):
        pass
    with staged(database, rows_of(10, 3_000, version="v2"), clock):
        pass
    assert (count_all(database), dump(database)) == before
    # And the same can be imported afterwards.
    import_now(database, rows_of(10, 3_000, version="v2"))


def test_a_key_and_an_input_that_are_staged_are_held_until_the_end(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 3))
    log(database, key="mine", input="in11")
    with staged(database, rows_of(10, 3_000), clock) as found:
        with pytest.raises(UnavailableError, match="same input"):
            give(database, "mine", "NO")
        with pytest.raises(UnavailableError, match="same key"):
            log(database, key="k11")
        with pytest.raises(UnavailableError, match="same input"):
            log(database, key="new", input="in11")
        with (
            pytest.raises(UnavailableError, match="brings the same"),
            staged(database, rows_of(2_999, 3_010), clock),
        ):
            pass
        log(database, key="new", input="other")
        show(database, found)
    log(database, key="newer", input="in11")
    assert label_of(database, "newer") == "YES"


def test_a_version_that_others_bring_too_is_theirs(
    database: Database, clock: Clock
) -> None:
    with staged(database, rows_of(10, 3_000, version="v2"), clock):
        log(database, key="live", version="v2")
        with database.read() as session:
            assert [v.name for v in list_versions(session, 1)] == ["v2"]
    with database.read() as session:
        assert [v.name for v in list_versions(session, 1)] == ["v2"]
    assert [row[0] for row in dump(database)] == ["live"]


def test_every_bad_row_is_told_in_its_order(database: Database, clock: Clock) -> None:
    import_now(database, rows_of(0, 6))
    header, _, rest = rows_of(6, 3_000).partition("\n")
    rows = f"{header}\nk1,NO,YES,v1,in1\nn1,,YES,,\nn2,BAD,,,\n{rest}"
    with (
        staged(database, rows + "k2,NO,,v1,in2\n", clock) as found,
        pytest.raises(RejectedImportError, match="4 of 2,998 rows are wrong") as error,
    ):
        show(database, found)
    assert [wrong.row for wrong in error.value.report.errors] == [1, 2, 3, 2_998]
    assert label_of(database, "k1") == "YES"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "extra",
    [
        "",
        "k0,YES,NO,v1,in0\nk1,YES,,v1,in1\n",
        "n1,NO,NO,v2,in2\nn2,YES,,v2,in3\nn3,YES,,v1,in3\n",
        "n1,NO,,v2,new\nn2,YES,,v3,new\nn3,NO,YES,v1,new\n",
        "k9,YES,NO,v1,\n",
    ],
)
def test_rows_that_are_staged_are_those_that_are_written_at_once(
    new_database: Callable[[str], Database],
    database: Database,
    clock: Clock,
    extra: str,
) -> None:
    other = make_door(new_database)
    rows = rows_of(100, 2_500) + extra
    for each in (database, other):
        import_now(each, rows_of(0, 10))
    with staged(database, rows, clock) as found:
        one = show(database, found)
    with other.write() as session:
        detector = get_open_detector(session, "door")
        two = import_file(session, detector, file_of(rows), by())
    assert dump(database) == dump(other)
    assert (one.queries_added, one.labels_added) == (
        two.queries_added,
        two.labels_added,
    )


OPINIONS = "key,predicted,label,labeler\n"


@pytest.mark.thorough
@pytest.mark.parametrize("wanted", [1, 2])
@pytest.mark.parametrize(
    "rows",
    [
        # Of new queries, of one that is known, and what was said before.
        "n1,YES,YES,ann\nn1,,NO,bob\nn2,NO,NO,ann\nn2,,NO,bob\nn3,YES,YES,ann\n",
        "k0,,YES,ann\nk0,,NO,bob\nk1,,NO,ann\nk2,,NO,bob\nk2,,NO,\n",
        "k0,,YES,ann\nk1,,YES,ann\nk1,,YES,bob\nn1,YES,YES,ann\nn1,,NO,bob\n",
    ],
)
def test_opinions_that_are_staged_are_those_that_are_written_at_once(
    new_database: Callable[[str], Database],
    clock: Clock,
    wanted: int,
    rows: str,
) -> None:
    found, reports = [], []
    many = "".join(f"m{i},YES,YES,ann\nm{i},,NO,bob\n" for i in range(2_500))
    for is_staged in (True, False):
        database = new_database("sqlite")
        new = NewDetector(
            name="door", question="?", classes=["YES", "NO"], labels_wanted=wanted
        )
        with database.write() as session:
            create_detector(session, new, by())
        import_now(
            database,
            OPINIONS + "k0,YES,YES,ann\nk1,YES,YES,ann\nk1,,NO,bob\nk2,YES,YES,\n",
        )
        if is_staged:
            with staged(database, OPINIONS + many + rows, clock) as one:
                assert count_all(database)["queries"] == 3
                reports.append(show(database, one))
        else:
            with database.write() as session:
                detector = get_open_detector(session, "door")
                file = file_of(OPINIONS + many + rows)
                reports.append(import_file(session, detector, file, by()))
        with database.read() as session:
            statement = text(
                "SELECT q.key, q.label, q.agreement, q.queue_rank IS NULL,"
                " (SELECT group_concat(labeler || ' ' || label) FROM"
                "  (SELECT * FROM labels l WHERE l.query_id = q.id ORDER BY l.id))"
                " FROM queries q ORDER BY q.key"
            )
            found.append([tuple(row) for row in session.execute(statement)])
    assert found[0] == found[1]
    assert reports[0].counts == reports[1].counts
    said = {row[2] for row in found[0]}
    assert ("disputed" in said) == (wanted == 2)


def test_one_labeler_has_one_word_in_a_file_for_queries_that_are_known(
    database: Database, clock: Clock
) -> None:
    import_now(database, OPINIONS + "k0,YES,YES,ann\n")
    many = "".join(f"n{i},YES,YES,\n" for i in range(3_000))
    content = OPINIONS + many + "k0,,NO,ann\nk0,,YES,ann\n"
    known = dump(database)
    with staged(database, content, clock) as found:
        with pytest.raises(RejectedImportError) as refused:
            show(database, found)
        assert (
            "gives the same key 'NO' and then 'YES'"
            in refused.value.report.errors[0].message
        )
    assert dump(database) == known
    assert count_all(database)["staged_batches"] == 0


def test_one_that_was_given_up_writes_no_more(database: Database, clock: Clock) -> None:
    before = count_all(database)

    def give_up(rows: int) -> None:
        # The first piece stays as it is: its lease is held.
        with database.staging() as writes:
            clear_ended(writes, at=clock())
        assert rows > 2_000 or count_all(database)["staged_batches"] > 0
        if rows > 2_000:
            clock.at += LATE
            with database.staging() as writes:
                clear_ended(writes, at=clock())

    with (
        pytest.raises(GivenUpError),
        staged(database, rows_of(0, 9_000), clock, on_progress=give_up),
    ):
        pass
    assert count_all(database) == before


def test_nothing_is_shown_of_a_detector_that_was_archived_meanwhile(
    database: Database, clock: Clock
) -> None:
    with staged(database, rows_of(0, 3_000), clock) as found:
        with database.write() as session:
            archive_detector(session, get_open_detector(session, "door"), by(at=START))
        with pytest.raises(ConflictError, match="archived meanwhile"):
            show(database, found)
    assert count_all(database)["queries"] == 0


def test_a_label_that_was_seen_can_still_not_be_deleted(
    database: Database, clock: Clock
) -> None:
    import_now(database, rows_of(0, 3))
    with (
        staged(database, rows_of(10, 3_000), clock),
        pytest.raises(IntegrityError, match="append-only"),
        database.write() as session,
    ):
        session.execute(text("DELETE FROM labels"))
    assert count_all(database)["labels"] == 3


def test_a_file_that_arrives_is_seen_when_it_is_there_as_a_whole(
    database: Database, clock: Clock
) -> None:
    file = file_of(rows_of(0, 90_000))

    def count() -> tuple[int, int]:
        with database.read() as session:
            return count_waiting(session), int(is_due(session, "import", at=clock()))

    with arriving(database, "door", file, by(), clock=clock) as arrived:
        assert arrived is not None
        clock.at += LATE
        assert count() == (0, 0)
        with database.write() as session:
            detector = get_open_detector(session, "door")
            added = add_import(session, detector, file, by(), arrived=arrived)
            assert (added.id, added.bytes) == (arrived, file.size)
    assert count() == (1, 1)
    with database.read() as session:
        pieces = session.scalar(select(func.sum(func.length(ImportPiece.content))))
        assert pieces == file.size

    with arriving(database, "door", file, by(), clock=clock):
        pass
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(FileImport)) == 1
