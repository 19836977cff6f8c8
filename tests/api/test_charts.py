"""Charts by API."""

import io
import json
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from tests.api.problems import assert_problem
from tests.api.published import published_rows
from tracker.stats import METHODS

PATH = "/detectors/door/chart"


@pytest.fixture
def drawn(api, door, recompute):
    """A detector with a history."""
    api.post("/detectors/door/import", {"items": published_rows()})
    recompute()
    return door


@pytest.mark.thorough
def test_the_specification_is_strict_vega_lite(api, drawn):
    got = api.get(f"{PATH}.json", role="viewer")
    assert got.status_code == 200
    assert "vega-lite" in got.json["$schema"]
    assert "door" in json.dumps(got.json["title"])


def test_along_the_days_asked_a_point_has_all_queries_until_then(api, door):
    items = [
        {"predicted": "YES", "label": label, "asked_at": f"2026-01-{day:02}T08:00:00Z"}
        for day in (9, 3, 5)
        for label in ("YES", "YES", "NO")
    ]
    api.post("/detectors/door/import", {"items": items})
    found = api.get(f"{PATH}.json?x=asked_at&method=anytime&window=2").json
    assert "queries asked up to (UTC)" in json.dumps(found)
    large, *_ = found["vconcat"]
    assert [
        (row["labels"], row["computed"][:10]) for row in large["data"]["values"]
    ] == [(3, "2026-01-03"), (6, "2026-01-05"), (9, "2026-01-09")]


def test_choices_change_the_chart(api, drawn):
    plain = api.get(f"{PATH}.json").data
    for choice in ("x=time", "theme=dark", "layout=narrow"):
        assert api.get(f"{PATH}.json?{choice}").data != plain
    for choice in ("x=labels", "theme=light", "layout=wide", "method=exact"):
        assert api.get(f"{PATH}.json?{choice}").data == plain
    assert api.get(f"{PATH}.json?version=default").data == plain


@pytest.mark.thorough
def test_the_pictures_are_pictures(api, drawn):
    svg = api.get(f"{PATH}.svg", role="viewer")
    assert svg.content_type == "image/svg+xml"
    assert ET.fromstring(svg.data).tag == "{http://www.w3.org/2000/svg}svg"
    png = api.get(f"{PATH}.png", role="viewer")
    assert png.content_type == "image/png"
    with Image.open(io.BytesIO(png.data)) as image:
        assert min(image.size) > 300


def test_a_detector_without_labels_has_a_chart_too(api, door):
    for suffix in ("svg", "png", "json"):
        assert api.get(f"{PATH}.{suffix}").status_code == 200


@pytest.mark.thorough
def test_a_query_that_was_corrected_often_has_a_chart(api, door, recompute):
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json["id"]
    # More checkpoints than a chart shows, all of them at one label.
    for number in range(260):
        label = ("YES", "NO")[number % 2]
        api.post(f"/queries/{query}/labels", {"label": label})
    recompute()
    for suffix in ("svg", "json"):
        assert api.get(f"{PATH}.{suffix}").status_code == 200


def test_names_cannot_break_out_of_the_picture(api, recompute):
    inserted = "</text><script>alert(1)</script>"
    classes = ['"><b>', "]]>&amp;", inserted]
    body = {"name": "<script>alert(1)", "question": "?", "classes": classes}
    made = api.post("/detectors", body).json
    query = {"predicted": '"><b>', "label": '"><b>', "version": inserted}
    api.post(f"/detectors/{made['id']}/queries", query)
    recompute()
    svg = api.get(f"/detectors/{made['id']}/chart.svg")
    assert b"<script" not in svg.data
    tags = {
        element.tag.rpartition("}")[2] for element in ET.fromstring(svg.data).iter()
    }
    assert not tags & {"script", "b", "image", "a", "foreignObject"}


def test_every_method_has_its_chart(api, door, recompute):
    body = {"items": [{"predicted": "YES", "label": "YES"}] * 130}
    api.post("/detectors/door/import", body)
    recompute()
    drawn = {api.get(f"{PATH}.json?method={method}").text for method in METHODS}
    assert len(drawn) == len(METHODS)


@pytest.mark.parametrize("suffix", ["svg", "png", "json"])
def test_what_is_wrong_is_named(api, door, suffix):
    for name, value, right in (
        ("x", "weeks", "'labels', 'time' or 'asked_at'"),
        ("theme", "pink", "'light' or 'dark'"),
        ("layout", "", "'wide' or 'narrow'"),
        ("method", "wald", "exact"),
        ("version", "*", "one version"),
        ("version", "v9", "none yet"),
        ("width", "1000000", "layout"),
    ):
        wrong = api.get(f"{PATH}.{suffix}", query_string={name: value})
        assert right in assert_problem(wrong, 400, field=name)["detail"]
    assert_problem(api.get(f"/detectors/nothing/chart.{suffix}"), 404)
    assert_problem(api.get(f"{PATH}.gif"), 404)


@pytest.mark.slow
@pytest.mark.chaos_on("postgresql")
def test_of_a_costly_method_and_many_classes_fewer_moments_are_computed(api, recompute):
    classes = [f"c{number}" for number in range(60)]
    api.post("/detectors", {"name": "many", "question": "?", "classes": classes})
    rows = [{"predicted": one, "label": one} for one in classes]
    api.post("/detectors/many/import", {"items": rows})
    recompute()
    path = "/detectors/many/history"
    stored = api.get(path).json
    computed = api.get(f"{path}?method=bootstrap").json
    assert len(computed["items"]) < len(stored["items"])
    assert computed["next"] is not None
    rest = api.walk(computed["next"])
    assert len(computed["items"]) + len(rest) == len(api.walk(path))
    specs = [
        api.get(f"/detectors/many/chart.json?method={method}").text
        for method in ("exact", "bootstrap")
    ]
    assert specs[1].count('"labels":60') == specs[0].count('"labels":60') > 0
    assert len(specs[1]) < len(specs[0])
