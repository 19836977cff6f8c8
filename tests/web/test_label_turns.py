"""Labelling by hand: who is shown what, and answers that are changed."""

import pytest
from flask import Flask

from tests.conftest import Clock
from tests.web.answering import answer, shown, undo
from tests.web.conftest import Shelf, Visitor
from tracker.services.labelling.queues import RESERVED_FOR


@pytest.mark.thorough
def test_two_browsers_are_never_shown_the_same_query(
    app: Flask, shelf: Shelf, door: str
) -> None:
    shelf.add_queries(door, [{"predicted": "NO"}] * 9)
    path = f"/detectors/{door}/label"
    visitors = [Visitor(app), Visitor(app)]
    pages = [visitor.get(path) for visitor in visitors]
    seen = []
    for _ in range(5):
        for number, visitor in enumerate(visitors):
            # Looking again changes nothing.
            assert shown(visitor.get(path), door) == shown(pages[number], door)
            seen.append(shown(pages[number], door))
            pages[number] = answer(visitor, door, pages[number], label="YES")
    assert len(set(seen)) == len(seen) == 10


def test_what_others_are_labelling_is_not_called_done(
    app: Flask, shelf: Shelf, clock: Clock
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 2)
    path = f"/detectors/{detector_id}/label"
    first, second = Visitor(app), Visitor(app)
    page = first.get(path)
    waiting = second.get(path)
    assert "The other queries are reserved right now, for someone else or for you" in (
        waiting.text
    )
    assert "Nothing left" not in waiting.text
    assert "Every query" not in waiting.text
    # The one that was loaded ahead becomes free too.
    clock.at += RESERVED_FOR
    assert shown(second.get(path), detector_id)
    assert "The other queries are reserved" in first.get(path).text
    # What is shown can be answered all the same.
    assert "agreed" in answer(first, detector_id, page, label="YES").text


def test_a_skipped_query_is_shown_to_another_browser(
    app: Flask, shelf: Shelf, door: str
) -> None:
    first = Visitor(app)
    page = first.get(f"/detectors/{door}/label")
    skipped = shown(page, door)
    page = answer(first, door, page, skip="1")
    for _ in range(2):
        assert shown(page, door) != skipped
        page = answer(first, door, page, label="YES")
    second = Visitor(app)
    assert "are reserved right now" in second.get(f"/detectors/{door}/label").text
    assert shown(page, door) == skipped
    answer(first, door, page, skip="1")
    # It is all that is left, so it came to the first one again.
    assert "are reserved right now" in second.get(f"/detectors/{door}/label").text


def test_an_answer_is_undone_by_giving_another(visitor: Visitor, door: str) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    assert not page.find("a", id="undo")
    answered = shown(page, door)
    page = answer(visitor, door, page, label="NO", note="dark")
    following = shown(page, door)
    page = undo(visitor, page)
    assert shown(page, door) == answered
    assert page.form(f"/detectors/{door}/label")["note"] == "dark"
    card = page.by_id("labelling").text
    # Before the image and the answers, where it is seen.
    above = card.partition("Is the door closed?")[0]
    assert "Changing your last answer. You said NO. Answer again" in above
    assert not page.find("a", id="undo")
    page = answer(visitor, door, page, label="YES")
    assert "the detector agreed" in page.text
    assert page.by_id("label-count").text == "1"
    # The one that was interrupted comes again.
    assert shown(page, door) == following
    # It can be undone as often as one likes.
    page = answer(visitor, door, undo(visitor, page), unclear="1")
    labels = visitor.get(f"/detectors/{door}/labels.jsonl").html.splitlines()
    assert [line.split('"label":"')[1].split('"')[0] for line in labels] == [
        "NO",
        "YES",
        "UNCLEAR",
    ]
    assert all('"sampling":"random"' in line for line in labels)


def test_an_undone_answer_may_be_left_as_it_was(visitor: Visitor, door: str) -> None:
    page = answer(visitor, door, visitor.get(f"/detectors/{door}/label"), label="YES")
    page = answer(visitor, door, undo(visitor, page), skip="1")
    assert "you said YES" in page.text
    assert page.find("a", id="undo")
    # Skipping another one does not lose it either.
    page = answer(visitor, door, page, skip="1")
    assert "you said YES" in page.text
    assert page.by_id("label-count").text == "1"


def test_the_last_of_all_answers_can_be_undone(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES"}])
    path = f"/detectors/{detector_id}/label"
    page = answer(visitor, detector_id, visitor.get(path), label="YES")
    assert "Nothing left to label" in page.text
    page = answer(visitor, detector_id, undo(visitor, page), label="NO")
    assert "the detector disagreed" in page.text


def test_an_answer_given_anew_keeps_why_the_query_was_chosen(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    row = {"key": "k", "predicted": "YES", "label": "NO", "sampling": "targeted"}
    shelf.add_queries(detector_id, [row | {"note": "of another person"}])
    listed = visitor.get(f"/detectors/{detector_id}/labels.jsonl").html
    query = "iq_" + listed.split('"iq_')[1].split('"')[0]
    page = visitor.get(f"/detectors/{detector_id}/label?again={query}")
    assert "of another person" not in page.html
    answer(visitor, detector_id, page, label="YES")
    listed = visitor.get(f"/detectors/{detector_id}/labels.jsonl").html
    assert listed.count('"sampling":"targeted"') == 2


def test_what_has_no_label_cannot_be_taken_from_others(app: Flask, door: str) -> None:
    path = f"/detectors/{door}/label"
    reserved = shown(Visitor(app).get(path), door)
    for asked in (reserved, "iq_404", "nonsense", ""):
        page = Visitor(app).get(f"{path}?again={asked}&last={asked}")
        assert page.status == 200
        assert f'value="{reserved}"' not in page.html
        assert "the detector" not in page.by_id("labelling").text


def test_a_wrong_label_given_anew_is_refused_beside_the_same_query(
    visitor: Visitor, door: str
) -> None:
    path = f"/detectors/{door}/label"
    page = answer(visitor, door, visitor.get(path), label="YES")
    page = undo(visitor, page)
    query = shown(page, door)
    fields = {"query": query, "again": query, "label": "MAYBE"}
    page = visitor.post(path, fields)
    assert page.status == 422
    assert shown(page, door) == query
    assert page.form(path)["again"] == query
