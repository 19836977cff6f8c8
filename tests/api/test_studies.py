"""Resampling studies by API."""

import csv
import io
import json

import pytest

from tests.api.problems import assert_problem
from tests.api.test_bad_bodies import NAMES, NO_OBJECT, NOT_JSON, WRONG_CONFIDENCES
from tests.services.irises import IRIS, SEEDS, iris

PATH = "/detectors/door/studies"
BODY = {"name": "tree", "kind": "bootstrap", "rounds": iris()}
METHODS = ["bootstrap-t", "percentile", "632", "632+"]


@pytest.fixture
def study(api, door):
    """The published study of the irises."""
    sent = api.post(PATH, BODY, role="editor")
    assert sent.status_code == 201, sent.text
    return dict(sent.json)


def test_a_study_is_answered_with_its_intervals(api, door, study):
    assert study["id"].startswith("stu_")
    assert study["detector"] == door["id"]
    assert (study["name"], study["kind"], study["rounds"]) == ("tree", "bootstrap", 200)
    assert (study["version"], study["note"]) == (None, None)
    assert study["added_by"] == "editor-key"
    assert study["confidence_level"] == 0.95
    said = {
        one["method"]: (round(one["low"], 4), one["high"]) for one in study["intervals"]
    }
    assert list(said) == METHODS
    # As they are printed; see tests/stats/test_resampling.py.
    assert (said["bootstrap-t"], said["percentile"]) == ((0.8795, 1), (0.8696, 1))
    for one in study["intervals"]:
        assert one["is_guaranteed"] is False
        assert one["meaning"].startswith("An approximation that covers ")
    assert api.get(f"/studies/{study['id']}", role="viewer").json == study


def test_the_level_can_be_chosen(api, study):
    narrow = api.get(f"/studies/{study['id']}?confidence_level=0.5").json
    assert narrow["confidence_level"] == 0.5
    for less, wide in zip(narrow["intervals"], study["intervals"], strict=True):
        assert less["low"] > wide["low"]
    api.patch("/detectors/door", {"confidence_level": 0.5})
    assert api.get(f"/studies/{study['id']}").json == narrow


def test_csv_gives_the_same_study(api, door, study):
    sent = api.send_file(f"{PATH}?name=tree&kind=bootstrap", IRIS.read_bytes())
    assert sent.status_code == 200, sent.text
    assert sent.json == study
    text = "accuracy\r\n" + "".join(f"{one['accuracy']}\r\n" for one in SEEDS)
    said = "name=luck&kind=seeds&version=v3&note=five+of+them"
    sent = api.send_file(f"{PATH}?{said}", text)
    assert sent.status_code == 201, sent.text
    assert (sent.json["version"], sent.json["note"]) == ("v3", "five of them")
    assert [one["method"] for one in sent.json["intervals"]] == ["seeds-t"]


def test_sending_again_gives_the_stored_one_and_other_content_is_a_conflict(
    api, study, tables
):
    before = tables()
    again = api.post(PATH, BODY)
    assert again.status_code == 200
    assert again.json == study
    for other in ({"note": "x"}, {"version": "v1"}, {"rounds": iris()[1:]}):
        assert_problem(api.post(PATH, {**BODY, **other}), 409)
    assert tables() == before


def test_a_name_is_taken_within_its_detector_only(api, study):
    api.post("/detectors", {"name": "gate", "question": "?"})
    sent = api.post("/detectors/gate/studies", BODY)
    assert sent.status_code == 201
    assert sent.json["id"] != study["id"]


def test_a_list_is_walked_exactly_once_and_has_the_newest_first(api, study):
    for number in range(6):
        body = {"name": f"seeds {number}", "kind": "seeds", "rounds": SEEDS}
        assert api.post(PATH, body).status_code == 201
    found = api.walk(f"{PATH}?limit=2")
    assert [one["name"] for one in found] == [
        *(f"seeds {number}" for number in range(5, -1, -1)),
        "tree",
    ]
    assert found == api.walk(PATH)
    assert "intervals" not in found[0]
    assert {**found[-1], **study} == study


def test_rounds_come_back_in_every_format(api, study):
    import pyarrow.parquet as pq

    path = f"/studies/{study['id']}/rounds"
    got = api.get(path, role="viewer")
    assert got.json == {"items": iris(), "next": None}
    assert got.headers["Content-Disposition"].endswith(f'"{study["id"]}-rounds.json"')
    got = api.get(f"{path}?format=csv")
    assert got.content_type == "text/csv; charset=utf-8"
    reader = csv.DictReader(io.StringIO(got.text, newline=""))
    assert [{k: float(v) for k, v in row.items()} for row in reader] == iris()
    got = api.get(f"{path}?format=jsonl")
    assert [json.loads(line) for line in got.text.splitlines()] == iris()
    got = api.get(f"{path}?format=parquet")
    assert pq.read_table(io.BytesIO(got.data)).to_pylist() == iris()


def test_an_exported_file_can_be_sent_again(api, study):
    text = api.get(f"/studies/{study['id']}/rounds?format=csv").data
    sent = api.send_file(f"{PATH}?name=tree&kind=bootstrap", text)
    assert (sent.status_code, sent.json["id"]) == (200, study["id"])


def test_an_archived_detector_is_read_and_takes_no_study(api, door, study):
    api.delete(f"/detectors/{door['id']}")
    path = f"/detectors/{door['id']}/studies"
    assert_problem(api.post(path, {**BODY, "name": "late"}), 409)
    assert len(api.walk(path)) == 1
    assert api.get(f"/studies/{study['id']}").json == study


