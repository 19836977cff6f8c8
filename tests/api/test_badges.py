"""Badges by API, and what everybody sees of them."""

import xml.etree.ElementTree as ET
from base64 import b64decode, b64encode
from hashlib import sha256
from urllib.parse import urlsplit

import pytest

from tests.api.problems import assert_problem
from tests.api.published import published_rows

PATH = "/detectors/door/badges"


@pytest.fixture
def published(api, door, recompute):
    """The published example: YES 23 of 28, NO 41 of 44."""
    api.post("/detectors/door/import", {"items": published_rows()})
    recompute()


def look(app, address):
    """Ask as anybody does, without a key or a cookie."""
    return app.test_client().get(urlsplit(address).path)


@pytest.mark.thorough
def test_everybody_who_knows_the_address_sees_the_badge(api, app, published):
    made = api.post(PATH, role="editor")
    assert made.status_code == 201
    assert len(made.json["token"]) == 32
    estimate = api.get("/detectors/door/estimate?method=anytime").json["balanced"]

    answer = look(app, made.json["json"])
    face = answer.json
    assert face.keys() == {"schemaVersion", "label", "message", "color"}
    assert (face["schemaVersion"], face["label"], face["color"]) == (
        *(1, "accuracy"),
        "blue",
    )
    accuracy, low, high = (
        float(part.strip("(%)")) for part in face["message"].replace("to ", "").split()
    )
    assert accuracy == round(100 * estimate["accuracy"], 1)
    assert low <= 100 * estimate["low"] < low + 0.1
    assert high - 0.1 < 100 * estimate["high"] <= high

    picture = look(app, made.json["svg"])
    assert picture.mimetype == "image/svg+xml"
    assert face["message"] in picture.text
    assert ET.fromstring(picture.text).get("role") == "img"
    frame = look(app, made.json["embed"])
    assert face["message"] in frame.text
    drawn = b64decode(frame.text.partition("base64,")[2].partition('"')[0]).decode()
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert not [name for name in ("door", "default", "YES") if name in drawn]
    policy = frame.headers["Content-Security-Policy"]
    assert "frame-ancestors *" in policy
    style = frame.text.partition("<style>")[2].partition("</style>")[0]
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    for one in (answer, picture, frame):
        assert one.status_code == 200
        assert one.headers["Cache-Control"] == "public, max-age=60"
        assert one.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert "Set-Cookie" not in one.headers
        assert "door" not in one.text.lower()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "colour"), [(0.5, "brightgreen"), (0.85, "yellow"), (0.9999, "red")]
)
def test_its_colour_is_the_verdict(api, app, published, target, colour):
    api.patch("/detectors/door", {"target": target})
    made = api.post(PATH).json
    assert look(app, made["json"]).json["color"] == colour


@pytest.mark.thorough
def test_it_names_the_class_of_its_measure_as_it_is(api, app, published):
    api.patch("/detectors/door", {"measure": "recall:YES"})
    picture = look(app, api.post(PATH).json["svg"]).text
    assert "Accuracy of YES, by " in picture


@pytest.mark.thorough
def test_before_the_first_label_it_says_so(api, app, door):
    made = api.post(PATH).json
    assert look(app, made["json"]).json["message"] == "not known yet"
    assert look(app, made["svg"]).status_code == 200
    assert look(app, made["embed"]).status_code == 200


@pytest.mark.thorough
def test_a_revoked_badge_shows_nothing(api, app, door, tables):
    made, other = api.post(PATH).json, api.post(PATH).json
    assert api.delete(f"/badges/{made['id']}", role="editor").status_code == 204
    for kind in ("svg", "json", "embed"):
        assert look(app, made[kind]).status_code == 404
        assert look(app, other[kind]).status_code == 200
    assert_problem(api.delete(f"/badges/{made['id']}"), 404)
    assert made["token"] not in str(tables())
    assert [one["id"] for one in api.get(PATH).json["items"]] == [other["id"]]


def test_badges_are_listed_without_their_addresses(api, door):
    ids = [api.post(PATH).json["id"] for _ in range(3)]
    items = api.walk(f"{PATH}?limit=2")
    assert [one["id"] for one in items] == ids[::-1]
    assert items[0].keys() == {"id", "created_at", "created_by"}


def test_only_editors_make_and_revoke(api, door):
    made = api.post(PATH).json
    for role in ("viewer", "labeler"):
        assert_problem(api.post(PATH, role=role), 403)
        assert_problem(api.delete(f"/badges/{made['id']}", role=role), 403)
    assert api.get(PATH, role="viewer").status_code == 200
    assert_problem(api.post("/detectors/nothing/badges"), 404)
