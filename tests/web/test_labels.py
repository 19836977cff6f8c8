"""Labelling by hand."""

from typing import Any

import pytest

from tests.web.answering import answer, shown, undo
from tests.web.conftest import Shelf, Visitor
from tracker.errors import InvalidInputError
from tracker.web.labelling.labels import choose_keys, find_class


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
    asked = page.html.split("<aside")[0]
    assert asked.count("ewe") == asked.count("ram") > 0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"key": "cat-7.png"}, "Key cat-7.png"),
        ({"key": "k", "input": "door 4, noon"}, "Key k Input door 4, noon"),
        ({}, "From row 1 of an imported file"),
        ({"key": "import-of-mine-12"}, "Key import-of-mine-12"),
        ({"key": "k", "metadata": {"cam": 4}}, "cam 4 Key k"),
    ],
)
def test_a_query_without_an_image_is_told_by_its_names(
    visitor: Visitor, shelf: Shelf, row: dict[str, Any], said: str
) -> None:
    detector_id = shelf.add_detector(classes=["ewe", "ram"])
    shelf.add_queries(detector_id, [row | {"predicted": "ewe", "confidence": 0.987}])
    page = visitor.get(f"/detectors/{detector_id}/label")
    assert said in page.by_id("labelling").text
    assert "no picture or text" not in page.text
    assert "0.987" not in page.html
    grid = visitor.get(f"/detectors/{detector_id}/label/grid")
    (facts,) = grid.find("dl", class_="tile-facts")
    assert facts.text == said
    assert "0.987" not in grid.html


def test_labels_are_counted_and_the_next_query_comes(
    visitor: Visitor, door: str
) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    assert page.by_id("label-count").text == "0"
    seen = {page.form(f"/detectors/{door}/label")["query"]}
    page = answer(visitor, door, page, label="YES")
    assert page.by_id("label-count").text == "1"
    assert "the detector agreed" in page.text
    seen.add(page.form(f"/detectors/{door}/label")["query"])
    page = answer(visitor, door, page, label="NO", note="too dark\nto see")
    assert "the detector disagreed: it had said YES" in page.text
    assert "1 of 2" in page.text
    seen.add(page.form(f"/detectors/{door}/label")["query"])
    page = answer(visitor, door, page, unclear="1")
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
    page = answer(visitor, door, page, skip="1")
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


def test_a_sample_that_is_done_is_not_called_everything(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(queue_rate=1e-9)
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 3)
    page = visitor.get(f"/detectors/{detector_id}/label")
    assert "0 left in the random queue" in page.by_id("progress").text
    assert "The random queue is done" in page.text


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
    assert page.html.split("<aside")[0].count("<option") == 12
    assert not page.find("button", name="label")
    page = answer(visitor, detector_id, page, label="kind 3")
    assert "agreed" in page.text
    page = answer(visitor, detector_id, page, label="", unclear="1")
    assert "Nothing left to label" in page.text


@pytest.mark.slow
def test_a_part_of_one_class_is_enough_among_many(
    visitor: Visitor, shelf: Shelf
) -> None:
    classes = [f"Kind {number:03}" for number in range(1_000)]
    detector_id = shelf.add_detector(classes=classes)
    shelf.add_queries(detector_id, [{"predicted": "Kind 003"}] * 2)
    path = f"/detectors/{detector_id}/label"
    page = visitor.get(path)
    assert "autofocus" not in page.html
    query = shown(page, detector_id)
    page = visitor.post(path, {"query": query, "label": "kind"})
    assert page.status == 422
    assert page.by_id("label-error").text == (
        "'kind' is not right: 1,000 classes have that in their name: "
        "Kind 000, Kind 001, Kind 002, …"
    )
    page = visitor.post(path, {"query": query, "label": "nothing"})
    assert page.by_id("label-error").text.endswith("no class has that in its name")
    page = answer(visitor, detector_id, visitor.get(path), label="003")
    assert "you said Kind 003, the detector agreed" in page.text


def test_a_class_that_is_part_of_another_can_be_meant() -> None:
    classes = ["ram", "Rambouillet", "ewe"]
    assert find_class(classes, "ram") == find_class(classes, "RAM") == "ram"
    assert find_class(classes, "BOU") == "Rambouillet"
    assert find_class(classes, "UNCLEAR") == "UNCLEAR"
    for wrong in ("ra", "goat"):
        with pytest.raises(InvalidInputError):
            find_class(classes, wrong)


def test_a_long_class_is_shortened_but_for_its_ends(
    visitor: Visitor, shelf: Shelf
) -> None:
    classes = ["sheep_" * 12 + end for end in ("one", "two")]
    detector_id = shelf.add_detector(classes=classes)
    shelf.add_queries(detector_id, [{"key": "k", "predicted": classes[0]}])
    page = visitor.get(f"/detectors/{detector_id}/label")
    page = answer(visitor, detector_id, page, label=classes[1])
    said = "you said sheep_shee\N{HORIZONTAL ELLIPSIS}sheep_two"
    assert said in page.by_id("labelling").text
    assert page.find("span", title=classes[1])


def test_a_class_called_by_a_digit_has_that_key() -> None:
    assert choose_keys(["YES", "NO"]) == {"YES": "1", "NO": "2"}
    assert choose_keys(["8", "0", "3"]) == {"8": "8", "0": "0", "3": "3"}
    ten = [f"class {number}" for number in range(10)]
    assert choose_keys(ten)["class 9"] == "0"
    assert choose_keys([*ten, "one more"]) == {}


def test_what_is_counted_is_said(visitor: Visitor, door: str) -> None:
    page = answer(visitor, door, visitor.get(f"/detectors/{door}/label"), unclear="1")
    page = answer(visitor, door, undo(visitor, page), label="YES")
    panel = page.by_id("progress").text
    assert (
        "1 labelled query today 2 by you, 2 by everyone, including imports and "
        "corrections 2 left in the random queue"
    ) in panel


def test_progress_comes_only_when_there_is_some(visitor: Visitor, door: str) -> None:
    page = visitor.get(f"/detectors/{door}/label")
    poll = page.by_id("progress").attributes["hx-get"]
    assert visitor.get(poll).status == 204
    answer(visitor, door, page, label="YES")
    assert visitor.get(poll).by_id("label-count").text == "1"


def test_an_archived_detector_takes_no_labels(visitor: Visitor, door: str) -> None:
    path = f"/detectors/{door}/label"
    query = visitor.get(path).form(path)["query"]
    visitor.send(f"/detectors/{door}/archive", {"sure": "yes"})
    assert visitor.get(path).status == 409
    assert visitor.post(path, {"query": query, "label": "YES"}).status == 409
