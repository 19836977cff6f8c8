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
    page = visitor.get(f"/detectors/{five_weeks}/changes")

    assert page.status == 200
    (row,) = [
        tr.text
        for tr in page.find("tr")
        if tr.text[:6] == "19 Jan" and "ones" in tr.text
    ]
    assert row.endswith("Target missed 100 mistakes")
    (link,) = [one for one in page.find("a") if "of the week of" in one.text]
    assert link.text == "See the 100 mistakes of the week of 19 January 2026"
    wrong = visitor.get(link.attributes["href"])
    assert "100 mistakes" in [heading.text for heading in wrong.find("h2")]
    assert "from 19 Jan to 25 Jan" in wrong.text
    assert page.text.count("Target missed") == 1
    # The first has a query that arrived today, and the last is not over.
    assert page.html.count('<rect class="hollow"') == 2
    assert (
        len(
            [
                one
                for one in page.find("rect")
                if "%" in one.attributes["x"] and "rx" in one.attributes
            ]
        )
        == 5
    )
    assert "labelled ones" in page.text


@pytest.mark.parametrize("by", ["day", "month"])
def test_days_and_months_and_other_measures_have_pages(
    visitor: Visitor, five_weeks: str, by: str
) -> None:
    page = visitor.get(f"/detectors/{five_weeks}/changes?by={by}&measure=balanced")
    assert page.status == 200
    assert f"Accuracy by {by}" in page.text
    chosen = [a.text for a in page.find("a") if a.attributes.get("aria-current")]
    assert "mean of the classes" in chosen


@pytest.mark.parametrize("asked", ["by=year", "by=week&measure=f1", "version=x"])
def test_what_cannot_be_shown_is_refused(
    visitor: Visitor, five_weeks: str, asked: str
) -> None:
    assert visitor.get(f"/detectors/{five_weeks}/changes?{asked}").status in {400, 404}


def test_a_detector_without_queries_has_no_weeks(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector()
    page = visitor.get(f"/detectors/{detector}/changes")
    assert "There are no queries yet." in page.text


def test_versions_that_begin_on_one_day_share_a_mark(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector()
    shelf.add_queries(
        detector,
        [
            {"key": f"{version}{day}", "predicted": "YES", "label": "YES"}
            | {"version": version, "asked_at": f"2026-01-{day:02}T10:00:00Z"}
            for version, days in (("v1", (6, 13)), ("v2", (14,)), ("v3", (14,)))
            for day in days
        ],
    )
    page = visitor.get(f"/detectors/{detector}/changes?version=v1")
    names = [one.text for one in page.find("text")]
    assert "v2, v3" in names
    assert "v3" not in names


def test_the_axis_holds_every_bar_where_all_are_wide(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector(target=0.9)
    rows = [("YES", "YES")] * 6 + [("NO", "NO")] * 6 + [("YES", "NO")] * 4
    shelf.add_queries(
        detector, [{"predicted": said, "label": label} for said, label in rows]
    )
    page = visitor.get(f"/detectors/{detector}/changes")

    (cell,) = page.find("td", **{"data-column": "right"})
    low = float(cell.text.split()[-1].partition("–")[0])  # noqa: RUF001
    ticks = [one.text for one in page.find("text") if one.text.endswith("%")]
    lowest = min(float(one.split()[0]) for one in ticks if one[0].isdigit())
    assert lowest <= low < 80
