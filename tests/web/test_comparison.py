"""The page of two versions side by side."""

from urllib.parse import quote

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Element, Page
from tests.web.test_pages import HOSTILE
from tracker.rounding import outward
from tracker.services.deciding.pairs import Change
from tracker.stats import paired_anytime
from tracker.storage.database import Database
from tracker.storage.labelling.inputs import set_inputs
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.web.drawing.differences import (
    Axis,
    Bar,
    build_axis,
    draw_change,
)

PATH = "/detectors/det_1/changes?old=v1&new=v2"


def add_pairs(
    shelf: Shelf, detector_id: str, *, gained: int, lost: int, pairs: int
) -> None:
    """Log pairs of either class, of which so many were gained and lost."""
    rows = []
    for label, other in (("YES", "NO"), ("NO", "YES")):
        for number in range(pairs):
            was = other if number < gained else label
            is_now = other if gained <= number < gained + lost else label
            for version, said in (("v1", was), ("v2", is_now)):
                row = {"input": f"{label}-{number}", "version": version}
                rows.append(row | {"predicted": said, "label": label})
    shelf.add_queries(detector_id, rows)


def badges(page: Page) -> list[Element]:
    """The verdicts on a page."""
    return [
        one
        for one in page.find("span")
        if one.attributes.get("class", "").startswith("verdict ")
    ]


def test_the_new_version_is_said_to_be_better(visitor: Visitor, shelf: Shelf) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=20, lost=2, pairs=100)
    page = visitor.get(PATH)
    assert page.status == 200
    found = paired_anytime([20, 20], [2, 2], [100, 100], 0.95)
    low, high = (end.scaleb(2) for end in outward(found.low, found.high, 3))
    assert page.by_id("compared").text == (
        f"v2 is right {low:f}\N{EN DASH}{high:f} points more often than v1, "
        "YES and NO counting the same."
    )
    assert [badge.text for badge in badges(page)] == ["✓ v2 is better"]
    assert "Of 44 labelled disagreements v2 is right in 40." in page.text
    assert "Mean of the classes on the same 200 labelled inputs" in page.text
    rows = [row.text for row in page.find("tr")]
    assert "All 200 40 4" in rows
    assert "YES 100 20 2" in rows


def test_the_other_way_round_it_is_worse(visitor: Visitor, shelf: Shelf) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=20, lost=2, pairs=100)
    page = visitor.get("/detectors/det_1/changes?new=v1&old=v2")
    assert [badge.text for badge in badges(page)] == ["↓ v1 is worse"]
    assert "points less often than v2, " in page.by_id("compared").text
    chosen = [o for o in page.find("option") if "selected" in o.attributes]
    # The first is the one that the other pages show.
    assert [option.attributes["value"] for option in chosen[1:]] == ["v1", "v2"]


def test_what_is_not_settled_is_said_to_be_undecided(
    visitor: Visitor, shelf: Shelf
) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=2, lost=1, pairs=20)
    page = visitor.get(PATH)
    assert "v2 is right between" in page.by_id("compared").text
    assert [badge.text for badge in badges(page)] == ["Not decided yet"]
    assert "would decide it" in page.text


def test_nothing_is_compared_before_two_are_chosen(
    visitor: Visitor, shelf: Shelf
) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=2, lost=1, pairs=20)
    page = visitor.get("/detectors/det_1/changes")
    assert page.find("select", id="old")
    assert not page.find("p", id="compared")


