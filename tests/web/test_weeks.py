"""The page of weeks: a bar for each, and a table with its numbers."""

from datetime import date, timedelta

import pytest

from tests.conftest import FillOnce
from tests.web.conftest import Shelf, Visitor


@pytest.fixture
def five_weeks(shelf: Shelf, fill_once: FillOnce) -> str:
    """In the last week but one half of the labels are wrong."""

    def build() -> str:
        detector = shelf.add_detector(measure="overall", target=0.9)
        rows = [
            {
                "key": f"{week}-{number}",
                "predicted": "YES",
                "label": "NO" if week == 3 and number % 2 else "YES",
                "asked_at": f"{date(2025, 12, 29) + timedelta(7 * week)}T10:00:00Z",
            }
            for week in range(5)
            for number in range(200)
        ]
        rows.append(rows[0] | {"key": "waits", "label": None})
        shelf.add_queries(detector, rows)
        return detector

    return fill_once(build)


def test_the_week_below_the_target_is_named(visitor: Visitor, five_weeks: str) -> None:
    page = visitor.get(f"/detectors/{five_weeks}/weeks")

    assert page.status == 200
    said = "In the week of 19 Jan the overall accuracy was below the target of 90"
    assert said in page.text
    # The first has a query that arrived today, and the last is not over.
    assert page.html.count('<rect class="plot-bar" x="1"') == 1
    assert page.html.count('<rect class="plot-bar"') == 4
    assert page.html.count("weeks-below") == 1
    assert "2026-01-19" in page.text
    assert "labelled ones" in page.text
    assert (
        f"/detectors/{five_weeks}/weeks"
        in visitor.get(f"/detectors/{five_weeks}/changes").html
    )


@pytest.mark.parametrize("by", ["day", "month"])
def test_days_and_months_and_other_measures_have_pages(
    visitor: Visitor, five_weeks: str, by: str
) -> None:
    page = visitor.get(f"/detectors/{five_weeks}/weeks?by={by}&measure=balanced")
    assert page.status == 200
    assert f"The balanced accuracy of the last {'4 days' if by == 'day' else '2'}" in (
        page.text
    )


@pytest.mark.parametrize("asked", ["by=year", "measure=f1", "version=x"])
def test_what_cannot_be_shown_is_refused(
    visitor: Visitor, five_weeks: str, asked: str
) -> None:
    assert visitor.get(f"/detectors/{five_weeks}/weeks?{asked}").status in {400, 404}


def test_a_detector_without_queries_has_no_weeks(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector()
    page = visitor.get(f"/detectors/{detector}/weeks")
    assert "There are no queries yet." in page.text
