"""Queries that wait for their prediction, and what becomes of them."""

import threading

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.groundlight.conftest import jpeg
from tracker.storage.operations.backup import iter_image_names


@pytest.fixture
def api(app, keys):
    return Api(app, keys)


@pytest.fixture
def door(device):
    return device.make()["id"]


def labels_of(api, query):
    return [
        (one["label"], one["labeler"], one["labelled_at"])
        for one in api.get(f"/queries/{query}/labels").json["items"]
    ]


def test_a_query_waits_until_its_prediction_is_given(device, api, door):
    made = device.log(door, {"k": "v", "input": "frame-1", "version": "v2"})
    assert (made["result"], made["metadata"]["k"]) == (None, "v")
    query = made["id"]
    before = api.get(f"/queries/{query}").json
    assert (before["predicted"], before["waiting"], before["version"]) == (
        None,
        True,
        "v2",
    )
    answer = api.patch(f"/queries/{query}", {"predicted": "YES", "confidence": 0.75})
    assert answer.status_code == 200
    assert answer.json == api.get(f"/queries/{query}").json
    said = {key: answer.json[key] for key in ("id", "version", "input", "predicted")}
    assert said == {
        "id": query,
        "version": "v2",
        "input": "frame-1",
        "predicted": "YES",
    }
    assert answer.json["asked_at"] == made["created_at"]
    found = device.get(f"/image-queries/{query}")
    assert found["result"]["confidence"] == 0.75
    assert found["created_at"] == made["created_at"]
    image = device.call("GET", f"/image-queries/{query}/image")
    assert image.data == api.get(f"/queries/{query}/image").data


def test_the_same_prediction_again_does_nothing_and_another_is_refused(
    device, api, door, tables
):
    query = device.log(door)["id"]
    body = {"predicted": "YES", "confidence": 0.5, "version": "v1"}
    first = api.patch(f"/queries/{query}", body)
    before = tables()
    assert api.patch(f"/queries/{query}", body).json == first.json
    for wrong in (
        {**body, "predicted": "NO"},
        {**body, "confidence": None},
        {**body, "version": "v2"},
    ):
        assert_problem(api.patch(f"/queries/{query}", wrong), 409)
    assert tables() == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "predicted"),
        ({"predicted": "MAYBE"}, "predicted"),
        ({"predicted": "UNCLEAR"}, "predicted"),
        ({"predicted": "YES", "confidence": 2}, "confidence"),
        ({"predicted": "YES", "version": "*"}, "version"),
        ({"predicted": "YES", "label": "YES"}, "label"),
    ],
)
def test_a_prediction_that_is_wrong_is_refused(device, api, door, tables, body, field):
    query = device.log(door)["id"]
    before = tables()
    assert_problem(api.patch(f"/queries/{query}", body), 422, field=field)
    assert_problem(api.patch("/queries/iq_404", {"predicted": "YES"}), 404)
    assert tables() == before


def test_no_prediction_for_an_archived_detector(device, api, door):
    query = device.log(door)["id"]
    assert api.delete(f"/detectors/{door}").status_code == 204
    assert_problem(api.patch(f"/queries/{query}", {"predicted": "YES"}), 409)


def test_the_job_and_the_estimate_count_it_once_it_has_its_prediction(
    device, api, door, recompute, database
):
    waiting = [device.log(door)["id"] for _ in range(3)]
    device.label(waiting[0], "NO")
    recompute()

    def estimate():
        found = api.get(f"/detectors/{door}/estimate").json
        return found["labels"], found["confusion"]

    assert estimate() == (0, {"YES": {}, "NO": {}})
    # A later query is folded in before those that came first.
    device.label(device.log(door, {"prediction": "YES"})["id"], "YES")
    recompute()
    for query in waiting[:2]:
        api.patch(f"/queries/{query}", {"predicted": "YES", "version": "default"})
    device.label(waiting[1], "YES")
    expected = (3, {"YES": {"YES": 2}, "NO": {"YES": 1}})
    assert estimate() == expected
    recompute()
    assert estimate() == expected
    from tracker.storage.detectors import list_versions
    from tracker.storage.estimates.pending import list_pending_detectors

    with database.read() as session:
        [version] = list_versions(session, 1)
        assert version.queries == 3
        assert list_pending_detectors(session) == []


def test_labels_that_came_before_the_prediction_are_its_label_history(
    device, api, door, clock
):
    query = device.log(door)["id"]
    first = device.label(query, "YES")["created_at"]
    body = {"label": "NO", "image_query_id": query, "rois": None}
    second = device.call("POST", "/labels", body, role="labeler").json["created_at"]
    result = device.get(f"/image-queries/{query}")["result"]
    assert (result["label"], result["source"]) == ("NO", "USER")
    device.label(query, "MAYBE", 400)
    answer = api.patch(f"/queries/{query}", {"predicted": "YES"}, role="editor")
    assert answer.json["label"] == "NO"
    assert labels_of(api, query) == [
        ("NO", "labeler-key", second),
        ("YES", "admin-key", first),
    ]
    assert device.get(f"/image-queries/{query}")["result"]["label"] == "NO"


def test_many_at_once_complete_it_once(device, api, app, keys, door, recompute):
    query = device.log(door)["id"]
    device.label(query, "YES")
    statuses = []

    def complete(said):
        answer = Api(app, keys).patch(f"/queries/{query}", {"predicted": said})
        statuses.append(answer.status_code)

    threads = [
        threading.Thread(target=complete, args=(said,))
        for said in ("YES", "NO", "YES", "NO")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 409, 409]
    recompute()
    assert api.get(f"/detectors/{door}/estimate").json["labels"] == 1
    assert len(labels_of(api, query)) == 1


def test_a_backup_has_the_images_of_those_that_wait(device, door, database):
    device.log(door, {"prediction": "YES"}, image=jpeg("red"))
    device.log(door, image=jpeg("red"))
    device.log(door, image=jpeg("blue"))
    with database.read() as session:
        assert len(list(iter_image_names(session))) == 2


def test_a_key_completes_only_what_it_sees(device, api, door, database, clock):
    from tests.conftest import by
    from tracker.services.people.keys import create_key

    other = device.make("gate")["id"]
    mine, hidden = device.log(door)["id"], device.log(other)["id"]
    with database.write() as session:
        device.keys["given"] = create_key(
            session, "given", "editor", by(at=clock()), detectors=[door]
        )
    body = {"predicted": "YES"}
    assert_problem(api.patch(f"/queries/{hidden}", body, role="given"), 404)
    assert api.patch(f"/queries/{mine}", body, role="given").status_code == 200