def test_what_is_not_there_is_a_404(api, door):
    for address in ("/studies/stu_1", "/studies/tree", "/studies/stu_1/rounds"):
        assert_problem(api.get(address), 404)
    assert_problem(api.get("/detectors/gate/studies"), 404)
    assert_problem(api.post("/detectors/gate/studies", BODY), 404)
    assert_problem(api.delete(PATH), 405)


RIGHT = {"name": "new", "kind": "seeds", "rounds": [{"accuracy": 0.5}] * 2}
WRONG = {
    "name": [*NAMES, None, 1, True, []],
    "kind": ["", "Seeds", "jackknife", None, 1, []],
    "version": ["", " ", "x" * 101, "a\u0000b", "*", 3],
    "note": ["a\u0000b", "x" * 2_001, 1, []],
    "rounds": [[], [{"accuracy": 0.5}], None, 1, "x", {}, True],
    "seed": [1],
}


def test_a_wrong_field_is_named_and_nothing_is_written(api, door, tables, subtests):
    before = tables()
    for field, values in WRONG.items():
        for value in values:
            with subtests.test(f"{field}={value!r:.60}"):
                problem = assert_problem(api.post(PATH, {**RIGHT, field: value}), 422)
                named = {error["field"] for error in problem["errors"]}
                assert named == {field}
    for value in WRONG_CONFIDENCES:
        with subtests.test(f"accuracy={value!r:.60}"):
            body = {**RIGHT, "rounds": [{"accuracy": 0.5}, {"accuracy": value}]}
            assert_problem(api.post(PATH, body), 422, field="accuracy", row=2)
    for field in RIGHT:
        body = {name: value for name, value in RIGHT.items() if name != field}
        assert_problem(api.post(PATH, body), 422, field=field)
    assert tables() == before


def test_what_is_not_strict_json_is_refused(api, door, tables, subtests):
    before = tables()
    for kind, text in NOT_JSON.items():
        with subtests.test(kind):
            assert_problem(api.send_file(PATH, text, "application/json"), 400)
    for text in NO_OBJECT:
        with subtests.test(text):
            sent = api.send_file(PATH, text, "application/json")
            assert_problem(sent, 422, field="body")
    for media_type in ("", "text/plain", "application/x-ndjson", "multipart/form-data"):
        with subtests.test(media_type):
            assert_problem(api.send_file(PATH, json.dumps(RIGHT), media_type), 415)
    assert tables() == before


def test_what_is_wrong_with_csv_is_named(api, door, tables):
    before = tables()
    address = f"{PATH}?name=new&kind=bootstrap"
    for content, row, field in (
        ("", None, "body"),
        ("validation\n", None, "rounds"),
        ("validation\n0.9\n", None, "rounds"),
        ("validation,colour\n0.9,1\n", None, "colour"),
        ("validation\n0.9\nnan\n", 2, "validation"),
        ("validation\n0.9\n1.1\n", 2, "validation"),
        ("validation,training\n0.9,1\n0.9,\n", 2, "training"),
        ("accuracy\n0.9\n0.9\n", 1, "accuracy"),
    ):
        assert_problem(api.send_file(address, content), 422, field=field, row=row)
    assert tables() == before


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "name"),
        ("name=x", "kind"),
        ("kind=seeds", "name"),
        ("name=&kind=seeds", "name"),
        ("name=x&kind=SEEDS", "kind"),
        ("name=x&kind=seeds&version=*", "version"),
        ("name=x&kind=seeds&note=%00", "note"),
        ("name=x&kind=seeds&rounds=2", "rounds"),
        ("name=x&name=y&kind=seeds", "name"),
    ],
)
def test_what_is_wrong_in_the_address_of_csv_is_named(api, door, tables, query, field):
    before = tables()
    sent = api.send_file(f"{PATH}?{query}", "accuracy\n0.9\n0.8\n")
    assert_problem(sent, 400, field=field)
    assert tables() == before


def test_json_says_everything_in_its_body(api, door):
    assert_problem(api.post(f"{PATH}?name=x", RIGHT), 400, field="name")


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        (PATH, "limit", ["0", "1001", "x", ""]),
        (PATH, "after", ["", "1", "det_1", "stu_x", "stu_01"]),
        (PATH, "version", ["v1"]),
        ("/studies/STUDY", "confidence_level", ["0", "1", "nan", "95", ""]),
        ("/studies/STUDY", "method", ["632"]),
        ("/studies/STUDY/rounds", "format", ["", "CSV", "xls"]),
        ("/studies/STUDY/rounds", "limit", ["5"]),
    ],
)
def test_a_wrong_parameter_is_named(api, study, path, name, values):
    for value in values:
        address = f"{path.replace('STUDY', study['id'])}?{name}={value}"
        assert_problem(api.get(address), 400, field=name)


def test_a_body_over_the_limit_is_refused(api, door):
    large = "accuracy\n" + "0.5\n" * (4 * 2**20)
    assert_problem(api.send_file(f"{PATH}?name=x&kind=seeds", large), 413)


def test_no_mistake_of_a_large_study_makes_a_large_answer(api, door):
    body = {**RIGHT, "rounds": [{"accuracy": "x" * 500}] * 20_000}
    sent = api.post(PATH, body)
    assert len(assert_problem(sent, 422)["errors"]) == 100
    assert len(sent.data) < 50_000
