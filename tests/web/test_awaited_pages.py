"""Where every query gets its label, charts and sentences go by those without one."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import Shelf, Visitor


def rows(number: int, labelled: int) -> list[dict[str, Any]]:
    """Queries of two weeks; in each those that are right get their labels first."""
    found = []
    for week in range(2):
        for place in range(number):
            label, other = ("YES", "NO") if place % 2 else ("NO", "YES")
            query = {
                "key": f"{week} {place}",
                "predicted": label if place < 0.8 * number else other,
                "asked_at": f"2026-01-{12 + 7 * week}T10:00:00Z",
            }
            found.append(query | ({"label": label} if place < labelled else {}))
    return found


@pytest.fixture
def awaited(shelf: Shelf, recompute: Callable[[], None]) -> Callable[..., str]:
    def make(**described: Any) -> str:
        detector = shelf.add_detector(label_sampling="all", **described)
        shelf.add_queries(detector, rows(200, 150))
        recompute()
        return detector

    return make


def test_the_chart_has_bounds(visitor: Visitor, awaited: Callable[..., str]) -> None:
    page = visitor.get(f"/detectors/{awaited(target=0.95)}")

    assert "How sure, label by label" not in page.text
    assert "Week by week" in page.text
    (chart,) = [
        one
        for one in page.elements
        if "One interval for each week" in one.attributes.get("aria-label", "")
    ]
    assert chart
    assert "takes those without one as wrong at its lower end" in page.text


def test_the_sentence_has_bounds_without_a_target(
    visitor: Visitor, awaited: Callable[..., str]
) -> None:
    """All labels so far are right, and 100 of 400 queries have none."""
    detector = awaited()
    said = visitor.get(f"/detectors/{detector}").by_id("answer-title").text
    answer = visitor.client.get(f"/detectors/{detector}/chart.json")

    assert said.startswith("It is right 67.3")
    assert "100 % of the time, whatever the labels that are still missing" in said
    assert answer.json["title"]["subtitle"].endswith(
        "live labels so far, queries without one left out"
    )

    history = visitor.get(f"/detectors/{detector}/changes?by=labels")
    assert "decide nothing; each week has bounds" in history.text
    assert "the one that decides" not in history.by_id("main").text


def test_each_class_has_bounds(visitor: Visitor, awaited: Callable[..., str]) -> None:
    """Of 75 labels of a class all are right; 25 to 75 more may have it, or none."""
    detector = awaited(target=0.95)
    for by in ("accuracy", "precision"):
        page = visitor.get(f"/detectors/{detector}?by={by}")
        table = page.html.partition('id="classes-title"')[2].partition("</section>")[0]

        lows = [float(one) for one in re.findall(r'label="([\d.]+) to 100 pe', table)]
        assert len(lows) == 2
        assert all(60 < low < 75 for low in lows)
        assert "150 of 150" in table
        assert "takes those without one as wrong at its lower end" in table


def test_intervals_of_labels_that_came_are_not_said_to_be_of_all_queries(
    visitor: Visitor, awaited: Callable[..., str]
) -> None:
    path = f"/detectors/{awaited(target=0.95)}"
    for measure in ("f1", "precision"):
        page = visitor.get(f"{path}/changes?by=labels&measure={measure}")
        assert "It is of the labels that had come, not of all queries." in page.text
    assert "these intervals are of the labels that have come" in (
        visitor.get(f"{path}/methods").text
    )
