"""Estimates by API."""

import pytest

from tests.api.problems import assert_problem
from tests.api.published import CONFUSION, INTERVALS, published_rows

PATH = "/detectors/door/estimate"


@pytest.fixture
def published(api, door):
    """The detector of the published check."""
    sent = api.post("/detectors/door/import", {"items": published_rows()})
    assert sent.json["labels_added"] == 72
    return door


def assert_published(estimate):
    rows = {row["class"]: row for row in estimate["classes"]}
    assert list(rows) == ["YES", "NO"]
    for name, row in rows.items():
        correct, labelled, *bounds = INTERVALS[name]
        assert (row["correct"], row["labelled"]) == (correct, labelled)
        assert [round(row[key], 4) for key in ("accuracy", "low", "high")] == bounds
    balanced = estimate["balanced"]
    assert [round(balanced[key], 4) for key in ("accuracy", "low", "high")] == list(
        INTERVALS["balanced"][2:]
    )
    assert estimate["confusion"] == CONFUSION
    assert estimate["labels"] == 72


def test_the_published_check_before_and_after_the_job(api, published, recompute):
    before = api.get(PATH, role="viewer").json
    assert_published(before)
    assert before["detector"] == published["id"]
    assert before["name"] == "door"
    assert before["version"] == "default"
    assert before["method"] == "exact"
    assert before["confidence_level"] == 0.95
    assert before["computed_at"].endswith("Z")
    assert (before["unclear"], before["targeted_left_out"]) == (0, 0)
    recompute()
    after = api.get(PATH).json
    assert {**after, "computed_at": None} == {**before, "computed_at": None}


def test_the_job_runs_at_once_when_it_is_asked_for(api, published, tables):
    estimate = api.post("/detectors/door/recompute", role="editor")
    assert estimate.status_code == 200
    assert_published(estimate.json)
    assert len(tables()["snapshots"]) == 72
    before = tables()
    assert_published(api.post("/detectors/door/recompute").json)
    assert tables() == before
    assert len(before["pending_batches"]) == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "verdict"), [(0.5, "met"), (0.99, "missed"), (0.75, "undecided")]
)
def test_a_decision_goes_by_the_anytime_interval(api, published, target, verdict):
    without = api.get(PATH).json
    assert (without["decision"], without["target"]) == (None, None)
    assert without["no_decision_because"] == "the detector has no target"
    api.patch("/detectors/door", {"target": target})
    decision = api.get(PATH).json["decision"]
    wider = api.get(f"{PATH}?method=anytime").json["balanced"]
    exact = api.get(PATH).json["balanced"]
    more = decision.pop("labels_to_decide")
    assert more > 0 if verdict == "undecided" else more == 0
    advice = decision.pop("advice")
    assert (advice is None) == (verdict != "undecided")
    if advice is not None:
        assert (advice["class"], advice["random_queries"]) == ("YES", more)
        planned = api.get("/detectors/door/plan").json["advice"]
        # Every query has a label: there is none that an audit could draw.
        assert (advice["audit_labels"], advice["weekly_labels"]) == (None, None)
        assert planned == advice
    assert decision == {
        "verdict": verdict,
        "target": target,
        "measure": "balanced",
        "method": "anytime",
        "accuracy": wider["accuracy"],
        "low": wider["low"],
        "high": wider["high"],
        "because": None,
        "labels": 72,
        "span": {"since": None, "until": None},
    }
    assert wider["low"] < exact["low"] < exact["high"] < wider["high"]
    window = api.get(f"{PATH}?since=2020-01-01T00:00:00Z").json
    assert window["labels"] == 72
    assert window["decision"] is None


