"""Detectors by API."""

import pytest

from tests.api.problems import assert_problem
from tests.databases import noted_statements


def test_a_detector_is_made_with_what_was_sent(api):
    body = {
        "name": "cats",
        "question": "Which cat?",
        "classes": ["tom", "Tom", "félix"],
        "confidence_level": 0.9,
        "target": 0.8,
        "queue_rate": 0.25,
    }
    made = api.post("/detectors", body)
    assert made.status_code == 201
    assert {name: made.json[name] for name in body} == body
    assert made.json["id"].startswith("det_")
    assert made.json["created_at"].endswith("Z")
    assert made.json["archived_at"] is None
    assert made.json["versions"] == []
    assert api.get(f"/detectors/{made.json['id']}").json == made.json
    assert api.get("/detectors/cats").json == made.json


def test_what_is_left_out_has_the_published_defaults(api, door):
    assert door["classes"] == ["YES", "NO"]
    assert door["confidence_level"] == 0.95
    assert door["target"] is None
    assert door["queue_rate"] == 1


def test_versions_stand_in_the_order_they_arrived(api, door):
    for version in ("v2", "v1", "v2"):
        api.post("/detectors/door/queries", {"predicted": "YES", "version": version})
    versions = api.get("/detectors/door").json["versions"]
    assert [version["name"] for version in versions] == ["v2", "v1"]


def test_a_name_is_given_once(api, door):
    assert_problem(api.post("/detectors", {"name": "door", "question": "?"}), 409)


def test_a_change_changes_only_what_it_names(api, door):
    changed = api.patch("/detectors/door", {"target": 0.9, "name": "gate"})
    assert changed.json == {**door, "target": 0.9, "name": "gate"}
    assert api.get("/detectors/gate").json == changed.json
    assert_problem(api.get("/detectors/door"), 404)
    cleared = api.patch("/detectors/gate", {"target": None})
    assert cleared.json["target"] is None
    assert api.patch("/detectors/gate", {}).json == cleared.json
    rated = api.patch("/detectors/gate", {"queue_rate": 0.125})
    assert rated.json == {**cleared.json, "queue_rate": 0.125}


@pytest.mark.parametrize("rate", [0, -1, 1.5, "1", None, True])
def test_an_queue_rate_is_a_share(api, door, rate):
    wrong = api.patch("/detectors/door", {"queue_rate": rate})
    assert_problem(wrong, 422, field="queue_rate")
    assert api.get("/detectors/door").json == door


def test_a_change_to_a_taken_name_is_a_conflict(api, door):
    api.post("/detectors", {"name": "gate", "question": "?"})
    assert_problem(api.patch("/detectors/door", {"name": "gate"}), 409)


def test_classes_cannot_be_changed(api, door):
    wrong = api.patch("/detectors/door", {"classes": ["A", "B"]})
    assert_problem(wrong, 422, field="classes")


def test_an_archived_detector_is_kept_and_cannot_be_written_to(api, door):
    query = api.post("/detectors/door/queries", {"predicted": "YES", "label": "YES"})
    gone = api.delete("/detectors/door")
    assert gone.status_code == 204
    assert gone.data == b""
    assert "Content-Type" not in gone.headers
    assert api.get("/detectors").json["items"] == []
    assert_problem(api.get("/detectors/door"), 404)
    path = f"/detectors/{door['id']}"
    archived_at = api.get(path).json["archived_at"]
    assert archived_at.endswith("Z")
    assert api.delete(path).status_code == 204
    assert api.get(path).json["archived_at"] == archived_at
    assert api.get(f"{path}/estimate").json["labels"] == 1
    assert api.get(f"{path}/queries").json["items"] == [query.json]
    assert_problem(api.patch(path, {"target": 0.5}), 409)
    assert_problem(api.post(f"{path}/queries", {"predicted": "YES"}), 409)
    assert_problem(api.send_file(f"{path}/import", "predicted\nYES\n"), 409)
    label = api.post(f"/queries/{query.json['id']}/labels", {"label": "NO"})
    assert_problem(label, 409)


def test_the_name_of_an_archived_detector_is_free(api, door):
    api.delete("/detectors/door")
    again = api.post("/detectors", {"name": "door", "question": "Again?"})
    assert again.status_code == 201
    assert again.json["id"] != door["id"]
    assert api.get("/detectors/door").json == again.json


def test_a_list_is_walked_exactly_once(api):
    names = [f"detector {number}" for number in range(7)]
    for name in names:
        api.post("/detectors", {"name": name, "question": "?"})
    for limit in (1, 2, 3, 7, 8, 1000):
        items = api.walk(f"/detectors?limit={limit}")
        assert [item["name"] for item in items] == names


def test_a_list_can_be_asked_for_one_name(api, door):
    api.post("/detectors", {"name": "gate", "question": "?"})
    assert [item["name"] for item in api.walk("/detectors?name=gate")] == ["gate"]
    assert api.get("/detectors?name=nothing").json == {"items": [], "next": None}


