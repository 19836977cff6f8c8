"""The page of two versions side by side."""

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Element, Page
from tests.web.test_pages import HOSTILE
from tracker.rounding import outward
from tracker.services.deciding.pairs import Change, SequentialDecision
from tracker.stats import decide, paired_anytime
from tracker.storage.database import Database
from tracker.storage.labelling.inputs import set_inputs
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.web.drawing.differences import (
    Axis,
    Bar,
    build_axis,
    describe_won,
    draw_change,
    dump_p_value,
)

PATH = "/detectors/det_1/compare"


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
    assert page.by_id("decision-title").text == (
        f"At every look, v2 is between {low:f} and {high:f} points better than v1."
    )
    assert "the balanced accuracy of v2 is higher." in page.text
    assert page.by_id("won-title").text == (
        "Where the two disagree, v2 is right 40 times and v1 4 times."
    )
    assert "it is right more often, even at the lower end" in page.text
    # The share of disagreements and what one look says have no verdict.
    assert [badge.text for badge in badges(page)] == ["Better"]
    assert page.by_id("comparison-title").text == (
        "With 95 % confidence v2 is between 11.1 and 25.1 points better than v1 on the "
        "same 200 queries."
    )
    assert "are valid for one look" in page.text
    balanced, row, *_ = (row.text for row in page.find("tr") if " +18.0 " in row.text)
    assert balanced == "Balanced 200 40 4 +18.0 +11.1 to +25.1"
    assert row.startswith("YES 100 20 2 +18.0 +")
    assert row.endswith("below 0.001")


def test_the_other_way_round_it_is_worse(visitor: Visitor, shelf: Shelf) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=20, lost=2, pairs=100)
    page = visitor.get(f"{PATH}?new=v1&old=v2")
    assert [badge.text for badge in badges(page)] == ["Worse"]
    assert "the balanced accuracy of v1 is lower." in page.text
    assert "it is right less often, even at the upper end" in page.text
    assert "v1 is between 11.1 and 25.1 points worse than v2" in page.text
    chosen = [o for o in page.find("option") if "selected" in o.attributes]
    # The first is the one that the other pages show.
    assert [option.attributes["value"] for option in chosen[1:]] == ["v1", "v2"]


def test_what_is_not_settled_is_said_to_be_undecided(
    visitor: Visitor, shelf: Shelf
) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=2, lost=1, pairs=20)
    page = visitor.get(PATH)
    title = page.by_id("comparison-title").text
    assert "v2 is somewhere between" in title
    assert "points worse and" in title
    assert [badge.text for badge in badges(page)] == ["Undecided"]
    assert "Zero lies within the interval" in page.text


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
    assert page.by_id("won-title").text.endswith(
        "v2 is right 80 times and v1 24 times."
    )
    assert [badge.text for badge in badges(page)] == [verdict] * (verdict is not None)
    if verdict is None:
        assert "No verdict: the precision of YES of each version" in page.text
        assert "At every look" not in page.text
        return
    name = measure.replace("recall:", "accuracy of ")
    name = name if name != measure else f"{measure} accuracy"
    said = f"points of the {name}, on the same {pairs} labelled inputs."
    assert said in page.text
    word = "better" if verdict == "Better" else "worse"
    assert f"points {word} than" in page.by_id("decision-title").text


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
    assert "by 3 labels of the one and 3 of the other." in page.text
    assert "No labelled input went through both versions" in page.text
    assert "Paired comparison" not in page.html


