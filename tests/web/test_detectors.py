# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The list of detectors, making one, and the page that says how sure we are."""

from collections.abc import Callable

import pytest
from flask import Flask

from tests.conftest import Clock
from tests.web.conftest import Shelf, Visitor
from tracker.charts.themes import COLOURS
from tracker.files import shipped_folder


def test_the_list_shows_the_published_check(visitor: Visitor, published: str) -> None:
    page = visitor.get("/")
    assert page.status == 200
    assert "door" in page.text
    assert "87.7 %" in page.text
    assert "69.9–97.0 %" in page.text
    assert "64 of 72" in page.text
    assert "Undecided" in page.text
    assert "mean of 2 classes" in page.text
    assert "64 of 72 labels right" in page.text
    assert "A verdict goes by another interval, one that holds however" in page.text
    assert "wider" not in page.text
    assert page.find("polyline")


@pytest.mark.parametrize("role", ["viewer", "labeler"])
def test_whoever_may_label_is_led_there_by_the_list(
    app: Flask, published: str, role: str
) -> None:
    page = Visitor(app, "somebody", role).get("/")
    links = page.find("a", href=f"/detectors/{published}/label")
    assert [link.text for link in links] == ["Label door"] * (role == "labeler")


def test_an_empty_list_tells_three_ways_to_begin(visitor: Visitor) -> None:
    page = visitor.get("/")
    assert "No detector yet" in page.text
    assert "curl http://localhost/api/v1/detectors" in page.text
    assert "tracker import door predictions.csv" in page.text


def test_a_long_list_goes_on_on_the_next_page(visitor: Visitor, shelf: Shelf) -> None:
    for number in range(13):
        shelf.add_detector(name=f"detector-{number:02}")
    first = visitor.get("/")
    (following,) = [a for a in first.find("a") if a.text == "Next page"]
    second = visitor.get(following.attributes["href"])
    assert "detector-11" in first.text
    assert "detector-12" not in first.text
    assert "detector-12" in second.text
    assert "detector-11" not in second.text


def test_the_page_shows_the_published_check(visitor: Visitor, published: str) -> None:
    page = visitor.get(f"/detectors/{published}")
    assert page.status == 200
    sentence = page.by_id("estimate-title").text
    assert sentence == (
        "With 95 % confidence the balanced accuracy lies between 69.9 % and 97.0 % ."
    )
    for said in ("87.7 %", "69.9–97.0 %", "64 of 72", "from 72 labels"):
        assert said in page.text
    for said in ("82.1 %", "63.1–94.0 %", "23 of 28"):
        assert said in page.text
    for said in ("93.2 %", "81.3–98.6 %", "41 of 44"):
        assert said in page.text


def test_every_bar_has_its_counts_and_its_interval(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}")
    readings = [
        element
        for element in page.find("div")
        if element.attributes.get("class", "").startswith("reading tone-")
    ]
    assert len(readings) == 3
    for reading in readings:
        assert " of " in reading.text
        assert "–" in reading.text


def test_bars_lie_where_their_numbers_say(visitor: Visitor, published: str) -> None:
    page = visitor.get(f"/detectors/{published}")
    bars = [b for b in page.find("rect") if b.attributes.get("class") == "plot-bar"]
    # From 50 to 100 %, 69.96 % lies at 39.92 of 100.
    assert bars[0].attributes["x"] == "39.92%"
    assert bars[0].attributes["width"] == "53.90%"


def test_the_axis_begins_lower_where_a_bar_does(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 9)
    page = visitor.get(f"/detectors/{detector_id}")
    ticks = [t.text for t in page.find("text", class_="plot-tick")]
    assert ticks == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]


