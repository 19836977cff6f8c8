"""What the SDK sends and what it is answered, call by call."""

import pytest

from tests.databases import get_by_id
from tests.groundlight.conftest import encode, jpeg

RESULT = {"from_edge": False, "result_type": "binary_classification"}


@pytest.fixture
def door(device):
    return device.make()["id"]


def test_a_name_that_is_missing_makes_an_empty_page(device):
    empty = {"count": 0, "next": None, "previous": None, "results": []}
    assert device.get("/detectors?name=door") == empty
    assert device.get("/detectors?name=%00") == empty
    assert device.get("/image-queries") == empty


def test_a_detector_is_made_and_found(device):
    more = {"group_name": "g1", "metadata": encode({"site": "HQ"})}
    more |= {"confidence_threshold": 0.8, "patience_time": 20.0}
    made = device.make(" door ", **more)
    assert made.pop("created_at").endswith("Z")
    assert made == {
        "confidence_threshold": 0.8,
        "escalation_type": "STANDARD",
        "group_name": "g1",
        "id": "det_1",
        "metadata": {"site": "HQ"},
        "mode": "BINARY",
        "mode_configuration": None,
        "name": "door",
        "patience_time": 20.0,
        "query": "Is it closed?",
        "status": "ON",
        "type": "detector",
    }
    found = device.get("/detectors/det_1")
    found.pop("created_at")
    assert found == made
    assert device.get("/detectors?name=door")["count"] == 1
    groups = device.get("/detector-groups")
    assert [group["name"] for group in groups] == ["default", "g1"]


def test_a_name_that_is_taken_is_refused_as_programs_know_it(device, door):
    again = {"name": "door", "query": "Is it?"}
    wrong = device.post("/detectors", again, 400)
    assert wrong["name"] == ["Detector with this name already exists."]
    assert "unique_undeleted_name_per_set" in wrong["non_field_errors"][0]
    gate = f"/detectors/{device.make('gate')['id']}"
    renamed = device.call("PATCH", gate, {"name": "door"})
    assert renamed.status_code == 400
    assert "unique_undeleted_name_per_set" in renamed.text
    assert device.get(gate)["name"] == "gate"


def test_a_slash_in_a_name_is_refused(device, door):
    wrong = device.post("/detectors", {"name": "site/door", "query": "Open?"}, 400)
    assert "must not contain a slash (/)" in wrong["name"][0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "?"}, "name"),
        ({"name": "a"}, "query"),
        ({"name": "", "query": "?"}, "name"),
        ({"name": "a", "query": " "}, "query"),
        (
            {"name": "a", "query": "?", "confidence_threshold": 2},
            "confidence_threshold",
        ),
        ({"name": "a", "query": "?", "metadata": "%"}, "metadata"),
        ({"name": "a", "query": "?", "metadata": encode([1])}, "metadata"),
        ({"name": "a", "query": "?", "mode": "TEXT"}, "mode"),
        ({"name": "a", "query": "?", "mode": "BOUNDING_BOX"}, "mode"),
        ({"name": "a", "query": "?", "mode": "MULTI_CLASS"}, "mode_configuration"),
        *(
            (
                {
                    "name": "a",
                    "query": "?",
                    "mode": "MULTI_CLASS",
                    "mode_configuration": {"class_names": names},
                },
                "mode_configuration",
            )
            for names in (["A"], ["A", "A"], ["A", 1], ["A", "unclear"], "AB")
        ),
        *(
            (
                {
                    "name": "a",
                    "query": "?",
                    "mode": "COUNT",
                    "mode_configuration": configuration,
                },
                "mode_configuration",
            )
            for configuration in (
                {},
                {"class_name": "car", "max_count": 51},
                {"class_name": "car", "max_count": 0},
                {"class_name": "", "max_count": 5},
            )
        ),
    ],
)
def test_a_detector_that_is_wrong_is_refused_by_field(device, tables, body, field):
    before = tables()
    wrong = device.post("/detectors", body, 400)
    assert list(wrong) == [field]
    assert all(isinstance(message, str) for message in wrong[field])
    assert tables() == before


