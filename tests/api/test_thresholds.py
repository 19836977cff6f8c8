"""Thresholds and calibration by API."""

import random
from datetime import timedelta

import pytest
from sqlalchemy import select

from tests.api.problems import assert_problem
from tests.databases import noted_statements
from tracker.jobs.retention import delete_old_queries
from tracker.services.estimates.recount import recount
from tracker.stats import lowest_in_band, lowest_threshold, simultaneous_band
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query


def rows_of(number, *, labelled_every=2, version="v1"):
    """Return queries whose confidence is the chance of being right, half labelled."""
    draw = random.Random(7)
    rows = []
    for index in range(number):
        confidence = round(0.5 + 0.5 * draw.random(), 3)
        is_right = draw.random() < confidence
        row = {
            "key": f"{version}-{index}",
            "predicted": "YES",
            "confidence": confidence,
            "version": version,
        }
        if index % labelled_every == 0:
            row |= {"label": "YES" if is_right else "NO", "sampling": "random"}
        rows.append(row)
    return rows


@pytest.fixture
def rows(api, door):
    rows = rows_of(600)
    extra = [
        {"key": "unclear", "predicted": "YES", "confidence": 0.7, "label": "UNCLEAR"},
        {"key": "bare", "predicted": "YES", "label": "NO"},
        {
            "key": "picked",
            "predicted": "YES",
            "confidence": 0.7,
            "label": "NO",
            "sampling": "targeted",
        },
    ]
    items = rows + [row | {"version": "v1"} for row in extra]
    response = api.post("/detectors/door/import", {"items": items})
    assert response.status_code == 200, response.text
    return [*rows, extra[0], extra[2]]


def is_scored(row):
    return row.get("label") in {"YES", "NO"} and row["sampling"] == "random"


def test_the_curve_counts_what_lies_above_each_threshold(api, rows):
    found = api.get("/detectors/door/thresholds", role="viewer").json
    assert (found["name"], found["version"], found["method"]) == ("door", "v1", "exact")
    assert (found["queries"], found["labels"]) == (602, 300)
    points = found["points"]
    assert 8 <= len(points) <= 10
    assert points[0]["share"] == 1
    thresholds = [point["threshold"] for point in points]
    assert thresholds == sorted(set(thresholds))
    for point in points:
        above = [row for row in rows if row["confidence"] >= point["threshold"]]
        scored = [row for row in above if is_scored(row)]
        right = [row for row in scored if row["label"] == row["predicted"]]
        assert point["queries"] == len(above)
        assert point["share"] == pytest.approx(len(above) / 602)
        assert (point["correct"], point["labelled"]) == (len(right), len(scored))
        assert point["accuracy"] == pytest.approx(len(right) / len(scored))
    k = [point["correct"] for point in points]
    n = [point["labelled"] for point in points]
    band = simultaneous_band(k, n, 0.95)
    assert [point["low"] for point in points] == band.low.tolist()
    assert [point["high"] for point in points] == band.high.tolist()
    assert found["lowest"] is None


def test_the_lowest_threshold_is_for_the_detectors_target_or_a_given_one(api, rows):
    given = api.get("/detectors/door/thresholds?target=0.7").json
    assert (given["target"], given["rule"]) == (0.7, "typed")
    points = given["points"]
    counts = [
        [point[name] for point in points] for name in ("correct", "labelled", "share")
    ]
    wanted = {"target": 0.7, "confidence_level": 0.95}
    typed = lowest_in_band(*counts, **wanted)
    assert given["lowest"] == points[typed]
    # Stored after a look at the curve it is as good as typed.
    api.patch("/detectors/door", {"target": 0.7})
    late = api.get("/detectors/door/thresholds").json
    assert (late["target"], late["rule"]) == (0.7, "typed")
    assert late["lowest"] == given["lowest"]
    # Of one that was there before the version, less evidence is enough.
    again = [row | {"key": f"again-{row['key']}", "version": "v2"} for row in rows]
    api.post("/detectors/door/import", {"items": again})
    stored = api.get("/detectors/door/thresholds?version=v2&target=0.7").json
    assert stored["rule"] == "stored"
    assert stored["lowest"] == points[lowest_threshold(*counts, **wanted)]
    assert stored["lowest"]["threshold"] < given["lowest"]["threshold"]
    pooled = api.get("/detectors/door/thresholds?version=*").json
    assert (pooled["rule"], pooled["population"]) == ("typed", "pooled")
    assert api.get("/detectors/door/thresholds?target=0.999").json["lowest"] is None
    api.patch("/detectors/door", {"target": 0.65})
    assert api.get("/detectors/door/thresholds?version=v2").json["rule"] == "typed"


