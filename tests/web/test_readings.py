"""What stands beside every bar, for the eye and for the ear."""

import re

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.web.drawing.words import (
    about,
    at_least,
    browser_name,
    confidence,
    share_of,
)

LONG = [f"{'Klassenname_ohne_Leerzeichen_' * 3}{number}" for number in range(3)]


def heard(page: Page) -> list[str]:
    """Return what is read out of each bar."""
    return [
        span.text
        for span in page.find("span", class_="visually-hidden")
        if "between" in span.text
    ]


def test_the_balanced_accuracy_says_that_it_is_a_mean(
    visitor: Visitor, published: str
) -> None:
    balanced = "87.7 %, between 65.9 and 98.5 %, mean of 2 classes, "
    balanced += "64 of 72 predictions correct"
    shelf_page = visitor.get(f"/detectors/{published}/label/progress")
    assert heard(shelf_page) == [balanced]
    (said, *_) = shelf_page.find("span", class_="reading-basis")
    basis = "mean of 2 classes 64 of 72 predictions correct"
    assert " ".join(said.text.split()) == basis


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("AB", None),
        ("ABC", "no estimate until C has a label"),
        ("ABCD", "no estimate until C and D have a label"),
        ("ABCDEFG", "no estimate until C, D and 3 more have a label"),
    ],
)
def test_without_an_estimate_it_says_what_is_missing(
    visitor: Visitor, shelf: Shelf, classes: str, said: str | None
) -> None:
    detector_id = shelf.add_detector(classes=list(classes))
    rows = [{"predicted": "A", "label": label} for label in "AAB"]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}?method=exact&all=1")
    first, *others = heard(page)
    if said is None:
        assert "no estimate" not in page.text
        return
    assert re.fullmatch(
        rf"{said}, between [\d.]+ and [\d.]+ %, 2 of 3 predictions correct", first
    )
    assert "no labels yet, between 0 and 100 %" in others


def test_before_any_label_nothing_is_missing_in_particular(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    first = heard(visitor.get(f"/detectors/{detector_id}?method=exact"))[0]
    assert first == "no labels yet, between 0 and 100 %"
    (bar,) = visitor.get("/").find("svg", role="img")
    assert bar.attributes["aria-label"] == "not measured"


def test_the_tick_and_the_ends_stand_for_estimate_and_bounds(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}?method=exact")
    ends = [e.attributes["x"] for e in page.find("svg", class_="plot-end")]
    ticks = [t.attributes["x"] for t in page.find("svg", class_="plot-mark")]
    # From 50 to 100 %: 69.96, 96.91 and, between them, 87.66 %.
    assert ends[:2] == ["39.92%", "93.82%"]
    assert (len(ends), len(ticks)) == (6, 3)
    assert ticks[0] == "75.32%"


def test_a_long_name_loses_its_middle_for_the_eye_alone(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(classes=LONG)
    rows = [{"predicted": name, "label": name} for name in LONG]
    shelf.add_queries(detector_id, rows)
    for path in ("", "/labelling", "/methods"):
        page = visitor.get(f"/detectors/{detector_id}{path}")
        for name in page.find("span", class_="named"):
            full = name.attributes["title"]
            assert full in LONG
            assert name.text.endswith(full)
            assert len(name.text.split()[0]) <= 28
    page = visitor.get(f"/detectors/{detector_id}?method=exact")
    beside = [e.text.split()[0] for e in page.find("div", class_="reading-name")]
    assert beside[1:] == [f"Klassenname_…erzeichen_{number}" for number in range(3)]


@pytest.mark.parametrize(
    ("classes", "said"),
    [(2, "each at an error of 1.25 % per"), (3, "each at an error of about 0.833 %")],
)
def test_the_error_of_a_side_is_said_in_a_few_digits(
    visitor: Visitor, shelf: Shelf, classes: int, said: str
) -> None:
    detector_id = shelf.add_detector(classes=list("ABC")[:classes], method="exact")
    shelf.add_queries(detector_id, [{"predicted": "A", "label": "A"}])
    text = visitor.get(f"/detectors/{detector_id}?method=exact").text
    assert said in text
    assert "error of at most 2.5 % on either side" in text


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.025, "2.5 %"), (0.05 / 6, "about 0.833 %"), (1e-7 / 3, "about 0.00000333 %")],
)
def test_a_share_of_many_digits_is_said_to_be_about(share: float, said: str) -> None:
    assert about(share).replace("\N{NARROW NO-BREAK SPACE}", " ") == said


@pytest.mark.parametrize(
    ("share", "places", "said"),
    [
        (1.0, 1, "100 %"),
        (0.99996, 1, "99.9 %"),
        (0.99996, 2, "99.99 %"),
        (0.8633, 2, "86.33 %"),
        (0.8633, 1, "86.3 %"),
        (0.2, 0, "20 %"),
        (0.57, 1, "57.0 %"),
        (0.0001, 1, "0.1 %"),
        (0.0, 1, "0 %"),
    ],
)
def test_only_all_of_something_is_a_hundred_percent(
    share: float, places: int, said: str
) -> None:
    assert share_of(share, places).replace("\N{NARROW NO-BREAK SPACE}", " ") == said


def test_only_certainty_is_a_confidence_of_one() -> None:
    said = [confidence(value) for value in (1.0, 0.9996, 0.97, 0.001, 0.0)]
    assert said == ["1.00", "0.99", "0.97", "0.01", "0.00"]


@pytest.mark.parametrize(
    ("threshold", "said"),
    [(0.98651, "0.986"), (0.29, "0.290"), (0.9999999, "0.999"), (1.0, "1.000")],
)
def test_what_reaches_a_threshold_reaches_what_is_shown(
    threshold: float, said: str
) -> None:
    assert at_least(threshold) == said
    assert float(said) <= threshold


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like "
            "Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1 "
            "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Linux; Android 14; rv:127.0) Firefox/127.0",
            "Firefox on Android",
        ),
        ("Mozilla/5.0 Chrome/126.0.0.0", "Chrome"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", "unnamed"),
    ],
)
def test_a_browser_is_named_as_people_name_it(agent: str, name: str) -> None:
    assert browser_name(agent) == name
