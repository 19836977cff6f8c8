"""Two versions side by side, by API."""

import pytest

from tests.api.problems import assert_problem
from tests.api.test_bad_parameters import LEVELS

PATH = "/detectors/door/comparison"
# Gained, lost and pairs of each class; the published limits of both are known.
TANGO = {"YES": (8, 1, 50), "NO": (16, 6, 161)}


def paired_rows():
    """Return queries of which v1 was right about the lost, v2 about the gained."""
    for label, (gained, lost, pairs) in TANGO.items():
        other = "NO" if label == "YES" else "YES"
        for number in range(pairs):
            was = other if number < gained else label
            is_now = other if gained <= number < gained + lost else label
            name = {"input": f"{label}-{number}"}
            # Of each pair one query has the label, in turn that of the old or new.
            for version, said in (("v1", was), ("v2", is_now)):
                labels = {"label": label} if (version == "v1") == number % 2 else {}
                yield {**name, "version": version, "predicted": said, **labels}


@pytest.fixture
def versions(api, door):
    sent = api.post("/detectors/door/import", {"items": list(paired_rows())})
    assert sent.json["labels_added"] == 211
    return door


def test_a_precision_has_no_verdict_and_its_reason_is_said(api, versions):
    sent = {"measure": "precision:YES", "label_sampling": "random"}
    assert api.patch("/detectors/door", sent).status_code == 200
    found = api.get(PATH).json
    assert (found["decision"], found["verdict"]) == (None, "undecided")
    reason = "the precision of YES of each version is that of other queries"
    assert found["no_decision_because"] == reason
    asked = {"version": "v2", "not_worse_than": "v1"}
    refused = assert_problem(api.post("/detectors/door/gate", asked), 409)
    assert refused["detail"] == f"no verdict: {reason}"


def test_the_published_intervals_come_out(api, versions):
    found = api.get(PATH, role="viewer").json
    assert (found["detector"], found["name"]) == (versions["id"], "door")
    assert (found["old"], found["new"]) == ("v1", "v2")
    assert found["confidence_level"] == 0.95
    assert found["computed_at"].endswith("Z")
    paired = found["paired"]
    assert (paired["method"], paired["pairs"]) == ("exact", 211)
    yes, no = paired["classes"]
    for row, name in ((yes, "YES"), (no, "NO")):
        assert row["class"] == name
        assert (row["gained"], row["lost"], row["pairs"]) == TANGO[name]
    assert yes["difference"] == 0.14
    assert [round(yes[key], 4) for key in ("low", "high")] == [0.0213, 0.2740]
    assert [round(no[key], 3) for key in ("low", "high")] == [0.005, 0.124]
    assert [round(row["p_value"], 6) for row in (yes, no)] == [0.039062, 0.052479]
    balanced = paired["balanced"]
    assert balanced["difference"] == pytest.approx((7 / 50 + 10 / 161) / 2)
    # The average of class intervals, each at half of the error, began below 0.002.
    assert 0.01 < balanced["low"] < 0.02
    assert balanced["high"] < 0.2
    overall, decision = paired["overall"], paired["decision"]
    counts = [overall[key] for key in ("pairs", "gained", "lost")]
    assert counts == [211, 24, 7]
    assert overall["difference"] == pytest.approx(17 / 211)
    assert 0 < overall["low"] < overall["difference"] < overall["high"]
    assert (decision["won"], decision["lost"]) == (24, 7)
    assert (decision["verdict"], decision["method"]) == (None, "anytime")
    assert 0.4 < decision["low"] < 24 / 31 < decision["high"] < 1
    # More disagreements are won than lost, and the mean of both classes may be lower.
    decision = found["decision"]
    assert (decision["measure"], decision["method"]) == ("balanced", "anytime")
    assert decision["difference"] == balanced["difference"]
    assert decision["low"] < 0 < balanced["low"] < balanced["high"] < decision["high"]
    assert (found["verdict"], found["verdict_from"]) == ("undecided", "paired")


