"""The plan on a page: how many more labels, and of which class."""

import re

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor
from tracker.rounding import roughly


def test_the_class_whose_label_helps_most_is_named(
    visitor: Visitor, published: str
) -> None:
    text = visitor.get(f"/detectors/{published}/labelling").text
    assert "A label of YES would help most now: it narrows the interval" in text


def test_the_overview_has_the_price_in_an_audit(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector(target=0.95)
    # Where the detector doubts what it has wrong, an audit asks about that.
    rows = [
        {"predicted": said, "label": label, "confidence": 0.55 if wrong else 0.999}
        for number in range(60)
        for wrong in [number % 12 == 0]
        for said, label in [("YES", "NO" if wrong else "YES")]
    ]
    rows += [row | {"predicted": "NO", "label": "NO"} for row in rows if row]
    waiting = [row | {"label": None} for row in rows] * 10
    shelf.add_queries(detector_id, [*rows, *waiting])
    overview = visitor.get(f"/detectors/{detector_id}")
    (price,) = [
        one.attributes
        for one in overview.find("span")
        if one.attributes.get("hx-select") == "#audit-price > *"
    ]
    assert price["hx-trigger"].startswith("load")
    found = visitor.get(price["hx-get"]).by_id("audit-price")
    assert found.text.startswith("An audit would take about ")


def test_a_class_without_a_label_comes_first(visitor: Visitor, door: str) -> None:
    text = visitor.get(f"/detectors/{door}/labelling").text
    assert "A label of YES would help most now: that class has none yet." in text
    assert "alone is right" not in text


def test_a_target_above_the_estimate_has_little_hope(
    visitor: Visitor, published: str
) -> None:
    text = visitor.get(f"/detectors/{published}/labelling").text
    assert (
        "More labels are not expected to show that YES alone is right more than 90 % "
        "of the time, because its estimated accuracy is not higher."
    ) in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        (
            95,
            5,
            "If its accuracy is 95 %, about 140 more labels of NO would show, with a "
            "chance of 80 %, that NO alone is right more than 90 % of the time.",
        ),
        (
            100,
            0,
            "The exact interval of NO, if you look once, is already above the target",
        ),
        (9_001, 999, "because its accuracy is too close to that."),
    ],
)
def test_what_it_takes_to_certify_the_target(
    visitor: Visitor, shelf: Shelf, right: int, wrong: int, sentence: str
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    rows = [{"predicted": "NO", "label": "NO"}] * right
    rows += [{"predicted": "YES", "label": "NO"}] * wrong
    rows += [{"predicted": "YES", "label": "YES"}] * (right + wrong + 1)
    shelf.add_queries(detector_id, rows)
    text = visitor.get(f"/detectors/{detector_id}/labelling").text
    assert sentence in text
    assert "if you look once, after all these labels" in text


def test_without_a_target_nothing_is_certified(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "NO", "label": "NO"}] * 3)
    assert (
        "alone is right" not in visitor.get(f"/detectors/{detector_id}/labelling").text
    )


def test_a_hostile_class_name_stays_text(visitor: Visitor, shelf: Shelf) -> None:
    name = "<script>alert(1)</script>"
    detector_id = shelf.add_detector(classes=[name, "NO"], target=0.9)
    shelf.add_queries(detector_id, [{"predicted": name, "label": name}] * 3)
    page = visitor.get(f"/detectors/{detector_id}/labelling")
    assert name not in page.html
    assert name in page.text


@pytest.mark.parametrize(
    ("labels", "rounded"),
    [(0, 0), (7, 7), (99, 99), (100, 100), (101, 110), (227, 230), (9_901, 10_000)],
)
def test_a_number_of_labels_is_rounded_up_to_two_digits(labels, rounded):
    assert roughly(labels) == rounded


def test_the_labels_of_a_person_are_one_click_from_labelling(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [{"key": str(n), "predicted": "YES"} for n in range(6)]
    shelf.add_queries(detector_id, rows)
    listed = visitor.get(f"/detectors/{detector_id}/queries").html
    query = re.findall(r"/queries/(iq_\d+)", listed)[0]
    visitor.send(f"/queries/{query}", {"label": "NO"})
    page = visitor.get(f"/detectors/{detector_id}/labelling")
    links = [one for one in page.find("a") if "labeler=" in one.attributes["href"]]
    assert [one.text for one in links] == ["web", "1 label this week"]
    for one in links:
        assert "1 query" in visitor.get(one.attributes["href"]).text
    waiting = re.findall(r'<td class="n">(\d+)</td><td class="soft">([^<]+)', page.html)
    assert ("5", "the accuracy and the verdict") in waiting
    assert ("0", "settles what the truth is") in waiting


def test_who_only_looks_is_offered_no_queue(
    app: Flask, visitor: Visitor, shelf: Shelf, published: str
) -> None:
    shelf.add_queries(published, [{"predicted": "YES"}])
    path = f"/detectors/{published}/labelling"
    assert "queue=targeted" in visitor.get(path).html
    assert "queue=targeted" not in Visitor(app, "vera", "viewer").get(path).html
