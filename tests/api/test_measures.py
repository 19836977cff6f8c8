"""Estimates of precision, overall accuracy and F1, by API."""

import pytest

from tests.api.problems import assert_problem
from tests.api.published import published_rows
from tracker import stats

PATH = "/detectors/door/estimate"
NEW = {"overall", "precision", "f1"}


@pytest.fixture
def published(api, door):
    """The published example: YES 23 of 28, NO 41 of 44."""
    sent = api.post("/detectors/door/import", {"items": published_rows()})
    assert sent.json["labels_added"] == 72


def exact(correct, trials):
    low, high = stats.class_intervals("exact", correct, trials, 0.95)
    return float(low), float(high)


def test_recall_is_the_default_and_as_before(api, published):
    default, named = api.get(PATH).json, api.get(f"{PATH}?measure=recall").json
    assert not NEW & default.keys()
    assert {**default, "computed_at": None} == {**named, "computed_at": None}


@pytest.mark.parametrize("measure", sorted(NEW))
def test_a_measure_stands_beside_the_rest(api, published, measure):
    default = api.get(PATH).json
    found = api.get(f"{PATH}?measure={measure}", role="viewer").json
    also = {"measured"} if measure == "overall" else set()
    assert found.keys() - default.keys() == {measure} | also
    assert all(found[one] == default[one] for one in ("classes", "balanced", "labels"))


def test_overall_accuracy_is_exact(api, published):
    overall = api.get(f"{PATH}?measure=overall").json["overall"]
    low, high = exact(64, 72)
    assert overall == {
        "correct": 64,
        "labelled": 72,
        "accuracy": 64 / 72,
        "low": low,
        "high": high,
    }


def test_precision_is_exact_on_the_predicted(api, published):
    found = api.get(f"{PATH}?measure=precision").json["precision"]
    rows = {row["class"]: row for row in found["classes"]}
    assert "exact" in found["combination"]
    for name, correct, predicted in (("YES", 23, 26), ("NO", 41, 46)):
        row = rows[name]
        assert (row["correct"], row["predicted"]) == (correct, predicted)
        assert row["precision"] == correct / predicted
        assert (row["low"], row["high"]) == exact(correct, predicted)


def test_f1_is_mapped_from_the_share_of_hits(api, published):
    found = api.get(f"{PATH}?measure=f1").json["f1"]
    rows = {row["class"]: row for row in found["classes"]}
    assert "mapped to F1" in found["combination"]
    for name, hits, either in (("YES", 23, 31), ("NO", 41, 49)):
        low, high = exact(hits, either)
        row = rows[name]
        assert row["f1"] == pytest.approx(2 * hits / (hits + either))
        assert row["low"] == pytest.approx(2 * low / (1 + low))
        assert row["high"] == pytest.approx(2 * high / (1 + high))
    macro = found["macro"]
    assert macro["f1"] == pytest.approx(sum(row["f1"] for row in rows.values()) / 2)
    assert macro["low"] < min(row["low"] for row in rows.values()) + 0.1
    assert 0 < macro["low"] < macro["f1"] < macro["high"] < 1


@pytest.mark.parametrize(
    ("measure", "correct", "labelled"),
    [
        ("balanced", 64, 72),
        ("overall", 64, 72),
        ("recall:YES", 23, 28),
        ("precision:YES", 23, 26),
    ],
)
def test_a_measure_that_can_have_a_target(api, published, measure, correct, labelled):
    found = api.get(f"{PATH}?measure={measure}").json
    measured = found["measured"]
    assert measured["measure"] == measure
    assert (measured["correct"], measured["labelled"]) == (correct, labelled)
    bounds = measured["low"], measured["high"]
    if measure == "balanced":
        assert bounds == (found["balanced"]["low"], found["balanced"]["high"])
    else:
        assert measured["accuracy"] == correct / labelled
        assert bounds == exact(correct, labelled)
    api.patch("/detectors/door", {"measure": measure, "target": 0.7})
    decided = api.get(f"{PATH}?measure={measure}&method=anytime").json
    names = ("accuracy", "low", "high")
    assert [decided["measured"][name] for name in names] == [
        decided["decision"][name] for name in names
    ]


@pytest.mark.parametrize("measure", ["recall:MAYBE", "f1:YES", "precision:"])
def test_a_measure_of_no_class_is_refused(api, door, measure):
    assert_problem(api.get(f"{PATH}?measure={measure}"), 400, field="measure")


def test_without_a_label_nothing_is_known(api, door):
    overall = api.get(f"{PATH}?measure=overall").json["overall"]
    assert (overall["accuracy"], overall["low"], overall["high"]) == (None, 0, 1)
    precision = api.get(f"{PATH}?measure=precision").json["precision"]["classes"]
    f1 = api.get(f"{PATH}?measure=f1").json["f1"]
    assert [row["precision"] for row in precision] == [None, None]
    assert [row["f1"] for row in [*f1["classes"], f1["macro"]]] == [None] * 3
    for row in [*precision, *f1["classes"], f1["macro"]]:
        assert (row["low"], row["high"]) == (0, 1)


def test_an_unknown_measure_is_refused(api, door):
    assert_problem(api.get(f"{PATH}?measure=kappa"), 400, field="measure")
