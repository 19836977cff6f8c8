# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The page of all methods, and the page that explains the exact one."""

import re

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor
from tests.web.test_figures import cells
from tracker import stats
from tracker.stats import balanced_coverage, balanced_normal


def test_every_method_stands_with_its_interval_and_its_coverage(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/methods")
    for name in stats.METHODS:
        assert re.search(rf"\b{re.escape(name)}\b", page.text)
    guaranteed, approximate = page.text.split("Approximations")
    assert "anytime" in guaranteed
    assert "wilson" not in guaranteed.split("Guaranteed")[1]
    assert "69.9–97.0" in guaranteed
    assert "64 of 72" in guaranteed
    joint, exact = (
        stats.balanced_interval(name, [23, 41], [28, 44], 0.95)
        for name in ("joint", "exact")
    )
    narrower = 1 - float((joint.high - joint.low) / (exact.high - exact.low))
    assert f"{100 * narrower:.0f} % narrower" in guaranteed
    assert len(page.find("td", class_="method-use")) == len(stats.METHODS)
    assert "nothing is proved" in approximate
    # The textbook interval misses too often.
    summed = balanced_coverage(balanced_normal, (28, 44), (23 / 28, 41 / 44), 0.95)
    assert f"{int(1000 * float(summed.holds)) / 10:g}" in approximate
    assert summed.holds < 0.94


def test_the_coverage_of_many_classes_is_that_of_the_balanced_interval(
    visitor: Visitor, shelf: Shelf
) -> None:
    classes = [f"c{number}" for number in range(10)]
    detector_id = shelf.add_detector(classes=classes)
    rows = [
        {"predicted": classes[0] if wrong else name, "label": name}
        for name in classes
        for wrong in [False] * 19 + [name != classes[0]]
    ]
    shelf.add_queries(detector_id, rows)
    text = visitor.get(f"/detectors/{detector_id}/methods").text
    before, posterior = text.split("Approximations")[1].split("posterior")
    assert "far below 95" in posterior
    assert "far below 95" not in before.split("wilson")[1].split("agresti")[0]
    assert "±" in posterior


@pytest.mark.thorough
@pytest.mark.parametrize("labelled", [(28, 44), (30, 25, 20), (20,) * 10])
def test_no_guaranteed_method_seems_to_hold_less_often_than_is_proved(
    visitor: Visitor, shelf: Shelf, labelled: tuple[int, ...]
) -> None:
    classes = [f"c{number}" for number in range(len(labelled))]
    detector_id = shelf.add_detector(classes=classes)
    rows = [
        {"predicted": classes[index - 1] if position < 2 else name, "label": name}
        for index, (name, count) in enumerate(zip(classes, labelled, strict=True))
        for position in range(count)
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}/methods")
    names = [row.text.split()[0] for row in page.find("th", scope="row")]
    cells = [" ".join(one.text.split()) for one in page.find("td", class_="figures")]
    coverages = dict(zip(names, cells[2::3], strict=True))
    for name in ("exact", "joint", "anytime"):
        said = coverages[name]
        shares = [float(found) for found in re.findall(r"([\d.]+)\s%", said)]
        assert min(shares) >= 95, said
        if "±" in said:
            assert "at least 95" in said
            assert float(said.split("±")[1]) <= 1
    # Too slow to sum or to simulate well: what is proved stands alone.
    if len(labelled) < 10:
        assert coverages["joint"] == "at least 95 % proved"


def test_the_labels_that_exact_needs_for_the_joint_width_are_told(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/methods")
    joint = stats.balanced_interval("joint", [23, 41], [28, 44], 0.95)
    more = stats.labels_to_reach_balanced_width(
        [23, 41], [28, 44], float(joint.high - joint.low), 0.95
    )
    assert more is not None
    assert sum(more) > 20
    assert f"about {sum(more)} more labels" in page.text


def test_the_tail_follows_the_supposed_accuracy(
    visitor: Visitor, published: str
) -> None:
    high = float(stats.class_intervals("exact", 23, 28, 0.95).high)
    kept = visitor.get(f"/detectors/{published}/why?supposed={100 * high - 0.1:.1f}")
    ruled_out = visitor.get(f"/detectors/{published}/why?supposed={100 * high + 0.1}")
    below = visitor.get(f"/detectors/{published}/why?supposed=50&scope=NO")
    assert "23 or fewer of 28" in kept.text
    assert "is not ruled out" in kept.text
    assert "so this accuracy is ruled out" in ruled_out.text
    assert "41 or more of 44" in below.text
    assert "so this accuracy is ruled out" in below.text


@pytest.mark.parametrize("supposed", ["", "x", "nan", "inf", "-1", "101", "1e999"])
def test_a_supposed_accuracy_that_is_none_is_not_an_error(
    visitor: Visitor, published: str, supposed: str
) -> None:
    page = visitor.get(f"/detectors/{published}/why?supposed={supposed}&scope=%00")
    assert page.status == 200
    assert "23 or more of 28" in page.text or "23 or fewer of 28" in page.text


def test_the_published_example_is_drawn(visitor: Visitor, published: str) -> None:
    text = visitor.get(f"/detectors/{published}/why").text
    for supposed, chance in (("80", "54"), ("83", "24.8"), ("86.33", "5")):
        assert re.search(
            rf"At {supposed}\s%, 80 or fewer has a chance of {chance}\s%", text
        )


@pytest.mark.parametrize(("level", "said"), [(0.95, "2.5 %"), (0.9999, "0.005 %")])
def test_the_share_of_a_tail_is_said_to_the_digit(
    visitor: Visitor, shelf: Shelf, level: float, said: str
) -> None:
    detector_id = shelf.add_detector(confidence_level=level)
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 3)
    text = visitor.get(f"/detectors/{detector_id}/why").text.replace("\u202f", " ")
    assert f"the tail has less than {said} of the probability" in text


def percent_of(chance: str) -> float:
    """Return "2.86 %" or "1 in 4,000" in percent."""
    if chance.startswith("1 in "):
        return 100 / int(chance.removeprefix("1 in ").replace(",", ""))
    return float(chance.removesuffix(" %"))


@pytest.mark.thorough
def test_looking_often_misleads_and_anytime_does_not(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/why/peeking")
    shown = {
        name: [percent_of(said) for said in chances]
        for name, *chances in cells(page, "Chance of ever having been misled")
    }
    assert shown["exact"] == pytest.approx([2.86, 15.8, 34.1], abs=0.05)
    first, second, last = shown["anytime"]
    assert 0 < first < second < last < 5


def test_without_labels_both_pages_say_so(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    assert (
        "as soon as there is a label"
        in visitor.get(f"/detectors/{detector_id}/methods").text
    )
    page = visitor.get(f"/detectors/{detector_id}/why").text
    assert "Once there is a label" in page
    assert "80 or fewer" in page


@pytest.mark.slow
def test_the_coverage_of_the_balanced_accuracy_is_summed(
    visitor: Visitor, published: str
) -> None:
    assert "methods/coverage" in visitor.get(f"/detectors/{published}/methods").html
    text = visitor.get(f"/detectors/{published}/methods/coverage").text
    shown = dict(
        re.findall(
            r"(exact|joint|normal)(?: guaranteed)?\s*(?:↓too low: )?\s*([\d.]+)\s%",
            text,
        )
    )
    exact, joint, normal = (float(shown[name]) for name in ("exact", "joint", "normal"))
    assert exact > 99
    assert 95 <= joint < exact
    assert normal < 95
    assert "↓: below 95 %." in text


def test_few_sums_over_all_outcomes_are_done_at_once(
    app: Flask, visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/methods/coverage"
    visitor.get(path)
    limit = app.extensions["tracker-sums"]
    with limit.hold("ann"), limit.hold("ben"):
        answer = visitor.client.get(path)
    assert answer.status_code == 429
    assert "simultaneous sums over all outcomes (2)" in answer.text


def test_the_coverage_of_three_classes_is_not_summed(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(classes=["a", "b", "c"])
    shelf.add_queries(detector_id, [{"predicted": one, "label": one} for one in "abc"])
    page = visitor.get(f"/detectors/{detector_id}/methods/coverage")
    assert "Only two classes can be summed. This detector has 3," in page.text
    assert (
        "methods/coverage" not in visitor.get(f"/detectors/{detector_id}/methods").html
    )


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"YES": 5}, "as soon as both classes have a label"),
        ({"YES": 1_000, "NO": 1_000}, "too many outcomes"),
    ],
)
def test_no_link_leads_to_what_cannot_be_summed(
    visitor: Visitor, shelf: Shelf, labels: dict[str, int], said: str
) -> None:
    detector_id = shelf.add_detector()
    rows = [
        {"predicted": name, "label": name}
        for name, count in labels.items()
        for _ in range(count)
    ]
    shelf.add_queries(detector_id, rows)
    path = f"/detectors/{detector_id}/methods"
    assert f"{path}/coverage" not in visitor.get(path).html
    assert said in visitor.get(f"{path}/coverage").text


def test_an_interval_beside_the_estimate_is_told(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [{"predicted": name, "label": name} for name in ("YES", "NO")] * 30
    shelf.add_queries(detector_id, rows)
    text = visitor.get(f"/detectors/{detector_id}/methods").text
    # Of 30 out of 30 the posterior holds less than 100 %, and it stands last.
    before, after = text.split("posterior")
    assert "Its interval does not contain the estimate" not in before
    assert "Its interval does not contain the estimate" in after