def test_a_name_works_in_a_path_whatever_stands_in_it(api):
    for name in (
        "50% off",
        "a?b#c",
        "Tür & Tor",
        "%2F",
        "..",
        "+",
    ):
        made = api.post("/detectors", {"name": name, "question": "?"})
        assert made.status_code == 201, made.text
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        assert api.get(f"/detectors/{quoted}").json == made.json
        for number in range(2):
            logged = api.post(f"/detectors/{quoted}/queries", {"predicted": "YES"})
            assert logged.status_code == 201, (name, number)
        assert len(api.walk(f"/detectors/{quoted}/queries?limit=1")) == 2
        assert api.get(f"/detectors/{quoted}/estimate").json["name"] == name


def test_ids_that_are_none_are_not_found(api, door):
    for bad in (
        "det_0",
        "det_x",
        "det_01",
        "det_-1",
        "det_9999999999999999999999",
        "%00",
    ):
        assert_problem(api.get(f"/detectors/{bad}"), 404)
    assert_problem(api.get("/detectors/d%C3%B6%FFr"), 404)


def test_unknown_paths_and_methods_are_problems_too(api, door):
    unknown = assert_problem(api.get("/nothing"), 404)
    assert unknown["detail"] == "there is no path '/api/v1/nothing'"
    unknown = assert_problem(api.get("/detectors/door/nothing"), 404)
    assert unknown["detail"] == "there is no path '/api/v1/detectors/door/nothing'"
    assert_problem(api.get("/api/nothing"), 404)
    wrong = api.call("PUT", "/detectors")
    assert_problem(wrong, 405)
    assert {"GET", "POST"} <= set(wrong.headers["Allow"].split(", "))
    wrong = api.call("PATCH", "/detectors/door/queries")
    assert_problem(wrong, 405)
    assert {"GET", "POST"} <= set(wrong.headers["Allow"].split(", "))


def test_a_name_has_no_slash(api, door):
    for name in ("door/slices", "x/estimate", "a//b", "/"):
        wrong = assert_problem(
            api.post("/detectors", {"name": name, "question": "?"}), 422, field="name"
        )
        assert "a name must not contain a slash (/)" in wrong["detail"]
        assert_problem(api.patch("/detectors/door", {"name": name}), 422, field="name")
    assert [item["name"] for item in api.walk("/detectors")] == ["door"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_wrong_method_of_a_part_of_a_detector_is_not_allowed(api, app, door, method):
    parts = [rule for rule in app.url_map.iter_rules() if is_part_of_detector(rule)]
    assert len(parts) > 30
    taken = {rule.rule for rule in parts if method in rule.methods}
    for path in {rule.rule for rule in parts} - taken:
        asked = path.removeprefix("/api/v1").replace("<id>", "door")
        assert_problem(api.call(method, asked), 405)
    assert api.get("/detectors/door").json == door


def is_part_of_detector(rule):
    return rule.rule.startswith("/api/v1/detectors/<id>/")


def test_a_guideline_keeps_its_line_breaks_and_has_a_limit(api):
    body = {"name": "gate", "question": "Open?", "guideline": "a\n\nb "}
    assert api.post("/detectors", body).json["guideline"] == "a\n\nb "
    assert api.patch("/detectors/gate", {"guideline": ""}).json["guideline"] == ""
    for wrong, message in (
        ("x" * 5001, "at most 5,000 characters"),
        ("\x00", "NUL"),
        (None, "must not be null"),
    ):
        answer = api.patch("/detectors/gate", {"guideline": wrong})
        assert message in assert_problem(answer, 422)["errors"][0]["message"]


def test_a_detector_names_the_key_of_the_metadata_that_is_its_text(api):
    body = {"name": "mail", "question": "Is it spam?"}
    assert api.post("/detectors", body).json["text_field"] is None
    for name in ("body", " a key: 1 ", "x" * 100, None):
        changed = api.patch("/detectors/mail", {"text_field": name})
        assert changed.status_code == 200
        assert api.get("/detectors/mail").json["text_field"] == name
    api.patch("/detectors/mail", {"text_field": "body"})
    api.patch("/detectors/mail", {"target": 0.9})
    assert api.get("/detectors/mail").json["text_field"] == "body"
    made = api.post("/detectors", body | {"name": "chat", "text_field": "said"})
    assert made.json["text_field"] == "said"


@pytest.mark.parametrize("wrong", ["", "x" * 101, "\x00", 1, ["body"]])
def test_a_text_field_that_is_no_key_is_refused(api, door, wrong):
    answer = api.patch("/detectors/door", {"text_field": wrong})
    assert_problem(answer, 422, field="text_field")
    assert api.get("/detectors/door").json["text_field"] is None


def test_a_list_takes_as_many_statements_as_one_detector(api, database):
    for name in ("front", "back", "side"):
        new = {"name": name, "question": "Is it open?"}
        assert api.post("/detectors", new).status_code == 201
        for version in ("v1", "v2"):
            row = {"predicted": "YES", "version": version}
            assert api.post(f"/detectors/{name}/queries", row).status_code == 201
    counts = []
    for limit in (1, 3):
        with noted_statements(database) as statements:
            items = api.get("/detectors", query_string={"limit": limit}).json["items"]
        assert [len(one["versions"]) for one in items] == [2] * limit
        counts.append(len(statements))
    assert counts[0] == counts[1]
