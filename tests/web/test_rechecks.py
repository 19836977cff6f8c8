"""Labels given a second time, on the pages: drawn, answered blind, and what is said."""

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor


@pytest.fixture
def door(shelf: Shelf) -> str:
    """Thirty queries, all labelled YES by alice."""
    detector_id = shelf.add_detector()
    shelf.add_queries(
        detector_id,
        [
            {"key": f"q{i}", "predicted": "NO" if i % 3 else "YES", "label": "YES"}
            for i in range(30)
        ],
    )
    return detector_id


@pytest.fixture
def eve(app: Flask) -> Visitor:
    return Visitor(app, "eve", "editor")


def draw(visitor: Visitor, detector_id: str, count: str) -> str:
    answer = visitor.send(f"/detectors/{detector_id}/rechecks", {"count": count})
    assert answer.status_code == 303
    return visitor.get(answer.headers["Location"]).text


def ask(visitor: Visitor, detector_id: str, more: str = "") -> str:
    path = f"/detectors/{detector_id}/label?queue=recheck{more}"
    return visitor.get(path).form(f"/detectors/{detector_id}/label")["query"]


def answer(visitor: Visitor, detector_id: str, query: str, **fields: str) -> str:
    sent = {"queue": "recheck", "query": query} | fields
    given = visitor.send(f"/detectors/{detector_id}/label", sent)
    assert given.status_code == 303
    return visitor.get(given.headers["Location"]).text


@pytest.mark.slow
def test_labels_are_drawn_given_again_blind_and_told_of(
    eve: Visitor, door: str
) -> None:
    assert "labelled a second time" in eve.get(f"/detectors/{door}").text
    empty = eve.get(f"/detectors/{door}/label?queue=recheck")
    assert "No label waits to be given again" in empty.text
    assert "10 labels drawn" in draw(eve, door, "10")
    for number in range(10):
        query = ask(eve, door)
        shown = answer(eve, door, query, label="NO" if number == 0 else "YES")
        assert "disagreed" not in shown
        assert "agreed" not in shown
        assert "which you are not shown" in shown
    text = eve.get(f"/detectors/{door}").text
    assert "10 labels were given twice: 1 differed. At most " in text
    assert "of the 30 labels there were" in text
    assert "By the truth, the balanced accuracy of these is " in text
    assert "however labels go wrong. Draw more" in text


def test_the_second_look_stands_beside_who_labelled(
    app: Flask, eve: Visitor, shelf: Shelf
) -> None:
    door = shelf.add_detector()
    # What is drawn because its label differs from the prediction is not counted.
    shelf.add_queries(door, [{"predicted": "YES", "label": "YES"}] * 9)
    path = f"/detectors/{door}/labelling"
    assert "none checked" in eve.get(path).text
    draw(eve, door, "3")
    for label in ("NO", "YES", "YES"):
        answer(eve, door, ask(eve, door), label=label)
    assert "2 of 3" in eve.get(path).text
    # Who may not see how often each errs is not told here either.
    text = Visitor(app, "vera", "viewer").get(path).text
    assert "2 of 3" not in text
    assert "second look" not in text


@pytest.mark.thorough
def test_a_slip_is_changed_and_changes_no_label(eve: Visitor, door: str) -> None:
    draw(eve, door, "3")
    query = ask(eve, door)
    answer(eve, door, query, label="NO", note="dark")
    assert ask(eve, door, f"&again={query}") == query
    page = eve.get(f"/detectors/{door}/label?queue=recheck&again={query}")
    assert "You said NO" in page.text
    answer(eve, door, query, label="YES", again=query)
    text = eve.get(f"/queries/{query}").text
    assert "as the first time" in text
    assert "who is trusted" in text
    assert "dispute" not in text


def test_a_difference_waits_for_an_editor(app: Flask, eve: Visitor, door: str) -> None:
    ann = Visitor(app, "ann", "labeler")
    eve.send(f"/detectors/{door}/rechecks", {"count": "1"})
    query = ask(ann, door)
    answer(ann, door, query, label="NO")
    text = eve.get(f"/queries/{query}").text
    assert "Settle it" in text
    assert "the first label was YES" in text
    text = eve.get(f"/detectors/{door}").text
    assert "if the two labelers err independently" in text


