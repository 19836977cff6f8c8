"""The inbox: what happened since a person last looked, and what waits for them."""

import io
from typing import Any

import pytest
from flask import Flask

from tests.conftest import Clock, by
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.jobs.imports import Imports
from tracker.jobs.loop import Loop
from tracker.services.detectors import archive_detector, get_detector
from tracker.services.imports.background import add_import
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order
from tracker.services.people.accounts import change_account, get_account
from tracker.services.telling.events import tell
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions

SAID = {
    "sentence": "It is right often.",
    "basis": "120 labels of its own queries, chosen at random; each input counts once.",
}
CHANGE = {
    **SAID,
    "state": "dropped",
    "measure": "balanced",
    "since": "2026-01-12",
    "since_from": "2026-01-10",
    "since_to": "2026-01-14",
    "before": {"accuracy": 0.97, "low": 0.96, "high": 0.98, "labels": 400},
    "at": "2026-01-20T12:00:00Z",
    "population": "live",
    "unit": "query",
}
SLICE = {"by": "camera", "measure": "overall", "population": "live", "unit": "query"}
VERDICT = {
    **SAID,
    "before": "undecided",
    "target": 0.9,
    "confidence_level": 0.95,
    "method": "anytime",
    "measure": "balanced",
    "low": 0.91,
    "high": 0.99,
    "labels": 120,
    "since": None,
    "population": "live",
    "unit": "query",
}


