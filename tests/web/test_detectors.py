# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The list of detectors, making one, and the page that says how sure we are."""

import math
import re
from collections.abc import Callable

import pytest
from flask import Flask

from tests.conftest import WHOLE, Clock
from tests.databases import noted_statements
from tests.web.census import two_figures
from tests.web.conftest import PUBLISHED, Shelf, Visitor
from tests.web.reading import Page
from tracker.charts.themes import COLOURS
from tracker.files import shipped_folder
from tracker.rounding import outward, roughly
from tracker.stats import (
    balanced_anytime,
    balanced_interval,
    balanced_labels_to_decide,
    class_intervals,
    labels_to_narrow,
)
from tracker.storage.database import Database


def test_the_list_shows_the_published_check(visitor: Visitor, published: str) -> None:
    page = visitor.get("/")
    assert page.status == 200
    assert "door" in page.text
    # It is the interval that decides, and the only one.
    ends = balanced_interval("anytime", [23, 41], [28, 44], WHOLE)
    low, high = outward(float(ends.low), float(ends.high), 3)
    span = f"{low.scaleb(2):f}–{high.scaleb(2):f} %"
    (row,) = page.find("tr", id=published)
    assert span in row.text
    assert page.find("svg", **{"aria-label": span.replace(" %", "\u202f%")})
    assert "77.5–94.3 %" not in page.text
    assert re.search("↔ Not decided .* 72 ", row.text)
    drawn = page.html.partition('class="band"')[2].partition("/>")[0]
    assert f'x="{200 * (float(ends.low) - 0.5):.2f}%"' in drawn
    assert page.by_id(published).text.endswith("decide it on door")


@pytest.mark.parametrize("role", ["viewer", "labeler"])
def test_whoever_may_label_is_led_there_by_the_list(
    app: Flask, published: str, role: str
) -> None:
    page = Visitor(app, "somebody", role).get("/")
    links = page.find("a", href=f"/detectors/{published}/label")
    assert len(links) == (role == "labeler")
    assert re.search(r"[\d,]+ (labels|of (YES|NO)) decide it", page.text)


def test_an_empty_list_tells_how_to_begin_from_what_one_has(visitor: Visitor) -> None:
    page = visitor.get("/")
    assert "No detector yet" in page.text
    assert "curl -s http://localhost/api/v1/detectors" in page.text
    assert "tracker import door predictions.csv" in page.text
    assert "door.log_frame(frame" in page.text
    assert "export GROUNDLIGHT_ENDPOINT=http://localhost" in page.text


def test_a_long_list_goes_on_on_the_next_page(visitor: Visitor, shelf: Shelf) -> None:
    for number in range(51):
        target = 0.9 if number == 50 else None
        shelf.add_detector(name=f"detector-{number:02}", target=target)
    row = {"predicted": "YES", "label": "YES"}
    shelf.add_queries("det_51", [row])
    first = visitor.get("/")
    (following,) = [a for a in first.find("a") if a.text == "Next page"]
    second = visitor.get(following.attributes["href"])
    # The order is over all of them, and so are the counts.
    assert _names(first)[0] == "detector-50"
    assert "detector-49" not in first.text
    assert "detector-49" in second.text
    for page in (first, second):
        assert "Not measured 50" in page.text
        assert "All 51" in page.text
    assert "1 to 50 of 51." in first.text
    assert "51 to 51 of 51." in second.text


