"""Erasing queries and images, adding inputs, and adding classes."""

import io
import json

import pytest
from PIL import Image
from sqlalchemy import select

from tests.api.problems import assert_problem
from tests.conftest import by
from tracker.services.estimates.recount import recount
from tracker.services.labelling.predictions import add_waiting
from tracker.services.queries.queries import NewQuery
from tracker.storage.detectors import Detector
from tracker.storage.people import AuditEvent

QUERIES = "/detectors/door/queries"


def make_png() -> bytes:
    stored = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stored, "PNG")
    return stored.getvalue()


def send_image(api, query, **options):
    parts = {"query": json.dumps(query), "image": (io.BytesIO(make_png()), "a.png")}
    return api.send_parts(QUERIES, parts, **options)


def test_what_a_query_holds_is_erased_and_its_counts_stay(
    api, door, app, recompute, database
):
    images = app.extensions["tracker"].images
    body = {
        "key": "frame-1",
        "input": "Mr Smith",
        "predicted": "YES",
        "label": "NO",
        "metadata": {"name": "Smith"},
        "image_url": "https://example.com/smith.png",
    }
    made = api.post(QUERIES, body)
    assert made.status_code == 201
    path = f"/queries/{made.json['id']}"
    note = api.post(f"{path}/labels", {"label": "NO", "note": "Smith again"})
    assert note.status_code == 201
    assert api.put(f"{path}/tags", {"tags": ["Smith"]}).status_code == 200
    before = api.get("/detectors/door/estimate").json
    assert list(images.iter_names()) == []

    assert api.delete(path).status_code == 204

    for answer in (api.get(path), api.delete(path), api.get(f"{path}/labels")):
        assert "was erased" in assert_problem(answer, 410)["detail"]
    assert_problem(api.post(f"{path}/labels", {"label": "YES"}), 410)
    assert_problem(api.patch(path, {"input": "other"}), 410)
    assert_problem(api.put(f"{path}/tags", {"tags": []}), 410)
    assert_problem(api.post(QUERIES, body), 410)
    assert api.get(QUERIES).json["items"] == []
    exported = api.get("/detectors/door/labels?format=jsonl")
    assert b"Smith" not in exported.data
    assert exported.data.count(b'"NO"') == 2
    for _ in range(2):
        after = api.get("/detectors/door/estimate").json
        assert after["confusion"] == before["confusion"]
        with database.read() as session:
            assert recount(session, session.get_one(Detector, 1)) == []
        recompute()
    [event] = list_events(database, "query erased")
    assert (event.subject, event.actor) == (made.json["id"], "admin-key")


def test_an_erased_query_is_neither_listed_nor_counted(api, door):
    ids = [api.post(QUERIES, {"predicted": "YES"}).json["id"] for _ in range(3)]
    assert api.delete(f"/queries/{ids[1]}").status_code == 204
    for asked in ({}, {"sort": "oldest"}, {"labelled": "false"}):
        page = api.get(QUERIES, query_string=asked).json
        assert {one["id"] for one in page["items"]} == {ids[0], ids[2]}
        assert page["total"] == 2


def test_an_input_that_is_erased_and_sent_again_is_not_scored_again(api, door, tables):
    row = {"input": "frame-1", "predicted": "YES", "label": "YES", "version": "v1"}
    for _ in range(3):
        sent = api.post(QUERIES, row).json
        assert api.delete(f"/queries/{sent['id']}").status_code == 204
        assert api.get("/detectors/door/estimate").json["labels"] == 1
    assert not any("frame-1" in row for row in tables()["queries"])
    # By file, too.
    lines = {"items": [row | {"key": f"k{number}"} for number in range(3)]}
    assert api.post("/detectors/door/import", lines).status_code == 200
    found = api.get("/detectors/door/estimate").json
    assert (found["labels"], found["repeats_left_out"]) == (1, 5)
    # Another version counts it once, and pooled versions do not count it again.
    other = api.post(QUERIES, row | {"version": "v2", "sampling": "random"}).json
    assert not other["is_repeat"]
    assert api.get("/detectors/door/estimate?version=v2").json["labels"] == 1
    assert api.get("/detectors/door/estimate?version=*").json["labels"] == 1


def test_an_input_that_was_never_labelled_is_not_spent(api, door):
    row = {"input": "frame-1", "predicted": "YES"}
    sent = api.post(QUERIES, row).json
    assert api.delete(f"/queries/{sent['id']}").status_code == 204
    assert not api.post(QUERIES, row | {"label": "YES"}).json["is_repeat"]
    assert api.get("/detectors/door/estimate").json["labels"] == 1


