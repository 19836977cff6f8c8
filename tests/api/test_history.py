"""The history by API, in pages and as files."""

import csv
import io
import json

import pytest

from tests.api.problems import assert_problem
from tests.api.published import INTERVALS, published_rows
from tracker.services.estimates.history import HISTORY_COLUMNS
from tracker.stats import METHODS, class_intervals

PATH = "/detectors/door/history"


@pytest.fixture
def history(api, door, recompute):
    """The history of the published check, a row for each label and scope."""
    api.post("/detectors/door/import", {"items": published_rows()})
    recompute()
    return api.walk(PATH)


def test_the_last_snapshot_is_the_published_check(history):
    assert len(history) == 72 * 3
    assert [row["labels"] for row in history[::3]] == list(range(1, 73))
    for row in history[-3:]:
        *columns, population = HISTORY_COLUMNS
        assert list(row) == [*columns, "formula", "measure", "asked_at", population]
        assert row[population] == "live"
        assert row["measure"] == "recall"
        assert row["formula"] == 1
        correct, labelled, *bounds = INTERVALS[row["scope"]]
        assert (row["correct"], row["labelled"]) == (correct, labelled)
        assert [round(row[key], 4) for key in ("accuracy", "low", "high")] == bounds
        assert row["detector"] == "door"
        assert row["version"] == "default"
        assert row["method"] == "exact"
        assert row["confidence_level"] == 0.95
        assert row["computed_at"].endswith("Z")
    assert [row["scope"] for row in history[-3:]] == ["balanced", "YES", "NO"]


def test_along_the_days_asked_it_comes_in_pages_and_files(api, door):
    items = [
        {"predicted": "YES", "label": "YES", "asked_at": f"2026-01-{day:02}T08:00:00Z"}
        for day in (9, 3, 5)
    ]
    api.post("/detectors/door/import", {"items": items})
    path = f"{PATH}?by=asked_at"
    rows = api.walk(f"{path}&limit=4")
    days = ["2026-01-03", "2026-01-05", "2026-01-09"]
    assert [row["asked_at"][:10] for row in rows[::3]] == days
    assert [row["labels"] for row in rows[::3]] == [1, 2, 3]
    assert len(api.get(f"{path}&limit=1").json["items"]) == 3
    part = api.walk(f"{path}&since=2026-01-05T00:00:00Z&until=2026-01-09T00:00:00Z")
    assert part == rows[3:6]
    reader = csv.DictReader(io.StringIO(api.get(f"{path}&format=csv").text))
    assert reader.fieldnames == [*HISTORY_COLUMNS[:-1], "asked_at", "population"]
    assert [row["asked_at"] for row in reader] == [row["asked_at"] for row in rows]
    early = api.get(f"{path}&as_known_at=2020-01-01T00:00:00Z").json["items"]
    assert early == []
    assert_problem(api.get(f"{PATH}?by=weeks"), 400, field="by")


@pytest.mark.thorough
def test_every_method_is_there_stored_or_computed(api, history):
    stored = api.walk(f"{PATH}?method=*")
    assert {row["method"] for row in stored} == {"exact", "joint", "anytime"}
    for method in METHODS:
        rows = api.walk(f"{PATH}?method={method}&limit=100")
        assert [row["labels"] for row in rows] == [row["labels"] for row in history]
        assert [row["scope"] for row in rows] == [row["scope"] for row in history]
        estimate = api.get(f"/detectors/door/estimate?method={method}").json
        scopes = [estimate["balanced"], *estimate["classes"]]
        for row, scope in zip(rows[-3:], scopes, strict=True):
            assert row["method"] == method
            for key in ("accuracy", "low", "high"):
                assert row[key] == scope[key]
        assert {row["formula"] for row in rows} == {3 if method == "anytime" else 1}
        if method in {"exact", "joint", "anytime"}:
            assert rows == [row for row in stored if row["method"] == method]


def test_a_computed_method_goes_by_the_level_of_each_moment(api, history, recompute):
    api.patch("/detectors/door", {"confidence_level": 0.5})
    api.post("/detectors/door/queries", {"predicted": "YES", "label": "YES"})
    recompute()
    rows = api.walk(f"{PATH}?method=wilson")
    assert [row["confidence_level"] for row in rows[-6:]] == [0.95] * 3 + [0.5] * 3
    for row in rows[-6:]:
        if row["scope"] != "balanced":
            low, high = class_intervals(
                "wilson", row["correct"], row["labelled"], row["confidence_level"]
            )
            assert (row["low"], row["high"]) == (low, high)


@pytest.mark.thorough
def test_pages_are_whole_snapshots_and_walked_exactly_once(api, history):
    for limit in (1, 3, 4, 100, 216, 10_000):
        address = f"{PATH}?limit={limit}"
        rows = []
        while address:
            page = api.get(address).json
            assert len(page["items"]) % 3 == 0
            assert len(page["items"]) <= limit + 2
            rows += page["items"]
            address = page["next"]
        assert rows == history


@pytest.mark.thorough
def test_pages_go_through_all_versions(api, history, recompute):
    body = {"predicted": "YES", "label": "YES", "version": "v2"}
    api.post("/detectors/door/queries", body)
    recompute()
    assert len(api.walk(PATH)) == len(history)
    api.patch("/detectors/door", {"production_version": "v2"})
    assert len(api.walk(PATH)) == 3
    both = api.walk(f"{PATH}?version=*&limit=50")
    assert both[: len(history)] == history
    assert both[len(history) :] == api.walk(f"{PATH}?version=v2")
    assert api.walk(f"{PATH}?version=default&limit=7") == history