def test_what_is_no_json_object_is_refused(device):
    for options in ({"json": [1]}, {"data": "{", "content_type": "application/json"}):
        wrong = device.call("POST", "/detectors", **options)
        assert wrong.status_code == 400
        assert wrong.is_json
    assert device.call("POST", "/detectors", data="name=a").status_code == 415


def test_lists_come_in_pages(device):
    for number in range(5):
        device.make(f"door {number}")
    page = device.get("/detectors?page=2&page_size=2")
    assert page["count"] == 5
    assert [one["name"] for one in page["results"]] == ["door 2", "door 3"]
    root = "http://localhost/device-api/v1/detectors"
    assert page["next"] == f"{root}?page=3&page_size=2"
    assert page["previous"] == f"{root}?page=1&page_size=2"
    assert device.get("/detectors?page=3&page_size=2")["next"] is None
    assert "Not found" in device.get("/detectors?page=4&page_size=2", 404)["detail"]
    for page in ("0", "-1", "x", "9" * 30):
        device.get(f"/detectors?page={page}", 404)
    for size in ("0", "x", "9" * 30):
        assert device.get(f"/detectors?page_size={size}")["count"] == 5


def test_a_query_carries_its_prediction_in_its_metadata(device, door):
    said = {"prediction": "YES", "confidence": 0.97, "model_version": "v3"}
    made = device.log(door, said, human_review="NEVER", patience_time="10.0")
    assert made.pop("created_at").endswith("Z")
    expected = {
        "confidence_threshold": 0.9,
        "detector_id": "det_1",
        "done_processing": False,
        "id": made["id"],
        "metadata": said,
        "patience_time": 10.0,
        "query": "Is it closed?",
        "result": {**RESULT, "confidence": 0.97, "label": "YES", "source": "ALGORITHM"},
        "result_type": "binary_classification",
        "rois": None,
        "text": None,
        "type": "image_query",
    }
    assert made == expected
    found = device.get(f"/image-queries/{made['id']}")
    found.pop("created_at")
    assert found == {**expected, "patience_time": 30.0}


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"label": "no"}, "NO"),
        ({"prediction": True}, "YES"),
        ({"prediction": "PASS"}, "YES"),
        ({"prediction": "FAIL", "label": "YES"}, "NO"),
    ],
)
def test_a_prediction_has_several_spellings(device, door, said, answer):
    assert device.log(door, said)["result"]["label"] == answer


def test_version_and_input_come_with_the_prediction(device, door, database):
    from tracker.services.queries.queries import get_query
    from tracker.storage.detectors import Version

    named = ({"model_version": "v2"}, {"version": 2}, {"version": "v2", "input": 7}, {})
    found = []
    for more in named:
        made = device.log(door, {"prediction": "YES", **more})
        with database.read() as session:
            query = get_query(session, made["id"])
            version = get_by_id(session, Version, query.version_id).name
            found.append((version, query.input))
    assert found == [("v2", None), ("2", None), ("v2", "7"), ("default", None)]


@pytest.mark.parametrize(
    "metadata",
    [
        {"prediction": "MAYBE"},
        {"prediction": "UNCLEAR"},
        {"prediction": 3},
        {"prediction": ["YES"]},
        {"prediction": "YES", "confidence": 1.5},
        {"prediction": "YES", "confidence": "0.9"},
        {"prediction": "YES", "version": "*"},
        {"prediction": "YES", "input": {}},
        ["YES"],
    ],
)
def test_a_prediction_that_is_wrong_is_refused(device, door, tables, metadata):
    before = tables()
    wrong = device.submit(door, metadata)
    assert wrong.status_code == 400
    assert list(wrong.json) == ["metadata"]
    assert tables() == before