@pytest.mark.parametrize(
    ("choice", "because"),
    [
        ("version=*", "the versions are pooled"),
        ("include_targeted=true", "targeted labels are included"),
        ("since=2020-01-01T00:00:00Z", "the span of time was chosen"),
    ],
)
def test_what_is_no_random_sample_decides_nothing(api, published, choice, because):
    api.patch("/detectors/door", {"target": 0.5})
    assert api.get(PATH).json["no_decision_because"] is None
    estimate = api.get(f"{PATH}?{choice}").json
    assert estimate["labels"] == 72
    assert estimate["decision"] is None
    assert estimate["no_decision_because"].startswith(because)


def test_a_target_without_a_label_is_undecided_and_nothing_can_be_foreseen(api, door):
    api.patch("/detectors/door", {"target": 0.9})
    assert api.get(PATH).json["decision"] == {
        "verdict": "undecided",
        "target": 0.9,
        "measure": "balanced",
        "method": "anytime",
        "accuracy": None,
        "low": 0.0,
        "high": 1.0,
        "because": None,
        "labels": 0,
        "span": {"since": None, "until": None},
        "labels_to_decide": None,
        "advice": {
            "class": "YES",
            "predicted": None,
            "labels": None,
            "share": None,
            "random_queries": None,
            "audit_labels": None,
            "weekly_labels": None,
            "text": "Labels of YES are needed first.",
        },
    }


def test_corrections_and_unstated_labels_count_before_the_job_and_after(
    api, door, recompute
):
    query = {"predicted": "YES", "label": "YES"}
    ids = [
        api.post("/detectors/door/queries", query | more).json["id"]
        for more in ({}, {"sampling": "random"}, {"label": "UNCLEAR"}, {})
    ]
    folded = []
    for when in ("before", "after"):
        if when == "after":
            recompute()
        stated = {"label": "NO", "sampling": "random"}
        assert api.post(f"/queries/{ids.pop()}/labels", stated).status_code == 201
        waiting = api.get(PATH).json
        recompute()
        folded = api.get(PATH).json
        for field in ("unstated", "corrections", "last_label_at", "labels"):
            assert waiting[field] == folded[field]
    # The last query, then the unclear one: both were given a random label instead.
    assert (folded["unstated"], folded["corrections"], folded["labels"]) == (1, 2, 4)


def test_a_label_of_the_same_class_is_no_correction(api, door, recompute):
    api.patch("/detectors/door", {"labels_wanted": 2, "consensus": "newest"})
    row = {"predicted": "YES", "sampling": "random"}
    keys = ("first", "second", "third")
    for key in keys:
        answer = api.post("/detectors/door/queries", {**row, "key": key})
        assert answer.status_code == 201
    for person in ("ann", "bob"):
        rows = [{"key": key, "labeler": person, "label": "YES"} for key in keys]
        rows[0]["label"] = "NO" if person == "bob" else "YES"
        assert api.post("/detectors/door/import", {"items": rows}).status_code == 200
        waiting = api.get(PATH).json
        recompute()
        folded = api.get(PATH).json
        assert waiting["corrections"] == folded["corrections"] == (person == "bob")
        known = api.get(
            PATH, query_string={"as_known_at": folded["last_label_at"]}
        ).json
        assert known["corrections"] == folded["corrections"]


def test_pages_show_joint_intervals_and_the_api_exact_ones(api, door):
    assert door["method"] == "joint"
    changed = api.patch("/detectors/door", {"method": "anytime"})
    assert changed.json["method"] == "anytime"
    assert api.get(PATH).json["method"] == "exact"
    refused = api.patch("/detectors/door", {"method": "normal"})
    assert refused.status_code == 422
    assert refused.json["errors"][0]["field"] == "method"


def test_without_labels_nothing_is_known(api, door):
    estimate = api.get(PATH).json
    assert estimate["version"] is None
    assert estimate["labels"] == 0
    assert estimate["balanced"] == {"accuracy": None, "low": 0.0, "high": 1.0}
    assert estimate["classes"] == [
        {
            "class": name,
            "correct": 0,
            "labelled": 0,
            "accuracy": None,
            "low": 0.0,
            "high": 1.0,
        }
        for name in ("YES", "NO")
    ]
    assert estimate["confusion"] == {"YES": {}, "NO": {}}