@pytest.mark.parametrize(
    ("measure", "verdict", "pairs"),
    [
        ("balanced", "Worse", 525),
        ("overall", "Better", 525),
        ("recall:YES", "Worse", 25),
        ("recall:NO", "Better", 500),
        ("precision:YES", None, 525),
    ],
)
def test_the_verdict_is_in_the_measure_of_the_detector(
    visitor: Visitor, shelf: Shelf, measure: str, verdict: str | None, pairs: int
) -> None:
    # The new version wins most disagreements, and loses nearly all of a rare class.
    rows = []
    for label, other, right_now, all_ in (
        ("YES", "NO", 1, 25),
        ("NO", "YES", 500, 500),
    ):
        for number in range(all_):
            was = other if label == "NO" and number < 80 else label
            is_now = label if number < right_now else other
            for version, said in (("v1", was), ("v2", is_now)):
                row = {"input": f"{label}-{number}", "version": version}
                rows.append(row | {"predicted": said, "label": label})
    shelf.add_queries(shelf.add_detector(measure=measure), rows)
    page = visitor.get(PATH)
    if verdict is None:
        assert [badge.text for badge in badges(page)] == ["No verdict"]
        assert "No verdict: the precision of YES of each version" in page.text
        return
    assert [verdict.lower() in badge.text for badge in badges(page)] == [True]
    assert "Of 104 labelled disagreements v2 is right in 80." in page.text
    name = measure.replace("recall:", "accuracy of ")
    if name == measure:
        name = {"balanced": "mean of the classes"}.get(name, f"{name} accuracy")
    assert f"on the same {pairs} labelled inputs" in page.text
    assert name.casefold() in page.text.casefold()
    word = "more" if verdict == "Better" else "less"
    said = page.by_id("compared").text
    assert f"points {word} often than v1" in said
    assert said.startswith("When the truth is") == measure.startswith("recall:")


