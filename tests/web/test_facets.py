# ruff: noqa: RUF001 - the pages write a range with an en dash, and times as a cross.
"""Where mistakes come from: facets with counts and lift."""

import re
from html import unescape

import pytest

from tests.conftest import FillOnce
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page

DAY = "2026-01-{:02}T10:00:00Z"


@pytest.fixture
def docks(shelf: Shelf, fill_once: FillOnce) -> str:
    """On north 60 of 100 are wrong, on each of two other cameras 5 of 100."""

    def build() -> str:
        detector = shelf.add_detector(slices=["camera"])
        rows = [
            {
                "key": f"{camera}-{number}",
                "predicted": "NO" if number < wrong else "YES",
                "label": "YES",
                "confidence": 0.95 if number % 2 else 0.6,
                "asked_at": DAY.format(5 + number % 20),
                "metadata": {"camera": camera, "text": f"{camera} {number}"},
            }
            for camera, wrong in (("north", 60), ("south", 5), ("gate", 5))
            for number in range(100)
        ]
        rows.append({"predicted": "YES", "label": "NO", "sampling": "targeted"})
        shelf.add_queries(detector, rows)
        return detector

    return fill_once(build)


def test_the_sentence_says_nothing_of_the_confidence(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector()
    rows = [
        {"predicted": said, "label": "YES", "confidence": sure}
        for said, sure, number in (("NO", 0.55, 30), ("YES", 0.95, 100))
        for _ in range(number)
    ]
    shelf.add_queries(detector, rows)
    page = visitor.get(f"/detectors/{detector}/mistakes")
    assert page.by_id("answer-title").text == "30 mistakes among 130 labelled queries."
    assert "Apart from the confidence, no value below is shown" in page.text


def links(page: Page, facet: str) -> dict[str, str]:
    """Return the values of a facet as they are said, each with its address."""
    part = page.html.partition(f'<nav class="facet" aria-label="{facet}">')[2]
    part = part.partition("</nav>")[0]
    hrefs = set(re.findall(r'href="([^"]+)"', unescape(part)))
    return {
        a.text: a.attributes["href"]
        for a in page.find("a")
        if a.attributes["href"] in hrefs and re.search(r" \d+ .*×", a.text)
    }


def test_the_sentence_names_what_is_shown_to_be_worse(
    visitor: Visitor, docks: str
) -> None:
    page = visitor.get(f"/detectors/{docks}/mistakes")
    assert page.by_id("answer-title").text == (
        "60 of 70 mistakes come from camera north ."
    )
    # 60 of 70 is 85.7 %, by 100 of 300 labels; elsewhere it is 10 of 200.
    for said in ("85.7 %", "33.3 %", "2.6 times its share", "60.0 % of cases", "5.0 %"):
        assert said in page.text
    found = links(page, "Camera")
    assert [text.split()[:3] for text in found] == [
        ["north", "60", "2.6×"],
        ["gate", "5", "0.2×"],
        ["south", "5", "0.2×"],
    ]
    (worse,) = [text for text in found if "shown to be worse" in text]
    assert worse.startswith("north")
    # What was picked is in no estimate, and said to be there.
    assert "1 more mistake is in no estimate" in page.text


def test_each_facet_is_counted_with_the_filters_of_the_others(
    visitor: Visitor, docks: str
) -> None:
    page = visitor.get(f"/detectors/{docks}/mistakes")
    (north,) = [href for text, href in links(page, "Camera").items() if "north" in text]
    chosen = visitor.get(north)
    assert "60 mistakes" in chosen.text
    # The other cameras can still be chosen, and the rest is of north alone.
    assert [text.split()[1] for text in links(chosen, "Camera")] == ["60", "5", "5"]
    sure = links(chosen, "Confidence")
    assert [text.split()[:2] for text in sure] == [["0.9–1.0", "30"], ["0.5–0.7", "30"]]
    (surest,) = [href for text, href in sure.items() if text.startswith("0.9")]
    both = visitor.get(surest)
    assert "30 mistakes" in both.text
    # Choosing it again takes it back.
    (back,) = {h for text, h in links(both, "Camera").items() if text[:5] == "north"}
    assert "34 mistakes" in visitor.get(back).text
    assert [text.split()[1] for text in links(both, "Confidence")] == ["30", "30"]


def test_facets_are_counted_within_days_that_are_no_whole_week(
    visitor: Visitor, docks: str
) -> None:
    page = visitor.get(f"/detectors/{docks}/mistakes?first=2026-01-06&last=2026-01-20")
    assert page.by_id("answer-title").text == (
        "45 of 53 mistakes from 6 Jan to 20 Jan come from camera north ."
    )
    assert [text.split()[1] for text in links(page, "Camera")] == ["45", "4", "4"]
    assert "53 mistakes" in page.text


def test_the_labels_of_one_person_are_found(visitor: Visitor, docks: str) -> None:
    assert (
        "70 mistakes" in visitor.get(f"/detectors/{docks}/mistakes?labeler=alice").text
    )
    nobody = visitor.get(f"/detectors/{docks}/queries?labeler=bob")
    assert "0 queries" in nobody.text
    assert (
        "301 queries" in visitor.get(f"/detectors/{docks}/queries?labeler=alice").text
    )


@pytest.mark.parametrize("asked", ["where=junk", "labeler=%00", "label=MAYBE"])
def test_a_filter_that_makes_no_sense_is_said(
    visitor: Visitor, docks: str, asked: str
) -> None:
    page = visitor.get(f"/detectors/{docks}/mistakes?{asked}")
    assert page.status == 400
    assert page.by_id("answer-title").text.startswith("Nothing is shown:")


def test_before_any_label_it_says_what_will_stand_here(
    visitor: Visitor, shelf: Shelf
) -> None:
    page = visitor.get(f"/detectors/{shelf.add_detector()}/mistakes")
    assert page.by_id("answer-title").text == "Nothing is labelled yet."
