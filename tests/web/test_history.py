# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The history as a chart, as a table and as files."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import openpyxl
import pytest

from tests.conftest import Clock
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.detectors import get_detector
from tracker.services.estimates.charts import list_states
from tracker.services.estimates.projections import QUIET
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions


def test_the_table_begins_with_the_newest_snapshot(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/changes?by=labels")
    first = page.find("tbody")[1]
    newest = "2026-01-31 12:00:00 72 87.7 % 65.9–98.5 64 of 72"
    assert first.text.startswith(newest)
    assert "82.1 % 50.7–98.1 23 of 28" in first.text
    assert "93.2 % 72.7–99.9 41 of 44" in first.text


def numbers(page: Page) -> list[int]:
    """Return the labels of each snapshot in the table."""
    rows = [tr.text.split() for tr in page.find("tr")]
    return [int(row[2]) for row in rows if re.match(r"\d\d:\d\d:", row[1])]


@pytest.mark.slow
def test_the_table_is_paged_either_way(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/changes"
    for order, first, last in (("newest", 72, 1), ("oldest", 1, 72)):
        page = visitor.get(f"{path}?order={order}")
        rows = numbers(page)
        assert len(rows) == 6
        while links := [a for a in page.find("a") if a.text == "More"]:
            page = visitor.get(links[0].attributes["href"])
            rows += numbers(page)
        assert rows == sorted(range(1, 73), reverse=order == "newest")
        assert (rows[0], rows[-1]) == (first, last)


@pytest.mark.slow
def test_of_many_classes_the_table_shows_the_chosen_one(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(classes=list("ABCDEF"))
    shelf.add_queries(detector_id, [{"predicted": "B", "label": "B"}] * 3)
    recompute()
    path = f"/detectors/{detector_id}/changes"
    heads = [th.text for th in visitor.get(f"{path}?by=labels").find("th")]
    assert heads[heads.index("Now") + 1 :][:3] == [
        "Computed (UTC)",
        "Labels",
        "Balanced",
    ]
    assert "B" in [th.text for th in visitor.get(f"{path}?scope=B").find("th")]
    assert visitor.get(f"{path}?scope=junk").status == 200


def test_an_empty_history_says_so(visitor: Visitor, shelf: Shelf) -> None:
    page = visitor.get(f"/detectors/{shelf.add_detector()}/changes?by=labels")
    assert page.status == 200
    assert "begins with the first label" in page.text


@pytest.mark.parametrize("query", ["?method=junk", "?version=junk"])
def test_a_choice_that_there_is_not_is_refused(
    visitor: Visitor, published: str, query: str
) -> None:
    assert visitor.get(f"/detectors/{published}/changes{query}").status in {400, 404}


def test_the_chart_follows_the_choices(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/changes?x=time"
    (host,) = [
        d for d in visitor.get(path).find("div") if "data-chart-url" in d.attributes
    ]
    url = host.attributes["data-chart-url"]
    assert "x=time" in url
    spec = json.loads(visitor.get(f"{url}&theme=dark&layout=narrow").html)
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite")
    assert spec["background"] == "#262626"


def test_the_chart_along_the_days_asked(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/changes?x=asked_at"
    page = visitor.get(path)
    assert "Day by day, of all queries asked until then" in page.text
    (host,) = [d for d in page.find("div") if "data-chart-url" in d.attributes]
    assert "x=asked_at" in host.attributes["data-chart-url"]
    assert visitor.get(host.attributes["data-chart-url"]).status == 200
    links = [a.attributes["href"] for a in page.find("a") if a.text == "CSV"]
    rows = visitor.client.get(links[0]).text.splitlines()
    assert rows[0].endswith(",asked_at,population")
    assert len(rows) == 4


@pytest.mark.slow
def test_the_chart_is_drawn_as_a_picture(visitor: Visitor, published: str) -> None:
    svg = visitor.client.get(f"/detectors/{published}/chart.svg")
    png = visitor.client.get(f"/detectors/{published}/chart.png")
    assert svg.mimetype == "image/svg+xml"
    assert b"<svg" in svg.data
    assert png.mimetype == "image/png"
    assert png.data.startswith(b"\x89PNG")
    assert visitor.get(f"/detectors/{published}/chart.pdf").status == 404


@pytest.mark.slow
def test_the_history_is_downloaded(visitor: Visitor, published: str) -> None:
    answer = visitor.client.get(f"/detectors/{published}/history.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 72 * 3
    assert rows[-3]["scope"] == "balanced"
    assert rows[-3]["low"].startswith("0.6996")
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="tracker-{published}-history.csv"'
    )
    whole = json.loads(visitor.get(f"/detectors/{published}/history.json").html)
    lines = visitor.get(f"/detectors/{published}/history.jsonl").html.splitlines()
    assert whole["items"] == [json.loads(line) for line in lines]
    parquet = visitor.client.get(f"/detectors/{published}/history.parquet")
    assert parquet.data.startswith(b"PAR1")
    excel = visitor.client.get(f"/detectors/{published}/history.xlsx")
    sheet = openpyxl.load_workbook(io.BytesIO(excel.data)).active
    assert sheet.max_row == 72 * 3 + 1
    assert visitor.get(f"/detectors/{published}/history.xml").status == 404
    unknown = visitor.get(f"/detectors/{published}/history.csv?version=v9")
    assert unknown.status in {400, 404}


def test_the_labels_are_downloaded(visitor: Visitor, published: str) -> None:
    rows = visitor.get(f"/detectors/{published}/labels.jsonl").html.splitlines()
    assert len(rows) == 72
    assert json.loads(rows[0])["labeler"] == "alice"
    answer = visitor.client.get(f"/detectors/{published}/labels.csv")
    assert answer.mimetype == "text/csv"
    assert len(answer.text.splitlines()) == 73


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "svg"])
def test_a_chart_that_is_still_the_same_is_not_sent_again(
    visitor: Visitor,
    shelf: Shelf,
    published: str,
    recompute: Callable[[], None],
    suffix: str,
) -> None:
    path = f"/detectors/{published}/chart.{suffix}"
    first = visitor.client.get(path)
    same = {"If-None-Match": first.headers["ETag"]}
    again = visitor.client.get(path, headers=same)
    assert (again.status_code, again.data) == (304, b"")
    for other in ("theme=dark", "layout=narrow", "x=time", "method=exact"):
        assert visitor.client.get(f"{path}?{other}", headers=same).status_code == 200
    shelf.add_queries(published, [{"predicted": "NO", "version": "v1"}])
    assert visitor.client.get(path, headers=same).status_code == 304
    # Its newest point is the live estimate, before the job has run and after it.
    shelf.add_queries(published, [{"predicted": "NO", "label": "NO", "version": "v1"}])
    for _ in range(2):
        after = visitor.client.get(path, headers=same)
        assert after.status_code == 200
        assert after.headers["ETag"] != first.headers["ETag"]
        recompute()


def test_a_chart_follows_the_settings_of_its_detector(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/chart.json"
    same = {"If-None-Match": visitor.client.get(path).headers["ETag"]}
    settings = f"/detectors/{published}/setup"
    visitor.send(settings, visitor.get(settings).form(settings) | {"target": "80"})
    assert visitor.client.get(path, headers=same).status_code == 200


@pytest.mark.slow
def test_the_last_labels_stand_beside_the_whole(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector = shelf.add_detector()
    good = [{"predicted": c, "label": c} for c in ("YES", "NO")] * 400
    bad = [{"predicted": "NO", "label": "YES"}, {"predicted": "NO", "label": "NO"}]
    shelf.add_queries(detector, good)
    recompute()
    shelf.add_queries(detector, bad * 100)
    recompute()
    page = visitor.get(f"/detectors/{detector}/changes?window=200")

    assert "Lower: the 200 labels lately lie below" in page.text
    assert "Half of the labels within" not in page.text
    (late,) = [one for one in page.find("a") if one.text == "How late labels come"]
    opened = visitor.get(late.attributes["href"])
    assert "Half of the labels within" in opened.text
    assert "Nine of ten labels came within" in opened.text
    assert "As known then" not in page.text
    then = visitor.get(f"/detectors/{detector}/changes?window=7d&then=3")
    assert "As known then" in then.text
    assert "As known now" in then.text
    # The whole line is drawn, with a mark at that instant.
    [chart] = [one for one in then.find("div") if "data-chart-url" in one.attributes]
    assert "then_at=20" in chart.attributes["data-chart-url"]
    for asked in ("window=x", "as_known_at=x"):
        assert visitor.get(f"/detectors/{detector}/changes?{asked}").status == 400
    assert visitor.get(f"/detectors/{detector}/changes?then=x").status == 200


@pytest.fixture
def fallen(shelf: Shelf, recompute: Callable[[], None], clock: Clock) -> str:
    """A detector that met its target and then got every NO wrong."""
    detector_id = shelf.add_detector(target=0.9)
    rows = [{"predicted": said, "label": said} for said in ("YES", "NO") * 250]
    rows += [{"predicted": "YES", "label": said} for said in ("YES", "NO") * 100]
    shelf.add_queries(detector_id, rows)
    recompute()
    # A snapshot of where labels ended waits until no more come.
    clock.at += QUIET
    recompute()
    return detector_id


def chart_of(visitor: Visitor, page: Page) -> dict[str, object]:
    (host,) = [d for d in page.find("div") if "data-chart-url" in d.attributes]
    answer = visitor.get(host.attributes["data-chart-url"])
    assert answer.status == 200
    found: dict[str, object] = json.loads(answer.html)
    return found


@pytest.mark.slow
def test_the_verdicts_stand_over_the_chart(visitor: Visitor, fallen: str) -> None:
    page = visitor.get(f"/detectors/{fallen}/changes?window=200")
    (verdict,) = page.find("div", class_="strip")
    assert re.search(
        r"Since label \d{3}, 2026-01-31 .* Before: .*met since", verdict.text
    )
    # The chart says what the page says.
    (row,) = [tr.text for tr in page.find("tr") if tr.text.startswith("Now")]
    assert "50.0 %" in row
    said = str(chart_of(visitor, page)["description"])
    assert "The last 200 — 50.0 % (" in said
    assert re.search(r"since label \d{3}\.$", said)


def test_a_verdict_may_begin_with_a_correction(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    clock: Clock,
    database: Database,
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    rows = [
        {"key": f"{said}{n}", "predicted": said, "label": "YES" if n < 9 else said}
        for n in range(150)
        for said in ("YES", "NO")
    ]
    # Between two checkpoints, the second of which is at label 301.
    shelf.add_queries(detector_id, rows)
    recompute()
    clock.at += timedelta(hours=1)
    shelf.add_queries(detector_id, [{"key": f"NO{n}", "label": "NO"} for n in range(9)])
    recompute()
    # A snapshot of where labels ended waits until no more come.
    clock.at += QUIET
    recompute()
    clock.at += timedelta(hours=1) - QUIET
    more = [{"predicted": said, "label": said} for said in ("YES", "NO") * 10]
    shelf.add_queries(detector_id, more)
    recompute()
    path = f"/detectors/{detector_id}/changes?by=labels"
    file = visitor.client.get(
        f"/detectors/{detector_id}/history.csv?method=anytime"
    ).text
    found = [row for row in csv.DictReader(io.StringIO(file)) if row["labels"] == "300"]
    first, second = (float(row["low"]) for row in found if row["scope"] == "balanced")
    with database.write() as session:
        get_detector(session, detector_id).target = (first + second) / 2
    strip = visitor.get(path).find("div", class_="strip")[-1].text
    assert strip.startswith("Target met Since label 300, 2026-01-31 13:00:10 UTC.")
    assert "Before: not decided yet since label " in strip


@pytest.mark.parametrize(
    ("said", "is_decided"),
    [
        ({"label_sampling": "random"}, True),
        ({"label_sampling": None}, False),
        ({"measure": "overall"}, False),
    ],
)
def test_a_chart_has_verdicts_where_its_interval_decided(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    database: Database,
    said: dict[str, Any],
    is_decided: bool,
) -> None:
    detector_id = shelf.add_detector(target=0.5, **said)
    rows = [{"predicted": one, "label": one} for one in ("YES", "NO") * 30]
    shelf.add_queries(detector_id, rows)
    recompute()
    with database.read() as session:
        detector = get_detector(session, detector_id)
        (version,) = list_versions(session, detector.id)
        states = list_states(session, detector, version)
    verdicts = ["undecided", "met"] if is_decided else []
    assert [state.verdict for state in states] == verdicts


@pytest.mark.slow
def test_a_chart_of_a_window_is_another_one(visitor: Visitor, fallen: str) -> None:
    path = f"/detectors/{fallen}/chart.json"
    plain = visitor.client.get(path)
    rolled = visitor.client.get(f"{path}?window=200")
    assert plain.headers["ETag"] != rolled.headers["ETag"]
    assert "The last 200" not in plain.text
    same = {"If-None-Match": rolled.headers["ETag"]}
    again = visitor.client.get(f"{path}?window=200", headers=same)
    assert again.status_code == 304
    assert visitor.client.get(f"{path}?window=7d&x=time").status_code == 200
    assert visitor.client.get(f"{path}?window=x").status_code in {400, 422}


def test_a_replay_is_a_line_in_the_chart_and_corrections_are_ticks(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None], clock: Clock
) -> None:
    detector_id = shelf.add_detector()
    rows = [{"key": str(n), "predicted": "YES", "label": "YES"} for n in range(9)]
    shelf.add_queries(detector_id, rows)
    recompute()
    clock.at += timedelta(hours=1)
    shelf.add_queries(detector_id, [{"key": "3", "label": "NO"}])
    recompute()
    page = visitor.get(f"/detectors/{detector_id}/changes?then=4&window=5")
    then, now = [tr.text for tr in page.find("tr") if tr.text.startswith("As known")]
    assert then.split()[3:5] == ["9", "0"]
    assert now.split()[3:5] == ["9", "1"]
    spec = json.dumps(chart_of(visitor, page))
    # The nine came in one run, so that all of them were known then.
    assert (
        '{"values": [{"x": 9}]}, "mark": {"type": "text", "text": "as known then"'
        in spec
    )
    assert "YES to NO, 31 Jan" in spec
