"""Excel workbooks as they are written, read by two libraries that are not ours."""

import io
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from tracker.errors import InvalidInputError
from tracker.services import exports
from tracker.services.exports import write_rows

COLUMNS = ("text", "number", "flag", "metadata")


def written(*rows: dict[str, Any]) -> io.BytesIO:
    blank = dict.fromkeys(COLUMNS)
    pieces = write_rows("xlsx", COLUMNS, [blank | row for row in rows])
    return io.BytesIO(b"".join(pieces))


def test_each_kind_of_value_is_a_cell_of_its_kind() -> None:
    file = written(
        {"text": "=1+1", "number": 0.1 + 0.2, "flag": True, "metadata": {"a": "é"}},
        {"text": " <&>\n'", "number": -7, "flag": False},
    )
    sheet = openpyxl.load_workbook(file).active
    assert list(sheet.values) == [
        COLUMNS,
        ("=1+1", 0.1 + 0.2, True, '{"a": "é"}'),
        (" <&>\n'", -7, False, None),
    ]
    # No text is run as a formula.
    assert sheet["A2"].data_type == "s"


def test_a_workbook_without_rows_names_its_columns() -> None:
    assert list(openpyxl.load_workbook(written()).active.values) == [COLUMNS]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_read_as_it_was(text: str) -> None:
    file = written({"text": text, "number": 1})
    found = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert found[1][0] == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_read_to_the_last_bit(number: float) -> None:
    file = written({"text": "x", "number": number})
    found = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert found[1][1] == number


def test_more_rows_than_a_sheet_has_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exports, "_MOST_ROWS", 2)
    written({}, {})
    with pytest.raises(InvalidInputError, match="an Excel sheet ends after 2 rows"):
        written({}, {}, {})


def test_instants_stay_texts_with_their_zone() -> None:
    at = "2026-01-02T03:04:05Z"
    [_, row] = openpyxl.load_workbook(written({"text": at})).active.values
    assert row[0] == at
