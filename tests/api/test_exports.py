"""Exports over HTTP: every label, and how many files may be on their way."""

import csv
import io
import json

import openpyxl
import pyarrow.parquet as pq
import pytest

from tests.api.problems import assert_problem
from tracker.services.estimates.history import LABEL_COLUMNS

PATH = "/detectors/door/labels"
ROWS = [
    {
        "key": "a",
        "predicted": "YES",
        "confidence": 0.1 + 0.2,
        "metadata": {"camera": "north", "text": "é\nsecond, line"},
        "label": "NO",
    },
    {"key": "b", "predicted": "NO", "label": "UNCLEAR"},
    {"predicted": "NO"},
]


@pytest.fixture
def labelled(api, door):
    """Two labelled queries, one of them corrected, and one without a label."""
    queries = [api.post("/detectors/door/queries", row).json for row in ROWS]
    api.post(f"/queries/{queries[0]['id']}/labels", {"label": "YES", "note": "=1"})
    return queries


def read(response, suffix):
    assert response.status_code == 200, response.text
    assert f'filename="door-labels.{suffix}"' in response.headers["Content-Disposition"]
    assert response.content_length == len(response.data)
    return response.data


def as_sent(row):
    """A row of a table, whose cells have lists and objects as JSON."""
    nested = {name: json.loads(row[name] or "null") for name in ("metadata", "tags")}
    return row | nested


def test_every_format_gives_every_label_with_its_query(api, labelled):
    rows = json.loads(read(api.get(PATH), "json"))["items"]
    assert [row["label"] for row in rows] == ["NO", "UNCLEAR", "YES"]
    assert [row["is_current"] for row in rows] == [False, True, True]
    assert list(rows[0]) == list(LABEL_COLUMNS)
    for row, query in ((rows[0], labelled[0]), (rows[1], labelled[1])):
        assert row["query"] == query["id"]
        for name in ("key", "predicted", "confidence", "metadata", "asked_at"):
            assert row[name] == query[name]
    text = read(api.get(f"{PATH}?format=jsonl"), "jsonl").decode()
    assert [json.loads(line) for line in text.splitlines()] == rows
    table = pq.read_table(
        io.BytesIO(read(api.get(f"{PATH}?format=parquet"), "parquet"))
    )
    assert [as_sent(one) for one in table.to_pylist()] == rows
    sheet = openpyxl.load_workbook(
        io.BytesIO(read(api.get(f"{PATH}?format=xlsx"), "xlsx"))
    ).active
    lines = [dict(zip(LABEL_COLUMNS, line, strict=True)) for line in sheet.values]
    assert [as_sent(one) for one in lines[1:]] == rows
    text = read(api.get(f"{PATH}?format=csv"), "csv").decode()
    cells = list(csv.DictReader(io.StringIO(text, newline="")))
    assert json.loads(cells[0]["metadata"]) == ROWS[0]["metadata"]
    assert float(cells[0]["confidence"]) == 0.1 + 0.2
    assert cells[2]["note"] == "'=1"


@pytest.mark.parametrize("format_name", ["xml", "CSV", ""])
def test_no_other_format(api, door, format_name):
    problem = api.get(f"{PATH}?format={format_name}")
    assert_problem(problem, 400, field="format")


def test_a_detector_that_there_is_not(api):
    assert_problem(api.get("/detectors/nothing/labels"), 404)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_two_exports_at_once_of_an_account_and_a_third_has_to_wait(
    api, labelled, method
):
    path = f"{PATH}?format=jsonl"
    unread = [api.get(path, role="viewer", buffered=False) for _ in range(2)]
    try:
        refused = api.get(f"{PATH}?format=csv", role="viewer")
        assert_problem(refused, 429)
        assert int(refused.headers["Retry-After"]) > 0
        assert "'viewer'" not in refused.text
        # Others go on, and so does everything else that this account does.
        assert api.get(PATH, role="editor").status_code == 200
        assert api.get("/detectors/door/estimate", role="viewer").status_code == 200
    finally:
        for response in unread:
            response.close()
    for _ in range(3):
        assert api.call(method, path, role="viewer").status_code == 200


def test_a_file_is_the_database_of_one_moment_and_holds_no_read(
    api, labelled, database
):
    unread = api.get(f"{PATH}?format=jsonl", role="viewer", buffered=False)
    try:
        assert database.engine.pool.checkedout() == 0
        api.post(f"/queries/{labelled[1]['id']}/labels", {"label": "YES"})
        assert len(unread.data.splitlines()) == 3
    finally:
        unread.close()
    assert len(api.get(PATH).json["items"]) == 4
