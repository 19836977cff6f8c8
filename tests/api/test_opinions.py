"""Labels that an import gives in the names of several labelers."""

import json

import pytest

from tests.api.problems import assert_problem

PATH = "/detectors/door/import"


@pytest.fixture(params=[1, 2])
def wanted(request, api):
    body = {"name": "door", "question": "?", "labels_wanted": request.param}
    body |= {"label_sampling": "random"}
    assert api.post("/detectors", body).status_code == 201
    return request.param


def send(api, *rows, **options):
    names = ("key", "predicted", "label", "labeler")
    items = [
        {name: value for name, value in zip(names, row, strict=False) if value}
        for row in rows
    ]
    body = json.dumps({"items": items})
    return api.send_file(PATH, body, "application/json", **options)


def query_of(api, key):
    return api.get(f"/detectors/door/queries?key={key}").json["items"][0]


def words(api, key):
    labels = api.get(f"/queries/{query_of(api, key)['id']}/labels").json["items"]
    return [(label["labeler"], label["label"]) for label in labels]


ROWS = [
    ("a", "YES", "YES", "ann"),
    ("a", None, "NO", "bob"),
    ("b", "NO", "NO", "ann"),
    ("b", None, "NO", "bob"),
    ("c", "YES", "YES", "ann"),
    ("d", "YES", "YES"),
]


@pytest.mark.thorough
def test_each_labeler_has_a_word_and_the_last_one_counts(api, wanted, tables):
    sent = send(api, *ROWS)
    assert sent.status_code == 200, sent.text
    assert (sent.json["queries_added"], sent.json["labels_added"]) == (4, 6)
    assert words(api, "a") == [("bob", "NO"), ("ann", "YES")]
    assert words(api, "b") == [("bob", "NO"), ("ann", "NO")]
    assert words(api, "d")[0][0] == "admin-key"
    said = {key: query_of(api, key)["agreement"] for key in "abc"}
    # Labelers that a file names are compared, however many the queue asks.
    assert said == {"a": "disputed", "b": "agreed", "c": None}
    # One word is missing where two are wanted.
    waiting = api.get("/detectors/door/next?labeler=cleo")
    assert waiting.status_code == (204 if wanted == 1 else 200)

    before = tables()
    assert send(api, *ROWS).json["unchanged"] == 6
    assert tables() == before


def test_a_second_opinion_comes_in_a_later_file(api, wanted):
    send(api, ("a", "YES", "YES", "ann"), ("b", "YES", "YES", "ann"))
    sent = send(api, ("a", None, "YES", "bob"), ("b", None, "NO", "bob"))
    assert sent.json["labels_added"] == 2
    assert words(api, "a") == [("bob", "YES"), ("ann", "YES")]
    said = [query_of(api, key)["agreement"] for key in "ab"]
    assert said == ["agreed", "disputed"]
    assert query_of(api, "b")["label"] == "NO"
    # Ann comes round.
    assert send(api, ("b", None, "NO", "ann")).json["labels_added"] == 1
    assert query_of(api, "b")["agreement"] == "agreed"


def test_one_labeler_has_one_word_in_a_file(api, wanted, tables):
    before = tables()
    sent = send(api, ("a", "YES", "YES", "ann"), ("a", None, "NO", "ann"))
    problem = assert_problem(sent, 422, field="label")
    assert (
        "'ann' gives the same key 'YES' and then 'NO'"
        in problem["errors"][0]["message"]
    )
    assert tables() == before


def test_queries_of_one_input_share_what_was_said_last(api, wanted):
    rows = [
        {"key": key, "input": "1.png", "version": key, "predicted": "YES"}
        for key in "ab"
    ]
    rows[0] |= {"label": "YES", "labeler": "ann"}
    rows[1] |= {"label": "NO", "labeler": "bob"}
    sent = api.send_file(PATH, json.dumps({"items": rows}), "application/json")
    assert sent.status_code == 200, sent.text
    assert {query_of(api, key)["label"] for key in "ab"} == {"NO"}


def test_label_studio_annotators_are_labelers(api, wanted):
    def said(who, choice, **more):
        result = [{"type": "choices", "value": {"choices": [choice]}}]
        return {"completed_by": who, "result": result, **more}

    task = {
        "id": 7,
        "data": {"text": "shut"},
        "annotations": [
            said(1, "YES", ground_truth=True),
            said({"id": 2, "email": "bob@example.org"}, "NO"),
        ],
        "predictions": [{"result": said(0, "YES")["result"]}],
    }
    path = f"{PATH}?extra=metadata"
    sent = api.send_file(path, json.dumps([task]), "application/json")
    assert sent.status_code == 200, sent.text
    assert words(api, "7") == [("1", "YES"), ("bob@example.org", "NO")]
    assert query_of(api, "7")["metadata"] == {"text": "shut"}


def test_only_editors_name_labelers(api, wanted):
    assert send(api, ("a", "YES", "YES", "ann"), role="editor").status_code == 200
    refused = send(api, ("b", "YES", "YES", "ann"), role="labeler")
    assert_problem(refused, 403)


@pytest.mark.parametrize(
    ("words", "agreement"),
    [(["YES", "YES"], "agreed"), (["YES", "YES", "YES", "NO", "NO"], "majority")],
)
def test_what_people_come_to_holds_for_each_query_of_the_input(api, words, agreement):
    body = {"name": "door", "question": "?", "labels_wanted": len(words)}
    api.post("/detectors", body | {"label_sampling": "random"})
    put = {"input": "1.png", "predicted": "YES"}
    rows = [[put | {"key": key, "version": key} for key in "ab"]]
    rows += [
        [{"key": "a", "label": word, "labeler": f"person {number}"}]
        for number, word in enumerate(words)
    ]
    for items in rows:
        body = json.dumps({"items": items})
        assert api.send_file(PATH, body, "application/json").status_code == 200
    for version, kind in (("a", "live"), ("b", "replayed")):
        query = query_of(api, version)
        assert (query["label"], query["agreement"]) == ("YES", agreement)
        found = api.get(f"/detectors/door/estimate?version={version}").json
        assert (found["labels"], found["population"]["kind"]) == (1, kind)


def test_a_label_that_was_picked_is_no_word_in_a_file_either(api, wanted):
    rows = [
        {"key": "a", "predicted": "YES", "label": "YES", "labeler": "ann"},
        {"key": "a", "label": "NO", "labeler": "bob", "sampling": "targeted"},
        {"key": "a", "label": "YES", "labeler": "cleo"},
    ]
    for row in rows:
        body = json.dumps({"items": [row]})
        assert api.send_file(PATH, body, "application/json").status_code == 200
    query = query_of(api, "a")
    assert (query["label"], query["agreement"]) == ("YES", "agreed")


def test_a_dispute_is_no_correction(api, wanted):
    assert send(api, *ROWS).status_code == 200
    found = api.get("/detectors/door/estimate").json
    # Where two are wanted, one word is missing of c, and of d.
    assert found["disputed_left_out"] == {1: 1, 2: 3}[wanted]
    assert found["corrections"] == 0