def test_an_image_goes_with_the_last_query_that_shows_it(api, door, app):
    images = app.extensions["tracker"].images
    sent = [send_image(api, {"key": key, "predicted": "YES"}) for key in "abcd"]
    paths = [f"/queries/{answer.json['id']}" for answer in sent]
    assert len(list(images.iter_names())) == 1
    erased = [paths[0], f"{paths[1]}/image", f"{paths[2]}/image", paths[3]]
    for number, path in enumerate(erased):
        assert len(list(images.iter_names())) == 1
        for other in paths[number:]:
            assert api.get(f"{other}/image").status_code == 200
        assert api.delete(path).status_code == 204
    assert list(images.iter_names()) == []


def test_an_image_stays_with_a_query_that_waits_for_its_prediction(
    api, door, app, database, clock
):
    images = app.extensions["tracker"].images
    made = send_image(api, {"predicted": "YES"}).json
    [name] = images.iter_names()
    with database.write() as session:
        detector = session.get_one(Detector, 1)
        add_waiting(session, detector, NewQuery(), by(at=clock()), image=name)
    assert api.delete(f"/queries/{made['id']}/image").status_code == 204
    assert list(images.iter_names()) == [name]


def test_an_image_alone_is_erased_and_all_else_stays(
    api, door, app, recompute, database
):
    images = app.extensions["tracker"].images
    body = {
        "key": "frame-1",
        "input": "frame-1.png",
        "predicted": "YES",
        "confidence": 0.75,
        "label": "NO",
        "metadata": {"camera": "north"},
        "image_url": "https://example.com/smith.png",
    }
    made = send_image(api, body).json
    path = f"/queries/{made['id']}"
    note = api.post(f"{path}/labels", {"label": "NO", "note": "dark"})
    assert note.status_code == 201
    stored, labels = api.get(path).json, api.get(f"{path}/labels").json
    before = api.get("/detectors/door/estimate").json
    assert len(list(images.iter_names())) == 1

    assert api.delete(f"{path}/image").status_code == 204

    assert list(images.iter_names()) == []
    assert api.get(path).json == stored | {"image": None, "image_url": None}
    assert api.get(f"{path}/labels").json == labels
    assert_problem(api.get(f"{path}/image"), 404)
    again = assert_problem(api.delete(f"{path}/image"), 410)
    assert f"the image of the query {made['id']} was erased" in again["detail"]
    exported = api.get("/detectors/door/labels?format=jsonl").data
    assert b"smith" not in exported
    assert b"dark" in exported
    for _ in range(2):
        after = api.get("/detectors/door/estimate").json
        assert after["confusion"] == before["confusion"]
        with database.read() as session:
            assert recount(session, session.get_one(Detector, 1)) == []
        recompute()
    [event] = list_events(database, "image erased")
    assert (event.subject, event.actor) == (made["id"], "admin-key")
    assert event.details == {"detector": "door"}
    assert api.delete(path).status_code == 204
    assert_problem(api.delete(f"{path}/image"), 410)


def list_events(database, action):
    with database.read() as session:
        statement = select(AuditEvent).where(AuditEvent.action == action)
        return session.scalars(statement).all()


def test_an_image_elsewhere_is_erased_too(api, door):
    body = {"key": "a", "predicted": "YES", "image_url": "https://example.com/1.png"}
    made = api.post(QUERIES, body).json
    assert api.delete(f"/queries/{made['id']}/image").status_code == 204
    assert api.get(f"/queries/{made['id']}").json["image_url"] is None
    assert api.post(QUERIES, body).json == made | {"image_url": None}


def test_only_an_image_that_was_there_is_erased(api, door, database):
    made = api.post(QUERIES, {"predicted": "YES"}).json
    problem = assert_problem(api.delete(f"/queries/{made['id']}/image"), 404)
    assert problem["detail"] == "the query has no image"
    assert_problem(api.delete("/queries/iq_404/image"), 404)
    assert list_events(database, "image erased") == []


