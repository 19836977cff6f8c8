"""Labelling many queries at once, blind."""

from typing import Any

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.web.labelling.labels import TILES


@pytest.fixture
def sheep(shelf: Shelf) -> str:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [
        {"predicted": ("ewe", "ram")[n % 2], "confidence": 0.625, "metadata": {"n": n}}
        for n in range(TILES + 6)
    ]
    shelf.add_queries(detector_id, rows)
    return detector_id


def grid_of(visitor: Visitor, detector_id: str) -> tuple[Page, dict[str, Any]]:
    path = f"/detectors/{detector_id}/label/grid"
    page = visitor.get(path)
    form = page.form(path)
    return page, {"queries": form["queries"]}


def labels_of(visitor: Visitor, detector_id: str) -> str:
    return visitor.get(f"/detectors/{detector_id}/labels.jsonl").html


def test_a_grid_is_shown_blind(visitor: Visitor, sheep: str) -> None:
    page, fields = grid_of(visitor, sheep)
    assert len(fields["queries"].split()) == TILES
    assert "0.625" not in page.html
    tiles = page.html.split("<aside")[0]
    assert tiles.count("ewe") == tiles.count("ram") == 2 * TILES + 3


def test_all_answers_are_stored_at_once_and_what_is_open_comes_again(
    visitor: Visitor, sheep: str
) -> None:
    _, fields = grid_of(visitor, sheep)
    names = fields["queries"].split()
    typed = dict.fromkeys(names[:5], "ewe") | {names[5]: "UNCLEAR"}
    answer = visitor.send(f"/detectors/{sheep}/label/grid", fields | typed)
    assert answer.status_code == 303
    page, following = grid_of(visitor, sheep)
    assert "6 labels saved. The detector agreed on" in page.text
    assert "of 5" in page.text
    assert following["queries"].split()[: TILES - 6] == names[6:]
    assert page.by_id("label-count").text == "6"
    listed = labels_of(visitor, sheep)
    assert listed.count('"sampling":"random"') == listed.count('"label":') == 6


def test_the_rest_is_what_was_chosen_for_it(visitor: Visitor, sheep: str) -> None:
    _, fields = grid_of(visitor, sheep)
    names = fields["queries"].split()
    typed = {names[0]: "ram", names[1]: "UNCLEAR", "rest": "ewe"}
    visitor.send(f"/detectors/{sheep}/label/grid", fields | typed)
    listed = labels_of(visitor, sheep)
    assert listed.count('"label":"ewe"') == TILES - 2
    assert listed.count('"label":"ram"') == listed.count('"label":"UNCLEAR"') == 1


def test_a_grid_sent_twice_counts_once(visitor: Visitor, sheep: str) -> None:
    _, fields = grid_of(visitor, sheep)
    path = f"/detectors/{sheep}/label/grid"
    for _ in range(2):
        assert visitor.send(path, fields | {"rest": "ram"}).status_code == 303
    assert "0 labels saved." in visitor.get(path).text
    assert labels_of(visitor, sheep).count('"label":') == TILES


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", ["goat", "Ewe", "unclear"])
def test_one_wrong_answer_stores_nothing(
    visitor: Visitor, sheep: str, wrong: str
) -> None:
    _, fields = grid_of(visitor, sheep)
    names = fields["queries"].split()
    typed = dict.fromkeys(names, "ewe") | {names[7]: wrong}
    page = visitor.post(f"/detectors/{sheep}/label/grid", fields | typed)
    assert page.status == 422
    assert "Nothing was saved" in page.text
    assert wrong in page.text
    assert page.by_id("label-count").text == "0"
    # What was right is still filled in.
    assert page.html.count(" checked") == TILES - 1


@pytest.mark.thorough
@pytest.mark.parametrize("queries", ["iq_404", "nonsense", "iq_1 iq_1", "OTHER"])
def test_only_queries_of_the_detector_are_labelled(
    visitor: Visitor, shelf: Shelf, sheep: str, queries: str
) -> None:
    other = shelf.add_detector(name="other")
    shelf.add_queries(other, [{"predicted": "YES"}])
    path = f"/detectors/{other}/label"
    queries = queries.replace("OTHER", visitor.get(path).form(path)["query"])
    fields = {"queries": queries, "rest": "ewe"}
    assert visitor.post(f"/detectors/{sheep}/label/grid", fields).status == 422
    assert labels_of(visitor, sheep) == ""


def test_two_browsers_never_see_the_same_tiles(app: Flask, sheep: str) -> None:
    first = grid_of(Visitor(app), sheep)[1]["queries"].split()
    second = grid_of(Visitor(app), sheep)[1]["queries"].split()
    assert (len(first), len(second)) == (TILES, 6)
    assert not set(first) & set(second)
    page = Visitor(app).get(f"/detectors/{sheep}/label/grid")
    assert "The other queries are reserved" in page.text


def test_many_classes_are_chosen_from_a_list(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector(classes=[f"kind {n}" for n in range(9)])
    shelf.add_queries(detector_id, [{"predicted": "kind 3"}])
    page, fields = grid_of(visitor, detector_id)
    assert len(page.find("option", value="kind 3")) == 2
    answer = {fields["queries"]: "kind 3"}
    visitor.send(f"/detectors/{detector_id}/label/grid", fields | answer)
    page = visitor.get(f"/detectors/{detector_id}/label/grid")
    assert "1 label saved. The detector agreed on 1 of 1." in page.text
    assert "Nothing is left in the random queue" in page.text
