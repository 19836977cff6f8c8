"""Windows, replay and cohorts by API."""

import pytest

from tests.api.problems import assert_problem
from tests.conftest import START


@pytest.fixture
def logged(api, door, recompute):
    for label in ["YES", "YES", "NO"]:
        row = {"predicted": "YES", "label": label}
        assert api.post("/detectors/door/queries", row).status_code == 201
        recompute()


def test_the_last_labels(api, logged):
    found = api.get("/detectors/door/estimate?window=1").json

    assert (found["window"], found["labels"]) == ("1", 1)
    assert found["no_decision_because"]


@pytest.mark.parametrize("window", ["x", "0", "1000000"])
def test_a_wrong_window(api, logged, window):
    answer = api.get(f"/detectors/door/estimate?window={window}")
    assert_problem(answer, 400, field="window")


def test_estimate_history_and_chart_as_they_were_known(api, logged):
    rows = api.get("/detectors/door/history").json["items"]
    second = [row for row in rows if row["labels"] == 2][-1]
    then = {"as_known_at": second["computed_at"]}

    estimate = api.get("/detectors/door/estimate", query_string=then).json
    assert estimate["labels"] == 2
    history = api.get("/detectors/door/history", query_string=then).json["items"]
    assert history == [row for row in rows if row["labels"] <= 2]
    chart = api.get("/detectors/door/chart.json", query_string=then).json
    now = api.get("/detectors/door/chart.json").json
    assert len(str(chart)) < len(str(now))


def test_what_was_known_goes_by_the_settings_of_today(api, logged):
    first = api.get("/detectors/door/estimate").json
    changes = {"target": 0.25, "measure": "recall:YES", "label_sampling": "random"}
    assert api.patch("/detectors/door", changes).status_code == 200
    then = {"as_known_at": first["computed_at"]}
    known = api.get("/detectors/door/estimate", query_string=then).json
    assert known["confusion"] == first["confusion"]
    assert known["target"] == known["decision"]["target"] == 0.25
    assert known["decision"]["measure"] == "recall:YES"


def test_every_door_says_that_the_settings_are_those_of_today(api):
    said = [
        parameter["description"]
        for path in api.get("/openapi.json").json["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", ())
        if parameter.get("name") == "as_known_at"
    ]
    assert len(said) >= 3
    assert all("current" in one or "of today" in one for one in said)


def test_before_everything_nothing_was_known(api, logged):
    then = {"as_known_at": "2020-01-01T00:00:00Z"}

    assert api.get("/detectors/door/estimate", query_string=then).json["labels"] == 0
    assert api.get("/detectors/door/history", query_string=then).json["items"] == []
    assert api.get("/detectors/door/chart.svg", query_string=then).status_code == 200


def test_the_days_of_queries(api, logged):
    found = api.get("/detectors/door/cohorts").json

    assert found["items"][0]["start"] == START.date().isoformat()
    assert found["items"][0]["labelled"] == 3
    assert_problem(api.get("/detectors/door/cohorts?by=month"), 400, field="by")


def test_a_chart_of_a_window(api, logged):
    said = api.get("/detectors/door/chart.json?window=2").json["description"]
    last = api.get("/detectors/door/estimate?window=2").json["balanced"]
    assert last["accuracy"] == 0.5
    assert "The last 2 — 50.0 % (" in said
    assert api.get("/detectors/door/chart.svg?window=7d&x=time").status_code == 200
    assert_problem(api.get("/detectors/door/chart.json?window=x"), 400, field="window")
    both = "window=2&as_known_at=2026-01-01T00:00:00Z"
    assert_problem(api.get(f"/detectors/door/chart.json?{both}"), 400, field="window")


def test_weeks(api, logged):
    row = {"predicted": "YES", "asked_at": "2026-01-20T10:00:00Z"}
    for key in "abc":
        made = api.post("/detectors/door/queries", row | {"key": key})
        api.post(f"/queries/{made.json['id']}/labels", {"label": "NO"})
    change = {"measure": "overall", "target": 0.9}
    assert api.patch("/detectors/door", change).status_code == 200

    found = api.get("/detectors/door/weeks").json

    assert (found["by"], found["measure"], found["target"]) == ("week", "overall", 0.9)
    this, last = found["items"]
    assert (this["from"], this["labels"]) == ("2026-01-26T00:00:00Z", 3)
    assert (last["from"], last["until"]) == (
        "2026-01-19T00:00:00Z",
        "2026-01-26T00:00:00Z",
    )
    assert (last["queries"], last["drawn"], last["correct"]) == (3, 3, 0)
    assert (last["low"], last["high"], last["below_target"]) == (0, 0, True)
    assert last["is_closed"] is False
    by_month = api.get("/detectors/door/weeks?by=month&measure=balanced").json
    assert len(by_month["items"]) == 1
    for field, wrong in (("by", "year"), ("measure", "f1"), ("limit", "0")):
        answer = api.get(f"/detectors/door/weeks?{field}={wrong}")
        assert_problem(answer, 400, field=field)
    assert_problem(api.get("/detectors/door/weeks?version=*"), 400, field="version")
