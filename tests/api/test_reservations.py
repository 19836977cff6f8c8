"""The next query to label, by API."""

import io
from datetime import datetime, timedelta

import pytest
from PIL import Image

from tests.api.problems import assert_problem
from tests.conftest import by
from tracker.services.people.keys import create_key

FIELDS = {
    "id",
    "detector",
    "question",
    "classes",
    "key",
    "input",
    "asked_at",
    "metadata",
    "image_url",
    "image",
    "sampling",
    "recheck",
    "reserved_until",
}
NEXT = "/detectors/door/next"


@pytest.fixture
def three(api, door):
    """Three queries that have no label."""
    bodies = [{"predicted": "YES", "key": f"frame-{number}"} for number in range(3)]
    return [api.post("/detectors/door/queries", body).json["id"] for body in bodies]


def test_the_next_query_comes_without_what_was_said_of_it(api, door, clock):
    body = {
        "predicted": "YES",
        "confidence": 0.875,
        "version": "v3",
        "key": "frame-1",
        "input": "frame-1.jpg",
        "asked_at": "2026-01-02T03:04:05.678901Z",
        "metadata": {"camera": 2},
        "image_url": "https://example.org/a.png",
    }
    query = api.post("/detectors/door/queries", body).json
    got = api.get(NEXT, role="labeler")
    assert got.status_code == 200
    assert got.headers["Cache-Control"] == "no-store"
    assert got.json.keys() == FIELDS
    assert got.json["sampling"] == "random"
    for name in (FIELDS & query.keys()) - {"sampling"}:
        assert got.json[name] == query[name]
    assert got.json["question"] == door["question"]
    assert got.json["classes"] == door["classes"]
    until = datetime.fromisoformat(got.json["reserved_until"])
    assert timedelta(0) <= clock() - (until - timedelta(minutes=5)) < timedelta(1)


def test_its_image_has_an_address(api, door):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "teal").save(buffer, "PNG")
    buffer.seek(0)
    parts = {"query": '{"predicted": "YES"}', "image": (buffer, "a.png")}
    made = api.send_parts("/detectors/door/queries", parts)
    assert made.status_code == 201
    got = api.get(NEXT).json
    assert got["image"] == made.json["image"]
    assert api.get(got["image"]).status_code == 200


def test_each_query_comes_once_and_then_nothing(api, three):
    seen = []
    for _ in three:
        query = api.get(NEXT, role="labeler").json["id"]
        assert api.get(NEXT, role="labeler").json["id"] == query
        seen.append(query)
        body = {"label": "NO", "sampling": "random"}
        api.post(f"/queries/{query}/labels", body, role="labeler")
    assert sorted(seen) == sorted(three)
    last = api.get(NEXT, role="labeler")
    assert (last.status_code, last.data) == (204, b"")
    assert last.headers["Cache-Control"] == "no-store"


def test_labelers_are_told_apart_by_their_key_or_by_name(api, three):
    given = {
        api.get(NEXT, role="labeler").json["id"],
        api.get(NEXT, role="editor").json["id"],
        api.get(f"{NEXT}?labeler=alice", role="labeler").json["id"],
    }
    assert given == set(three)
    assert api.get(f"{NEXT}?labeler=bob").status_code == 204
    again = api.get(f"{NEXT}?labeler=editor-key", role="labeler")
    assert again.json["id"] == api.get(NEXT, role="editor").json["id"]


def test_a_skipped_query_goes_to_others(api, three):
    first = api.get(NEXT).json["id"]
    second = api.get(f"{NEXT}?skip={first}").json["id"]
    third = api.get(f"{NEXT}?skip={second}").json["id"]
    assert {first, second, third} == set(three)
    others = {api.get(f"{NEXT}?labeler={name}").json["id"] for name in ("al", "bo")}
    assert others == {first, second}
    # Nothing else is left.
    assert api.get(f"{NEXT}?skip={third}").json["id"] == third


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("skip", "iq_404"),
        ("skip", "lab_1"),
        ("skip", ""),
        ("labeler", ""),
        ("labeler", "%00"),
        ("labeler", "a" * 101),
        ("limit", "1"),
    ],
)
def test_a_wrong_parameter_is_named(api, three, tables, parameter, value):
    before = tables()
    problem = assert_problem(api.get(f"{NEXT}?{parameter}={value}"), 400)
    assert [error["field"] for error in problem["errors"]] == [parameter]
    assert tables() == before


def test_a_query_of_another_detector_is_not_skipped(api, three):
    api.post("/detectors", {"name": "gate", "question": "?"})
    assert_problem(api.get(f"/detectors/gate/next?skip={three[0]}"), 400)


def test_an_archived_detector_gives_nothing_to_label(api, door, three):
    api.delete("/detectors/door")
    assert_problem(api.get(f"/detectors/{door['id']}/next"), 409)