def test_the_list_puts_first_what_needs_somebody(
    visitor: Visitor, shelf: Shelf
) -> None:
    right, wrong = (
        {"predicted": "YES", "label": "YES"},
        {"predicted": "NO", "label": "NO"},
    )
    for name, target, times in [
        ("aimless", None, 1),
        ("met", 0.5, 60),
        ("open", 0.9, 5),
        ("missed", 0.99, 0),
    ]:
        detector_id = shelf.add_detector(name=name, target=target)
        rows = [right, wrong] * times
        if name == "missed":
            rows = [right, {"predicted": "YES", "label": "NO"}] * 60
        shelf.add_queries(detector_id, rows)
    page = visitor.get("/")
    assert _names(page) == ["missed", "open", "met", "aimless"]
    assert "Needs a look · 2" in page.text
    assert "Fine · 2" in page.text
    chips = [a.text for a in page.find("a") if "state=" in a.attributes["href"]]
    assert chips == ["Missed 1", "Not decided 1", "Met 1", "No target 1"]
    assert _names(visitor.get("/?state=met")) == ["met"]
    # Found by a part of the name or the question, and sorted by a column.
    assert _names(visitor.get("/?q=M")) == ["missed", "met", "aimless"]
    assert _names(visitor.get("/?q=nothing")) == []
    assert "No detector is called that" in visitor.get("/?q=nothing").text
    assert _names(visitor.get("/?sort=name")) == ["aimless", "met", "missed", "open"]
    downwards = visitor.get("/?sort=-labels")
    assert _names(downwards)[-2:] == ["open", "aimless"]
    (head,) = [th for th in downwards.find("th") if "aria-sort" in th.attributes]
    assert (head.text, head.attributes["aria-sort"]) == ("labels", "descending")
    assert "Needs a look ·" not in downwards.text
    # Every row says what comes next, with one link at most.
    more = balanced_labels_to_decide([5, 5], [5, 5], 0.9, WHOLE)
    assert more is not None
    of_class = roughly(-(-sum(more) // 2))
    assert f"{of_class} of YES decide it" in page.text
    assert "Set a target for aimless" in page.text
    assert "See the mistakes of missed" in page.text


def _names(page: Page) -> list[str]:
    return [link.text for link in page.find("a", class_="name clamp")]


def test_where_nobody_has_said_how_labels_came_there_is_no_verdict_until_they_do(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(target=0.6, label_sampling=None)
    rows = [{"predicted": said, "label": label} for said, label in PUBLISHED]
    shelf.add_queries(detector_id, rows)
    because = "72 labels do not say how they were chosen"
    listed = visitor.get("/")
    (badge,) = listed.find("span", class_="verdict verdict-no-verdict")
    assert badge.text == "No verdict"
    assert because in listed.html
    assert "Set a target" not in listed.text
    chosen = visitor.get("/?state=no-verdict")
    assert _names(chosen) == ["door"]
    path = f"/detectors/{detector_id}"
    page = visitor.get(path)
    assert f"No verdict: {because}" in page.text
    for claimed in ("Target met", "Target 60 %: met"):
        assert claimed not in page.text + listed.text
    said = [
        one.attributes["value"] for one in page.find("button", name="label_sampling")
    ]
    assert said == ["random", "all", "targeted"]
    answer = visitor.send(f"{path}/label-sampling", {"label_sampling": "random"})
    assert (answer.status_code, answer.location) == (303, path)
    page = visitor.get(path)
    assert "Target met" in page.text
    assert page.find("button", name="label_sampling") == []
    assert "✓ Met" in visitor.get("/").text
    assert "label_sampling" in visitor.get("/activity").text


@pytest.mark.parametrize("measure", ["overall", "recall:NO", "precision:YES"])
def test_the_list_says_which_measure_is_decided_about(
    visitor: Visitor, shelf: Shelf, measure: str
) -> None:
    detector_id = shelf.add_detector(target=0.5, measure=measure)
    rows = [{"predicted": said, "label": label} for said, label in PUBLISHED]
    shelf.add_queries(detector_id, rows)
    name = {
        "overall": "of all answers",
        "recall:NO": "when it is NO",
        "precision:YES": "when it says YES",
    }[measure]
    right, counted = {
        "overall": (64, 72),
        "recall:NO": (41, 44),
        "precision:YES": (23, 26),
    }[measure]
    ends = class_intervals("anytime", [right], [counted], WHOLE)
    low, high = outward(float(ends.low[0]), float(ends.high[0]), 3)
    span = f"{low.scaleb(2):f}–{high.scaleb(2):f} %"
    page = visitor.get("/")
    assert f"{span} {name}" in page.text
    # The page says the same number of the same measure, and no other one.
    first = {
        "overall": "It is right",
        "recall:NO": "When the truth is NO, it is right",
        "precision:YES": "When it says YES, it is right",
    }[measure]
    said = visitor.get(f"/detectors/{detector_id}").by_id("answer-title").text
    assert said == f"{first} {span} of the time. Target 50 %: met."


def _measure(page: Page) -> tuple[str, str]:
    """Return the sentence of a page, and the line below it."""
    why = next(iter(page.find("p", class_="why")), None)
    return page.by_id("answer-title").text, "" if why is None else why.text


def test_the_page_says_the_one_interval_that_decides(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}")
    assert page.status == 200
    ends = balanced_interval("anytime", [23, 41], [28, 44], WHOLE)
    low, high = outward(float(ends.low), float(ends.high), 3)
    span = f"{low.scaleb(2):f}–{high.scaleb(2):f} %"
    sentence, why = _measure(page)
    assert sentence == (
        f"It is right {span} of the time, YES and NO counting the same. "
        "Target 90 %: not decided yet."
    )
    assert why.startswith(
        "95 % sure, however often you look. Best estimate 87.7 % from 72 random labels"
    )
    (bar,) = [one for one in page.find("svg") if "hero" in str(one)]
    said = bar.attributes["aria-label"].replace("\u202f", " ")
    assert said.startswith(span.replace("–", " to "))
    # The bar lies where its numbers say, on an axis from the ten below it.
    begin = int(10 * ends.low) / 10
    drawn = page.html.partition("hero")[2].partition('class="band"')[2]
    assert f'x="{100 * (float(ends.low) - begin) / (1 - begin):.2f}%"' in drawn[:80]
    rows = page.html.partition("<tbody>")[2].partition("</tbody>")[0]
    for said in ("82.1", "23 of 28", "5 mistakes", "93.2", "41 of 44", "3 mistakes"):
        assert said in rows
    assert "Most frequent: YES taken for NO, 5 times." in page.text
    # The others are folded away, and decide nothing.
    once = page.html.partition('id="once"')[2]
    assert "77.5–94.3" in once
    assert "69.9–97.0" in once
    assert page.html.count("77.5–94.3") == page.html.count("69.9–97.0") == 1


def test_the_published_method_is_shown_without_a_verdict(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(target=0.6)
    rows = [{"predicted": said, "label": label} for said, label in PUBLISHED]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}?method=exact")
    said = page.by_id("estimate-title").text
    assert said == (
        "By the published method it is right between 69.9 and 97.0 % of the time."
    )
    readings = [
        element
        for element in page.find("div")
        if element.attributes.get("class", "").startswith("reading tone-")
    ]
    for reading, figures in zip(
        readings,
        (
            ("87.7 %", "69.9–97.0 %", "64 of 72"),
            ("82.1 %", "63.1–94.0 %", "23 of 28"),
            ("93.2 %", "81.3–98.6 %", "41 of 44"),
        ),
        strict=True,
    ):
        assert all(one in reading.text for one in figures)
    bars = [b for b in page.find("rect") if b.attributes.get("class") == "plot-bar"]
    # From 50 to 100 %, 69.96 % lies at 39.92 of 100.
    assert bars[0].attributes["x"] == "39.92%"
    assert "Target" not in page.text
    assert not page.find("section", class_="card answer-card")


def test_the_axis_begins_lower_where_a_bar_does(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 9)
    page = visitor.get(f"/detectors/{detector_id}")
    ticks = [t.text for t in page.find("text", class_="axis")]
    assert ticks[:5] == ["20", "40", "60", "80", "100 %"]
    assert _measure(page)[0] == "Not measured yet: no label of NO so far."


def test_without_queries_the_next_step_is_to_send_some(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    listed = visitor.get("/").find("a")
    (link,) = [a for a in listed if a.text.startswith("Send the first")]
    page = visitor.get(link.attributes["href"])
    assert _measure(page)[0] == "Not measured yet. Send the first prediction."
    assert f"/api/v1/detectors/{detector_id}/queries" in page.text
    assert page.find("a", class_="btn btn-primary btn-big") == []
    for claimed in ("Target met", "Target missed", "It is right"):
        assert claimed not in page.text
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 30)
    page = visitor.get(f"/detectors/{detector_id}")
    assert _measure(page)[0] == "Not measured yet: 30 queries wait."
    (button,) = page.find("a", class_="btn btn-primary btn-big")
    assert button.text == "Label the first 20"
    plan = visitor.get(f"/detectors/{detector_id}/labelling").by_id("more")
    assert "over 10 million" not in plan.text
    assert plan.text.count("every class needs labels first") == 3


@pytest.mark.parametrize(
    ("target", "said"), [(0.6, "met"), (0.99, "missed"), (0.8, "not decided yet")]
)
def test_the_verdict_follows_from_the_interval(
    visitor: Visitor, shelf: Shelf, published: str, target: float, said: str
) -> None:
    visitor.send(
        f"/detectors/{published}/setup",
        {
            "name": "door",
            "question": "Is the door closed?",
            "confidence_level": "95",
            "target": str(100 * target),
        },
    )
    page = visitor.get(f"/detectors/{published}")
    assert _measure(page)[0].endswith(f"Target {100 * target:.0f} %: {said}.")
    more = balanced_labels_to_decide([23, 41], [28, 44], target, WHOLE)
    assert more is not None
    step = f"about {roughly(sum(more))} queries drawn at random"
    waiting = "No query waits for a label now, so log more first."
    is_open = said == "not decided yet"
    assert (step in page.text) == (waiting in page.text) == is_open
    buttons = [a.text for a in page.find("a", class_="btn btn-primary btn-big")]
    # Nothing can be labelled while none waits.
    assert buttons == (["See the 8 mistakes"] if said == "missed" else [])
    sign = {"met": "✓ Target met", "missed": "✕ Target missed"}.get(said)
    assert (sign or "↔ Not decided yet") in page.text
    short = said.removesuffix(" yet")
    assert re.search(rf"[✓✕↔] {short}", visitor.get("/").text, re.IGNORECASE)


def test_labels_that_do_not_count_are_no_scored_ones(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    row = {"predicted": "YES", "label": "YES", "sampling": "targeted"}
    detector = shelf.add_detector()
    shelf.add_queries(detector, [row])
    recompute()
    page = visitor.get(f"/detectors/{detector}")
    assert _measure(page)[0] == "Not measured yet: no label counts so far."
    listed = visitor.get("/").text
    assert "○ Not measured" in listed
    assert "no label counts yet" in listed
    assert "Label the first 20" not in listed


def test_what_is_left_out_is_counted(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": "YES", "label": "UNCLEAR"}] * 2
    rows += [{"predicted": "YES", "label": "YES", "sampling": "targeted"}] * 3
    rows += [{"predicted": "YES", "label": "YES"}]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}")
    assert "2 more were “unclear” and are not counted." in page.text
    assert "Not counted: 3 picked." in page.text
    assert _labels(page) == "1"


def _labels(page: Page) -> str:
    """Return how many labels a page says that its answer rests on."""
    found = re.search(r"[Ff]rom ([\d,]+) (random )?labels?", _measure(page)[1])
    assert found
    return found[1]


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
    assert _labels(visitor.get(path)) == "6"
    assert _labels(visitor.get(f"{path}?version=v1")) == "4"
    pooled = visitor.get(f"{path}?version=*")
    assert _labels(pooled) == "10"
    assert "they are counted as if they were one detector" in pooled.text
    both = [
        {"predicted": "YES", "label": "YES", "version": one, "input": "same"}
        for one in ("v1", "v2")
    ]
    shelf.add_queries(detector_id, both)
    pooled = visitor.get(f"{path}?version=*")
    assert _labels(pooled) == "11"
    assert "1 of inputs that count by another version" in pooled.text
    assert "several versions answered counts once" in pooled.text
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
    assert _labels(fresh) == "73"
    assert "HX-Trigger" not in visitor.get(f"/detectors/{published}").headers


def test_a_page_asked_for_before_the_fold_is_out_of_date_after_it(
    visitor: Visitor, shelf: Shelf, published: str, recompute: Callable[[], None]
) -> None:
    row = {"predicted": "NO", "label": "NO", "version": "v1", "key": "k"}
    shelf.add_queries(published, [row])
    waiting = visitor.get(f"/detectors/{published}").by_id("live").attributes["hx-get"]
    assert visitor.get(waiting).status == 204
    recompute()
    # No number changes, but the chart goes on.
    fresh = visitor.get(waiting)
    assert fresh.status == 200
    assert fresh.headers["HX-Trigger"] == "tracker:refresh"


def test_a_version_that_is_not_shown_and_a_correction_make_a_page_out_of_date(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    address = f"/detectors/{published}?version=v1"
    for added in (
        {"predicted": "NO", "version": "v2"},
        {"predicted": "NO", "label": "NO", "version": "v1", "key": "k"},
        # The same counts again, of which one is a correction more.
        {"predicted": "NO", "label": "YES", "version": "v1", "key": "k"},
        {"predicted": "NO", "label": "NO", "version": "v1", "key": "k"},
    ):
        poll = visitor.get(address).by_id("live").attributes["hx-get"]
        shelf.add_queries(published, [added])
        assert visitor.get(poll).status == 200


def test_of_many_classes_the_weakest_are_shown(visitor: Visitor, shelf: Shelf) -> None:
    classes = [f"class-{number:02}" for number in range(30)]
    detector_id = shelf.add_detector(classes=classes)
    rows = [
        {"predicted": name, "label": name} for name in classes[:15] for _ in range(5)
    ]
    rows += [{"predicted": "class-01", "label": "class-00"}] * 2
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}")
    assert len(page.find("span", class_="name clamp")) == 6
    assert "6 of 30 classes shown. Show all" in page.text
    assert re.search("2 times ?class-00 taken for class-01", page.text)
    assert _measure(page)[0] == "Not measured yet: no label of class-15 so far."
    every = visitor.get(f"/detectors/{detector_id}?all=1")
    names = [one.text for one in every.find("span", class_="name clamp")]
    assert sorted(names) == classes
    assert names[:15] == classes[15:]
    assert names[15] == "class-00"


def test_the_rows_of_the_classes_also_say_their_precision(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}?by=precision")
    rows = page.html.partition("<tbody>")[2].partition("</tbody>")[0]
    assert "When it says" in page.text
    for said in ("23 of 26", "3 mistakes", "41 of 46", "5 mistakes"):
        assert said in rows


def test_the_plan_says_how_many_more_labels(visitor: Visitor, published: str) -> None:
    page = visitor.get(f"/detectors/{published}/labelling?within=5")
    more = labels_to_narrow(balanced_anytime, [23, 41], [28, 44], 0.1, WHOLE)
    assert more is not None
    assert f"About {two_figures(sum(more))} more labels" in page.text
    drawn = math.ceil(max(m * 72 / n for m, n in zip(more, (28, 44), strict=True)))
    assert f"{two_figures(drawn):,} queries drawn at random" in page.text
    chosen = [o for o in page.find("option") if "selected" in o.attributes]
    # Of the version in the header, and of the width.
    assert [one.attributes["value"] for one in chosen] == ["v1", "5"]
    assert visitor.get(f"/detectors/{published}/labelling?within=junk").status == 200


def test_the_plan_is_done_when_the_interval_is_narrow_enough(
    visitor: Visitor, published: str
) -> None:
    shown = visitor.get(f"/detectors/{published}/labelling?within=10").text
    assert "more labels" in shown
    assert "over 10 million" not in shown


def test_a_detector_is_made_in_the_browser(visitor: Visitor) -> None:
    form = visitor.get("/detectors/new").form("/detectors/new")
    assert form["classes"] == "YES NO"
    fields = {"name": "bin", "question": "Is it full?", "classes": "yes\nno\nhalf\n"}
    answer = visitor.send(
        "/detectors/new",
        fields | {"confidence_level": "99,5", "target": "90 %", "label_of": "answer"},
    )
    assert answer.status_code == 303
    settings = visitor.get(f"{answer.location}/setup")
    form = settings.form(f"{answer.location}/setup")
    assert form["confidence_level"] == "99.5"
    assert form["target"] == "90"
    assert "yes, no, half" in settings.text
    assert "A label judges the answer of one query" in settings.text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("name", "", "is required"),
        ("name", "det_1", "must not begin with det_"),
        ("name", "door/slices", "must not contain a slash (/)"),
        ("question", "\x00", "control characters"),
        ("classes", "YES", "there must be at least 2"),
        ("classes", "YES\nunclear", "a class must not be called UNCLEAR"),
        ("classes", "A\nA", "the class 'A' is given twice"),
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
    clock.at = clock.at.replace(hour=15)
    later = visitor.get(f"/detectors/{published}")
    assert _measure(later)[1].endswith("the newest 3 hours ago .")


def test_bars_have_the_colours_of_the_chart(app: Flask) -> None:
    css = (shipped_folder("static") / "tracker.css").read_text()
    light, _, dark = css.partition('[data-theme="dark"]')
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
    for listed in (before, after):
        # No estimate while a class has no label, but the interval.
        assert re.search(r"100 % just now 5 no label of NO yet|100 % .* 5 Set", listed)
    assert before.replace("just now", "") == after.replace("just now", "")


def test_the_page_says_when_the_queries_were_asked_that_count(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [
        {"predicted": "YES", "label": label, "asked_at": f"{day}T12:00:00Z"} | more
        for day, label, more in (
            ("2025-10-01", "YES", {}),
            ("2025-12-24", "NO", {}),
            ("2025-01-01", "YES", {"sampling": "targeted"}),
            ("2025-01-02", "UNCLEAR", {}),
        )
    ]
    rows.append({"predicted": "YES", "asked_at": "2025-01-03T12:00:00Z"})
    shelf.add_queries(detector_id, rows)
    said = visitor.get(f"/detectors/{detector_id}").text
    assert "asked from 1 October to 24 December 2025" in said
    assert "All 2 labels were drawn at random" in said


def test_a_few_labels_are_counted_towards_the_first_picture(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 3)
    page = visitor.get(f"/detectors/{detector_id}")
    assert "3 of about 20 labels for a first picture" in page.text
    assert "polyline" not in page.html
    # Those of a file are there before the job has counted them.
    shelf.add_queries(detector_id, [{"predicted": "NO", "label": "NO"}] * 30)
    page = visitor.get(f"/detectors/{detector_id}")
    assert "about 20 labels" not in page.text
    assert "The chart begins once the labels are counted" in page.text


@pytest.mark.parametrize("versions", [1, 2])
def test_many_detectors_are_listed_by_as_many_statements_as_one(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    database: Database,
    versions: int,
) -> None:
    counts = []
    for first, last in ((0, 1), (1, 6)):
        for number in range(first, last):
            detector_id = shelf.add_detector(name=f"door {number}", target=0.8)
            for version in range(versions):
                row = {"predicted": "YES", "label": "YES", "version": f"v{version}"}
                shelf.add_queries(detector_id, [row] * 3)
        recompute()
        # The lines of the intervals are drawn once.
        visitor.get("/")
        with noted_statements(database) as statements:
            page = visitor.get("/")
        counts.append(len(statements))
        assert all(f"door {number}" in page.text for number in range(last))
    assert counts[0] == counts[1] <= 16


def test_the_list_shows_what_waits_for_the_job_and_the_version_of_it(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    old = shelf.add_detector(name="old")
    shelf.add_queries(old, [{"predicted": "YES", "label": "YES", "version": "v1"}] * 4)
    recompute()
    shelf.add_queries(old, [{"predicted": "NO", "label": "YES", "version": "v1"}] * 5)
    # Which version answers most is seen with the next fold.
    shelf.add_queries(old, [{"predicted": "NO", "label": "YES", "version": "v2"}] * 99)
    new = shelf.add_detector(name="new")
    shelf.add_queries(new, [{"predicted": "YES", "label": "YES", "version": "v9"}] * 7)
    listed = visitor.get("/")
    for one, name, labels in ((old, "old", 9), (new, "new", 7)):
        (row,) = listed.find("tr", id=one)
        assert row.text.endswith(f"just now {labels} Set a target for {name}")
    # What the list keeps is of these labels, and not of one that comes later.
    shelf.add_queries(new, [{"predicted": "NO", "label": "NO", "version": "v9"}])
    (row,) = visitor.get("/").find("tr", id=new)
    assert row.text.endswith("just now 8 Set a target for new")


def test_many_unclear_answers_are_bounded(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": name, "label": name} for name in ("YES", "NO")] * 20
    shelf.add_queries(detector_id, rows)
    assert "No label is “unclear”." in visitor.get(f"/detectors/{detector_id}").text
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "UNCLEAR"}] * 10)
    page = visitor.get(f"/detectors/{detector_id}")
    assert "10 more were “unclear” and are not counted." in page.text
    assert "of the time, of what people could tell (10 of " in page.text
    assert "Had all of them been right or wrong, it would be right" in page.text


def test_queries_that_will_get_their_label_are_bounded(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(label_sampling="all")
    rows = [{"predicted": name, "label": name} for name in ("YES", "NO")] * 20
    shelf.add_queries(detector_id, [*rows, *[{"predicted": "YES"}] * 10])
    text = visitor.get(f"/detectors/{detector_id}").text
    assert "Every query gets its label, and 10 queries have none yet." in text
    assert "Had all been right or wrong, it would be right" in text
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "UNCLEAR"}] * 2)
    text = visitor.get(f"/detectors/{detector_id}").text
    assert "Had all of them and the unclear ones been right or wrong" in text
    assert "Had all of them been" not in text


def test_what_no_number_decides_is_labelled_to_know_it_within_three_points(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    rows = [
        {"predicted": "NO" if n < 4 else "YES", "label": "YES"} for n in range(40)
    ] + [{"predicted": "YES" if n < 4 else "NO", "label": "NO"} for n in range(40)]
    shelf.add_queries(detector_id, rows)
    recompute()
    text = visitor.get(f"/detectors/{detector_id}").text
    assert "Too close to the target to foresee. No query waits for a label" in text
    assert "to know it within" not in text
    shelf.add_queries(detector_id, [{"predicted": "YES"}] * 2_500)
    text = visitor.get(f"/detectors/{detector_id}").text
    assert re.search(r"Label \d,\d00 to know it within ±3", text)