def test_an_untrusted_answer_waits_for_somebody_trusted(
    app: Flask, eve: Visitor, door: str
) -> None:
    ann = Visitor(app, "ann", "labeler")
    eve.send(f"/detectors/{door}/rechecks", {"count": "1"})
    query = ask(ann, door)
    answer(ann, door, query, label="YES")
    text = eve.get(f"/detectors/{door}").text
    assert "Nobody trusted has answered the first one" in text
    answer(eve, door, query, label="YES")
    text = eve.get(f"/detectors/{door}").text
    assert "1 label was given twice: 0 differed" in text
    assert "of all such queries are answered right" in text


def test_nobody_is_asked_about_their_own_label(
    app: Flask, shelf: Shelf, door: str
) -> None:
    alice = Visitor(app, "alice", "editor")
    draw(alice, door, "3")
    text = alice.get(f"/detectors/{door}/label?queue=recheck").text
    assert "You gave all the labels that are left" in text


def test_an_answer_that_somebody_else_gave_first_is_not_saved(
    app: Flask, eve: Visitor, door: str
) -> None:
    adam = Visitor(app, "adam", "editor")
    draw(eve, door, "1")
    query = ask(eve, door)
    answer(adam, door, query, label="YES")
    assert "was not saved" in answer(eve, door, query, label="NO")
    assert "as the first time" in eve.get(f"/queries/{query}").text


def test_many_are_given_again_at_once(eve: Visitor, door: str) -> None:
    draw(eve, door, "5")
    path = f"/detectors/{door}/label/grid"
    fields = eve.get(f"{path}?queue=recheck").form(path)
    assert fields["queue"] == "recheck"
    assert len(fields["queries"].split()) == 5
    sent = {name: fields[name] for name in ("queries", "queue")} | {"rest": "YES"}
    given = eve.send(path, sent)
    text = eve.get(given.headers["Location"]).text
    assert "5 labels saved." in text
    assert "agreed" not in text
    assert "No label waits for you" in text
    assert "5 labels were given twice: 0 differed" in eve.get(f"/detectors/{door}").text


@pytest.mark.parametrize("count", ["", "0", "many", "99999"])
def test_a_wrong_number_is_said(eve: Visitor, door: str, count: str) -> None:
    assert "count" in draw(eve, door, count).lower()
    assert "No label waits" in eve.get(f"/detectors/{door}/label?queue=recheck").text


def test_who_corrects_is_told_what_that_does(eve: Visitor, door: str) -> None:
    draw(eve, door, "1")
    query = ask(eve, door)
    page = eve.get(f"/queries/{query}")
    assert "Correcting only where the two disagree" in page.text
    [link] = [a for a in page.find("a") if "again at random and blind" in a.text]
    assert "queue=recheck" in link.attributes["href"]
    assert eve.get(link.attributes["href"]).status == 200


def test_skipping_asks_about_another_one_first(eve: Visitor, door: str) -> None:
    draw(eve, door, "2")
    first = ask(eve, door)
    path = f"/detectors/{door}/label"
    eve.send(path, {"queue": "recheck", "query": first, "skip": "1"})
    assert ask(eve, door) != first


@pytest.mark.slow
def test_editors_see_how_people_agree_and_err(
    app: Flask, eve: Visitor, door: str
) -> None:
    path = f"/detectors/{door}/labelers"
    assert "Nothing is known yet" in eve.get(path).text
    draw(eve, door, "30")
    for number in range(30):
        answer(eve, door, ask(eve, door), label="NO" if number < 12 else "YES")
    text = eve.get(path).text
    assert "errs too often" in text
    assert "12 of 30" in text or "12/30" in text
    assert "alice and eve" in text
    assert "Cohen's kappa" in text
    assert Visitor(app, "ann", "labeler").client.get(path).status_code == 403


def test_who_may_only_look_sees_the_bounds_and_no_way_to_label(
    app: Flask, eve: Visitor, door: str
) -> None:
    viewer = Visitor(app, "vic", "viewer")
    assert "given again" not in viewer.get(f"/detectors/{door}").text
    draw(eve, door, "2")
    answer(eve, door, ask(eve, door), label="YES")
    text = viewer.get(f"/detectors/{door}").text
    assert "given twice: " in text
    assert "Give the other" not in text


def test_the_tab_leads_from_all_versions_to_the_shown_one(
    eve: Visitor, door: str
) -> None:
    draw(eve, door, "1")
    page = eve.get(f"/detectors/{door}/label?version=*")
    (tab,) = [a for a in page.find("a") if a.text == "Re-check"]
    assert "No label waits" not in eve.get(tab.attributes["href"]).text