def test_the_share_won_is_a_verdict_where_every_input_counts_the_same(api, versions):
    path = f"{PATH}?confidence_level=0.9"
    found = api.get(path).json
    assert found["paired"]["decision"]["low"] > 0.5
    assert found["paired"]["decision"]["verdict"] is None
    assert found["decision"]["verdict"] == found["verdict"] == "undecided"
    api.patch("/detectors/door", {"measure": "overall"})
    found = api.get(path).json
    assert found["paired"]["decision"]["verdict"] == "better"
    decision = found["decision"]
    assert (decision["verdict"], decision["measure"]) == ("better", "overall")
    assert decision["difference"] == 17 / 211
    assert (found["verdict"], found["verdict_from"]) == ("better", "paired")


def test_disagreements_wait_in_a_queue_of_their_own(api, door):
    rows = [
        {"input": f"input-{number}", "version": version, "predicted": said}
        for number in range(3)
        for version, said in (("v1", "NO"), ("v2", "YES" if number else "NO"))
    ]
    api.post("/detectors/door/import", {"items": rows})
    address = "/detectors/door/next?queue=disagreements&old=v1&new=v2"
    for _ in range(2):
        wanted = api.get(address).json
        assert wanted["sampling"] == "targeted"
        label = {"label": "YES", "sampling": wanted["sampling"]}
        api.post(f"/queries/{wanted['id']}/labels", label)
    assert api.get(address).status_code == 204
    decision = api.get(PATH).json["paired"]["decision"]
    assert (decision["won"], decision["lost"]) == (2, 0)
    assert api.get("/detectors/door/estimate").json["classes"][0]["labelled"] == 0
    api.patch("/detectors/door", {"measure": "overall"})
    drawn = api.get(PATH).json["decision"]
    assert (drawn["verdict"], drawn["difference"]) == ("undecided", None)
    assert (drawn["low"], drawn["high"]) == (-1, 1)
    problem = api.get("/detectors/door/next?queue=random&old=v1")
    assert problem.status_code == 400


def test_each_version_by_its_own_labels(api, versions):
    unpaired = api.get(PATH).json["unpaired"]
    assert unpaired["method"] == "exact"
    for name, row in zip(("YES", "NO"), unpaired["classes"], strict=True):
        assert row["class"] == name
        for version, key in (("v1", "old"), ("v2", "new")):
            address = f"/detectors/door/estimate?version={version}"
            rows = api.get(address).json["classes"]
            (own,) = [one for one in rows if one["class"] == name]
            expected = {field: own[field] for field in row[key]}
            assert row[key] == expected
        assert row["low"] < row["difference"] < row["high"]


def test_queries_that_differ_leave_the_unpaired_comparison(api, door):
    for version in ("v1", "v2"):
        body = {"predicted": "YES", "label": "YES", "version": version}
        api.post("/detectors/door/queries", body)
    found = api.get(PATH).json
    assert found["paired"] is None
    assert (found["verdict"], found["verdict_from"]) == ("undecided", "unpaired")
    yes, no = found["unpaired"]["classes"]
    assert yes["difference"] == 0
    assert no == {
        "class": "NO",
        "old": {"correct": 0, "labelled": 0, "accuracy": None, "low": 0, "high": 1},
        "new": {"correct": 0, "labelled": 0, "accuracy": None, "low": 0, "high": 1},
        "difference": None,
        "low": -1,
        "high": 1,
    }


@pytest.mark.thorough
def test_a_higher_level_gives_a_wider_interval(api, versions):
    widths = []
    for level in ("0.8", "0.9", "0.95", "0.999"):
        found = api.get(f"{PATH}?confidence_level={level}").json
        assert found["confidence_level"] == float(level)
        balanced = found["paired"]["balanced"]
        widths.append(balanced["high"] - balanced["low"])
    assert widths == sorted(set(widths))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("old=v9", "old"),
        ("new=v9", "new"),
        ("old=", "old"),
        ("new=*", "new"),
        ("new=V2", "new"),
        ("old=v1%00", "old"),
        ("old=v2", "old"),
        ("old=v2&new=v2", "new"),
        ("version=v1", "version"),
        *((f"confidence_level={level}", "confidence_level") for level in LEVELS),
    ],
)
def test_a_wrong_choice_is_named(api, versions, query, field):
    problem = assert_problem(api.get(f"{PATH}?{query}"), 400, field=field)
    if query in {"old=v9", "new=v9"}:
        assert "'v1', 'v2'" in problem["detail"]