def test_a_class_without_a_pair_leaves_it_undecided(
    visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    detector_id = shelf.add_detector()
    row = {"predicted": "YES", "label": "YES", "input": "a"}
    shelf.add_queries(detector_id, [row | {"version": v} for v in ("v1", "v2")])
    page = visitor.get(PATH)
    assert [badge.text for badge in badges(page)] == ["Undecided"]
    assert "Not every class has a pair yet" in page.text
    assert "Both versions answered 1 labelled input." in page.text
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
    text = visitor.get(PATH).text
    assert "Both versions answered 2 labelled inputs." in text
    assert "v2 right2both0gained v2 wrong0lost0neither" in text


def test_before_any_label_nothing_is_known(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": "YES", "version": version} for version in ("v1", "v2")]
    shelf.add_queries(detector_id, rows)
    assert (
        visitor.get(PATH)
        .by_id("comparison-title")
        .text.startswith("Nothing is known yet: v1 has no scored label")
    )


def test_with_one_version_the_page_says_what_is_missing(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    page = visitor.get(PATH)
    assert page.status == 200
    assert "only one version so far" in page.text
    shelf.add_detector(name="empty")
    page = visitor.get("/detectors/det_2/compare")
    assert page.status == 200
    assert "no version to compare yet" in page.text


@pytest.mark.parametrize(
    "query", ["old=v9", "new=v9", "old=v1&new=v1", f"old={HOSTILE}"]
)
def test_a_wrong_choice_is_named_and_the_form_stays(
    visitor: Visitor, shelf: Shelf, query: str
) -> None:
    add_pairs(shelf, shelf.add_detector(), gained=0, lost=0, pairs=1)
    page = visitor.get(f"{PATH}?{query}")
    assert page.status == 400
    (notice,) = page.find("p", role="alert")
    assert "is not right" in notice.text
    assert page.find("select", id="old")
    assert "<script>alert" not in page.html


def test_many_classes_are_cut_to_those_that_changed_most(
    visitor: Visitor, shelf: Shelf
) -> None:
    classes = [f"c{number}" for number in range(30)]
    detector_id = shelf.add_detector(classes=classes)
    rows = [
        {"input": name, "label": name, "version": version, "predicted": said}
        for name in classes
        for version, said in (("v1", "c0"), ("v2", name if name > "c20" else "c0"))
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(PATH)
    assert "These are the 20 classes that changed most" in page.text
    shown = [row.text.split()[0] for row in page.find("tr")]
    assert shown.count("c9") == 2
    assert shown.count("c20") == 0
    # So many classes have a box for an interval.
    assert "half again as wide" in page.text
    whole = visitor.get(f"{PATH}?all=1")
    assert "that changed most" not in whole.text
    assert [row.text.split()[0] for row in whole.find("tr")].count("c20") == 2


def test_hostile_names_are_only_ever_shown(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector(classes=[HOSTILE, "NO"])
    rows = [
        {"input": HOSTILE, "predicted": HOSTILE, "label": HOSTILE, "version": version}
        for version in (HOSTILE, f"{HOSTILE}2")
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(PATH)
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


@pytest.mark.parametrize(
    ("value", "said"),
    [(1, "1"), (0.0390625, "0.039"), (0.25, "0.25"), (0.00099, "below 0.001")],
)
def test_a_p_value_has_three_decimals(value: float, said: str) -> None:
    assert dump_p_value(value) == said


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
    assert found["7 gained : see them"] == "7 queries"
    assert found["4 lost : see them"] == "4 queries"
    assert found["See the 11 inputs"] == "11 queries"
    # Of each class, in the table.
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


@pytest.mark.parametrize(
    ("won", "lost", "shown"),
    [
        (0, 0, None),
        (5, 0, "100\u202f%"),
        (0, 5, "0\u202f%"),
        (1_000_000, 1, "99.999\u202f%"),
        (1, 1_000_000, "0.001\u202f%"),
    ],
)
def test_only_all_of_them_are_said_to_be_100_percent(
    won: int, lost: int, shown: str | None
) -> None:
    found = decide(won, lost, 0.95)
    decision = SequentialDecision(
        verdict=found.verdict,
        method="anytime",
        won=won,
        lost=lost,
        low=found.low,
        high=found.high,
    )
    assert describe_won(decision).estimate == shown


def test_a_bound_of_the_share_won_beside_half_does_not_read_half() -> None:
    decision = SequentialDecision(
        verdict="better", method="anytime", won=70, lost=50, low=0.50004, high=0.6625
    )
    share = describe_won(decision)
    assert (share.low, share.high) == ("50.004\u202f%", "66.250\u202f%")