def test_without_pairs_it_goes_by_the_labels_of_each(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [
        {"predicted": "YES", "label": label, "version": version}
        for version in ("v1", "v2")
        for label in ("YES", "NO", "YES")
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(PATH)
    assert [badge.text for badge in badges(page)] == ["No verdict"]
    assert "Nothing shows yet whether v2 is better than v1." in page.text
    assert "No labelled input went through both versions" in page.text
    assert "By class" not in page.text


def test_a_class_without_a_pair_leaves_it_undecided(
    visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    detector_id = shelf.add_detector()
    row = {"predicted": "YES", "label": "YES", "input": "a"}
    shelf.add_queries(detector_id, [row | {"version": v} for v in ("v1", "v2")])
    page = visitor.get(PATH)
    assert [badge.text for badge in badges(page)] == ["Not decided yet"]
    assert "Not every class has a label of both yet" in page.text
    assert "on the same 1 labelled input," in page.text
    shelf.add_queries(
        detector_id,
        [
            {"predicted": "YES", "key": version, "label": label, "version": version}
            for version, label in (("v1", "YES"), ("v2", "NO"))
        ],
    )
    # As it was stored before an input had one label: it counts once, by the older one.
    with database.write() as session:
        found = find_queries_by_key(session, 1, ["v1", "v2"]).values()
        rows = [
            {"id": row.id, "input": "b", "is_repeat": False, "is_pooled": True}
            for row in found
        ]
        set_inputs(session, 1, rows)
    page = visitor.get(PATH)
    assert "on the same 2 labelled inputs," in page.text
    assert "All 2 0 0" in [row.text for row in page.find("tr")]


def test_before_any_label_nothing_is_known(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": "YES", "version": version} for version in ("v1", "v2")]
    shelf.add_queries(detector_id, rows)
    said = visitor.get(PATH).by_id("compared").text
    assert said == "Nothing shows yet whether v2 is better than v1."


def test_with_one_version_the_page_says_what_is_missing(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    page = visitor.get("/detectors/det_1/changes")
    assert page.status == 200
    assert "only one version so far" in page.text
    shelf.add_detector(name="empty")
    page = visitor.get("/detectors/det_2/changes")
    assert page.status == 200
    assert "There is no version yet" in page.text


@pytest.mark.parametrize(
    "query", ["old=v9", "new=v9", "old=v1&new=v1", f"old={HOSTILE}"]
)
def test_a_wrong_choice_is_named(visitor: Visitor, shelf: Shelf, query: str) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=0, lost=0, pairs=1)
    page = visitor.get(f"/detectors/det_1/changes?{query}")
    assert page.status == 400
    assert "is not right" in page.text
    assert "<script>alert" not in page.html


def test_hostile_names_are_only_ever_shown(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector(classes=[HOSTILE, "NO"])
    rows = [
        {"input": HOSTILE, "predicted": HOSTILE, "label": HOSTILE, "version": version}
        for version in (HOSTILE, f"{HOSTILE}2")
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/det_1/changes?new={quote(HOSTILE + '2')}")
    assert page.status == 200
    assert HOSTILE in page.text
    assert "<script>alert" not in page.html
    assert "<img src=x" not in page.html


def drawn(low: float, high: float, difference: float | None = None) -> Bar:
    return draw_change(Change(difference=difference, low=low, high=high), "YES", 1)


@pytest.mark.parametrize(
    ("low", "high", "difference", "interval", "estimate"),
    [
        (0.02131, 0.27397, 0.14, "+2.1 to +27.4", "+14.0"),
        (-0.02131, 0.27397, -0.0004, "\u22122.2 to +27.4", "0"),
        (-1, 1, None, "\u2212100 to +100", None),
        (0.00031, 0.25, 0.125, "+0.03 to +25.00", "+12.50"),
        (-0.25, -0.00002, -0.125, "\u221225.000 to \u22120.002", "\u221212.500"),
        (0.001234, 0.002345, 0.002, "+0.12 to +0.24", "+0.20"),
        (0, 0.5, 0.2, "0 to +50.0", "+20.0"),
    ],
)
def test_bounds_are_rounded_outward_and_never_onto_zero(
    low: float, high: float, difference: float, interval: str, estimate: str
) -> None:
    bar = drawn(low, high, difference)
    assert (bar.interval, bar.estimate) == (interval, estimate)


@pytest.mark.parametrize(
    ("low", "high", "axis"),
    [
        (0.02, 0.27, Axis(0, 6, 0.05)),
        (-0.031, 0.08, Axis(-2, 4, 0.02)),
        (-1, 1, Axis(-2, 2, 0.5)),
        (-0.3, -0.1, Axis(-6, 0, 0.05)),
        (0.001, 0.002, Axis(0, 1, 0.01)),
        (0, 0, Axis(0, 1, 0.01)),
    ],
)
def test_the_axis_holds_every_bar_and_zero(low: float, high: float, axis: Axis) -> None:
    found = build_axis([drawn(low, high)])
    assert found == axis
    assert 2 <= len(found.ticks) <= 9 + 1
    assert "0" in [tick.text for tick in found.ticks]
    for share in (low, 0, high):
        assert 0 <= float(found.place(share).removesuffix("%")) <= 100


@pytest.mark.thorough
def test_each_count_opens_the_inputs_behind_it(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    add_pairs(shelf, detector_id, gained=3, lost=2, pairs=10)
    # The label of the other version counts, though this one's was picked on purpose.
    shelf.add_queries(
        detector_id,
        [
            {"input": "more", "version": "v1", "predicted": "NO", "label": "YES"},
            {
                "input": "more",
                "version": "v2",
                "predicted": "YES",
                "label": "YES",
                "sampling": "targeted",
            },
            {"input": "more", "version": "v2", "predicted": "NO"},
            {"input": "alone", "version": "v2", "predicted": "NO", "label": "YES"},
        ],
    )
    page = visitor.get(PATH)
    found = {}
    for link in page.find("a"):
        if "versus=v1" in link.attributes.get("href", ""):
            opened = visitor.get(link.attributes["href"])
            assert opened.status == 200
            found[link.text] = opened.find("h2")[0].text
    assert found["7"] == "7 queries"
    # Of each class, too.
    assert found["4"] == "4 queries"
    assert found["3"] == "3 queries"
    assert found["2"] == "2 queries"


def test_an_unknown_version_to_compare_with_is_refused(
    visitor: Visitor, shelf: Shelf
) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=1, lost=0, pairs=2)
    page = visitor.get("/detectors/det_1/queries?versus=v9")
    assert page.status == 400
    assert "versus: 'v9' is not right: there is no such version" in page.text
