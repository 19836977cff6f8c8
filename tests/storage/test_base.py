"""Ids go out and in again, and rows come back as they were put in."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.conftest import START, by
from tests.storage.conftest import job_run
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.base import Base, dump_id, parse_id
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, add_versions
from tracker.storage.estimates.job_runs import add_job_runs
from tracker.storage.estimates.snapshots import SnapshotInterval, add_snapshots
from tracker.storage.inserting import insert_rows
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

STORABLE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
)
TRICKY = (
    "",
    " ",
    "\\",
    "\\N",
    "\\.",
    "\\x00",
    "a\tb\nc\rd\\te",
    "'; DROP TABLE labels; --",
    '%s ? :name {} "quoted"',
    "é e\u0301 ß İ ﬁ",
    "🚪\u200d\u202e\ufeff",
    "\x01\x1f\x7f\u2028",
    "x" * 100_000,
)


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_an_id_is_read_as_the_number_that_was_written(number: int) -> None:
    assert parse_id("det", dump_id("det", number)) == number


@given(st.integers(min_value=2**63))
def test_no_id_is_beyond_what_a_database_can_hold(number: int) -> None:
    assert parse_id("det", dump_id("det", number)) is None


@pytest.mark.slow
@given(st.one_of(st.text(), st.from_regex(r"\A(det|iq)_[+-]?\d{1,25}\Z")))
@example("det_007")
@example("det_٣")
@example("det_²")
@example("det_-1")
@example("det_1_2")
@example("iq_1")
@example("det_")
@example("DET_1")
@example("det_1\n")
def test_a_text_is_an_id_only_in_the_one_way_to_write_it(text: str) -> None:
    number = parse_id("det", text)
    assert number is None or dump_id("det", number) == text


class Table:
    """A detector with a version, whose tables take rows."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.next_id = count(1)
        new = NewDetector(name="door", question="Closed?", classes=["YES", "NO"])
        with database.write() as session:
            self.detector_id = create_detector(session, new, by(at=START)).id
            versions = add_versions(session, self.detector_id, ["v1"], created_at=START)
        self.version_id = versions["v1"]

    def query(self, **values: Any) -> dict[str, Any]:
        """The row of a query, empty but for *values* and what a query must have."""
        needed = {
            "id": next(self.next_id),
            "detector_id": self.detector_id,
            "version_id": self.version_id,
            "predicted": "YES",
            "asked_at": START,
            "created_at": START,
            "sampling": "unstated",
            "is_replayed": False,
            "is_gold": False,
            "is_repeat": False,
            "is_pooled": True,
        }
        return dict.fromkeys(Query.__table__.c.keys()) | needed | values

    def put(self, kind: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
        with self.database.write() as session:
            insert_rows(session, kind, rows)

    def get(self, kind: type[Base]) -> list[dict[str, Any]]:
        columns = kind.__table__.c
        statement = select(*columns).order_by(*kind.__table__.primary_key)
        with self.database.read() as session:
            return [dict(row._mapping) for row in session.execute(statement)]


@pytest.fixture
def table(database: Database) -> Table:
    return Table(database)


def test_texts_come_back_to_the_last_character(table: Table) -> None:
    rows = [table.query(key=str(n), input=t) for n, t in enumerate(TRICKY)]
    rows += [table.query(key=f"label {t[:9]}", label=t[:9]) for t in TRICKY]

    table.put(Query, rows)

    assert table.get(Query) == rows


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(STORABLE, st.none() | STORABLE), min_size=1, max_size=20))
def test_any_text_comes_back_as_it_was(
    table: Table, texts: list[tuple[str, str | None]]
) -> None:
    rows = [
        table.query(predicted=first, image_url=second, label=first)
        for first, second in texts
    ]
    table.put(Query, rows)

    assert table.get(Query)[-len(rows) :] == rows


def test_nothing_and_the_empty_text_are_two_things(table: Table) -> None:
    rows = [table.query(image_url=None), table.query(image_url="")]
    table.put(Query, rows)
    assert [row["image_url"] for row in table.get(Query)] == [None, ""]