def test_one_version_is_a_conflict_that_says_so(api, door):
    problem = assert_problem(api.get(PATH), 409)
    assert "no version yet" in problem["detail"]
    api.post("/detectors/door/queries", {"predicted": "YES", "version": "v1"})
    problem = assert_problem(api.get(PATH), 409)
    assert "only one version" in problem["detail"]
    assert_problem(api.get(f"{PATH}?old=v9"), 400, field="old")
    assert_problem(api.get("/detectors/nothing/comparison"), 404)


def test_the_version_before_is_compared_unless_another_is_named(api, versions):
    body = {"predicted": "YES", "label": "YES", "version": "v3", "input": "YES-0"}
    api.post("/detectors/door/queries", body)
    found = api.get(PATH).json
    assert (found["old"], found["new"]) == ("v2", "v3")
    assert found["paired"]["pairs"] == 1
    assert (found["verdict_from"], found["verdict"]) == ("paired", "undecided")
    found = api.get(f"{PATH}?old=v1").json
    assert (found["old"], found["new"]) == ("v1", "v3")
    assert found["paired"]["classes"][0]["gained"] == 1


def test_labels_that_nobody_vouches_for_compare_nothing(api):
    api.post("/detectors", {"name": "gate", "question": "?"})
    for version, wrong in (("v1", 20), ("v2", 0)):
        rows = [
            {
                "input": f"i{number}",
                "version": version,
                "predicted": "NO" if number < wrong else "YES",
            }
            for number in range(60)
        ]
        rows += [
            {"input": f"n{number}", "version": version, "predicted": "NO"}
            for number in range(60)
        ]
        api.post("/detectors/gate/import", {"items": rows})
    for query in api.walk("/detectors/gate/queries?version=v1"):
        truth = "YES" if query["input"].startswith("i") else "NO"
        api.post(f"/queries/{query['id']}/labels", {"label": truth})

    found = api.get("/detectors/gate/comparison").json
    assert (found["decision"], found["verdict"]) == (None, "undecided")
    assert "120 labels do not say" in found["no_decision_because"]

    api.patch("/detectors/gate", {"label_sampling": "random"})
    found = api.get("/detectors/gate/comparison").json
    assert (found["decision"]["verdict"], found["no_decision_because"]) == (
        "better",
        None,
    )


@pytest.mark.parametrize("source", ["erased", "grouped"])
def test_labels_known_before_of_which_nobody_knows_when_compare_nothing(
    api, door, source
):
    api.patch("/detectors/door", {"label_sampling": "random", "measure": "overall"})
    group = {"group": "g"} if source == "grouped" else {}
    said = {"predicted": "NO", "label": "NO", "version": "v0"} | group
    names = [f"f{number}" for number in range(60)]
    known = [
        api.post("/detectors/door/queries", said | {"input": name}).json["id"]
        for name in names
    ]
    for version, predicted in (("v1", "YES"), ("v2", "NO")):
        rows = [{"input": name, "predicted": predicted} for name in names[20:]]
        rows.append({"input": f"of {version}", "predicted": "YES", "label": "YES"})
        items = [row | {"version": version} for row in rows]
        sent = api.post("/detectors/door/import", {"items": items})
        assert sent.status_code == 200, sent.text
    for query in known if source == "erased" else ():
        assert api.delete(f"/queries/{query}").status_code < 300
    found = api.get("/detectors/door/comparison?old=v1&new=v2").json
    assert (found["verdict"], found["decision"]) == ("undecided", None)
    assert found["no_decision_because"]