def test_the_calibration_has_every_query_in_its_tenth(api, rows):
    found = api.get("/detectors/door/calibration", role="viewer").json
    assert [one["start"] for one in found["bins"]] == [0.5, 0.6, 0.7, 0.8, 0.9]
    for one in found["bins"]:
        inside = [
            row
            for row in rows
            if one["start"] <= row["confidence"] < one["end"]
            or (one["end"] == row["confidence"] == 1)
        ]
        mean = sum(row["confidence"] for row in inside) / len(inside)
        assert one["queries"] == len(inside)
        assert one["confidence"] == pytest.approx(mean)
        assert one["labelled"] == sum(map(is_scored, inside))
        assert one["low"] < one["accuracy"] < one["high"]
    ece = found["ece"]
    assert 0 <= ece["low"] <= ece["estimate"] <= ece["high"] <= 1
    assert ece["estimate"] == pytest.approx(
        sum(
            one["share"] * abs(one["accuracy"] - one["confidence"])
            for one in found["bins"]
        )
    )


def test_versions_are_kept_apart_unless_pooled(api, rows):
    api.post("/detectors/door/import", {"items": rows_of(100, version="v2")})
    api.patch("/detectors/door", {"production_version": "v2"})
    for what in ("thresholds", "calibration"):
        path = f"/detectors/door/{what}"
        assert api.get(path).json["queries"] == 100
        assert api.get(f"{path}?version=v1").json["queries"] == 602
        pooled = api.get(f"{path}?version=*").json
        assert (pooled["version"], pooled["queries"]) == ("*", 702)
        assert_problem(api.get(f"{path}?version=v9"), 400, field="version")


def test_without_a_confidence_there_is_nothing_to_show(api, door):
    curve = api.get("/detectors/door/thresholds").json
    assert (curve["version"], curve["points"], curve["lowest"]) == (None, [], None)
    api.post("/detectors/door/queries", {"predicted": "YES", "label": "YES"})
    found = api.get("/detectors/door/calibration").json
    assert (found["queries"], found["bins"], found["ece"]) == (0, [], None)


def test_confidences_at_both_ends_have_a_place(api, door):
    items = [
        {"key": str(i), "predicted": "YES", "confidence": c, "label": "YES"}
        for i, c in enumerate((0, 0.29, 0.57, 0.9999, 1))
    ]
    api.post("/detectors/door/import", {"items": items})
    bins = api.get("/detectors/door/calibration").json["bins"]
    assert [(one["start"], one["queries"]) for one in bins] == [
        (0, 1),
        (0.2, 1),
        (0.5, 1),
        (0.9, 2),
    ]
    points = api.get("/detectors/door/thresholds").json["points"]
    assert [point["threshold"] for point in points] == [0, 0.29, 0.57, 0.9999, 1]


@pytest.mark.parametrize("query", ["target=1", "confidence_level=2", "bins=3"])
def test_parameters_that_make_no_sense_are_refused(api, door, query):
    assert_problem(api.get(f"/detectors/door/thresholds?{query}"), 400)


