"""The audit log: what it tells of a change, and how one finds it."""

import io
import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from flask import Flask

from tests.services.irises import SEEDS
from tests.web.conftest import Shelf, Visitor
from tracker.services.exports import write_rows
from tracker.services.people.accounts import COLUMNS, iter_rows
from tracker.storage.database import Database

CHANGE = {
    "name": "door",
    "question": "Is the door closed?",
    "confidence_level": "95",
    "queue_rate": "100",
}
Read = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def read(visitor: Visitor) -> Read:
    """The events of an action, as the file gives them."""

    def find(action: str) -> list[dict[str, Any]]:
        text = visitor.client.get("/activity.jsonl").text
        found = map(json.loads, text.splitlines())
        return [event for event in found if event["action"] == action]

    return find


def test_details_are_an_object_in_json_and_text_in_cells(
    visitor: Visitor, shelf: Shelf, read: Read, database: Database
) -> None:
    shelf.add_detector()
    visitor.send("/detectors/det_1/setup", CHANGE | {"target": "95"})
    changed = {"target": {"old": None, "new": 0.95}}
    assert [event["details"] for event in read("detector changed")] == [changed]
    file = visitor.client.get("/activity.json").json
    assert changed in [event["details"] for event in file["items"]]
    csv = visitor.client.get("/activity.csv").text
    assert '"{""target"": {""old"": null, ""new"": 0.95}}"' in csv
    parquet = pytest.importorskip("pyarrow.parquet")
    with database.read() as session:
        content = b"".join(write_rows("parquet", COLUMNS, iter_rows(session)))
    table = parquet.read_table(io.BytesIO(content)).to_pylist()
    assert json.dumps(changed) in [event["details"] for event in table]


def test_a_change_is_told_with_what_was_before(
    visitor: Visitor, shelf: Shelf, read: Read
) -> None:
    shelf.add_detector(target=0.9)
    path = "/detectors/det_1/setup"
    long = "Is it " + "very " * 50 + "closed?"
    fields = CHANGE | {"name": "gate", "question": long, "target": ""}
    for _ in range(2):
        # The second time nothing is another.
        assert visitor.send(path, fields).status_code == 303
    [event] = read("detector changed")
    assert event["subject"] == "gate"
    assert event["details"] == {
        "name": {"old": "door", "new": "gate"},
        "question": {"old": "Is the door closed?", "new": f"{long[:200]}…"},
        "target": {"old": 0.9, "new": None},
    }
    page = visitor.get("/activity")
    assert "name: door → gate" in page.text
    assert "target: 0.9 → none" in page.text


def test_a_study_and_the_counts_of_a_file_are_told(
    visitor: Visitor, shelf: Shelf, read: Read
) -> None:
    shelf.add_detector()
    rows = "key,predicted,label\na,YES,NO\nb,YES,\nc,NO,NO\n"
    for _ in range(2):
        file = (io.BytesIO(rows.encode()), "rows.csv")
        sent = visitor.send("/detectors/det_1/import", {"file": file})
        assert sent.status_code == 200
    [event] = read("imported")
    counts = {"rows": 3, "queries_added": 3, "labels_added": 2}
    assert event["details"] == counts | {"sha256": sha256(rows.encode()).hexdigest()}
    for _ in range(2):
        lines = "".join(f"{json.dumps(one)}\n" for one in SEEDS)
        file = (io.BytesIO(lines.encode()), "seeds.jsonl")
        fields = {"name": "seeds", "kind": "seeds", "file": file}
        assert visitor.send("/detectors/det_1/studies", fields).status_code == 303
    [event] = read("study added")
    assert event["subject"] == "door"
    assert event["details"] == {"study": "seeds", "rounds": len(SEEDS)}


@pytest.mark.thorough
def test_the_log_is_filtered_by_person_and_by_action(
    app: Flask, visitor: Visitor, shelf: Shelf
) -> None:
    shelf.add_detector()
    Visitor(app, "eve", "editor").send(
        "/detectors/det_1/setup", CHANGE | {"target": "79"}
    )
    for number in range(60):
        target = {"target": str(80 + number / 10)}
        visitor.send("/detectors/det_1/setup", CHANGE | target)
    rows = visitor.get("/activity?who=eve").find("th", scope="row")
    assert [row.text for row in rows] == ["eve", "eve"]
    both = visitor.get("/activity?who=web&what=detector+changed")
    assert len(both.find("th", scope="row")) == 50
    [earlier] = [a for a in both.find("a") if a.text == "Older"]
    rest = visitor.get(earlier.attributes["href"])
    assert len(rest.find("th", scope="row")) == 10
    assert "signed in" not in rest.find("tbody")[0].text
    names = [option.attributes["value"] for option in both.find("option")]
    assert {"eve", "web", "detector changed", "signed in by a link"} < set(names)
    nobody = visitor.get("/activity?who=nobody+of+that+name")
    assert "Nothing like that." in nobody.text
    assert visitor.get("/activity?who=%00").status == 400
