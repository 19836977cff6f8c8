"""Queries by API."""

import threading

import pytest

from tests.api.problems import assert_problem

WHOLE = {
    "key": "frame-1",
    "input": "frame-1.jpg",
    "predicted": "YES",
    "confidence": 0.875,
    "version": "v3",
    "asked_at": "2026-01-02T03:04:05.678901Z",
    "metadata": {"camera": 2, "tags": ["a", None, 1.5]},
    "image_url": "https://example.org/a.png",
    "label": "NO",
    "sampling": "random",
}


def test_a_query_comes_back_as_it_was_sent(api, door):
    made = api.post("/detectors/door/queries", WHOLE)
    assert made.status_code == 201
    assert {name: made.json[name] for name in WHOLE} == WHOLE
    assert made.json["detector"] == door["id"]
    assert made.json["image"] is None
    assert made.json["id"].startswith("iq_")
    assert api.get(f"/queries/{made.json['id']}").json == made.json


def test_only_the_prediction_is_required(api, door):
    made = api.post("/detectors/door/queries", {"predicted": "NO"}).json
    assert made["version"] == "default"
    assert made["sampling"] == "unstated"
    assert made["asked_at"] == made["created_at"]
    for name in (
        "key",
        "input",
        "confidence",
        "metadata",
        "image_url",
        "image",
        "label",
    ):
        assert made[name] is None


def test_a_prediction_that_is_null_is_no_answer_and_wrong_for_its_label(api, door):
    body = {"predicted": None, "label": "YES"}
    made = api.post("/detectors/door/queries", body)
    assert made.status_code == 201
    assert (made.json["predicted"], made.json["waiting"]) == (None, False)
    found = api.get("/detectors/door/estimate").json
    assert (found["labels"], found["unanswered"]) == (1, 1)
    assert found["confusion"]["YES"]["NO_ANSWER"] == 1
    assert found["classes"][0]["accuracy"] == 0


WAITING = {
    "key": "frame-8",
    "input": "frame",
    "group": "event",
    "asked_at": "2026-01-31T11:00:00Z",
    "metadata": {"camera": "north"},
    "label": "NO",
    "sampling": "random",
}


def test_a_query_without_the_field_predicted_waits_for_its_prediction(
    api, door, tables
):
    made = api.post("/detectors/door/queries", WAITING)
    assert made.status_code == 201
    assert made.json | WAITING == made.json
    assert (made.json["predicted"], made.json["waiting"]) == (None, True)
    assert api.get("/detectors/door/estimate").json["labels"] == 0
    listed = api.get("/detectors/door/queries").json["items"]
    assert [one["waiting"] for one in listed] == [True]
    # The same again is the same query, anything else is not.
    again = api.post("/detectors/door/queries", WAITING)
    assert (again.status_code, again.json) == (200, made.json)
    differs = {"input": "b", "predicted": "NO"}
    for other in ({"input": "b"}, differs, {"label": "YES"}):
        refused = api.post("/detectors/door/queries", WAITING | other)
        assert refused.status_code == 409, other
    address = f"/queries/{made.json['id']}"
    # Nothing else can be done with it until then.
    for refused in (
        api.post(f"{address}/labels", {"label": "NO"}),
        api.put(f"{address}/tags", {"tags": ["dark"]}),
        api.delete(address),
    ):
        assert_problem(refused, 409)
        assert "waits for its prediction; give it by PATCH" in refused.json["detail"]
    said = api.patch(address, {"predicted": "YES", "version": "v3"}).json
    assert said | WAITING == said
    assert (said["predicted"], said["waiting"]) == ("YES", False)
    found = api.get("/detectors/door/estimate?version=v3").json
    assert (found["labels"], found["confusion"]["NO"]["YES"]) == (1, 1)


def test_a_confidence_needs_a_prediction(api, door):
    refused = api.post("/detectors/door/queries", {"confidence": 0.9})
    assert assert_problem(refused, 422)["errors"][0]["field"] == "confidence"


