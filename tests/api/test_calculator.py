"""The calculator by API: intervals and coverage without a detector."""

import time

import pytest

from tests.api.problems import assert_problem
from tests.api.published import INTERVALS
from tracker.errors import TooManyError
from tracker.services.estimates.decision import method_level
from tracker.stats import METHODS, get_method, upper_bound

# All of this is computed from the address alone.
pytestmark = pytest.mark.chaos_on("postgresql")

COUNTS = "/interval?correct=23,41&labelled=28,44"


def test_the_published_check_from_its_counts(api):
    found = api.get(COUNTS, role="viewer").json
    assert (found["method"], found["is_guaranteed"]) == ("exact", True)
    assert (found["side"], found["set_size"], found["confidence_level"]) == (
        "both",
        None,
        0.95,
    )
    rows = zip(("YES", "NO"), found["classes"], strict=True)
    for name, row in (*rows, ("balanced", found["balanced"])):
        bounds = [round(row[key], 4) for key in ("accuracy", "low", "high")]
        assert bounds == list(INTERVALS[name][2:])
    counts = [(row["correct"], row["labelled"]) for row in found["classes"]]
    assert counts == [(23, 28), (41, 44)]


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_the_calculator_says_what_an_estimate_says(api, door, method):
    rows = [{"predicted": "YES", "label": "YES"}] * 9
    rows += [{"predicted": "YES", "label": "NO"}, {"predicted": "NO", "label": "NO"}]
    api.post("/detectors/door/import", {"items": rows})
    estimate = api.get(
        f"/detectors/door/estimate?method={method}&confidence_level=0.9"
    ).json
    # Half of the error of `anytime` is for intervals since a day.
    level = method_level(method, 0.9)
    found = api.get(
        f"/interval?correct=9,1&labelled=9,2&method={method}&confidence_level={level!r}"
    ).json
    assert found["balanced"] == estimate["balanced"]
    classes = [{**row, "class": None} for row in estimate["classes"]]
    assert [{**row, "class": None} for row in found["classes"]] == classes
    assert found["is_guaranteed"] is get_method(method).is_guaranteed


def test_a_single_class_has_no_balanced_accuracy(api):
    found = api.get("/interval?correct=0&labelled=0").json
    assert found["balanced"] is None
    assert found["classes"] == [
        {"correct": 0, "labelled": 0, "accuracy": None, "low": 0.0, "high": 1.0}
    ]


def test_one_side_has_the_whole_error(api):
    path = "/interval?correct=80&labelled=100&side="
    [upper] = api.get(f"{path}upper").json["classes"]
    [lower] = api.get(f"{path}lower").json["classes"]
    [both] = api.get(f"{path}both").json["classes"]
    assert upper["low"] == 0
    assert upper["high"] == pytest.approx(float(upper_bound(80, 100, 0.05)), rel=1e-14)
    assert lower["high"] == 1
    assert both["low"] < lower["low"] < 0.8 < upper["high"] < both["high"]
    balanced = api.get(f"{COUNTS}&side=lower").json["balanced"]
    assert balanced["low"] > api.get(COUNTS).json["balanced"]["low"]
    assert balanced["high"] == 1


def test_a_finite_set_has_narrower_limits_until_it_is_known(api):
    path = "/interval?correct=80&labelled=100&set_size="
    widths = []
    for size in (100, 150, 200, 10**7):
        [row] = api.get(f"{path}{size}").json["classes"]
        widths.append(row["high"] - row["low"])
    assert widths[0] == 0
    assert widths == sorted(widths)
    [known] = api.get(f"{path}200&side=lower").json["classes"]
    assert (known["low"] * 200 % 1, known["high"]) == (0, 1)


def test_a_thousand_classes_are_taken_and_one_more_is_not(api):
    correct, labelled = ",".join(["9"] * 1000), ",".join(["10"] * 1000)
    for method in ("exact", "anytime", "posterior"):
        path = f"/interval?correct={correct}&labelled={labelled}&method={method}"
        found = api.get(path).json
        assert len(found["classes"]) == 1000
        assert 0 < found["balanced"]["low"] < found["balanced"]["high"] < 1
    wrong = api.get(f"/interval?correct={correct},9&labelled={labelled},10")
    problem = assert_problem(wrong, 400)
    assert {error["field"] for error in problem["errors"]} == {"correct", "labelled"}
    assert "1,000" in problem["detail"]