class Teller:
    """Lets something happen to a detector, or to its newest version."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database, self.clock = database, clock

    def __call__(self, detector_id: str, kind: str, **data: Any) -> None:
        with self.database.write() as session:
            detector = get_detector(session, detector_id)
            found = list_versions(session, detector.id)
            version = found[-1] if found else None
            at = self.clock()
            tell(session, kind, detector, at=at, version=version, data=data)


@pytest.fixture
def happen(database: Database, clock: Clock) -> Teller:
    return Teller(database, clock)


def lines(page: Page) -> list[str]:
    shown = [one.text for one in page.find("li")]
    return [text for text in shown if text]


def count(page: Page) -> str:
    (link,) = page.find("a", href="/inbox")[:1]
    return link.text


def test_an_empty_inbox_says_what_will_stand_there(visitor: Visitor) -> None:
    page = visitor.get("/inbox")
    assert page.status == 200
    assert "Nothing has happened since" in page.text
    assert "failed imports of every detector you see stand here" in page.text
    assert "Mark all as seen" not in page.text
    assert count(page) == "Inbox"


def test_what_needs_somebody_stands_above_the_days(
    visitor: Visitor, shelf: Shelf, happen: Teller
) -> None:
    door, lid = shelf.add_detector(), shelf.add_detector(name="lid", target=0.9)
    for detector in (door, lid):
        shelf.add_queries(detector, [{"predicted": "YES", "label": "YES"}])
    happen(lid, "verdict.changed", verdict="met", **VERDICT)
    happen(door, "accuracy.dropped", **CHANGE)
    page = visitor.get("/inbox")
    assert "one detector dropped and one reached the target." in page.text
    assert "Needs you · 1" in page.text
    dropped, met = lines(page)
    assert dropped.startswith("↓ Dropped door, version")
    assert met.startswith("✓ Met lid, version")
    # It says how it is now, in the sentence of every other page.
    assert "Not measured yet: no label of NO so far." in met
    (button,) = [a for a in page.find("a") if "See what happened to door" in a.text]
    assert button.attributes["href"].startswith(f"/detectors/{door}/changes")
    assert count(visitor.get("/")) == "Inbox 1 new"


def test_what_was_seen_is_gone_and_what_came_meanwhile_is_not(
    app: Flask, visitor: Visitor, door: str, happen: Teller
) -> None:
    happen(door, "detector.failing", error="division by zero")
    page = visitor.get("/inbox")
    seen = page.form("/inbox")["last"]
    happen(door, "slice.worse", value="3", correct=70, labelled=92, **SLICE)
    other = Visitor(app, "other")
    assert visitor.send("/inbox", {"last": seen}).status_code == 303
    page = visitor.get("/inbox")
    (line,) = lines(page)
    assert "accuracy is 70 of 92 labels" in line
    assert "You last marked everything as seen" in page.text
    # An older page that is sent again takes nothing back.
    visitor.send("/inbox", {"last": page.form("/inbox")["last"]})
    visitor.send("/inbox", {"last": seen})
    visitor.send("/inbox", {"last": "evt_x"})
    assert lines(visitor.get("/inbox")) == []
    # Each has an inbox of their own, and begins where they came.
    assert lines(other.get("/inbox")) == []
    happen(door, "labels.stalled", hours=3, last_label_at=None)
    assert len(lines(other.get("/inbox"))) == 1


def test_news_can_be_limited_to_what_one_owns_or_pinned(
    visitor: Visitor, shelf: Shelf, happen: Teller
) -> None:
    door, lid = shelf.add_detector(), shelf.add_detector(name="lid")
    owned = shelf.add_detector(name="owned", owner="web")
    for one in (door, lid, owned):
        happen(one, "detector.failing", error="division by zero")
    visitor.send(f"/detectors/{lid}/pin", {"pinned": "yes"})
    assert len(lines(visitor.get("/inbox"))) == 3
    page = visitor.get("/inbox?of=mine")
    assert [("owned" in line, "lid" in line) for line in lines(page)] == [
        (True, False),
        (False, True),
    ]
    # Marking all as seen would take the others too.
    assert "News of 1 other detector is not shown." in page.text
    assert "Mark all as seen" not in page.text
    listed = visitor.get("/?state=mine")
    assert "Mine and pinned 2" in listed.text
    rows = [row.attributes.get("id") for row in listed.find("tr")]
    assert [one for one in rows if one] == [lid, owned]


def test_only_the_last_verdict_and_change_of_a_version_stand_there(
    visitor: Visitor, door: str, happen: Teller
) -> None:
    for verdict in ("met", "undecided", "missed"):
        happen(door, "verdict.changed", verdict=verdict, **VERDICT)
    happen(door, "accuracy.dropped", **CHANGE)
    # The sentence on the drop says what has become of the target.
    assert len(lines(visitor.get("/inbox"))) == 1
    happen(door, "accuracy.rose", **CHANGE | {"state": "rose"})
    for value in "34":
        happen(door, "slice.worse", value=value, correct=7, labelled=9, **SLICE)
    tags = [" ".join(text.split()[:2]) for text in lines(visitor.get("/inbox"))]
    assert tags == ["✕ Missed", "✕ Slice", "✕ Slice", "↑ Rose"]


def test_a_detector_has_one_line_with_the_rest_folded_behind_it(
    visitor: Visitor, shelf: Shelf, happen: Teller
) -> None:
    lid = shelf.add_detector(name="lid", target=0.9)
    for version in ("v1", "v2"):
        shelf.add_queries(lid, [{"predicted": "YES", "version": version}])
        happen(lid, "verdict.changed", verdict="missed", **VERDICT)
    happen(lid, "slice.worse", value="3", correct=7, labelled=9, **SLICE)
    page = visitor.get("/inbox")
    assert "Needs you · 1" in page.text
    assert count(page) == "Inbox 1 new"
    assert [one.text for one in page.find("summary")] == ["2 more of lid"]
    newest, *folded = lines(page)
    assert newest.startswith("✕ Missed lid, version v2")
    assert [text.split(": ")[0] for text in folded] == [
        "✕ Missed lid, version v1",
        "✕ Slice worse lid",
    ]


def test_a_verdict_that_a_drop_outranks_is_seen_with_it(
    visitor: Visitor, door: str, happen: Teller
) -> None:
    happen(door, "accuracy.dropped", **CHANGE)
    happen(door, "verdict.changed", verdict="missed", **VERDICT)
    page = visitor.get("/inbox")
    (line,) = lines(page)
    assert line.startswith("↓ Dropped")
    visitor.send("/inbox", {"last": page.form("/inbox")["last"]})
    assert lines(visitor.get("/inbox")) == []


def test_it_tells_of_no_detector_that_one_does_not_see_or_that_is_archived(
    app: Flask, database: Database, visitor: Visitor, shelf: Shelf, happen: Teller
) -> None:
    door, lid = shelf.add_detector(), shelf.add_detector(name="lid")
    limited = Visitor(app, "limited", "viewer")
    with database.write() as session:
        change_account(session, get_account(session, "limited"), by(), detectors=[door])
    for detector in (door, lid):
        happen(detector, "detector.failing", error="broken")
    (line,) = lines(limited.get("/inbox"))
    assert "door" in line
    assert len(lines(visitor.get("/inbox"))) == 2
    with database.write() as session:
        archive_detector(session, get_detector(session, lid), by())
    assert len(lines(visitor.get("/inbox"))) == 1


def test_a_viewer_is_offered_nothing_that_they_may_not_do(
    app: Flask, door: str, happen: Teller
) -> None:
    vera = Visitor(app, "vera", "viewer")
    happen(door, "import.failed", id="imp_1", state="failed", error="no room")
    happen(door, "labels.stalled", hours=3, last_label_at=None)
    page = vera.get("/inbox")
    failed, stalled = lines(page)
    assert "The reason: no room." in failed
    assert "See why" not in failed
    assert not stalled.endswith("Label")
    assert page.find("a", href="/imports/imp_1") == []


def test_an_import_that_is_rejected_is_told(
    database: Database, visitor: Visitor, door: str, clock: Clock
) -> None:
    file = RowFile("csv", "0" * 64, io.BytesIO(b"predicted,label\nMAYBE,YES\n"))
    with database.write() as session:
        add_import(session, Order(door, file, by("alice")))
    assert (
        Loop(database, "w", [Imports(database=database, clock=clock)], clock).run() == 1
    )
    page = visitor.get("/inbox")
    (line,) = lines(page)
    assert line.startswith("✕ Import door: the import imp_1 failed. The reason: ")
    assert "MAYBE" in visitor.get("/imports/imp_1").text
    assert page.find("a", href="/imports/imp_1")
    assert visitor.get(f"/detectors/{door}/events").text.count("import.failed") == 1


def test_what_is_asked_of_a_person_stays_until_it_is_done(
    app: Flask, door: str
) -> None:
    eve, ann = Visitor(app, "eve", "editor"), Visitor(app, "ann", "labeler")
    eve.send(f"/detectors/{door}/assignments", {"labeler": "ann", "labels": "1"})
    (line,) = lines(ann.get("/inbox"))
    assert line.startswith("Asked of you 1 label of door 0 given so far.")
    assert lines(eve.get("/inbox")) == []
    path = f"/detectors/{door}/label"
    query = ann.get(path).form(path)["query"]
    ann.send(path, {"query": query, "label": "YES"})
    assert lines(ann.get("/inbox")) == []


def test_an_editor_sees_where_people_disagree(
    app: Flask, shelf: Shelf, visitor: Visitor
) -> None:
    door = shelf.add_detector(labels_wanted=2)
    shelf.add_queries(door, [{"predicted": "YES", "key": "one"}])
    path = f"/detectors/{door}/label"
    for name, label in (("ann", "YES"), ("ben", "NO")):
        person = Visitor(app, name, "labeler")
        person.send(
            path, {"query": person.get(path).form(path)["query"], "label": label}
        )
    (line,) = lines(visitor.get("/inbox"))
    assert line.startswith("Disagreement door: people disagree on 1 query")
    assert lines(Visitor(app, "ann").get("/inbox")) == []
    assert visitor.get(f"/detectors/{door}/queries?show=disputed").status == 200