@pytest.mark.parametrize(
    ("target", "said"),
    [(0.6, "Target met"), (0.98, "Target missed"), (0.8, "Undecided")],
)
def test_the_verdict_follows_from_the_interval(
    visitor: Visitor, shelf: Shelf, published: str, target: float, said: str
) -> None:
    visitor.send(
        f"/detectors/{published}/settings",
        {
            "name": "door",
            "question": "Is the door closed?",
            "confidence_level": "95",
            "target": str(100 * target),
        },
    )
    page = visitor.get(f"/detectors/{published}")
    assert said in page.text
    assert "The interval above is for one look." in page.text
    assert ("and the target lies within that." in page.text) == (said == "Undecided")
    assert said in visitor.get("/").text


def test_without_labels_nothing_is_claimed(visitor: Visitor, shelf: Shelf) -> None:
    page = visitor.get(f"/detectors/{shelf.add_detector(target=0.9)}")
    assert "Nothing is known yet" in page.text
    assert "no labels yet" in page.text
    assert "Target" not in page.by_id("live").text
    assert "What comes next" in page.text


def test_what_is_left_out_is_counted(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": "YES", "label": "UNCLEAR"}] * 2
    rows += [{"predicted": "YES", "label": "YES", "sampling": "targeted"}] * 3
    rows += [{"predicted": "YES", "label": "YES"}]
    shelf.add_queries(detector_id, rows)
    text = visitor.get(f"/detectors/{detector_id}").text
    assert "2 unclear" in text
    assert "3 targeted" in text
    assert "from 1 label" in text


def test_the_newest_version_is_shown_and_any_other_on_request(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(
        detector_id, [{"predicted": "YES", "label": "YES", "version": "v1"}] * 4
    )
    shelf.add_queries(
        detector_id, [{"predicted": "YES", "label": "NO", "version": "v2"}] * 6
    )
    path = f"/detectors/{detector_id}"
    assert "from 6 labels" in visitor.get(path).text
    assert "from 4 labels" in visitor.get(f"{path}?version=v1").text
    pooled = visitor.get(f"{path}?version=*")
    assert "from 10 labels" in pooled.text
    assert "All versions are counted as if they were one detector" in pooled.text
    unknown = visitor.get(f"{path}?version=v3")
    assert unknown.status in {400, 404}
    assert "there are: 'v1', 'v2'" in unknown.text


def test_a_page_that_is_up_to_date_gets_nothing(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    live = visitor.get(f"/detectors/{published}").by_id("live")
    poll = live.attributes["hx-get"]
    assert visitor.get(poll).status == 204
    shelf.add_queries(published, [{"predicted": "NO", "label": "NO", "version": "v1"}])
    fresh = visitor.get(poll)
    assert fresh.status == 200
    assert fresh.headers["HX-Trigger"] == "tracker:refresh"
    assert "from 73 labels" in fresh.text
    assert "HX-Trigger" not in visitor.get(f"/detectors/{published}").headers


def test_of_many_classes_the_widest_are_shown(visitor: Visitor, shelf: Shelf) -> None:
    classes = [f"class-{number:02}" for number in range(30)]
    detector_id = shelf.add_detector(classes=classes)
    rows = [
        {"predicted": name, "label": name} for name in classes[:15] for _ in range(5)
    ]
    rows += [{"predicted": "class-01", "label": "class-00"}] * 2
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}")
    names = [e.text for e in page.find("div", class_="reading-name")]
    assert len(names) == 21
    assert set(classes[15:]) <= set(names)
    assert "class-00 was taken for class-01: 2 of 7" in page.text
    every = visitor.get(f"/detectors/{detector_id}?all=1")
    assert len(every.find("div", class_="reading-name")) == 31


def test_the_confusion_matrix_frames_what_is_correct(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}")
    right = [
        c for c in page.find("td") if "matrix-right" in c.attributes.get("class", "")
    ]
    assert [cell.text for cell in right] == ["23 82.1 %", "41 93.2 %"]


def test_the_plan_says_how_many_more_labels(visitor: Visitor, published: str) -> None:
    page = visitor.get(f"/detectors/{published}/plan?within=5")
    assert "About 363 more labels" in page.text
    assert "546 queries drawn at random" in page.text
    (chosen,) = [o for o in page.find("option") if "selected" in o.attributes]
    assert chosen.attributes["value"] == "5"
    assert visitor.get(f"/detectors/{published}/plan?within=junk").status == 200


def test_the_plan_is_done_when_the_interval_is_narrow_enough(
    visitor: Visitor, published: str
) -> None:
    shown = visitor.get(f"/detectors/{published}/plan?within=10").text
    assert "more labels" in shown
    assert "over 10 million" not in shown


def test_a_detector_is_made_in_the_browser(visitor: Visitor) -> None:
    form = visitor.get("/detectors/new").form("/detectors/new")
    assert form["classes"] == "YES NO"
    fields = {"name": "bin", "question": "Is it full?", "classes": "yes\nno\nhalf\n"}
    answer = visitor.send(
        "/detectors/new", fields | {"confidence_level": "99,5", "target": "90 %"}
    )
    assert answer.status_code == 303
    settings = visitor.get(f"{answer.location}/settings")
    form = settings.form(f"{answer.location}/settings")
    assert form["confidence_level"] == "99.5"
    assert form["target"] == "90"
    assert "yes, no, half" in settings.text


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("name", "", "is required"),
        ("name", "det_1", "must not begin with det_"),
        ("question", "\x00", "control characters"),
        ("classes", "YES", "there must be at least 2"),
        ("classes", "YES\nunclear", "no class may be called UNCLEAR"),
        ("classes", "A\nA", "stands in it twice"),
        ("confidence_level", "ninety", "is not a percentage above 0 and below 100"),
        ("confidence_level", "100", "is not a percentage above 0 and below 100"),
        ("confidence_level", "nan", "is not a percentage above 0 and below 100"),
        ("confidence_level", "1e9999999999", "is not a percentage"),
        ("target", "0", "is not a percentage above 0 and below 100"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    visitor: Visitor, field: str, typed: str, said: str
) -> None:
    fields = {"name": "bin", "question": "Is it full?", "classes": "A\nB"}
    fields |= {"confidence_level": "95", "target": "", field: typed}
    page = visitor.post("/detectors/new", fields)
    assert page.status == 422
    assert said in page.by_id(f"{field}-error").text
    assert page.form("/detectors/new")["name"] == fields["name"]
    assert "No detector yet" in visitor.get("/").text


def test_a_taken_name_is_said_at_the_name(visitor: Visitor, published: str) -> None:
    fields = {
        "name": "door",
        "question": "?",
        "classes": "A\nB",
        "confidence_level": "95",
    }
    page = visitor.post("/detectors/new", fields)
    assert page.status == 422
    assert "exists already" in page.by_id("name-error").text


def test_an_instant_stands_in_words_with_the_exact_time(
    visitor: Visitor, published: str, clock: Clock
) -> None:
    (newest, *_) = [
        time
        for time in visitor.get(f"/detectors/{published}").find("time")
        if "2026-01-31 12:00:00 UTC" in time.attributes["title"]
    ]
    assert newest.text == "just now"
    moving = "may be a few labels apart"
    assert moving in visitor.get(f"/detectors/{published}").text
    clock.at = clock.at.replace(hour=15)
    later = visitor.get(f"/detectors/{published}").text
    assert "the newest 3 hours ago" in later
    assert moving not in later


def test_bars_have_the_colours_of_the_chart(app: Flask) -> None:
    css = (shipped_folder("static") / "tracker.css").read_text()
    light, _, dark = css.partition('[data-bs-theme="dark"]')
    for part, colours in ((light, COLOURS["light"]), (dark, COLOURS["dark"])):
        for number, colour in enumerate((colours.balanced, *colours.classes)):
            assert f"--tone-{number}: {colour};" in part


def test_the_list_and_the_page_agree_before_and_after_the_job(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 5)
    before = visitor.get("/").text
    recompute()
    after = visitor.get("/").text
    assert "5 of 5" in before
    assert "5 of 5" in after
