"""Rows that are read many at a time are read as one at a time."""

import time
from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.services.imports.checking import RowReader
from tracker.services.imports.reading.rows import FIELDS as NAMES
from tracker.services.imports.reading.rows import (
    Piece,
    Row,
    cut_rows,
    load_json,
)
from tracker.services.imports.reading.tables import cut_lines
from tracker.services.imports.reading.values import read_metadata_cells
from tracker.services.imports.reports import Outcome
from tracker.storage.detectors import Detector

DETECTOR = Detector(id=1, name="door", classes=["YES", "NO"])
RIGHT: dict[str, list[Any]] = {
    "key": ["a", "part 1", "ß", "x" * 200],
    "input": ["1.jpg", "=1"],
    "predicted": ["YES", "NO"],
    "confidence": [0.5, 0.0, -0.0, 1.0, 0, 1],
    "version": ["v1", "v2", "new"],
    "asked_at": [
        "2026-01-31T13:45:00Z",
        "2026-01-31 13:45:00.5+05:30",
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=3))),
    ],
    "metadata": [{}, {"a": [1, {"b": None}]}, {"é": 1e300}],
    "image_url": ["https://example.org/1.png"],
    "label": ["YES", "NO", "UNCLEAR"],
    "sampling": ["random", "targeted", "unstated"],
    "labeler": ["ann", "bob@example.org"],
    "note": ["", "dark, wet", "line\nend", "x" * 2000],
    "labelled_at": ["2026-01-31t13:45:00z"],
}
WRONG: list[Any] = [
    *["", " ", " a", "a ", "a\u00a0", "\u2003a", "a\tb", "\0", "\ud800", "*"],
    *["x" * 201, "x" * 2001, "yes", "Random", "http:/x", "2026-01-31T13:45:00"],
    *["2026-02-30T00:00:00Z", "0999-01-01T00:00:00Z", b"YES", True, False, 1, 2**70],
    *[1.5, -0.1, float("nan"), float("inf"), [], ["YES"], {}, {"a": float("nan")}],
    *[{"a": "\0"}, {"a": "x" * 2**15}, {1: 2}, datetime(2026, 1, 1)],  # noqa: DTZ001
]
FIELDS = st.sampled_from([*RIGHT, "colour"])
RIGHT_ROW = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(values) for name, values in RIGHT.items()},
)
ANY_ROW = st.one_of(
    RIGHT_ROW,
    st.dictionaries(
        FIELDS,
        st.one_of(st.sampled_from(WRONG), st.text(), st.floats(), st.integers()),
        max_size=3,
    ),
    st.builds(
        lambda row, name, value: {**row, name: value},
        RIGHT_ROW,
        FIELDS,
        st.one_of(st.sampled_from(WRONG), st.text(), st.floats()),
    ),
)


def read_piece(reader: RowReader, piece: Piece) -> list[Row]:
    """The rows that are right in themselves, in whichever way they were read."""
    good = reader.read(piece)
    return good.rows()


def read(rows: list[dict[str, Any]], *, at_once: int) -> tuple[Any, ...]:
    """Read copies of *rows*, so many at once, and return all that came of it."""
    report = Outcome()
    reader = RowReader(DETECTOR, ["v1", "v2"], report)
    numbered = [Row(number, row) for number, row in enumerate(deepcopy(rows), start=1)]
    good = [
        row
        for first in range(0, len(rows), at_once)
        for row in read_piece(
            reader, *cut_rows(numbered[first : first + at_once], is_strict=True)
        )
    ]
    # By its text a number is told from one that is equal, and a zero from another.
    found = [(row.number, sorted(map(repr, row.values.items()))) for row in good]
    return found, report


