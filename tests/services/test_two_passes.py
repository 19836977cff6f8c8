"""An import checks the whole file, and then writes it in pieces that all see."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from tests.conftest import START, by
from tracker.errors import ConflictError
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import (
    NewDetector,
    archive_detector,
    create_detector,
    get_open_detector,
)
from tracker.services.imports import writing as first_pass
from tracker.services.imports.checking import Columns
from tracker.services.imports.contradictions import Names
from tracker.services.imports.reading import rows as raw_rows
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import Row
from tracker.services.imports.reports import Outcome, RejectedImportError
from tracker.services.imports.row_keys import Keyless
from tracker.services.imports.writing import (
    CarryOut,
    Checked,
    CheckedPiece,
    Order,
    importing,
    most_rows,
)
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.pending import PendingBatch
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, find_query_by_key

HEADER = "key,predicted,label,version,input\n"


@pytest.fixture
def door(database: Database) -> Database:
    new = NewDetector(name="door", question="Is it?", classes=["YES", "NO"])
    with database.write() as session:
        create_detector(session, new, by())
    return database


def file_of(rows: str) -> RowFile:
    content = rows.encode()
    return RowFile("csv", sha256(content).hexdigest(), io.BytesIO(content))


def rows_of(first: int, last: int, *, label: str = "YES", version: str = "v1") -> str:
    lines = (f"k{i},YES,{label},{version},in{i}\n" for i in range(first, last))
    return HEADER + "".join(lines)


@contextmanager
def prepared(
    database: Database, rows: str, *, on_error: str = "reject", **more: Any
) -> Iterator[CarryOut]:
    order = Order("door", file_of(rows), by(), on_error)
    with importing(database, order, **more) as carry_out:
        yield carry_out


def import_all(database: Database, rows: str, **more: Any) -> Outcome:
    with prepared(database, rows, **more) as carry_out, database.write() as session:
        return carry_out(session)


def count(database: Database, table: type[Any] = Query) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def log(database: Database, **fields: Any) -> None:
    with database.write() as session:
        new = NewQuery.model_validate({"predicted": "YES"} | fields)
        log_query(session, get_open_detector(session, "door"), new, by())


def give(database: Database, key: str, label: str) -> None:
    with database.write() as session:
        detector = get_open_detector(session, "door")
        query = find_query_by_key(session, detector.id, key)
        assert query is not None
        add_label(session, query.id, NewLabel(label=label), by("ann"))


def label_of(database: Database, key: str) -> str | None:
    with database.read() as session:
        return session.scalar(select(Query.label).where(Query.key == key))


def test_rows_are_seen_as_they_are_written_and_others_write_in_between(
    door: Database,
) -> None:
    log(door, key="mine")
    labels = iter(["NO", "YES"] * 10)
    seen: list[tuple[int, int, int]] = []

    def look(done: int, rows: int) -> None:
        give(door, "mine", next(labels))
        seen.append((done, rows, count(door)))

    report = import_all(door, rows_of(0, 7_000), on_written=look)

    written = range(most_rows(door), 7_000, most_rows(door))
    assert seen == [(n, 7_000, n + 1) for n in written]
    assert (report.queries_added, report.labels_added) == (7_000, 7_000)
    assert (report.bad_rows, report.conflicts) == (0, 0)
    assert count(door) == 7_001


def test_nothing_is_written_while_the_file_is_checked(door: Database) -> None:
    read: list[int] = []

    def look(rows: int) -> None:
        # On SQLite nobody else could write if the check held the lock.
        log(door, key=f"other{rows}")
        read.append(rows)
        assert count(door, Label) == 0

    with prepared(door, rows_of(0, 2_000), on_read=look):
        assert count(door) == len(read) == 1
    assert count(door) == 1


@pytest.mark.parametrize(
    ("rows", "field", "said"),
    [
        ("last,MAYBE,,,\n", "predicted", "must be one of"),
        ("k5,NO,,v1,in5\n", "predicted", "has 'YES', not 'NO'"),
        ("k5,YES,,v2,in5\n", "version", "has 'v1', not 'v2'"),
        ("k5,YES,,v1,other\n", "input", "has 'in5', not 'other'"),
        ("k5,YES,NO,,\n", "label", "the input 'in5' occurs twice"),
        ("last,YES,NO,v1,in5\n", "label", "the input 'in5' occurs twice"),
        ("bare,YES,YES,,\nbare,YES,NO,,\n", "label", "the key 'bare' occurs twice"),
        ("k5,,YES,,in5\n", "predicted", "has 'YES'"),
        ("stored,NO,,,\n", "predicted", "has 'YES', not 'NO'"),
        (
            "stored,YES,YES,,\nstored,YES,NO,,\n",
            "label",
            "the key 'stored' occurs twice",
        ),
        (
            "stored,YES,YES,,a\nstored,YES,YES,,b\n",
            "input",
            "with 'a' and then with 'b'",
        ),
        (
            "stored,YES,YES,,in7\nstored,YES,NO,,\n",
            "label",
            "the input 'in7' occurs twice",
        ),
    ],
)
def test_a_row_that_contradicts_others_is_found_before_any_is_written(
    door: Database, rows: str, field: str, said: str
) -> None:
    log(door, key="stored")
    with pytest.raises(RejectedImportError, match="nothing was written") as error:
        import_all(door, rows_of(0, 4_500) + rows)
    (wrong,) = error.value.report.errors
    assert (wrong.field, wrong.row) == (
        field,
        4_500 + rows.count("\n"),
    )
    assert said in wrong.message
    assert count(door) == 1

    report = import_all(door, rows_of(0, 4_500) + rows, on_error="skip")
    assert (report.bad_rows, report.conflicts) == (1, 0)
    assert [(one.row, one.message) for one in report.errors] == [
        (wrong.row, wrong.message)
    ]
    assert count(door) >= 4_501


def test_a_label_of_a_query_that_an_earlier_piece_brings_is_right(
    door: Database,
) -> None:
    report = import_all(
        door, rows_of(0, 3_000, label="") + "k1,YES,NO,,\nk1,YES,NO,,\n"
    )
    assert (report.queries_added, report.labels_added) == (3_000, 1)
    assert label_of(door, "k1") == "NO"


def test_a_row_that_met_a_conflict_meanwhile_is_told_and_all_others_stand(
    door: Database,
) -> None:
    def meet(done: int, _rows: int) -> None:
        if done == 2_000:
            # In a piece between others, and in the last one.
            log(door, key="k3000", predicted="NO")
            log(door, key="k4500", predicted="NO")
            log(door, key="k4501", predicted="YES", version="v1", input="in4501")

    report = import_all(door, rows_of(0, 5_000), on_written=meet)

    assert (report.rows, report.bad_rows, report.conflicts) == (5_000, 2, 2)
    assert [(e.row, e.field, e.also) for e in report.errors] == [
        (3_001, "predicted", []),
        (4_501, "predicted", []),
    ]
    assert report.queries_added == 4_997
    assert (label_of(door, "k4500"), label_of(door, "k4501")) == (None, "YES")
    assert count(door) == 5_000


def test_a_file_of_one_piece_that_met_a_conflict_is_not_written_at_all(
    door: Database,
) -> None:
    rows = rows_of(0, 5)
    with prepared(door, rows) as carry_out:
        log(door, key="k4", predicted="NO")
        with (
            pytest.raises(RejectedImportError, match="1 of 5 rows") as error,
            door.write() as session,
        ):
            carry_out(session)
    assert [e.row for e in error.value.report.errors] == [5]
    assert count(door) == 1
    assert import_all(door, rows, on_error="skip").queries_added == 4


def test_what_an_import_left_half_done_is_completed_by_sending_it_again(
    door: Database,
) -> None:
    rows = rows_of(0, 5_000) + "".join(f",NO,YES,v1,x{n}\n" for n in range(3_000))

    class KilledError(Exception):
        pass

    def die(done: int, _rows: int) -> None:
        if done == 6_000:
            raise KilledError

    with pytest.raises(KilledError):
        import_all(door, rows, on_written=die)
    assert count(door) == count(door, Label) == 6_000

    again = import_all(door, rows)
    assert (again.queries_added, again.labels_added) == (2_000, 2_000)
    assert again.unchanged == 6_000
    assert count(door) == count(door, Label) == 8_000
    assert import_all(door, rows).has_changed is False


def test_an_import_stops_where_its_detector_is_archived_and_what_is_written_stays(
    door: Database,
) -> None:
    def archive(done: int, _rows: int) -> None:
        if done == 2_000:
            with door.write() as session:
                archive_detector(session, get_open_detector(session, "door"), by())

    with pytest.raises(ConflictError, match="archived meanwhile"):
        import_all(door, rows_of(0, 5_000), on_written=archive)
    assert count(door) == 2_000


def test_nothing_of_one_piece_is_written_into_a_detector_archived_meanwhile(
    door: Database,
) -> None:
    with prepared(door, rows_of(0, 5)) as carry_out:
        with door.write() as session:
            archive_detector(session, get_open_detector(session, "door"), by(at=START))
        with pytest.raises(ConflictError, match="archived"), door.write() as session:
            carry_out(session)
    assert count(door) == 0


def test_each_piece_is_pending_for_the_job_by_itself(door: Database) -> None:
    def fold(done: int, _rows: int) -> None:
        assert count(door, PendingBatch) == 1
        recompute_all(door, worker="w")
        with door.read() as session:
            labels = "SELECT max(labels) FROM snapshots"
            assert session.scalar(text(labels)) == done

    import_all(door, rows_of(0, 4_500), on_written=fold)
    assert count(door, PendingBatch) == 1


def test_pieces_that_are_folded_in_between_make_the_same_checkpoints(
    new_database: Callable[[str], Database],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raw_rows, "PIECE_ROWS", 40)
    labels = ["YES", "NO", "YES", "UNCLEAR", "YES"]
    # Every third input is met again by another version, and has its label at once.
    lines = [
        f"k{n},{('YES', 'NO')[n % 7 == 0]},{labels[n % 5]},v{n % 3},in{n}\n"
        for n in range(300)
    ] + [f"again{n},YES,,v9,in{n}\n" for n in range(0, 300, 3)]
    rows = HEADER + "".join(lines)
    other = new_database("sqlite" if not database.is_sqlite else "postgresql")
    found = []
    for each, folds in ((database, False), (other, True)):
        new = NewDetector(name="door", question="Is it?", classes=["YES", "NO"])
        with each.write() as session:
            create_detector(session, new, by())

        def fold(_done: int, _rows: int, each: Database = each) -> None:
            recompute_all(each, worker="w")

        import_all(each, rows, on_written=fold if folds else lambda *_: None)
        recompute_all(each, worker="w")
        with each.read() as session:
            versions = list_versions(session, 1)
            names = {version.id: version.name for version in versions}
            found.append(
                sorted(
                    (
                        *(names[row.version_id], row.labels, row.method, row.position),
                        *(row.low.hex(), row.high.hex()),
                    )
                    for row in iter_intervals(session, versions)
                    if row.kind == "checkpoint"
                )
            )
    assert found[0] == found[1]
    assert len({row[0] for row in found[0]}) == 4


def test_labels_cannot_be_deleted(door: Database) -> None:
    import_all(door, rows_of(0, 3))
    with (
        pytest.raises(Exception, match="append-only") as error,
        door.write() as session,
    ):
        session.execute(text("DELETE FROM labels"))
    assert isinstance(error.value, IntegrityError) or not door.is_sqlite
    assert count(door, Label) == 3


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=8))
def test_names_that_stand_twice_are_found_however_they_are_sorted(
    names: list[str | None],
) -> None:
    expected = {hash(n) for n in names if n is not None and names.count(n) > 1}
    for at_once in (1, 2, 2**20):
        found = Names()
        found.add(names)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "tracker.services.imports.contradictions._SORTED_AT_ONCE", at_once
            )
            assert found.find_repeated() == expected


AT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


def test_pieces_in_the_temporary_file_are_those_that_were_put_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns: dict[str, list[Any]] = {
        "key": ["a", "é\n\u2028\ud800"],
        "confidence": [0.1, None],
        "asked_at": [AT, None],
        "metadata": [{"a": [1, {"b": None}]}, None],
    }
    late = AT + timedelta(days=365 * 300, microseconds=1)
    rows = [Row(3, {"key": "c", "labelled_at": late}), Row(4, {"confidence": 1e-300})]
    pieces = [
        CheckedPiece(Columns([1, 2], columns), 2, {}),
        CheckedPiece(Columns.of(rows), 4, {"c": None, "d": "x"}),
    ]
    for in_memory in (0, 1, 2**20):
        monkeypatch.setattr(first_pass, "_BYTES_IN_MEMORY", in_memory)
        found = Checked(nullcontext, Detector(), "a", by(), Keyless("import-a-"))
        for piece in pieces:
            found._spool.add(piece)
        assert list(found.pieces()) == list(found.pieces()) == pieces
        assert list(found.pieces(after=2)) == pieces[1:]
        found._bad |= {2, 3, 4}
        assert list(found.pieces()) == [
            replace(pieces[0], good=pieces[0].good.pick([True, False]))
        ]
        found.close()


def test_a_file_that_goes_through_the_temporary_file_is_imported_alike(
    door: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_pass, "_BYTES_IN_MEMORY", 0)
    rows = rows_of(0, 3_000) + "k1,YES,YES,,\nnew,YES,,v2,in9\n"
    report = import_all(door, rows)
    assert (report.queries_added, report.labels_added) == (3_001, 3_000)
    assert (report.unchanged, report.bad_rows) == (1, 0)
    assert label_of(door, "new") == "YES"