def test_a_query_without_an_image_is_refused(device, door, tables):
    before = tables()
    for content in (b"", b"no image"):
        wrong = device.submit(door, {"prediction": "YES"}, image=content)
        assert (wrong.status_code, list(wrong.json)) == (400, ["image"])
    assert device.submit("det_404", None).status_code == 404
    assert device.submit(door, None, image_query_id="iq_1").status_code == 400
    assert device.submit(door, None, patience_time="soon").status_code == 400
    assert tables() == before


def test_a_query_gives_its_image_back(device, door):
    made = device.log(door, image=jpeg("blue"))["id"]
    image = device.call("GET", f"/image-queries/{made}/image")
    assert (image.status_code, image.mimetype) == (200, "image/jpeg")
    assert image.data[:2] == b"\xff\xd8"


def test_a_label_replaces_the_prediction_and_the_label_before(device, door):
    query = device.log(door, {"prediction": "YES", "confidence": 0.6})["id"]
    given = device.label(query, "YES")
    assert given.pop("created_at").endswith("Z")
    assert given == {
        "annotations_requested": [],
        "class_name": "YES",
        "confidence": None,
        "detector_id": None,
        "rois": None,
        "source": "CUST",
        "text": None,
    }
    for sent, kept in (("no", "NO"), ("PASS", "YES"), ("unclear", "UNCLEAR")):
        assert device.label(query, sent)["class_name"] == kept
        found = device.get(f"/image-queries/{query}")
        result = {**RESULT, "confidence": 1.0, "label": kept, "source": "USER"}
        assert found["result"] == result
        assert found["done_processing"]
    wrong = device.label(query, "MAYBE", 400)
    assert wrong == {"label": ['"MAYBE" is not a valid choice.']}
    device.label(query, None, 400)
    device.label("iq_404", "YES", 404)
    boxes = {"label": "YES", "image_query_id": query, "rois": [{"label": "a"}]}
    assert list(device.post("/labels", boxes, 400)) == ["rois"]


def test_a_count_is_a_class_up_to_the_most_and_one_for_more(device):
    configuration = {"class_name": "car", "max_count": 3}
    made = device.make("cars", mode="COUNT", mode_configuration=configuration)
    assert made["mode_configuration"] == configuration
    query = device.log(made["id"], {"prediction": 2, "confidence": 0.5})
    assert query["result"] == {
        "confidence": 0.5,
        "count": 2,
        "from_edge": False,
        "greater_than_max": False,
        "result_type": "counting",
        "source": "ALGORITHM",
    }
    for sent, count, is_greater in (
        ("3", 3, False),
        ("03", 3, False),
        (4, 3, True),
        ("9" * 40, 3, True),
        (">3", 3, True),
        ("UNCLEAR", None, False),
    ):
        device.label(query["id"], sent)
        result = device.get(f"/image-queries/{query['id']}")["result"]
        assert (result["count"], result["greater_than_max"]) == (count, is_greater)
    for wrong in ("-1", "1.5", "", ">4"):
        device.label(query["id"], wrong, 400)


def test_the_queries_of_all_detectors_are_listed_the_newest_first(device, door):
    gate = device.make("gate")["id"]
    made = [
        device.log(door, {"prediction": "YES"})["id"],
        device.log(gate)["id"],
        device.log(door)["id"],
    ]
    page = device.get("/image-queries?page=1&page_size=2")
    assert page["count"] == 3
    assert [one["id"] for one in page["results"]] == [made[2], made[1]]
    one = device.get(f"/image-queries?detector_id={door}")
    assert [found["id"] for found in one["results"]] == [made[2], made[0]]
    device.get("/image-queries?detector_id=det_404", 404)


