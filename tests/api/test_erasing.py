"""Erasing queries, adding inputs, and adding classes."""

import io
import json

import pytest
from PIL import Image
from sqlalchemy import select

from tests.api.problems import assert_problem
from tracker.services.estimates.counts import compare_with_recount
from tracker.storage.detectors import Detector
from tracker.storage.people.audit import AuditEvent

QUERIES = "/detectors/door/queries"


def make_png() -> bytes:
    stored = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stored, "PNG")
    return stored.getvalue()


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
            assert compare_with_recount(session, session.get_one(Detector, 1)) == []
        recompute()
    with database.read() as session:
        [event] = session.scalars(
            select(AuditEvent).where(AuditEvent.action == "query erased")
        )
        assert (event.subject, event.actor) == (made.json["id"], "admin-key")


def test_an_erased_query_is_neither_listed_nor_counted(api, door):
    ids = [api.post(QUERIES, {"predicted": "YES"}).json["id"] for _ in range(3)]
    assert api.delete(f"/queries/{ids[1]}").status_code == 204
    for asked in ({}, {"sort": "oldest"}, {"labelled": "false"}):
        page = api.get(QUERIES, query_string=asked).json
        assert {one["id"] for one in page["items"]} == {ids[0], ids[2]}
        assert page["total"] == 2


def test_an_input_is_scored_again_once_its_first_query_is_erased(api, door):
    row = {"input": "frame-1", "predicted": "YES", "label": "YES"}
    first = api.post(QUERIES, row).json
    assert api.post(QUERIES, row).json["is_repeat"]
    assert api.get("/detectors/door/estimate").json["labels"] == 1
    assert api.delete(f"/queries/{first['id']}").status_code == 204
    assert not api.post(QUERIES, row).json["is_repeat"]
    assert api.get("/detectors/door/estimate").json["labels"] == 2


def test_an_image_goes_with_the_last_query_that_shows_it(api, door, app):
    images = app.extensions["tracker"].images
    paths = []
    for key in ("a", "b"):
        query = json.dumps({"key": key, "predicted": "YES"})
        parts = {"query": query, "image": (io.BytesIO(make_png()), "a.png")}
        answer = api.send_parts(QUERIES, parts)
        paths.append(f"/queries/{answer.json['id']}")
    assert len(list(images.iter_names())) == 1
    assert api.delete(paths[0]).status_code == 204
    assert api.get(f"{paths[1]}/image").status_code == 200
    assert api.delete(paths[1]).status_code == 204
    assert list(images.iter_names()) == []


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
    assert_problem(api.delete(f"/queries/{made['id']}", role=role), 403)