def test_counts_that_cannot_be_are_refused(api):
    for query, field in (
        ("correct=5&labelled=4", "correct"),
        ("correct=1,2&labelled=4", "correct"),
        ("correct=1&labelled=4,4", "correct"),
        ("correct=-1&labelled=4", "correct"),
        ("correct=1&labelled=-4", "labelled"),
        ("correct=1&labelled=1000000001", "labelled"),
        ("correct=1&labelled=4&side=lower&confidence_level=0.5", "confidence_level"),
        ("correct=1&labelled=4&side=upper&confidence_level=0.2", "confidence_level"),
        ("correct=1&labelled=4&set_size=3", "set_size"),
        ("correct=0&labelled=0&set_size=0", "set_size"),
        ("correct=1&labelled=4&set_size=10000001", "set_size"),
        ("correct=1,1&labelled=4,4&set_size=9", "set_size"),
        ("correct=1&labelled=4&set_size=9&method=wilson", "set_size"),
        ("labelled=4", "correct"),
        ("correct=4", "labelled"),
    ):
        assert_problem(api.get(f"/interval?{query}"), 400, field=field)


def test_the_known_coverages_come_out(api):
    path = "/coverage?labelled=50&accuracy=0.99&method="
    for method, holds in (("normal", 0.395), ("wilson", 0.911), ("exact", 0.986)):
        found = api.get(path + method, role="viewer").json
        assert found["holds"] == pytest.approx(holds, abs=6e-4)
        total = found["holds"] + found["above"] + found["below"]
        assert total == pytest.approx(1, abs=1e-12)
        assert (found["labelled"], found["accuracy"]) == ([50], [0.99])
        assert found["is_guaranteed"] is (method == "exact")


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_balanced_coverage(api, method):
    found = api.get(f"/coverage?labelled=9,6&accuracy=0.9,0.8&method={method}").json
    assert 0 < found["expected_width"] < 1
    if found["is_guaranteed"]:
        assert found["holds"] >= 0.95


def test_what_would_take_long_is_refused_with_the_limit(api):
    path = "/coverage?accuracy=0.5,0.5&labelled="
    for query, limit in (
        ("400,400&method=joint", "700 at most"),
        ("400,400&method=bootstrap", "2,000 at most"),
        ("400,400&method=anytime", "10,000 at most"),
        ("1000,1000&method=exact", "1,000,000 outcomes"),
    ):
        problem = assert_problem(api.get(path + query), 400, field="labelled")
        assert limit in problem["detail"]
    many = ",".join(["1000000000"] * 1000)
    wrong = api.get(f"/interval?correct={many}&labelled={many}&method=bootstrap")
    assert_problem(wrong, 400, field="labelled")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "query",
    [
        "coverage?labelled=999999&accuracy=0.5&method=mid-p",
        "coverage?labelled=999,999&accuracy=0.5,0.5&method=exact",
        "coverage?labelled=200,200&accuracy=0.99,0.99&method=bootstrap",
        "coverage?labelled=30,30&accuracy=0.6,0.6&method=posterior",
        "coverage?labelled=90,90&accuracy=0.5,0.5&method=anytime",
        "coverage?labelled=50,50&accuracy=0.95,0.9&method=joint",
        "interval?correct=999999999&labelled=1000000000&method=bootstrap",
    ],
)
def test_what_is_taken_does_not_take_long(api, query):
    begun = time.process_time()
    assert api.get(f"/{query}").status_code == 200
    # Of the processor, whatever else it does; it is a second or two.
    assert time.process_time() - begun < 20


def test_truths_that_cannot_be_are_refused(api):
    for query, field in (
        ("labelled=5&accuracy=1.01", "accuracy"),
        ("labelled=5&accuracy=-0.1", "accuracy"),
        ("labelled=5,5&accuracy=0.9", "accuracy"),
        ("labelled=5,5,5&accuracy=0.9,0.9,0.9", "labelled"),
        ("labelled=-5&accuracy=0.9", "labelled"),
        ("labelled=1000000000&accuracy=0.9", "labelled"),
        ("labelled=5", "accuracy"),
    ):
        assert_problem(api.get(f"/coverage?{query}"), 400, field=field)


def test_few_sums_over_all_outcomes_are_done_at_once(app, api):
    path = "/coverage?labelled=5,5&accuracy=0.9,0.9"
    assert api.get(path).status_code == 200
    limit = app.extensions["tracker-sums"]
    with limit.hold("ann"):
        with (
            pytest.raises(TooManyError, match="your limit of simultaneous sums"),
            limit.hold("ann"),
        ):
            raise AssertionError
        # Of two places one is left for the others.
        assert api.get(path).status_code == 200
        with limit.hold("ben"):
            problem = assert_problem(api.get(path), 429)
            assert "simultaneous sums over all outcomes (2)" in problem["detail"]
            # What is quick needs no place.
            assert api.get("/interval?correct=4&labelled=5").status_code == 200
    assert api.get(path).status_code == 200
