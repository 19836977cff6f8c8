"""Plans by API."""

import math

import pytest

from tests.api.problems import assert_problem
from tests.api.published import published_rows
from tracker.stats import (
    chance_to_certify,
    labels_to_certify,
    labels_to_reach_balanced_width,
    labels_to_reach_width,
)

PATH = "/detectors/door/plan"


@pytest.fixture
def published(api, door):
    """The detector of the published check."""
    api.post("/detectors/door/import", {"items": published_rows()})
    return door


def test_a_plan_says_what_each_class_needs(api, published):
    plan = api.get(f"{PATH}?target=0.85&more=300", role="viewer").json
    assert (plan["detector"], plan["name"]) == (published["id"], "door")
    assert (plan["width"], plan["power"], plan["accuracy"]) == (0.1, 0.8, None)
    assert (plan["target"], plan["more"]) == (0.85, 300)
    parts = labels_to_reach_balanced_width([23, 41], [28, 44], 0.1, 0.95)
    assert plan["for_balanced_width"] == sum(parts)
    for row, part, name, k, n in zip(
        plan["classes"], parts, ("YES", "NO"), (23, 41), (28, 44), strict=True
    ):
        certify = labels_to_certify(0.85, k / n, 0.8, 0.95, k=k, n=n)
        chance = chance_to_certify(300, 0.85, 0.95, k=k, n=n)
        assert row == {
            "class": name,
            "correct": k,
            "labelled": n,
            "for_width": labels_to_reach_width(k, n, 0.1, 0.95),
            "for_balanced_width": part,
            "to_certify": certify,
            "chance_to_certify": pytest.approx(chance),
        }
    assert plan["classes"][0]["to_certify"] is None
    assert plan["next"] == {"class": "YES", "reason": "narrows_most"}


@pytest.mark.parametrize(
    ("measure", "right", "counted", "following"),
    [
        ("overall", 64, 72, None),
        ("precision:YES", 23, 26, None),
        ("recall:NO", 41, 44, "NO"),
    ],
)
def test_a_plan_goes_by_the_measure(api, published, measure, right, counted, following):
    api.patch("/detectors/door", {"measure": measure, "label_sampling": "random"})
    plan = api.get(PATH).json
    assert [plan[one] for one in ("population", "unit", "measure")] == [
        "live",
        "input",
        measure,
    ]
    more = labels_to_reach_width(right, counted, 0.1, 0.95)
    assert plan["draws_for_width"] == math.ceil(more * 72 / counted)
    assert (plan["next"] and plan["next"]["class"]) == following


def test_the_target_is_the_detectors_unless_another_is_given(api, published):
    plan = api.get(PATH).json
    assert plan["target"] is None
    assert [row["to_certify"] for row in plan["classes"]] == [None, None]
    api.patch("/detectors/door", {"target": 0.9})
    assert api.get(PATH).json["target"] == 0.9
    assert api.get(f"{PATH}?target=0.5").json["target"] == 0.5


def test_a_supposed_accuracy_and_power_change_the_plan(api, published):
    plain, surer = (
        [
            row["to_certify"]
            for row in api.get(f"{PATH}?target=0.9&{more}").json["classes"]
        ]
        for more in ("accuracy=0.99", "accuracy=0.99&power=0.99")
    )
    assert 0 < plain[0] < surer[0]
    assert plain[0] == labels_to_certify(0.9, 0.99, 0.8, 0.95, k=23, n=28)


def test_without_labels_there_is_a_plan_too(api, door):
    plan = api.get(f"{PATH}?target=0.9&more=10").json
    assert plan["version"] is None
    assert plan["next"] == {"class": "YES", "reason": "unlabelled"}
    for row in plan["classes"]:
        assert row["for_width"] == 401
        assert row["to_certify"] is row["chance_to_certify"] is None
    supposed = api.get(f"{PATH}?target=0.9&accuracy=0.95").json
    assert [row["to_certify"] for row in supposed["classes"]] == [255, 255]


def test_what_is_hopeless_is_null(api, published):
    plan = api.get(f"{PATH}?width=0.0001").json
    assert plan["for_balanced_width"] is None
    assert {row["for_width"] for row in plan["classes"]} == {None}


def test_versions_and_levels_are_those_of_the_estimate(api, published):
    api.post(
        "/detectors/door/queries", {"predicted": "NO", "label": "NO", "version": "v2"}
    )
    api.patch("/detectors/door", {"production_version": "v2"})
    assert api.get(PATH).json["version"] == "v2"
    assert api.get(PATH).json["classes"][1]["labelled"] == 1
    assert api.get(f"{PATH}?version=*").json["classes"][1]["labelled"] == 45
    wide, sure = (
        api.get(f"{PATH}?version=default&confidence_level={level}").json
        for level in ("0.8", "0.99")
    )
    assert wide["for_balanced_width"] < sure["for_balanced_width"]
    assert (wide["confidence_level"], sure["confidence_level"]) == (0.8, 0.99)
    assert_problem(api.get(f"{PATH}?version=v9"), 400, field="version")


def test_too_many_more_labels_and_unknown_detectors_are_refused(api, published):
    for more in (10**9 + 1, 10**9 - 71):
        assert_problem(api.get(f"{PATH}?more={more}"), 400, field="more")
    assert api.get(f"{PATH}?more={10**9 - 72}&target=0.5").status_code == 200
    assert_problem(api.get("/detectors/nothing/plan"), 404)
    assert_problem(api.post(PATH), 405)
