"""Parquet holds values that Python has none like; they are wrong, and no surprise."""

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracker.services.imports.checking import RowReader
from tracker.services.imports.reading.files import read_apart
from tracker.services.imports.reading.rows import Row, cut_rows
from tracker.services.imports.reports import Outcome
from tracker.storage.detectors import Detector

DETECTOR = Detector(id=1, name="door", classes=["YES", "NO"])


def read(**columns: Any) -> tuple[list[Row], Outcome]:
    """What an import takes of a file of these columns, and what it says of it."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    file.seek(0)
    report = Outcome()
    pieces = read_apart("parquet", file, [], place=[0], most_unpacked=2**30)
    rows = [row for piece in pieces for row in piece.rows()]
    (piece,) = cut_rows(rows)
    good = RowReader(DETECTOR, [], report).read(piece)
    return good.rows(), report


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_an_instant_of_any_precision_is_read(unit: str) -> None:
    instant = datetime(2026, 1, 31, 13, 45, tzinfo=UTC)
    column = pa.array([instant, None], pa.timestamp(unit, tz="Europe/Zurich"))
    rows, report = read(predicted=["YES", "NO"], asked_at=column)

    assert report.errors == []
    assert rows[0].values["asked_at"] == instant
    assert type(rows[0].values["asked_at"]) is datetime
    assert rows[1].values == {"predicted": "NO"}


@pytest.mark.parametrize(
    ("unit", "number", "said"),
    [
        ("s", 253_402_300_800, "253402300800000 timestamp[ms, tz=UTC]"),
        ("us", 2**62, "4611686018427387904 timestamp[us, tz=UTC]"),
        ("us", -(2**62), "-4611686018427387904 timestamp[us, tz=UTC]"),
        ("us", -62_135_596_800_000_000, "the year must be 1000 or later"),
        ("ns", 1, "1970-01-01T00:00:00.000000001+00:00"),
    ],
)
def test_an_instant_that_cannot_be_kept_is_an_error_of_its_row(
    unit: str, number: int, said: str
) -> None:
    column = pa.array([0, number], pa.timestamp(unit, tz="UTC"))
    rows, report = read(predicted=["YES", "NO"], asked_at=column)

    assert [row.number for row in rows] == [1]
    [error] = report.errors
    assert (error.row, error.field) == (2, "asked_at")
    assert said in error.message


def test_the_end_of_time_behind_another_time_zone_is_an_error_of_its_row() -> None:
    last = int(datetime(9999, 12, 31, 23, tzinfo=UTC).timestamp())
    column = pa.array([last], pa.timestamp("s", tz="+05:00"))
    rows, report = read(predicted=["YES"], asked_at=column)

    assert rows == []
    assert report.errors[0].field == "asked_at"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        # Types alone: the first array that is made imports pandas.
        (b"\xff", pa.binary()),
        (2**62, pa.duration("s")),
        (1, pa.date32()),
        (1, pa.timestamp("us")),
    ],
)
def test_a_value_of_another_type_is_an_error_of_its_row(
    value: Any, kind: pa.DataType
) -> None:
    rows, report = read(predicted=["YES"], asked_at=pa.array([value], kind))

    assert rows == []
    assert report.errors[0].field == "asked_at"
