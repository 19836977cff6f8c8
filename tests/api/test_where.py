"""Conditions on queries, behind every address that takes them."""

from datetime import datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select

from tests.api.problems import assert_problem
from tests.conftest import START
from tracker.services.queries.queries import DEFAULT_VERSION
from tracker.storage.detectors import Detector

# Names and texts that could end a string or a path, in whatever language.
STRANGE = 'it\'s "$.a[0]" \\ %_ é\n'
ROWS = [
    {"metadata": {"camera": "north", "lux": 3}, "confidence": 0.5, "version": "v1"},
    {"metadata": {"camera": "south", "lux": 3.5}, "confidence": 0.8, "version": "v1"},
    {"metadata": {"camera": "north", "lux": "3"}, "confidence": 0.9},
    {"metadata": {"camera": {"north": 1}, "lux": True}},
    {"metadata": {STRANGE: STRANGE, "a.b": "c:d", "lux": None}, "confidence": 0.0},
    {"metadata": {"lux": [3], "big": 9007199254740993}},
    {},
]


@pytest.fixture
def logged(api, door):
    """Queries with a label, a day apart."""
    for number, row in enumerate(ROWS):
        asked_at = START - timedelta(days=number)
        given = {
            "key": str(number),
            "predicted": "NO" if number == 6 else "YES",
            "label": "YES",
            "asked_at": asked_at.isoformat(),
        }
        answer = api.post("/detectors/door/queries", {**given, **row})
        assert answer.status_code == 201, answer.text


def day(number):
    return (START - timedelta(days=number)).date().isoformat()


