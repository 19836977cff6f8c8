"""Labels by API."""

import threading

import pytest

from tests.api.problems import assert_problem
from tests.databases import noted_statements


def log(api, **values):
    made = api.post("/detectors/door/queries", {"predicted": "YES", **values})
    assert made.status_code == 201
    return made.json["id"]


def make_dispute(api):
    """Where labels of a query go that two people dispute, and its id."""
    query = api.post("/detectors/gate/queries", {"predicted": "YES"}).json["id"]
    path = f"/queries/{query}/labels"
    for role, label in (("labeler", "YES"), ("admin", "NO")):
        assert api.post(path, {"label": label}, role=role).status_code == 201
    return path, query


@pytest.fixture
def dispute(api):
    api.post("/detectors", {"name": "gate", "question": "Is it?", "labels_wanted": 2})
    return make_dispute(api)


def test_a_label_is_given_by_the_name_of_the_key(api, door):
    query = log(api)
    body = {
        "label": "NO",
        "sampling": "random",
        "note": "line one\nline two",
        "labelled_at": "2026-01-02T03:04:05Z",
    }
    made = api.post(f"/queries/{query}/labels", body, role="labeler")
    assert made.status_code == 201
    assert {name: made.json[name] for name in body} == body
    assert made.json["query"] == query
    assert made.json["labeler"] == "labeler-key"
    assert made.json["id"].startswith("lab_")
    assert made.json["is_current"] is True
    assert api.get(f"/queries/{query}/labels").json == {
        "items": [made.json],
        "next": None,
    }
    assert api.get(f"/queries/{query}").json["label"] == "NO"


def test_a_label_without_sampling_keeps_what_the_query_declared(api, door):
    query = log(api, sampling="targeted")
    assert api.post(f"/queries/{query}/labels", {"label": "NO"}).json["sampling"] == (
        "targeted"
    )


def test_the_newest_label_is_current_and_none_is_lost(api, door):
    query = log(api, label="YES")
    given = ["NO", "UNCLEAR", "NO", "NO", "YES"]
    for label in given:
        api.post(f"/queries/{query}/labels", {"label": label})
    for limit in (1, 2, 6, 100):
        labels = api.walk(f"/queries/{query}/labels?limit={limit}")
        assert [label["label"] for label in labels] == [*given[::-1], "YES"]
        assert [label["is_current"] for label in labels] == [True] + [False] * 5
    assert api.get(f"/queries/{query}").json["label"] == "YES"


def test_a_page_of_labels_begins_behind_a_label_of_that_query(api, door):
    log(api, label="YES")
    other = log(api, label="YES")
    mine = log(api, label="YES")
    label = api.get(f"/queries/{other}/labels").json["items"][0]["id"]
    assert_problem(api.get(f"/queries/{mine}/labels?after={label}"), 400, field="after")


def test_a_label_must_be_a_class_of_its_own_detector(api, door):
    api.post("/detectors", {"name": "cats", "question": "?", "classes": ["tom", "leo"]})
    query = log(api)
    wrong = api.post(f"/queries/{query}/labels", {"label": "tom"})
    assert_problem(wrong, 422, field="label")
    assert "YES, NO, UNCLEAR" in wrong.text
    assert_problem(
        api.post(f"/queries/{query}/labels", {"label": "yes"}), 422, field="label"
    )


def test_people_who_label_at_once_replace_each_other(api, door):
    query = log(api)
    start = threading.Barrier(8)

    def give(label):
        start.wait()
        for _ in range(5):
            made = api.post(f"/queries/{query}/labels", {"label": label})
            assert made.status_code == 201, made.text

    people = [threading.Thread(target=give, args=(name,)) for name in ("YES", "NO") * 4]
    for person in people:
        person.start()
    for person in people:
        person.join()
    history = api.walk(f"/queries/{query}/labels?limit=7")
    assert len(history) == len({label["id"] for label in history}) == 40
    estimate = api.get("/detectors/door/estimate").json
    assert estimate["labels"] == 1
    assert api.post("/detectors/door/recompute").json["labels"] == 1


def test_a_settled_label_is_changed_by_editors_alone(api, dispute):
    path, _ = dispute
    settles = {"label": "YES", "settles": True}
    assert api.post(path, settles, role="editor").status_code == 201
    refused = assert_problem(api.post(path, {"label": "NO"}, role="labeler"), 409)
    assert "only an editor or an admin" in refused["detail"]
    assert api.get(path).json["items"][0]["label"] == "YES"
    for role in ("editor", "admin"):
        assert api.post(path, {"label": "NO"}, role=role).status_code == 201
        assert api.get(path).json["items"][0]["label"] == "NO"


def test_a_label_that_comes_with_the_settlement_does_not_slip_past(api, dispute):
    path, query = dispute
    start = threading.Barrier(5)

    def give(role, body):
        start.wait()
        answers.append((role, api.post(path, body, role=role).status_code))

    for _ in range(5):
        answers = []
        body = {"label": "YES"}
        given = [("labeler", body)] * 4 + [("editor", {"label": "NO", "settles": True})]
        people = [threading.Thread(target=give, args=one) for one in given]
        for person in people:
            person.start()
        for person in people:
            person.join()
        assert ("editor", 201) in answers
        assert {status for role, status in answers if role == "labeler"} <= {201, 409}
        stored = api.get(f"/queries/{query}").json
        assert (stored["label"], stored["agreement"]) == ("NO", "settled")
        path, query = make_dispute(api)


def test_a_label_takes_six_statements(api, door, database):
    first, second = log(api), log(api)
    api.post(f"/queries/{first}/labels", {"label": "NO"})
    with noted_statements(database) as statements:
        assert api.post(f"/queries/{second}/labels", {"label": "NO"}).status_code == 201
    asked = [one for one in statements if not one.startswith("BEGIN")]
    assert len(asked) == 6, asked


def test_a_label_of_an_archived_detector_is_refused(api, door):
    plain, shared = log(api), log(api, input="door 7")
    assert api.delete("/detectors/door").status_code == 204
    for query in (plain, shared):
        refused = api.post(f"/queries/{query}/labels", {"label": "NO"})
        assert_problem(refused, 409)
        assert "archived" in refused.json["detail"]