def test_the_same_key_again_does_not_bring_an_erased_image_back(api, door, app, tables):
    images = app.extensions["tracker"].images
    body = {"key": "a", "predicted": "YES", "label": "NO"}
    once = {"Idempotency-Key": "one"}
    first = send_image(api, body, headers=once)
    assert first.status_code == 201
    assert api.delete(f"/queries/{first.json['id']}/image").status_code == 204
    before = tables()

    assert send_image(api, body, headers=once).json == first.json
    again = send_image(api, body)
    assert again.status_code == 200
    assert again.json == first.json | {"image": None}
    linked = body | {"image_url": "https://example.com/1.png"}
    for same in (body, linked):
        assert api.post(QUERIES, same).json == again.json
    assert_problem(send_image(api, body | {"predicted": "NO"}), 409)
    rows = api.send_file("/detectors/door/import", dump_line(linked), JSON_LINES)
    assert (rows.json["unchanged"], rows.json["errors"]) == (1, [])
    assert list(images.iter_names()) == []
    assert tables() == before


JSON_LINES = "application/x-ndjson"


def dump_line(row):
    return json.dumps(row).encode() + b"\n"


def test_the_same_key_again_does_not_store_the_image_of_an_erased_query(api, door, app):
    images = app.extensions["tracker"].images
    body = {"key": "a", "predicted": "YES"}
    made = send_image(api, body).json
    assert api.delete(f"/queries/{made['id']}").status_code == 204
    assert_problem(send_image(api, body), 410)
    assert list(images.iter_names()) == []


def test_a_query_without_its_image_is_still_labelled(api, door):
    made = send_image(api, {"predicted": "YES"}).json
    path = "/detectors/door/next?labeler=ann"
    assert api.get(path).json["id"] == made["id"]
    assert api.delete(f"/queries/{made['id']}/image").status_code == 204
    shown = api.get(path).json
    assert (shown["id"], shown["image"]) == (made["id"], None)
    labelled = api.post(f"/queries/{made['id']}/labels", {"label": "YES"})
    assert labelled.status_code == 201


def test_an_input_is_added_once(api, door):
    first = api.post(QUERIES, {"input": "a", "predicted": "YES", "label": "YES"}).json
    late = api.post(QUERIES, {"predicted": "NO", "version": "v2"}).json
    path = f"/queries/{late['id']}"
    for _ in range(2):
        changed = api.patch(path, {"input": "a"})
        assert changed.status_code == 200
        assert (changed.json["input"], changed.json["label"]) == ("a", "YES")
    assert_problem(api.patch(path, {"input": "b"}), 409)
    assert_problem(api.patch(path, {}), 422, field="input")
    [label] = api.get(f"{path}/labels").json["items"]
    [source] = api.get(f"/queries/{first['id']}/labels").json["items"]
    assert (label["source"], source["source"]) == (source["id"], None)


def test_classes_are_added_and_never_removed(api, door, recompute):
    api.post(QUERIES, {"predicted": "YES", "label": "YES"})
    recompute()
    for wrong in (["YES", "MAYBE"], ["yes", "NO", "MAYBE"]):
        problem = assert_problem(
            api.patch("/detectors/door", {"classes": wrong}), 422, field="classes"
        )
        assert "must stay" in problem["errors"][0]["message"]
    changed = api.patch("/detectors/door", {"classes": ["MAYBE", "NO", "YES"]})
    assert changed.json["classes"] == ["YES", "NO", "MAYBE"]
    [added] = changed.json["added_classes"]
    assert added["class"] == "MAYBE"
    assert api.patch("/detectors/door", {"classes": ["YES", "NO", "MAYBE"]}).json[
        "added_classes"
    ] == [added]
    before = api.get("/detectors/door/history").json["items"]
    assert {row["scope"] for row in before} == {"balanced", "YES", "NO"}
    api.post(QUERIES, {"predicted": "YES", "label": "MAYBE"})
    recompute()
    after = api.get("/detectors/door/history").json["items"]
    assert [row for row in after if row in before] == before
    assert {row["scope"] for row in after} == {"balanced", "YES", "NO", "MAYBE"}
    assert len(api.get("/detectors/door/estimate").json["classes"]) == 3
    for name in ("svg", "json"):
        assert api.get(f"/detectors/door/chart.{name}").status_code == 200


@pytest.mark.parametrize("role", ["viewer", "labeler", "editor"])
def test_only_an_admin_erases(api, door, role):
    made = api.post(QUERIES, {"predicted": "YES"}).json
    for path in (f"/queries/{made['id']}", f"/queries/{made['id']}/image"):
        assert_problem(api.delete(path, role=role), 403)