@pytest.mark.thorough
def test_rows_never_change_when_more_labels_come(api, history, recompute):
    query = api.walk("/detectors/door/queries?label=YES&limit=1")[0]
    api.post(f"/queries/{query['id']}/labels", {"label": "UNCLEAR"})
    recompute()
    rows = [{"predicted": "YES", "label": "YES", "key": f"more-{i}"} for i in range(40)]
    api.post("/detectors/door/import", {"items": rows})
    recompute()
    now = api.walk(f"{PATH}?limit=500")
    assert len(now) > len(history)
    assert now[: len(history)] == history


def test_a_window_is_of_the_instants_of_computing(api, history, clock, recompute):
    clock.at = clock.at.replace(year=2027)
    api.post("/detectors/door/queries", {"predicted": "YES", "label": "YES"})
    recompute()
    assert api.walk(f"{PATH}?until=2027-01-01T00:00:00Z") == history
    assert len(api.walk(f"{PATH}?since=2027-01-01T00:00:00Z")) == 3
    assert api.walk(f"{PATH}?method=exact") == api.walk(PATH)


def in_columns(rows):
    """What tables have of rows: formula and measure are told in JSON alone."""
    assert set(rows[0]) - set(HISTORY_COLUMNS) == {"formula", "measure", "asked_at"}
    return [{name: row[name] for name in HISTORY_COLUMNS} for row in rows]


def as_text(row):
    return {
        name: ""
        if value is None
        else repr(value)
        if isinstance(value, float)
        else str(value)
        for name, value in row.items()
    }


def test_csv_holds_the_same_rows(api, history):
    got = api.get(f"{PATH}?format=csv", role="viewer")
    assert got.content_type == "text/csv; charset=utf-8"
    assert (
        got.headers["Content-Disposition"] == 'attachment; filename="door-history.csv"'
    )
    reader = csv.DictReader(io.StringIO(got.text, newline=""))
    assert reader.fieldnames == list(HISTORY_COLUMNS)
    assert list(reader) == [as_text(row) for row in in_columns(history)]


def test_json_lines_hold_the_same_rows(api, history):
    got = api.get(f"{PATH}?format=jsonl")
    assert got.content_type == "application/x-ndjson"
    lines = got.text.splitlines()
    assert [json.loads(line, parse_constant=pytest.fail) for line in lines] == history


def test_parquet_holds_the_same_rows(api, history):
    import pyarrow.parquet as pq

    got = api.get(f"{PATH}?format=parquet")
    assert got.headers["Content-Disposition"].endswith('"door-history.parquet"')
    table = pq.read_table(io.BytesIO(got.data))
    assert table.column_names == list(HISTORY_COLUMNS)
    assert table.to_pylist() == in_columns(history)


def test_an_empty_history_is_an_empty_file(api, door):
    assert api.get(PATH).json == {"items": [], "next": None}
    assert api.get(f"{PATH}?format=csv").text == ",".join(HISTORY_COLUMNS) + "\r\n"
    assert api.get(f"{PATH}?format=jsonl").text == ""
    assert api.get(f"{PATH}?format=parquet").data.startswith(b"PAR1")


def test_names_can_be_no_formula_and_no_header(api, recompute):
    name = '=cmd|"\\c calc"!A0; ..\\..\u2028'.strip()
    body = {"name": name, "question": "?", "classes": ["@SUM(1)", "-1", "'=x", "+"]}
    made = api.post("/detectors", body)
    assert made.status_code == 201, made.text
    path = f"/detectors/{made.json['id']}"
    query = {"predicted": "-1", "label": "@SUM(1)", "version": "=v"}
    api.post(f"{path}/queries", query)
    recompute()
    got = api.get(f"{path}/history?format=csv")
    disposition = got.headers["Content-Disposition"]
    assert disposition == 'attachment; filename="cmd-c-calc-A0-history.csv"'
    cells = [
        cell for row in csv.reader(io.StringIO(got.text, newline="")) for cell in row
    ]
    assert "'=v" in cells
    assert not [cell for cell in cells if cell[:1] in set("=@\t\r")]
    assert {cell for cell in cells if cell[:1] in {"+", "-"}} == set()
    rows = api.walk(f"{path}/history")
    assert [row["scope"] for row in rows] == ["balanced", *body["classes"]]


@pytest.mark.slow
def test_an_answer_that_nobody_reads_holds_no_transaction(api, history, database):
    for _ in range(40):
        response = api.call("GET", f"{PATH}?format=csv", buffered=False)
        response.close()
    assert database.engine.pool.checkedout() == 0


@pytest.mark.parametrize("name", ["json", "csv", "jsonl", "parquet"])
def test_what_is_wrong_comes_up_before_the_answer_begins(api, door, name):
    for query, status in (
        ("version=v9", 400),
        ("method=wald", 400),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", 400),
    ):
        assert_problem(api.get(f"{PATH}?format={name}&{query}"), status)
    assert_problem(api.get(f"/detectors/nothing/history?format={name}"), 404)
    if name != "json":
        assert_problem(api.get(f"{PATH}?format={name}&limit=5"), 400, field="limit")
        assert_problem(api.get(f"{PATH}?format={name}&after=1-1"), 400, field="after")


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_two_versions_whose_queries_wait_for_the_job_have_a_history(
    api, door, form
) -> None:
    for version in ("v1", "v2"):
        row = {"predicted": "YES", "label": "YES", "version": version}
        assert api.post("/detectors/door/queries", row).status_code == 201
    sent = api.get(f"/detectors/door/history?format={form}")
    assert sent.status_code == 200, sent.text