def test_the_same_request_is_carried_out_once(device, door, tables):
    headers = {"X-Request-Id": "req_uu0123456789abcdef"}
    said = {"prediction": "YES"}
    first = device.submit(door, said, headers=headers)
    before = tables()
    again = device.submit(door, said, headers=headers)
    assert (again.status_code, again.data) == (201, first.data)
    assert tables() == before
    other = device.submit(door, {"prediction": "NO"}, headers=headers)
    assert (other.status_code, list(other.json)) == (400, ["X-Request-Id"])
    body = {"name": "gate", "query": "Open?"}
    twice = [
        device.call("POST", "/detectors", body, headers={"X-Request-Id": "req_2"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in twice] == [201, 201]
    assert twice[0].json["id"] == twice[1].json["id"]


def test_a_detector_is_changed(device, door):
    for field, value in (
        ("confidence_threshold", 0.75),
        ("status", "OFF"),
        ("escalation_type", "NO_HUMAN_LABELING"),
        ("name", "gate"),
        ("patience_time", 5),
    ):
        changed = device.call("PATCH", f"/detectors/{door}", {field: value})
        assert (changed.status_code, changed.json[field]) == (200, value)
        assert device.get(f"/detectors/{door}")[field] == value
    for field, value in (
        ("confidence_threshold", 1.1),
        ("status", "BROKEN"),
        ("escalation_type", "LOUD"),
        ("name", ""),
    ):
        wrong = device.call("PATCH", f"/detectors/{door}", {field: value})
        assert (wrong.status_code, list(wrong.json)) == (400, [field])


def test_a_detector_that_is_deleted_is_archived(device, door, database):
    from tracker.services.detectors import get_detector

    query = device.log(door, {"prediction": "YES"})["id"]
    reset = device.call("DELETE", f"/detector-reset/{door}")
    assert reset.status_code == 400
    assert "archives" in reset.text
    gone = device.call("DELETE", f"/detectors/{door}")
    assert (gone.status_code, gone.data) == (204, b"")
    for method in ("GET", "DELETE"):
        answer = device.call(method, f"/detectors/{door}")
        assert answer.status_code == 404
        assert answer.json["detail"].startswith("Not found")
    assert device.get("/detectors")["count"] == 0
    assert device.get(f"/image-queries/{query}")["id"] == query
    device.label(query, "YES", 400)
    with database.read() as session:
        assert get_detector(session, door).archived_at is not None
    assert device.make()["id"] != door


def test_a_detector_of_our_own_api_is_one_of_theirs(device, database, clock):
    from tests.conftest import by
    from tracker.services.detectors import NewDetector, create_detector

    with database.write() as session:
        for name, classes in (("a", ["NO", "YES"]), ("b", ["in", "out"])):
            new = NewDetector(name=name, question="?", classes=classes)
            create_detector(session, new, by(at=clock()))
    first, second = device.get("/detectors")["results"]
    assert (first["mode"], first["mode_configuration"]) == ("BINARY", None)
    assert second["mode_configuration"] == {"class_names": ["in", "out"]}
    made = device.log(second["id"], {"prediction": "in"})
    assert made["result"]["result_type"] == "multi_classification"
    device.label(made["id"], "IN", 400)


def test_groups_have_names_of_their_own(device):
    assert device.get("/detector-groups")[0]["name"] == "default"
    made = device.post("/detector-groups", {"name": "docks"})
    assert made == device.get("/detector-groups")[1]
    assert list(device.post("/detector-groups", {"name": "docks"}, 400)) == ["name"]
    assert list(device.post("/detector-groups", {"name": "default"}, 400)) == ["name"]
    assert list(device.post("/detector-groups", {"name": ""}, 400)) == ["name"]


def test_who_asks_and_what_was_used(device, door):
    me = device.get("/me")
    assert me["username"] == me["email"] == "admin-key"
    assert me["is_superuser"] is False
    assert isinstance(me["group"]["id"], int)
    key = device.keys["admin"]
    token = device.get(f"/api-tokens/by-snippet/{key[:20]}")
    assert (token["name"], token["token_ttl"]) == ("admin-key", None)
    device.get(f"/api-tokens/by-snippet/{device.keys['viewer'][:20]}", 404)
    device.log(door, {"prediction": "YES"})
    usage = device.get("/month-to-date-account-info")
    assert (usage["iqs"], usage["active_detectors"]) == (1, 1)


def test_what_there_is_not_is_said_in_json(device):
    for path in ("/detectors/det_404", "/image-queries/iq_404"):
        assert device.get(path, 404)["detail"].startswith("Not found")
    # These reach no call of this API, and are problem documents as everywhere.
    assert "there is no path" in device.get("/nothing", 404)["detail"]
    wrong = device.call("PUT", "/detectors")
    assert wrong.status_code == 405
    assert wrong.json["detail"]


def test_the_metrics_count_each_query_at_its_answer(device, door):
    for prediction, confidence, label in (
        ("YES", 0.95, "NO"),
        ("YES", 0.95, None),
        ("NO", 0.5, None),
        ("NO", None, None),
        ("NO", 0.95, "UNCLEAR"),
    ):
        said = {"prediction": prediction}
        if confidence is not None:
            said["confidence"] = confidence
        query = device.log(door, said)["id"]
        if label is not None:
            device.label(query, label)
    device.log(door)
    assert device.get(f"/detectors/{door}/metrics")["summary"] == {
        "class_counts": {
            "cloud": {},
            "cloud_labeler": {},
            "source_human": {"YES": 0, "NO": 1, "UNCLEAR": 1},
            "source_ml": {"YES": 1, "NO": 2},
            "total": {"YES": 1, "NO": 3, "UNCLEAR": 1},
        },
        "num_current_source_human": 2,
        "num_ground_truth": 1,
        "total_iqs": 6,
        "unconfident_counts": {"YES": 0, "NO": 2},
    }


def test_the_evaluation_is_our_estimate_with_its_intervals(device, door, app):
    assert device.get(f"/detectors/{door}/evaluation") == {"evaluation_results": None}
    for prediction, label in (("YES", "YES"), ("YES", "NO"), ("NO", "NO")):
        query = device.log(door, {"prediction": prediction})["id"]
        device.label(query, label)
    results = device.get(f"/detectors/{door}/evaluation")["evaluation_results"]
    assert results["class_accuracies"] == {"YES": 1.0, "NO": 0.5}
    assert results["confusion_dict"] == {"YES": {"YES": 1}, "NO": {"YES": 1, "NO": 1}}
    assert results["num_examples_per_class"] == {"YES": 1, "NO": 2}
    assert results["kfold_pooled__balanced_accuracy"] == 0.75
    assert results["total_ground_truth_examples"] == 3
    headers = {"Authorization": f"Bearer {device.keys['viewer']}"}
    ours = app.test_client().get(
        f"/api/v1/detectors/{door}/estimate", headers=headers, buffered=True
    )
    expected = {**ours.json, "computed_at": results["eval_timestamp"]}
    assert results["x_estimate"] == expected
    balanced = expected["balanced"]
    assert results["x_confidence_intervals"]["balanced_accuracy"] == {
        "lower": balanced["low"],
        "upper": balanced["high"],
    }


def test_the_evaluation_has_the_label_errors(device, door, app):
    query = device.log(door, {"prediction": "YES"})["id"]
    device.label(query, "YES")
    client = app.test_client()
    for role, path, body in (
        ("editor", f"detectors/{door}/rechecks", {"count": 1}),
        ("labeler", f"queries/{query}/recheck", {"label": "YES"}),
    ):
        headers = {"Authorization": f"Bearer {device.keys[role]}"}
        given = client.post(f"/api/v1/{path}", json=body, headers=headers)
        assert given.status_code == 201, given.text
    ours = client.get(f"/api/v1/detectors/{door}/estimate", headers=headers)
    results = device.get(f"/detectors/{door}/evaluation")["evaluation_results"]
    assert ours.json["label_errors"]["answered"] == 1
    assert results["x_estimate"]["label_errors"] == ours.json["label_errors"]