@pytest.mark.slow
@given(st.lists(ANY_ROW, min_size=1, max_size=5))
def test_many_rows_at_once_are_read_as_the_model_reads_each(
    rows: list[dict[str, Any]],
) -> None:
    unknown = {"predicted": "YES", "shade": "red"}
    whole, report = read(rows, at_once=len(rows))
    assert (whole, report) == read(rows, at_once=1)
    # A wrong row beside them sends all of them to the model.
    slowly, slow_report = read([*rows, unknown], at_once=len(rows) + 1)
    assert slowly == whole
    assert slow_report.errors[:-1] == report.errors[:1_000]
    assert slow_report.bad_rows == report.bad_rows + 1


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_taken(name: str) -> None:
    rows = [{"predicted": "YES", name: value} for value in RIGHT[name]]
    good, report = read(rows, at_once=len(rows))
    assert len(good) == len(rows)
    assert report.errors == []


@pytest.mark.parametrize("field", RIGHT)
def test_one_wrong_value_among_right_ones_is_named(field: str) -> None:
    for value in (2**70, b"x"):
        rows = [{"predicted": "YES"} for _ in range(3)]
        rows[1] = {"predicted": "YES", field: value}
        good, report = read(rows, at_once=3)
        assert [number for number, _ in good] == [1, 3]
        assert [(error.row, error.field) for error in report.errors] == [(2, field)]


def test_an_instant_is_read_to_utc() -> None:
    report = Outcome()
    row = Row(1, {"predicted": "YES", "asked_at": "2026-01-01T05:30:00+05:30"})
    (read_row,) = read_piece(RowReader(DETECTOR, [], report), *cut_rows([row]))
    assert read_row.values["asked_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert read_row.values["asked_at"].tzinfo is UTC


CELLS = st.sampled_from(
    [
        *[
            "YES",
            "NO",
            "",
            "'=1",
            "''",
            "'",
            "a'b",
            "0.5",
            "-0",
            "1e999",
            "nan",
            "v1",
            " ",
        ],
        *[
            '{"a": 1}',
            "{}",
            "null",
            "[]",
            "random",
            "2026-01-01T00:00:00Z",
            "http://a/b",
        ],
    ]
)


@pytest.mark.slow
@given(st.data())
def test_cells_are_read_by_column_as_row_by_row(data: st.DataObject) -> None:
    header = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    line = st.lists(CELLS, min_size=len(header), max_size=len(header))
    ragged = st.lists(CELLS, min_size=1, max_size=len(header) + 1)
    lines = data.draw(st.lists(line | ragged, min_size=1, max_size=4))
    lines = [cells for cells in lines if cells != [""]]
    if not lines:
        return
    (piece,) = cut_lines(7, header, lines, has_comma=False)
    # A row by itself tells by a null that its file has labels.
    labels = {"label": None} if "label" in header else {}
    (by_row,) = cut_rows(
        [row._replace(values={**labels, **row.values}) for row in piece.rows()]
    )
    reports = Outcome(), Outcome()
    readers = [RowReader(DETECTOR, ["v1"], report) for report in reports]

    found = [read_piece(*pair) for pair in zip(readers, (piece, by_row), strict=True)]

    assert repr(sorted_values(found[0])) == repr(sorted_values(found[1]))
    assert reports[0] == reports[1]


def sorted_values(rows: list[Row]) -> list[tuple[int, list[Any]]]:
    return [(row.number, sorted(row.values.items())) for row in rows]


@pytest.mark.slow
def test_a_key_that_is_repeated_among_very_many_is_found_at_once() -> None:
    # To compare each with all others would take minutes.
    keys = [f'"k{number}":0' for number in range(200_000)]
    begun = time.thread_time()
    with pytest.raises(ValueError, match="'k199999' occurs twice"):
        load_json(f"{{{','.join([*keys, keys[-1]])}}}")
    assert time.thread_time() - begun < 10


def test_metadata_is_measured_before_it_is_read() -> None:
    deep = '{"a":' * 220_000
    with pytest.raises(ValueError, match="1,100,000 characters"):
        read_metadata_cells([deep], Counter())
    assert read_metadata_cells(['{"a":\n1}'], Counter()) == [{"a": 1}]
