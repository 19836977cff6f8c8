"""The first use: from nothing to the first interval."""

import re
from collections.abc import Callable

from tests.conftest import by
from tests.web.conftest import Shelf, Visitor
from tracker.services.people.keys import create_key
from tracker.storage.base import list_rows
from tracker.storage.database import Database
from tracker.storage.people import ApiKey


def test_a_key_is_made_on_the_spot_and_runs_as_it_stands(visitor: Visitor) -> None:
    assert "$TRACKER_KEY" in visitor.get("/").html
    page = visitor.post("/begin")
    assert page.status == 200
    (key,) = set(re.findall(r"trk_[A-Za-z0-9]+", page.text))
    bearer = {"Authorization": f"Bearer {key}"}
    made = visitor.client.post(
        "/api/v1/detectors",
        json={"name": "door", "question": "Is it shut?", "target": 0.9},
        headers=bearer,
    )
    assert made.status_code == 201
    logged = visitor.client.post(
        "/api/v1/detectors/door/queries",
        json={"predicted": "YES", "confidence": 0.97, "version": "v1"},
        headers=bearer,
    )
    assert logged.status_code == 201
    assert "first key" in visitor.get("/keys").text
    # It logs, and someone who finds it sees nothing.
    seen = visitor.client.get("/api/v1/detectors/door/estimate", headers=bearer)
    assert seen.status_code == 403


def test_another_key_revokes_the_one_before(visitor: Visitor) -> None:
    keys = []
    for _ in range(2):
        keys += set(re.findall(r"trk_[A-Za-z0-9]+", visitor.post("/begin").text))
    answers = [
        visitor.client.get(
            "/api/v1/detectors", headers={"Authorization": f"Bearer {key}"}
        ).status_code
        for key in keys
    ]
    assert answers == [401, 403]


def test_a_key_that_a_person_named_alike_is_not_revoked(
    visitor: Visitor, database: Database
) -> None:
    with database.write() as session:
        create_key(session, "first key", "editor", by())
    visitor.post("/begin")
    with database.read() as session:
        states = {one.name: one.revoked_at for one in list_rows(session, ApiKey)}
    assert states == {"first key": None, "first key 2": None}


def test_a_detector_without_queries_has_commands_with_a_key_for_it_alone(
    visitor: Visitor, shelf: Shelf
) -> None:
    path = f"/detectors/{shelf.add_detector()}"
    other = shelf.add_detector(name="other")
    assert "$TRACKER_KEY" in visitor.get(path).html
    keys = []
    for _ in range(2):
        page = visitor.post(f"{path}/begin")
        keys += set(re.findall(r"trk_[A-Za-z0-9]+", page.text))
    assert "curl -s http://localhost/api/v1" + path in page.text
    row = {"predicted": "YES", "confidence": 0.97, "version": "v1"}
    answers = [
        visitor.client.post(
            f"/api/v1{one}/queries",
            json=row,
            headers={"Authorization": f"Bearer {key}"},
        ).status_code
        for key in keys
        for one in (path, f"/detectors/{other}")
    ]
    assert answers == [401, 401, 201, 404]
    # The page has moved on, and makes no key that nobody would see.
    assert keys[1] not in visitor.get(path).html
    assert visitor.send(f"{path}/begin", {}).status_code == 303


def test_the_page_moves_on_once_there_is_a_detector(
    visitor: Visitor, shelf: Shelf
) -> None:
    assert visitor.get("/begin").status == 204
    detector_id = shelf.add_detector()
    assert visitor.get("/begin").headers["HX-Redirect"] == f"/detectors/{detector_id}"
    # With a detector there is no first use any more, and no key either.
    assert visitor.send("/begin", {}).status_code == 303
    assert "first key" not in visitor.get("/keys").text


def test_the_steps_are_ticked_off(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector()
    path = f"/detectors/{detector_id}"
    assert "Send the first predictions" in visitor.get(path).text
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 30)
    recompute()
    page = visitor.get(path)
    assert "Send the first predictions" not in page.text
    assert "Not measured yet: 30 queries wait." in page.text
    assert "Label the first 20" in page.text
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 20)
    assert "Label the first 20" not in visitor.get(path).text


def test_picked_labels_leave_nothing_that_waits(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector()
    picked = {"predicted": "YES", "label": "NO", "sampling": "targeted"}
    shelf.add_queries(detector_id, [picked] * 3)
    recompute()
    page = visitor.get(f"/detectors/{detector_id}")
    assert page.by_id("answer-title").text == (
        "Not measured yet: no label counts so far."
    )
    assert "Not counted: 3 picked." in page.text
    assert "No query waits for a label now" in page.text
    assert "Label the first 20" not in page.text
    assert "no label counts yet" in visitor.get("/").text
    mistakes = visitor.get(f"/detectors/{detector_id}/mistakes")
    assert mistakes.by_id("answer-title").text == "No label counts yet."
    assert "See the 3 mistakes that count nowhere" in mistakes.text