@pytest.mark.parametrize("predicted", ["NO", None])
@pytest.mark.parametrize("door_of", ["import", "queries"])
def test_a_prediction_that_comes_with_the_key_completes_the_query_that_waits(
    api, door, door_of, predicted
):
    waits = {"key": "a", "metadata": {"camera": 3}, "label": "YES"}
    made = api.post("/detectors/door/queries", waits).json
    row = {"key": "a", "predicted": predicted, "version": "v2", "input": "x"}
    sent, other = row | {"label": "NO"}, row | {"metadata": {"camera": 4}}
    if door_of == "queries":
        refused = api.post("/detectors/door/queries", other)
        assert_problem(refused, 409)
        answer = api.post("/detectors/door/queries", sent)
        assert (answer.status_code, answer.json["id"]) == (200, made["id"])
        again = api.post("/detectors/door/queries", sent)
        assert (again.status_code, again.json) == (200, answer.json)
    else:
        rows = [sent, {"key": "b", "predicted": "NO"}]
        refused = api.post("/detectors/door/import", {"items": [other, *rows[1:]]})
        (error,) = refused.json["errors"]
        assert (error["row"], error["field"]) == (1, "metadata")
        answer = api.post("/detectors/door/import", {"items": rows})
        assert (answer.json["queries_added"], answer.json["labels_added"]) == (2, 1)
        again = api.post("/detectors/door/import", {"items": rows})
        assert again.json["unchanged"] == 2
    (found,) = api.get("/detectors/door/queries?key=a").json["items"]
    assert found["id"] == made["id"]
    assert (found["predicted"], found["waiting"]) == (predicted, False)
    assert (found["version"], found["input"]) == ("v2", "x")
    assert (found["metadata"], found["label"]) == ({"camera": 3}, "NO")
    labels = api.get(f"/queries/{found['id']}/labels").json["items"]
    assert [one["label"] for one in labels] == ["NO", "YES"]
    assert api.get("/detectors/door/queries?waiting=true").json["items"] == []
    estimate = api.get("/detectors/door/estimate?version=v2").json
    assert estimate["labels"] == 1


def test_queries_that_wait_are_found_by_their_key(api, door):
    made = [
        api.post("/detectors/door/queries", {"key": key}).json for key in ("a1", "a2")
    ]
    api.post("/detectors/door/queries", {"key": "a3", "predicted": "NO"})
    api.post("/detectors/door/queries", {"key": "b", "predicted": "NO"})
    page = api.get("/detectors/door/queries?key=a1").json
    assert (page["items"], page["total"]) == (made[:1], 1)
    page = api.get("/detectors/door/queries?key=a*").json
    assert [one["key"] for one in page["items"]] == ["a3", "a2", "a1"]
    assert page["total"] == 3
    for waiting, keys in (("true", ["a2", "a1"]), ("false", ["a3"])):
        page = api.get(f"/detectors/door/queries?key=a*&waiting={waiting}").json
        assert [one["key"] for one in page["items"]] == keys
    # With an order or another filter there are only queries with a prediction.
    page = api.get("/detectors/door/queries?key=a*&sort=key").json
    assert [one["key"] for one in page["items"]] == ["a3"]


def test_a_label_with_a_query_is_given_by_the_key_that_sent_it(api, door):
    query = api.post("/detectors/door/queries", WHOLE, role="editor").json
    labels = api.get(f"/queries/{query['id']}/labels").json["items"]
    assert [(label["label"], label["labeler"]) for label in labels] == [
        ("NO", "editor-key")
    ]


def test_the_same_key_with_the_same_content_gives_the_stored_query(api, door, tables):
    made = api.post("/detectors/door/queries", WHOLE)
    before = tables()
    again = api.post("/detectors/door/queries", WHOLE)
    assert again.status_code == 200
    assert again.json == made.json
    assert tables() == before


def test_the_same_key_is_known_after_a_correction_too(api, door):
    made = api.post("/detectors/door/queries", WHOLE).json
    api.post(f"/queries/{made['id']}/labels", {"label": "YES"})
    again = api.post("/detectors/door/queries", WHOLE)
    assert again.status_code == 200
    assert again.json["label"] == "YES"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "other",
    [
        {"predicted": "NO"},
        {"input": "frame-2.jpg"},
        {"input": None},
        {"confidence": 0.5},
        {"confidence": None},
        {"version": "v4"},
        {"asked_at": "2026-01-02T03:04:05.678902Z"},
        {"metadata": {"camera": 3}},
        {"metadata": None},
        {"image_url": None},
        {"label": "YES"},
    ],
    ids=str,
)
def test_the_same_key_with_other_content_is_a_conflict(api, door, tables, other):
    api.post("/detectors/door/queries", WHOLE)
    before = tables()
    problem = assert_problem(
        api.post("/detectors/door/queries", {**WHOLE, **other}), 409
    )
    assert next(iter(other)) in str(problem["detail"])
    assert tables() == before