def test_a_key_named_by_any_letters_reserves(api, three, database, clock):
    with database.write() as session:
        text = create_key(session, "Zoë 💡", "labeler", by(at=clock()))
    headers = {"Authorization": f"Bearer {text}"}
    first = api.get(NEXT, role=None, headers=headers)
    assert first.status_code == 200
    assert api.get(NEXT, role=None, headers=headers).json["id"] == first.json["id"]


def test_the_targeted_queue_gives_the_least_confident(api, door):
    ids = {}
    for confidence in (0.75, 0.5, 1.0):
        body = {"predicted": "YES", "confidence": confidence}
        ids[confidence] = api.post("/detectors/door/queries", body).json["id"]
    asked = f"{NEXT}?queue=targeted"
    given = api.get(asked).json
    assert (given["id"], given["sampling"]) == (ids[0.5], "targeted")
    # Nobody else is given it, from either queue.
    assert api.get(f"{asked}&labeler=alice").json["id"] == ids[0.75]
    other = api.get(f"{NEXT}?labeler=bob").json
    assert (other["id"], other["sampling"]) == (ids[1.0], "random")
    assert api.get(f"{asked}&labeler=carol").status_code == 204
    filtered = api.get(f"{asked}&where=confidence:0.6..0.8&labeler=alice")
    assert filtered.json["id"] == ids[0.75]
    assert api.get(f"{asked}&where=predicted:NO").status_code == 204
    # Who picks need not name the queue.
    for picked in ("where=confidence:0.7..0.8", "where=confidence:0.6..1"):
        found = api.get(f"{NEXT}?{picked}&labeler=alice").json
        assert (found["id"], found["sampling"]) == (ids[0.75], "targeted"), picked


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ("queue=all", "queue"),
        ("queue=", "queue"),
        ("queue=random&order=newest", "order"),
        ("queue=random&where=predicted:YES", "where"),
        ("queue=recheck&where=predicted:YES", "where"),
        ("where=predicted:YES&old=v1", "old"),
        ("queue=targeted&predicted=YES", "predicted"),
        ("queue=targeted&order=oldest", "order"),
        ("queue=targeted&where=confidence:0.9..0.1", "where"),
    ],
)
def test_a_queue_that_there_is_not_is_refused(api, three, asked, field):
    problem = assert_problem(api.get(f"{NEXT}?{asked}"), 400)
    assert [error["field"] for error in problem["errors"]] == [field]


@pytest.mark.thorough
def test_several_labelers_and_a_dispute_by_api(api, database):
    body = {"name": "gate", "question": "Is it?", "labels_wanted": 2}
    assert api.post("/detectors", body).json["labels_wanted"] == 2
    logged = api.post("/detectors/gate/queries", {"predicted": "YES"}).json
    assert logged["agreement"] is None
    path = f"/queries/{logged['id']}/labels"
    for role, label in (("labeler", "YES"), ("editor", "NO")):
        following = api.get("/detectors/gate/next", role=role).json
        assert following["id"] == logged["id"]
        given = {"label": label, "sampling": following["sampling"]}
        assert api.post(path, given, role=role).status_code == 201
    assert api.get("/detectors/gate/next", role="labeler").status_code == 204
    [found] = api.get("/detectors/gate/queries?agreement=disputed").json["items"]
    assert found["agreement"] == "disputed"
    settles = {"label": "YES", "settles": True}
    assert_problem(api.post(path, settles, role="labeler"), 403)
    assert api.post(path, settles, role="editor").status_code == 201
    assert_problem(api.post(path, settles, role="editor"), 409)
    settled = api.get("/detectors/gate/queries?agreement=settled").json["items"]
    assert [one["label"] for one in settled] == ["YES"]
    assert_problem(
        api.get("/detectors/gate/queries?agreement=maybe"), 400, field="agreement"
    )


@pytest.mark.parametrize("wanted", [0, 10, 1.5, "2", None])
def test_labels_wanted_is_from_one_to_nine(api, door, wanted):
    wrong = api.patch("/detectors/door", {"labels_wanted": wanted})
    assert_problem(wrong, 422, field="labels_wanted")


def test_the_targeted_queue_can_be_narrowed_by_metadata(api, door):
    for camera in ("north", "south", "south"):
        row = {"predicted": "YES", "metadata": {"camera": camera}}
        assert api.post("/detectors/door/queries", row).status_code == 201
    asked = {"queue": "targeted", "where": "metadata.camera:north"}

    found = api.get("/detectors/door/next", query_string=asked)
    assert found.status_code == 200
    again = {**asked, "skip": found.json["id"]}
    assert api.get("/detectors/door/next", query_string=again).status_code in {200, 204}
    labelled = f"/queries/{found.json['id']}/labels"
    assert api.post(labelled, {"label": "YES"}).status_code == 201
    assert api.get("/detectors/door/next", query_string=asked).status_code == 204
    refused = api.get("/detectors/door/next", query_string={**asked, "queue": "random"})
    assert refused.status_code == 400
    assert "targeted only" in refused.json["errors"][0]["message"]
    wrong = {**asked, "where": "camera:north"}
    assert api.get("/detectors/door/next", query_string=wrong).status_code == 400