def test_numbers_come_back_to_the_last_bit(table: Table) -> None:
    confidences = [0.0, 1.0, 0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, None]
    confidences.append(math.nextafter(1.0, 0.0))
    rows = [table.query(confidence=value) for value in confidences]
    large = table.query(id=2**63 - 1, label_id=2**62 + 1)

    table.put(Query, [*rows, large])

    found = table.get(Query)
    assert [row["confidence"] for row in found[:-1]] == confidences
    assert found[-1] == large


def test_instants_come_back_in_utc_whatever_their_zone(table: Table) -> None:
    zone = timezone(timedelta(hours=14))
    instants = [
        datetime(1000, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=zone),
        # The same instant written in two zones, side by side.
        START,
        START.astimezone(zone),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    table.put(Query, [table.query(asked_at=instant) for instant in instants])

    found = [row["asked_at"] for row in table.get(Query)]
    assert found == instants
    assert {instant.tzinfo for instant in found} == {UTC}


def test_truth_values_stay_truth_values(table: Table) -> None:
    rows = [table.query(is_repeat=is_repeat) for is_repeat in (False, True)]
    table.put(Query, rows)

    found = table.get(Query)
    assert [row["is_repeat"] for row in found] == [False, True]
    assert all(isinstance(row["is_repeat"], bool) for row in found)


def test_labels_come_back_with_what_they_replace(table: Table) -> None:
    query = table.query()
    table.put(Query, [query])
    rows = [
        {
            "id": number,
            "query_id": query["id"],
            "detector_id": table.detector_id,
            "replaces_id": number - 1 if number > 1 else None,
            "label": label,
            "truth": None,
            "standing": "random",
            "sampling": "random",
            "note": note,
            "labeler": "alice",
            "labelled_at": START,
            "created_at": START,
            "source_label_id": None,
            "is_repeat": False,
            "weight": None,
        }
        for number, (label, note) in enumerate(
            [("YES", None), ("NO", "a\nb"), ("UNCLEAR", "\\N")], start=1
        )
    ]
    table.put(Label, rows)

    assert table.get(Label) == rows


def test_bounds_come_back_to_the_last_bit(table: Table) -> None:
    with table.database.write() as session:
        run = job_run(table.detector_id, snapshots=1)
        snapshot = {
            "detector_id": table.detector_id,
            "version_id": table.version_id,
            "sequence": 1,
            "kind": "run",
            "computed_at": START,
            "job_run_id": add_job_runs(session, [run])[0],
            "confidence_level": 0.95,
            "population": "live",
            "labels": 1,
            "unclear": 0,
            "targeted_left_out": 0,
        }
        add_snapshots(session, [snapshot], {}, {})
    # Without -0.0, which SQLite keeps as 0 and no method gives.
    bounds = [0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, -1e-300, 1 - 2**-53]
    rows = [
        {
            "detector_id": table.detector_id,
            "version_id": table.version_id,
            "sequence": 1,
            "method": "exact",
            "formula": 1,
            "position": position,
            "correct": 0,
            "labelled": 0,
            "accuracy": None,
            "low": bound,
            "high": 1 - bound,
        }
        for position, bound in enumerate(bounds)
    ]
    table.put(SnapshotInterval, rows)

    found = table.get(SnapshotInterval)
    assert [row["low"].hex() for row in found] == [bound.hex() for bound in bounds]
    assert [row["high"].hex() for row in found] == [(1 - b).hex() for b in bounds]


def test_json_comes_back_as_it_was(database: Database) -> None:
    classes = ["YES", "é🚪", 'a"b\\c', "\u2028"]
    new = NewDetector(name="door", question="Closed?", classes=classes[:3])
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        detector.classes = classes
    with database.read() as session:
        assert session.get_one(Detector, detector.id).classes == classes


def test_rows_go_in_together_or_not_at_all(table: Table) -> None:
    row = table.query(key="k")
    with pytest.raises(Exception, match=r"(?i)unique"):
        table.put(Query, [row, table.query(key="other"), table.query(key="k")])
    assert table.get(Query) == []