def test_a_key_is_unique_within_its_detector_only(api, door):
    api.post("/detectors", {"name": "gate", "question": "?"})
    for name in ("door", "gate"):
        made = api.post(f"/detectors/{name}/queries", {"predicted": "YES", "key": "k"})
        assert made.status_code == 201


def test_unknown_queries_are_not_found(api, door):
    ids = (
        "iq_1",
        "iq_0x1",
        "iq_-1",
        "iq_9999999999999999999999",
        "iq_",
        "1",
        "lab_1",
        "%00",
    )
    for bad in ids:
        assert_problem(api.get(f"/queries/{bad}"), 404)
        assert_problem(api.get(f"/queries/{bad}/image"), 404)
        assert_problem(api.get(f"/queries/{bad}/labels"), 404)
        assert_problem(api.post(f"/queries/{bad}/labels", {"label": "YES"}), 404)
    assert_problem(api.post("/detectors/nothing/queries", {"predicted": "YES"}), 404)
    assert_problem(api.get("/detectors/nothing/queries"), 404)


@pytest.fixture
def logged(api, door):
    """Twelve queries of every kind, the newest first."""
    queries = []
    for version in ("v1", "v2"):
        for predicted in ("YES", "NO"):
            for label in ("YES", "UNCLEAR", None):
                body = {"predicted": predicted, "version": version, "label": label}
                queries.append(api.post("/detectors/door/queries", body).json)
    return queries[::-1]


def test_a_list_has_the_newest_first_and_is_walked_exactly_once(api, logged):
    for limit in (1, 5, 12, 13):
        assert api.walk(f"/detectors/door/queries?limit={limit}") == logged


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ("labelled=true", 8),
        ("labelled=false", 4),
        ("predicted=NO", 6),
        ("label=YES", 4),
        ("label=UNCLEAR", 4),
        ("label=NO", 0),
        ("version=v2", 6),
        ("version=*", 12),
        ("version=v1&predicted=YES&labelled=true&label=UNCLEAR", 1),
    ],
)
def test_a_list_can_be_filtered(api, logged, filters, count):
    wanted = dict(part.split("=") for part in filters.split("&"))
    expected = [
        query
        for query in logged
        if wanted.get("labelled", str(query["label"] is not None).lower())
        == str(query["label"] is not None).lower()
        and wanted.get("predicted", query["predicted"]) == query["predicted"]
        and wanted.get("label", query["label"]) == query["label"]
        and wanted.get("version", "*") in {"*", query["version"]}
    ]
    assert len(expected) == count
    for limit in (1, 100):
        found = api.walk(f"/detectors/door/queries?{filters}&limit={limit}")
        assert found == expected


def test_a_page_asked_for_meanwhile_leaves_nothing_out(api, logged):
    first = api.get("/detectors/door/queries?limit=4").json
    api.post("/detectors/door/queries", {"predicted": "YES"})
    assert first["items"] + api.walk(first["next"]) == logged


def test_two_detectors_do_not_see_each_others_queries(api, logged):
    api.post("/detectors", {"name": "gate", "question": "?"})
    assert api.walk("/detectors/gate/queries") == []


def test_the_same_key_with_another_sampling_is_a_conflict(api, door):
    api.post("/detectors/door/queries", WHOLE)
    other = {**WHOLE, "sampling": "targeted"}
    assert_problem(api.post("/detectors/door/queries", other), 409)
    plain = {"key": "plain", "predicted": "YES"}
    made = api.post("/detectors/door/queries", plain).json
    label = {"label": "NO", "sampling": "targeted"}
    api.post(f"/queries/{made['id']}/labels", label)
    assert api.post("/detectors/door/queries", plain).status_code == 200


def at_once(number, call):
    """Return the statuses of *number* calls made at the same moment."""
    start = threading.Barrier(number)
    statuses = []

    def run(place):
        start.wait()
        statuses.append(call(place).status_code)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(statuses)


def test_the_same_new_key_sent_at_once_is_stored_once(api, door):
    for key in range(5):
        body = {**WHOLE, "key": str(key), "version": f"v{key}"}
        statuses = at_once(6, lambda _, b=body: api.post("/detectors/door/queries", b))
        assert statuses == [200] * 5 + [201]
    assert len(api.walk("/detectors/door/queries")) == 5
    pooled = api.get("/detectors/door/estimate?version=*").json
    # All of them have one input.
    assert (pooled["labels"], pooled["versions_left_out"]) == (1, 4)


def test_the_same_new_name_sent_at_once_is_given_once(api):
    body = {"name": "gate", "question": "?"}
    assert at_once(6, lambda _: api.post("/detectors", body)) == [201] + [409] * 5
