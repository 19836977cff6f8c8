"""Labelling by hand."""

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.web.labels import choose_keys


def _answer(visitor: Visitor, detector_id: str, page: Page, **fields: str) -> Page:
    path = f"/detectors/{detector_id}/label"
    form = page.form(path)
    kept = {name: form[name] for name in ("query", "next") if name in form}
    answer = visitor.send(path, kept | fields)
    assert answer.status_code == 303, answer.text
    return visitor.get(answer.location)


def test_a_query_is_shown_blind(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    shelf.add_queries(
        detector_id,
        [{"predicted": "ewe", "confidence": 0.987, "key": "k", "metadata": {"cam": 4}}],
    )
    page = visitor.get(f"/detectors/{detector_id}/label")
    card = page.by_id("labelling").text
    assert "Which one?" in card
    assert "cam 4" in card
    assert "0.987" not in page.html
    assert "agreed" not in page.text
    assert page.html.count("ewe") == page.html.count("ram")


def test_labels_are_counted_and_the_next_query_comes(
    visitor: Visitor, door: str
) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    assert page.by_id("label-count").text == "0"
    seen = {page.form(f"/detectors/{door}/label")["query"]}
    page = _answer(visitor, door, page, label="YES")
    assert page.by_id("label-count").text == "1"
    assert "the detector agreed" in page.text
    seen.add(page.form(f"/detectors/{door}/label")["query"])
    page = _answer(visitor, door, page, label="NO", note="too dark\nto see")
    assert "the detector disagreed: it had said YES" in page.text
    assert "1 of 2" in page.text
    seen.add(page.form(f"/detectors/{door}/label")["query"])
    page = _answer(visitor, door, page, unclear="1")
    assert len(seen) == 3
    assert page.by_id("label-count").text == "3"
    assert "Nothing left to label" in page.text
    labels = visitor.get(f"/detectors/{door}/labels.jsonl").html
    assert labels.count('"sampling":"random"') == 3
    assert labels.count('"labeler":"web"') == 3
    assert '"note":"too dark\\nto see"' in labels.replace("\\r\\n", "\\n")


def test_a_skipped_query_stays_unlabelled(visitor: Visitor, door: str) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    skipped = page.form(f"/detectors/{door}/label")["query"]
    page = _answer(visitor, door, page, skip="1")
    assert page.form(f"/detectors/{door}/label")["query"] != skipped
    assert page.by_id("label-count").text == "0"


def test_the_last_answer_is_not_told_before_it_is_given(
    visitor: Visitor, door: str
) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    query = page.form(f"/detectors/{door}/label")["query"]
    page = visitor.get(f"/detectors/{door}/label?last={query}")
    assert "the detector" not in page.by_id("labelling").text


@pytest.mark.parametrize("label", ["MAYBE", "", "yes"])
def test_a_label_that_is_no_class_is_refused(
    visitor: Visitor, door: str, label: str
) -> None:
    path = f"/detectors/{door}/label"
    query = visitor.get(path).form(path)["query"]
    page = visitor.post(path, {"query": query, "label": label, "note": "kept"})
    assert page.status == 422
    assert page.by_id("label-error").text
    assert page.form(path) | {"csrf_token": ""} == page.form(path) | {
        "csrf_token": "",
        "query": query,
        "note": "kept",
    }
    assert visitor.get(path).by_id("label-count").text == "0"


def test_a_query_of_another_detector_is_not_labelled(
    visitor: Visitor, shelf: Shelf, door: str
) -> None:
    other = shelf.add_detector(name="other")
    path = f"/detectors/{door}/label"
    query = visitor.get(path).form(path)["query"]
    page = visitor.post(f"/detectors/{other}/label", {"query": query, "label": "YES"})
    assert page.status == 404
    assert visitor.get(path).by_id("label-count").text == "0"


def test_without_queries_it_says_how_to_get_some(
    visitor: Visitor, shelf: Shelf
) -> None:
    page = visitor.get(f"/detectors/{shelf.add_detector()}/label")
    assert "This detector has no queries yet" in page.text


def test_many_classes_are_searched(visitor: Visitor, shelf: Shelf) -> None:
    classes = [f"kind {number}" for number in range(12)]
    detector_id = shelf.add_detector(classes=classes)
    shelf.add_queries(detector_id, [{"predicted": "kind 3"}] * 2)
    path = f"/detectors/{detector_id}/label"
    page = visitor.get(path)
    assert len(page.find("option")) == 12
    assert not page.find("button", name="label")
    page = _answer(visitor, detector_id, page, label="kind 3")
    assert "agreed" in page.text
    page = _answer(visitor, detector_id, page, label="", unclear="1")
    assert "Nothing left to label" in page.text


def test_a_class_called_by_a_digit_has_that_key() -> None:
    assert choose_keys(["YES", "NO"]) == {"YES": "1", "NO": "2"}
    assert choose_keys(["8", "0", "3"]) == {"8": "8", "0": "0", "3": "3"}
    ten = [f"class {number}" for number in range(10)]
    assert choose_keys(ten)["class 9"] == "0"
    assert choose_keys([*ten, "one more"]) == {}


def test_progress_comes_only_when_there_is_some(visitor: Visitor, door: str) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    poll = page.by_id("progress").attributes["hx-get"]
    assert visitor.get(poll).status == 204
    _answer(visitor, door, page, label="YES")
    assert visitor.get(poll).by_id("label-count").text == "1"


def test_an_archived_detector_takes_no_labels(visitor: Visitor, door: str) -> None:
    path = f"/detectors/{door}/label"
    query = visitor.get(path).form(path)["query"]
    visitor.send(f"/detectors/{door}/archive", {"sure": "yes"})
    assert visitor.get(path).status == 409
    assert visitor.post(path, {"query": query, "label": "YES"}).status == 409
