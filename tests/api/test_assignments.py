"""Assignments: how many labels a person is asked for, and how far they are."""

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem

PATH = "/detectors/door/assignments"


@pytest.fixture
def queries(api: Api, door) -> list[str]:
    found = []
    for i in range(6):
        body = {"key": f"q{i}", "predicted": "YES"}
        found.append(api.post("/detectors/door/queries", body).json["id"])
    return found


def label(api: Api, query: str, *, role: str = "labeler", **body) -> None:
    body = {"label": "YES", **body}
    given = api.post(f"/queries/{query}/labels", body, role=role)
    assert given.status_code == 201, given.text


def done(api: Api) -> dict[str, int]:
    return {one["labeler"]: one["done"] for one in api.get(PATH).json["items"]}


def assign(api: Api, labeler: str, labels: int) -> dict:
    answer = api.put(PATH, {"labeler": labeler, "labels": labels})
    assert answer.status_code == 200, answer.text
    return answer.json


@pytest.mark.slow
def test_each_label_of_a_person_counts_once_from_then_on(api, queries):
    label(api, queries[0])
    made = assign(api, "labeler-key", 200)
    assert (made["labels"], made["done"], made["made_by"]) == (200, 0, "admin-key")
    assign(api, "ann", 2)
    label(api, queries[1])
    label(api, queries[2])
    # Their own label again is no new one, a correction of another's is.
    label(api, queries[1], label="NO")
    label(api, queries[3], role="editor", labeler="ann")
    label(api, queries[3])
    assert done(api) == {"ann": 1, "labeler-key": 3}
    # An answer to a gold query counts, or the progress would tell what it is.
    assert api.put(f"/queries/{queries[4]}/gold", {"label": "NO"}).status_code == 200
    label(api, queries[4])
    label(api, queries[4], label="NO")
    assert done(api) == {"ann": 1, "labeler-key": 4}
    items = [{"key": "q5", "label": "YES", "labeler": "ann"}]
    assert api.post("/detectors/door/import", {"items": items}).json["labels_added"]
    assert done(api)["ann"] == 1
    assert assign(api, "ann", 5)["done"] == 0


@pytest.mark.thorough
def test_people_see_their_own_assignment_alone(api, queries):
    assign(api, "labeler-key", 3)
    assign(api, "ann", 2)
    own = api.get(PATH, role="labeler").json["items"]
    assert [one["labeler"] for one in own] == ["labeler-key"]
    assert_problem(api.put(PATH, {"labeler": "a", "labels": 1}, role="labeler"), 403)


@pytest.mark.thorough
def test_an_assignment_is_ended(api, queries):
    assign(api, "ann", 2)
    assert api.delete(f"{PATH}?labeler=ann").status_code == 204
    assert api.get(PATH).json == {"items": [], "next": None}
    assert_problem(api.delete(f"{PATH}?labeler=ann"), 404)


@pytest.mark.parametrize("labels", [0, -1, 1_000_001, None, "5", 1.5])
def test_an_assignment_is_a_whole_number(api, door, labels):
    wrong = api.put(PATH, {"labeler": "ann", "labels": labels})
    assert_problem(wrong, 422, field="labels")