def test_the_job_keeps_what_is_counted_and_reads_no_query(
    api, database, rows, recompute
):
    again = rows_of(200, version="v2")
    for number, row in enumerate(again[:100]):
        row["input"] = rows[number]["input"] = f"input {number}"
    rows = [{key: row[key] for key in ("key", "input")} for row in rows[:100]]
    assert api.post("/detectors/door/import", {"items": rows}).status_code == 200
    assert api.post("/detectors/door/import", {"items": again}).status_code == 200

    def ask():
        found = [
            api.get(f"/detectors/door/{name}", query_string={"version": version}).json
            for name in ("thresholds", "calibration")
            for version in ("v1", "v2", "*")
        ]
        return [one | {"computed_at": None} for one in found]

    before = ask()
    recompute()
    with noted_statements(database) as statements:
        assert ask() == before
    # But the few that do not count where versions are pooled.
    read = [one for one in statements if "queries.confidence" in one]
    assert all("NOT queries.is_pooled" in one for one in read)
    # A label that replaces another, and one that is unclear from now on.
    items = [{"key": "v1-0", "label": "UNCLEAR"}, {"key": "v1-2", "label": "NO"}]
    items += [{"key": "v1-4", "label": "YES"}, {"key": "v1-4", "label": "NO"}]
    for item in items:
        assert api.post("/detectors/door/import", {"items": [item]}).status_code == 200
    waiting = ask()
    assert waiting != before
    recompute()
    assert ask() == waiting
    with database.read() as session:
        assert recount(session, session.get_one(Detector, 1)) == []


def test_a_replay_that_may_have_seen_the_labels_names_no_threshold(api, door):
    api.patch("/detectors/door", {"target": 0.5, "label_sampling": "random"})
    rows = [{"predicted": "YES", "input": f"{n}", "confidence": 0.9} for n in range(99)]
    for version, label in (("v1", {"label": "YES"}), ("v2", {})):
        items = [{**row, **label, "version": version} for row in rows]
        sent = api.post("/detectors/door/import", {"items": items})
        assert sent.status_code == 200, sent.text
    path = "/detectors/door/thresholds"
    found = api.get(f"{path}?version=v1").json
    assert (found["lowest"]["threshold"], found["no_decision_because"]) == (0.9, None)
    found = api.get(f"{path}?version=v2").json
    assert (found["population"], found["lowest"]) == ("replayed", None)
    assert "unseen" in found["no_decision_because"]
    api.patch("/detectors/door/versions/v2", {"unseen": True})
    assert api.get(f"{path}?version=v2").json["lowest"]["threshold"] == 0.9


def test_where_every_query_gets_its_label_those_without_one_may_be_wrong(
    api, door, database, clock
):
    api.patch("/detectors/door", {"target": 0.5, "label_sampling": "all"})
    rows = [{"predicted": "YES", "confidence": 0.9, "key": f"{n}"} for n in range(99)]
    labels = [{"label": "YES"} if n < 40 else {} for n in range(99)]
    items = [row | label for row, label in zip(rows, labels, strict=True)]
    api.post("/detectors/door/import", {"items": items})
    path = "/detectors/door/thresholds"
    found = api.get(path).json
    assert (found["points"][0]["labelled"], found["lowest"]) == (40, None)
    with database.read() as session:
        ids = list(session.scalars(select(Query.id).where(Query.label.is_(None))))
    later = clock.at + timedelta(days=9)
    with database.write() as session:
        delete_old_queries(session, 1, ids[-19:], deleted_at=later)
    api.post(
        "/detectors/door/import",
        {"items": [{"key": f"{n}", "label": "YES"} for n in range(40, 55)]},
    )
    # 55 of 80 would do; but those that were deleted may have been wrong.
    assert api.get(path).json["lowest"] is None
    items = [{"key": row["key"], "label": "YES"} for row in rows[40:80]]
    api.post("/detectors/door/import", {"items": items})
    assert api.get(path).json["lowest"]["threshold"] == 0.9
