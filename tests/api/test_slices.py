"""Slices by API."""

import csv
import io

import pytest

from tests.api.problems import assert_problem


@pytest.fixture
def logged(api, door, recompute):
    answer = api.patch("/detectors/door", {"slices": ["camera", "site"]})
    assert answer.status_code == 200, answer.text
    assert answer.json["slices"] == ["camera", "site"]
    for camera, label in [("north", "NO"), ("north", "YES"), ("south", "YES")]:
        row = {"predicted": "YES", "label": label, "metadata": {"camera": camera}}
        assert api.post("/detectors/door/queries", row).status_code == 201
    recompute()


def test_the_parts_of_the_queries(api, logged):
    found = api.get("/detectors/door/slices?by=metadata.camera").json

    assert found["is_counted"] is True
    assert (found["queries"], found["labels"]) == (3, 3)
    north = next(one for one in found["items"] if one["value"] == "north")
    assert north["queries"] == 2
    assert north["share"] == 2 / 3
    assert north["state"] == "too_few_labels"
    assert north["overall"]["correct"] == 1
    assert [one["class"] for one in north["classes"]] == ["YES", "NO"]
    assert found["measure"] == "balanced"
    assert north["measured"] | north["balanced"] == north["measured"]
    assert (north["measured"]["correct"], north["measured"]["labelled"]) == (1, 2)
    assert north["balanced"]["accuracy"] == 0.5
    page = api.get("/detectors/door/queries", query_string={"where": north["where"]})
    assert page.json["total"] == 2


def test_each_part_leads_to_its_queries(api, logged, recompute):
    values = ["north", "(none)", None, 3, 1.5, True, "", "a:b"]
    given = [{}, *({"camera": value} for value in values)]
    for metadata in given:
        row = {"predicted": "YES", "label": "YES", "metadata": metadata}
        assert api.post("/detectors/door/queries", row).status_code == 201
    recompute()
    found = api.get("/detectors/door/slices?by=metadata.camera").json["items"]
    queries = {one["value"]: one["queries"] for one in found}
    assert (queries["(none)"], queries["north"]) == (3, 3)
    assert [one["value"] for one in found if one["where"] is None] == [""]
    for one in filter(lambda one: one["where"], found):
        asked = {"where": one["where"]}
        listed = api.get("/detectors/door/queries", query_string=asked).json
        assert listed["total"] == one["queries"], one["value"]


@pytest.mark.parametrize("by", ["version", "predicted", "week"])
def test_what_every_detector_can_be_cut_by(api, logged, by):
    found = api.get(f"/detectors/door/slices?by={by}").json

    assert found["labels"] == 3
    assert not found["is_for_every_look"]


def test_the_rows_as_a_file(api, logged):
    answer = api.get("/detectors/door/slices?by=metadata.camera&format=csv")

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["value"], row["scope"]) for row in rows[:4]] == [
        (rows[0]["value"], scope) for scope in ("overall", "YES", "NO", "balanced")
    ]
    assert {row["measure"] for row in rows} == {"balanced"}
    assert sum(int(row["labelled"]) for row in rows if row["scope"] == "overall") == 3


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["camera", "metadata.none", "label", ""])
def test_what_is_not_declared_is_an_error_that_names_what_is(api, logged, by):
    answer = api.get("/detectors/door/slices", query_string={"by": by})

    assert_problem(answer, 400, field="by")
    assert "metadata.camera" in answer.json["errors"][0]["message"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "slices",
    [["a"] * 2, [str(one) for one in range(9)], [""], ["x" * 101], "camera", None, [1]],
)
def test_wrong_keys_are_refused_and_nothing_is_changed(api, logged, slices):
    answer = api.patch("/detectors/door", {"slices": slices})

    assert answer.status_code == 422
    assert api.get("/detectors/door").json["slices"] == ["camera", "site"]


def test_a_detector_is_made_with_its_slices(api):
    new = {"name": "gate", "question": "Open?", "slices": ["camera"]}

    assert api.post("/detectors", new).json["slices"] == ["camera"]
