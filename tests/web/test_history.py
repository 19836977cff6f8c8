# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The history as a chart, as a table and as files."""

import csv
import io
import json
from collections.abc import Callable

import pytest

from tests.web.conftest import Shelf, Visitor


def test_the_table_begins_with_the_newest_snapshot(
    visitor: Visitor, published: str
) -> None:
    page = visitor.get(f"/detectors/{published}/history")
    first, *_ = page.find("tbody")
    assert first.text.startswith("72 87.7 % [69.9–97.0] 64 of 72")
    assert "82.1 % [63.1–94.0] 23 of 28" in page.text
    assert "93.2 % [81.3–98.6] 41 of 44" in page.text
    assert "2026-01-31 12:00:00" in page.text


def test_the_table_is_paged_either_way(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/history"
    for order, first, last in (("newest", 72, 1), ("oldest", 1, 72)):
        page = visitor.get(f"{path}?order={order}")
        rows = [int(tr.text.split()[0]) for tr in page.find("tr")[1:]]
        (link,) = [a for a in page.find("a") if a.text == "Next page"]
        beyond = visitor.get(link.attributes["href"])
        rows += [int(tr.text.split()[0]) for tr in beyond.find("tr")[1:]]
        assert rows == sorted(range(1, 73), reverse=order == "newest")
        assert (rows[0], rows[-1]) == (first, last)
        assert not [a for a in beyond.find("a") if a.text == "Next page"]


def test_of_many_classes_the_table_shows_the_chosen_one(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(classes=list("ABCDEF"))
    shelf.add_queries(detector_id, [{"predicted": "B", "label": "B"}] * 3)
    recompute()
    path = f"/detectors/{detector_id}/history"
    assert [th.text for th in visitor.get(path).find("th")] == [
        "Labels",
        "Balanced",
        "Computed (UTC)",
    ]
    assert "B" in [th.text for th in visitor.get(f"{path}?scope=B").find("th")]
    assert visitor.get(f"{path}?scope=junk").status == 200


def test_an_empty_history_says_so(visitor: Visitor, shelf: Shelf) -> None:
    page = visitor.get(f"/detectors/{shelf.add_detector()}/history")
    assert page.status == 200
    assert "begins with the first label" in page.text


@pytest.mark.parametrize("query", ["?method=junk", "?version=junk"])
def test_a_choice_that_there_is_not_is_refused(
    visitor: Visitor, published: str, query: str
) -> None:
    assert visitor.get(f"/detectors/{published}/history{query}").status in {400, 404}


def test_the_chart_follows_the_choices(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/history?x=time"
    (host,) = [
        d for d in visitor.get(path).find("div") if "data-chart-url" in d.attributes
    ]
    url = host.attributes["data-chart-url"]
    assert "x=time" in url
    spec = json.loads(visitor.get(f"{url}&theme=dark&layout=narrow").html)
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite")
    assert spec["background"] == "#262626"


def test_the_chart_is_drawn_as_a_picture(visitor: Visitor, published: str) -> None:
    svg = visitor.client.get(f"/detectors/{published}/chart.svg")
    png = visitor.client.get(f"/detectors/{published}/chart.png")
    assert svg.mimetype == "image/svg+xml"
    assert b"<svg" in svg.data
    assert png.mimetype == "image/png"
    assert png.data.startswith(b"\x89PNG")
    assert visitor.get(f"/detectors/{published}/chart.pdf").status == 404


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
    for other in ("theme=dark", "layout=narrow", "x=time", "method=joint"):
        assert visitor.client.get(f"{path}?{other}", headers=same).status_code == 200
    shelf.add_queries(published, [{"predicted": "NO", "label": "NO", "version": "v1"}])
    assert visitor.client.get(path, headers=same).status_code == 304
    recompute()
    after = visitor.client.get(path, headers=same)
    assert after.status_code == 200
    assert after.headers["ETag"] != first.headers["ETag"]


def test_a_chart_follows_the_settings_of_its_detector(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/chart.json"
    same = {"If-None-Match": visitor.client.get(path).headers["ETag"]}
    settings = f"/detectors/{published}/settings"
    visitor.send(settings, visitor.get(settings).form(settings) | {"target": "80"})
    assert visitor.client.get(path, headers=same).status_code == 200