def instant(number):
    return (START - timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


FOUND = [
    (["metadata.camera:north"], "02"),
    (["metadata.camera:nor"], ""),
    (["metadata.camera:North"], ""),
    (["metadata.none:north"], ""),
    (["metadata.none:(none)"], "0123456"),
    (["metadata.camera:(none)"], "456"),
    (["metadata.lux:(none)"], "46"),
    ([f"metadata.{STRANGE}:(none)"], "012356"),
    (["metadata.lux:3"], "02"),
    (["metadata.lux:3.0"], "0"),
    (["metadata.lux:3.50"], "1"),
    (["metadata.lux:35e-1"], "1"),
    (["metadata.lux:true"], "3"),
    (["metadata.lux:null"], "4"),
    (["metadata.big:9007199254740993"], "5"),
    (["metadata.big:9007199254740992"], ""),
    ([f"metadata.{STRANGE}:{STRANGE}"], "4"),
    (["metadata.a.b:c:d"], "4"),
    (["metadata.camera:north", "metadata.lux:3", "confidence:0.9"], "2"),
    (["predicted:NO"], "6"),
    (["version:v1"], "01"),
    (["confidence:0.5..0.8"], "01"),
    (["confidence:0.8.."], "12"),
    (["confidence:..0.5"], "04"),
    (["confidence:0.5..<0.8"], "0"),
    (["confidence:..<0.5"], "4"),
    ([f"asked_at:{day(2)}..{day(1)}"], "12"),
    ([f"asked_at:{day(3)}"], "3"),
    ([f"asked_at:{day(1)}.."], "01"),
    ([f"asked_at:..{day(5)}"], "56"),
    ([f"asked_at:{instant(4)}..{instant(3)}"], "34"),
    (["asked_at:4d..2d"], "23"),
    ([], "0123456"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("slices", [[], ["camera", "lux", "a.b", "big", STRANGE]])
def test_the_labels_and_the_estimate_of_those_queries(api, logged, recompute, slices):
    assert api.patch("/detectors/door", {"slices": slices}).status_code == 200
    recompute()
    for where, keys in FOUND:
        rows = api.get("/detectors/door/labels", query_string={"where": where}).json
        assert "".join(sorted(row["key"] for row in rows["items"])) == keys, where
        asked = {"where": where, "version": "*"}
        found = api.get("/detectors/door/estimate", query_string=asked).json
        assert found["labels"] == len(keys)
        assert found["classes"][0]["correct"] == len(keys.replace("6", ""))


def test_the_estimate_is_that_of_the_version_that_is_asked_for(api, logged):
    # The version that is shown by default answered the queries of the last 24 hours.
    assert api.get("/detectors/door/estimate").json["version"] == "v1"
    other = f"version:{DEFAULT_VERSION}"
    found = api.get("/detectors/door/estimate", query_string={"where": other}).json
    assert (found["version"], found["labels"]) == (DEFAULT_VERSION, 5)
    asked = f"/detectors/door/estimate?where=version:v1&version={DEFAULT_VERSION}"
    assert api.get(asked).json["labels"] == 0


def test_a_condition_leaves_no_decision(api, logged):
    api.patch("/detectors/door", {"target": 0.5})
    asked = {"where": "metadata.camera:north", "version": "v1"}
    found = api.get("/detectors/door/estimate", query_string=asked).json
    assert found["decision"] is None
    assert "chosen" in found["no_decision_because"]


def test_a_date_is_a_day_of_the_time_zone_of_the_workspace(api, logged, database):
    with database.write() as session:
        session.scalars(select(Detector)).one().time_zone = "Pacific/Auckland"
    # 13 hours ahead of UTC, so that its day begins at 11 in the morning before.
    ahead = (START - timedelta(days=2) + timedelta(hours=14)).date().isoformat()
    asked = {"where": f"asked_at:{ahead}..", "version": "*"}
    found = api.get("/detectors/door/queries", query_string=asked).json
    begun = datetime.fromisoformat(ahead).replace(tzinfo=ZoneInfo("Pacific/Auckland"))
    asked_at = [START - timedelta(days=number) for number in range(len(ROWS))]
    assert len(found["items"]) == sum(one >= begun for one in asked_at) == 3


WRONG = [
    "camera:north",
    "metadata.camera",
    "metadata.camera:",
    "metadata.:north",
    ":north",
    "",
    "predicted:MAYBE",
    "version:v9",
    "version:*",
    "confidence:high",
    "confidence:0.8..0.5",
    "confidence:0.5..<0.5",
    "confidence:0.5..<",
    "confidence:<0.5..0.8",
    "confidence:..<",
    "confidence:0..2",
    "confidence:..",
    "confidence:-1..1",
    "confidence:nan",
    "confidence:1e-1..",
    "asked_at:..",
    "asked_at:yesterday",
    "asked_at:2026-13-01",
    "asked_at:9999-12-31",
    "asked_at:0001-01-01..0001-01-02",
    "asked_at:2026-11-02..2026-11-01",
    "asked_at:999999w",
]


def test_what_is_wrong_is_said_of_the_parameter(api, logged):
    for where in WRONG:
        asked = {"where": ["metadata.camera:north", where]}
        for path in ("estimate", "labels"):
            problem = api.get(f"/detectors/door/{path}", query_string=asked)
            assert_problem(problem, 400, field="where")


def test_not_too_many(api, door):
    asked = {"where": ["confidence:0..1"] * 21}
    problem = api.get("/detectors/door/estimate", query_string=asked)
    assert_problem(problem, 400, field="where")


def test_so_long_ago_instead_of_an_instant(api, logged):
    spans = [("since=2d", "01"), ("since=48h&until=1d", "1"), ("until=1w", "")]
    for asked, keys in [*spans, ("until=8640m", "6")]:
        rows = api.get(f"/detectors/door/labels?{asked}").json["items"]
        assert sorted(row["key"] for row in rows) == list(keys)
        path = f"/detectors/door/estimate?version=*&{asked}"
        assert api.get(path).json["labels"] == len(keys)


def test_no_such_time_ago(api, door):
    tried = ["7", "d", "-7d", "7D", "1y", "999999w", "7d "]
    for since, path in product(tried, ["estimate", "labels", "history"]):
        problem = api.get(f"/detectors/door/{path}", query_string={"since": since})
        assert_problem(problem, 400, field="since")
