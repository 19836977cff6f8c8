"""The history of overall accuracy, precision and F1, by API and as files."""

import csv
import io
import json
import random

import pyarrow.parquet
import pytest

from tests.api.problems import assert_problem
from tests.api.published import published_rows
from tracker.services.estimates.history import HISTORY_COLUMNS

PATH = "/detectors/door/history"
ESTIMATE = "/detectors/door/estimate"
VALUES = {"overall": "accuracy", "precision": "precision", "f1": "f1"}


def scores(api, measure, method="exact"):
    """What the estimate says of *measure* now: correct, value, low and high."""
    found = api.get(f"{ESTIMATE}?measure={measure}&method={method}").json[measure]
    rows = [found] if measure == "overall" else [found["macro"], *found["classes"]]
    value = VALUES[measure]
    return [(row.get("correct"), row[value], row["low"], row["high"]) for row in rows]


def kept(rows):
    return [(row["correct"], row["accuracy"], row["low"], row["high"]) for row in rows]


@pytest.fixture
def history(api, door, recompute):
    """The published check, with a history of 72 snapshots."""
    api.post("/detectors/door/import", {"items": published_rows()})
    recompute()


@pytest.mark.thorough
@pytest.mark.parametrize("measure", VALUES)
def test_each_snapshot_has_the_bits_of_the_estimate_at_that_moment(
    api, door, recompute, measure
):
    draw = random.Random(5)
    ids, expected = [], []
    for number in range(15):
        body = {
            "predicted": draw.choice(["YES", "NO"]),
            "label": draw.choice(["YES", "YES", "NO", "UNCLEAR"]),
            "sampling": draw.choice(["random", "random", "targeted"]),
        }
        if number % 5 < 4:
            ids.append(api.post("/detectors/door/queries", body).json["id"])
        else:
            path = f"/queries/{draw.choice(ids)}/labels"
            api.post(path, {"label": draw.choice(["YES", "NO"])})
        recompute()
        expected.append(scores(api, measure))
    rows = api.walk(f"{PATH}?measure={measure}")
    size = len(expected[0])
    snapshots = [rows[i : i + size] for i in range(0, len(rows), size)]
    # Labels that are not scored leave the last snapshot as it is.
    for snapshot in snapshots:
        assert [row["measure"] for row in snapshot] == [measure] * size
        found = kept(snapshot)
        if size > 1:
            # The estimate gives a mean no counts.
            found[0] = (None, *found[0][1:])
        assert found in expected
    assert len(snapshots) > 6
    whole = "overall" if measure == "overall" else "macro"
    assert [row["scope"] for row in rows[:size]] == [whole, "YES", "NO"][:size]


@pytest.mark.thorough
@pytest.mark.parametrize("measure", VALUES)
@pytest.mark.parametrize("method", ["anytime", "joint", "wilson"])
def test_other_methods_follow_from_the_counts(api, history, measure, method):
    rows = api.walk(f"{PATH}?measure={measure}&method={method}")
    expected = scores(api, measure, method)
    assert len(rows) == 72 * len(expected)
    last = rows[-len(expected) :]
    assert [one[1:] for one in kept(last)] == [one[1:] for one in expected]
    assert {row["method"] for row in rows} == {method}
    assert {row["formula"] for row in rows} == {3 if method == "anytime" else 1}


def test_counts_are_of_what_the_measure_is_a_share_of(api, history):
    def last(measure, size):
        rows = api.walk(f"{PATH}?measure={measure}")[-size:]
        return [(row["scope"], row["correct"], row["labelled"]) for row in rows]

    assert last("overall", 1) == [("overall", 64, 72)]
    precision = [("macro", 64, 72), ("YES", 23, 26), ("NO", 41, 46)]
    assert last("precision", 3) == precision
    assert last("f1", 3) == [("macro", 64, 80), ("YES", 23, 31), ("NO", 41, 49)]


def test_files_say_of_which_measure_they_are(api, history):
    rows = api.walk(f"{PATH}?measure=f1")
    columns = [*HISTORY_COLUMNS[:-1], "measure", "population"]
    expected = [{name: row[name] for name in columns} for row in rows]
    path = f"{PATH}?measure=f1&format="
    table = csv.DictReader(io.StringIO(api.get(f"{path}csv").text))
    assert table.fieldnames == columns
    assert [row["low"] for row in table] == [repr(row["low"]) for row in rows]
    lines = api.get(f"{path}jsonl").text.splitlines()
    assert [{n: json.loads(line)[n] for n in columns} for line in lines] == expected
    parquet = pyarrow.parquet.read_table(io.BytesIO(api.get(f"{path}parquet").data))
    assert parquet.column_names == columns
    assert parquet.column("measure").to_pylist() == ["f1"] * len(rows)
    assert parquet.column("high").to_pylist() == [row["high"] for row in rows]


@pytest.mark.thorough
def test_pages_of_it_are_whole_snapshots(api, history):
    rows = api.walk(f"{PATH}?measure=precision")
    assert api.walk(f"{PATH}?measure=precision&limit=7") == rows
    page = api.get(f"{PATH}?measure=precision&limit=4").json["items"]
    assert len(page) == 6


@pytest.mark.thorough
def test_snapshots_before_a_class_was_added_keep_their_rows(api, history, recompute):
    before = {one: api.walk(f"{PATH}?measure={one}") for one in (*VALUES, "recall")}
    added = api.patch("/detectors/door", {"classes": ["YES", "NO", "HALF"]})
    assert added.status_code == 200
    api.post("/detectors/door/queries", {"predicted": "HALF", "label": "HALF"})
    recompute()
    for measure, rows in before.items():
        for method in ("exact", "wilson"):
            path = f"{PATH}?measure={measure}&method={method}"
            now = api.walk(path)
            counts = ("scope", "labels", "correct", "labelled", "accuracy")
            assert [[row[c] for c in counts] for row in now[: len(rows)]] == [
                [row[c] for c in counts] for row in rows
            ]
            added = [row["scope"] for row in now[len(rows) :]]
            assert added[1:] == ([] if measure == "overall" else ["YES", "NO", "HALF"])


def test_what_is_no_measure_is_refused(api, door):
    assert_problem(api.get(f"{PATH}?measure=kappa"), 400, field="measure")


@pytest.mark.thorough
def test_a_measure_of_a_window_holds_where_the_accuracy_changes(api, history):
    for measure in VALUES:
        found = api.get(f"{ESTIMATE}?measure={measure}&window=1").json[measure]
        rows = [found] if measure == "overall" else found["classes"]
        # One label, right or wrong, bounds no average of chances that differ.
        assert all((row["low"], row["high"]) == (0, 1) for row in rows)