def test_a_class_without_labels_leaves_the_balanced_accuracy_unknown(api, door):
    api.post("/detectors/door/queries", {"predicted": "YES", "label": "YES"})
    estimate = api.get(PATH).json
    assert estimate["balanced"]["accuracy"] is None
    assert 0 < estimate["balanced"]["low"] < estimate["balanced"]["high"] == 1


def test_unclear_and_targeted_labels_are_counted_and_left_out(api, published):
    for label, sampling in (
        ("UNCLEAR", "random"),
        ("NO", "targeted"),
        ("YES", "targeted"),
    ):
        body = {"predicted": "YES", "label": label, "sampling": sampling}
        api.post("/detectors/door/queries", body)
    estimate = api.get(PATH).json
    assert_published(estimate)
    assert (estimate["unclear"], estimate["targeted_left_out"]) == (1, 2)
    assert estimate["includes_targeted"] is False
    whole = api.get(f"{PATH}?include_targeted=true").json
    assert (whole["labels"], whole["targeted_left_out"]) == (74, 0)
    assert whole["includes_targeted"] is True
    assert whole["confusion"]["YES"]["YES"] == 24


def test_a_corrected_label_counts_once(api, published):
    queries = api.walk("/detectors/door/queries?label=YES&predicted=NO&limit=1")
    api.post(f"/queries/{queries[0]['id']}/labels", {"label": "NO"})
    estimate = api.get(PATH).json
    assert estimate["labels"] == 72
    assert estimate["confusion"] == {
        "YES": {"YES": 23, "NO": 4},
        "NO": {"YES": 3, "NO": 42},
    }


def test_versions_are_kept_apart_unless_all_are_asked_for(api, door):
    for version, label in (("v2", "YES"), ("v2", "NO"), ("v1", "YES")):
        body = {"predicted": "YES", "version": version, "label": label}
        api.post("/detectors/door/queries", body)
    numbers = {
        name: api.get(f"{PATH}{query}").json["labels"]
        for name, query in (("v2", ""), ("v1", "?version=v1"), ("*", "?version=*"))
    }
    assert numbers == {"v2": 2, "v1": 1, "*": 3}
    assert api.get(PATH).json["version"] == "v2"
    assert api.get(f"{PATH}?version=*").json["version"] == "*"
    wrong = assert_problem(api.get(f"{PATH}?version=v9"), 400, field="version")
    assert "'v2', 'v1'" in wrong["detail"]


def test_a_higher_level_gives_a_wider_interval(api, published):
    widths = []
    for level in ("0.5", "0.9", "0.95", "0.999"):
        estimate = api.get(f"{PATH}?confidence_level={level}").json
        assert estimate["confidence_level"] == float(level)
        widths.append(estimate["balanced"]["high"] - estimate["balanced"]["low"])
    assert widths == sorted(set(widths))


def test_a_window_counts_the_queries_asked_in_it(api, door):
    for day in range(1, 6):
        body = {
            "predicted": "YES",
            "label": "YES",
            "asked_at": f"2026-01-0{day}T00:00:00Z",
        }
        api.post("/detectors/door/queries", body)
    for window, labels in (
        ("since=2026-01-03T00:00:00Z", 3),
        ("until=2026-01-03T00:00:00Z", 2),
        ("since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00.000001Z", 1),
        ("since=2026-01-03T01:00:00%2B01:00", 3),
        ("since=2027-01-01T00:00:00Z", 0),
    ):
        assert api.get(f"{PATH}?{window}").json["labels"] == labels, window


def test_archived_and_unknown_detectors(api, door):
    assert_problem(api.get("/detectors/nothing/estimate"), 404)
    assert_problem(api.post("/detectors/nothing/recompute"), 404)
