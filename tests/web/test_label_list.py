"""One queue over all detectors that a person may label."""

from flask import Flask

from tests.conftest import by
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.people.accounts import change_account, get_account
from tracker.storage.database import Database


def names(page: Page) -> list[str]:
    return [one.text for one in page.find("h3")]


def test_without_queries_nothing_waits(visitor: Visitor, shelf: Shelf) -> None:
    shelf.add_detector()
    page = visitor.get("/label")
    assert page.status == 200
    assert "Nothing waits for a label." in page.text
    assert names(page) == []


def test_what_decides_most_comes_first_and_is_the_one_button(
    visitor: Visitor, shelf: Shelf
) -> None:
    unlabelled = [{"predicted": "YES"}, {"predicted": "NO"}]
    yes, no = ({"predicted": one, "label": one} for one in ("YES", "NO"))
    wrong = {"predicted": "YES", "label": "NO"}
    for name, rows in (
        ("met", [yes, no] * 60 + unlabelled),
        ("far", [yes, no] * 4 + [wrong] + unlabelled),
        ("near", [yes, no] * 20 + [wrong] + unlabelled),
        ("open", unlabelled[:1]),
        ("done", [yes, no]),
    ):
        shelf.add_queries(shelf.add_detector(name=name, target=0.8), rows)
    page = visitor.get("/label")
    assert names(page) == ["near", "far", "open", "met"]
    assert "7 queries wait for a label in 4 detectors." in page.text
    assert "The first 20 show where it stands." in page.text
    (button,) = [
        a
        for a in page.find("a")
        if a.text == "Label near, then the next"
        and "btn-primary" in a.attributes["class"]
    ]
    assert button.attributes["href"] == "/detectors/det_3/label?stream=all"
    assert "7 waiting" in page.find("a", href="/label")[0].text


def test_one_stream_leads_from_detector_to_detector(
    visitor: Visitor, shelf: Shelf
) -> None:
    yes, no = ({"predicted": one, "label": one} for one in ("YES", "NO"))
    unlabelled = {"predicted": "YES"}
    for name, rows in (
        ("nearly", [yes, no] * 19 + [unlabelled] * 30),
        ("short", [yes, no] * 3 + [unlabelled]),
        ("new", [unlabelled] * 2),
    ):
        shelf.add_queries(shelf.add_detector(name=name, target=0.8), rows)
    address, seen, told = "/detectors/det_1/label?stream=all", [], []
    for _ in range(99):
        page = visitor.get(address)
        if page.status == 303:
            address = page.headers["Location"]
            continue
        (title,) = page.find("h1")
        seen += [title.text] if [title.text] != seen[-1:] else []
        told += [one.text for one in page.find("p", role="status") if one.text]
        if "Nothing left to label" in page.text:
            break
        path = address.partition("?")[0]
        answer = page.form(path) | {"label": "YES"}
        address = visitor.send(path, answer).headers["Location"]
    assert seen == [f"Label / {x}" for x in ("nearly", "short", "new", "nearly")]
    assert told == [
        "nearly is decided. Next: short.",
        "short has nothing left to label. Next: new.",
        "new has nothing left to label. Next: nearly.",
    ]


def test_who_is_asked_for_labels_sees_that_first(
    app: Flask, shelf: Shelf, database: Database
) -> None:
    doors = [shelf.add_detector(name=name) for name in ("one", "two", "hidden")]
    for door in doors:
        shelf.add_queries(door, [{"predicted": "YES"}] * 3)
    eve, ann = Visitor(app, "eve", "editor"), Visitor(app, "ann", "labeler")
    with database.write() as session:
        account = get_account(session, "ann")
        change_account(session, account, by(), detectors=doors[:2])
    eve.send(f"/detectors/{doors[1]}/assignments", {"labeler": "ann", "labels": "2"})
    page = ann.get("/label")
    assert names(page) == ["two", "one"]
    assert "two: you are asked for 2: 0 given." in page.text
    assert Visitor(app, "vera", "viewer").get("/label").status == 403


def test_what_a_person_answered_already_does_not_wait_for_them(
    app: Flask, shelf: Shelf
) -> None:
    door = shelf.add_detector(labels_wanted=2)
    shelf.add_queries(door, [{"predicted": "YES"}])
    ann, ben = Visitor(app, "ann", "labeler"), Visitor(app, "ben", "labeler")
    path = f"/detectors/{door}/label"
    ann.send(path, {"query": ann.get(path).form(path)["query"], "label": "YES"})
    assert names(ann.get("/label")) == []
    assert names(ben.get("/label")) == ["door"]
    assert ann.get(path).find("a", href="/label")
