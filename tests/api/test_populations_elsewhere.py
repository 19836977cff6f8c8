"""Numbers beside the estimate: each counts labels of one population, and each once."""

import pytest

KEYS = ("population", "unit")
NAMES = "ann", "bob"


def send(api, *rows):
    sent = api.post("/detectors/door/import", {"items": rows})
    assert sent.status_code == 200, sent.text


@pytest.fixture
def judged(api, door):
    """Ten random labels that a judge has right, and ten unstated ones it has not."""
    api.patch("/detectors/door", {"label_sampling": None})
    for number in range(20):
        is_random = number < 10
        row = {
            "key": f"{number}",
            "predicted": "YES",
            "version": "v1",
            "input": f"i{number}",
            "label": "YES",
            "judge:llm": "YES" if is_random else "NO",
        }
        send(api, row | ({"sampling": "random"} if is_random else {}))


def sensitivity(report):
    (judge,) = report["items"]
    found = judge["classes"][0]["sensitivity"]
    return found["correct"], found["labelled"]


def test_a_judge_is_compared_with_the_labels_of_one_population(api, judged):
    found = api.get("/detectors/door/judges?version=v1").json
    assert [found[name] for name in KEYS] == ["live", "input"]
    assert sensitivity(found) == (10, 10)
    # One said for all unstated ones how they came.
    api.patch("/detectors/door", {"label_sampling": "random"})
    assert sensitivity(api.get("/detectors/door/judges?version=v1").json) == (10, 20)


def test_a_judge_of_a_version_without_its_own_labels_is_named_so(api, judged):
    row = {"predicted": "YES", "version": "v2", "judge:llm": "NO"}
    send(api, *(row | {"key": f"v2-{n}", "input": f"i{n}"} for n in range(20)))
    found = api.get("/detectors/door/judges?version=v2").json
    assert found["population"] == "replayed"
    assert sensitivity(found) == (0, 10)
    pooled = api.get("/detectors/door/judges?version=*").json
    assert pooled["population"] == "pooled"
    assert sensitivity(pooled)[1] == 10


def test_attempts_are_of_one_population(api, door):
    api.patch("/detectors/door", {"label_sampling": None})
    row = {"predicted": "YES", "version": "v1", "group": "question"}
    send(
        api,
        row | {"key": "a", "label": "YES", "sampling": "random"},
        row | {"key": "b", "label": "YES", "sampling": "random"},
        row | {"key": "c", "label": "NO"},
        row | {"key": "d", "label": "NO", "sampling": "targeted"},
    )
    found = api.get("/detectors/door/repeats?version=v1").json
    assert found["population"] == "live"
    assert [(one["k"], one["pass_at_k"]) for one in found["items"]] == [(1, 1), (2, 1)]
    api.patch("/detectors/door", {"label_sampling": "random"})
    found = api.get("/detectors/door/repeats?version=v1").json
    assert [one["k"] for one in found["items"]] == [1, 2, 3]


def test_agreement_counts_an_input_and_a_group_once(api, door):
    api.patch("/detectors/door", {"labels_wanted": 2, "label_sampling": "random"})
    for frame in range(5):
        row = {"key": f"{frame}", "predicted": "YES", "group": "event"}
        row |= {"input": f"i{frame}", "version": "v1"}
        both = [row | {"labeler": name, "label": "YES"} for name in NAMES]
        send(api, *both)
    send(api, {"key": "v2", "predicted": "NO", "input": "i0", "version": "v2"})
    found = api.get("/detectors/door/labelers").json
    assert (found["agreed"]["correct"], found["agreed"]["labelled"]) == (1, 1)
    (pair,) = found["pairs"]
    assert pair["agreed"]["labelled"] == 1


def test_a_label_that_was_there_says_nothing_of_how_late_labels_come(api, door, clock):
    for number in range(20):
        row = {"key": f"{number}", "predicted": "YES", "input": f"i{number}"}
        send(api, row | {"version": "v1", "label": "YES"})
    for number in range(20):
        row = {"key": f"again-{number}", "predicted": "YES", "input": f"i{number}"}
        send(api, row | {"version": "v2"})
    send(api, {"key": "new", "predicted": "YES", "input": "new", "version": "v2"})
    (day,) = api.get("/detectors/door/cohorts?version=v2").json["items"]
    assert (day["queries"], day["labelled"]) == (1, 0)
    (day,) = api.get("/detectors/door/cohorts?version=v1").json["items"]
    assert (day["queries"], day["labelled"]) == (20, 20)


def test_slices_and_weeks_say_whose_labels_they_count(api, judged):
    api.patch("/detectors/door", {"slices": ["camera"]})
    row = {"predicted": "YES", "version": "v2", "metadata": {"camera": "north"}}
    send(api, *(row | {"key": f"v2-{n}", "input": f"i{n}"} for n in range(20)))
    for version, replayed, unstated in (("v1", 0, 10), ("v2", 10, 10)):
        found = api.get(f"/detectors/door/slices?by=week&version={version}").json
        assert [found[name] for name in KEYS] == ["live", "input"]
        assert found["replayed_left_out"] == replayed
        assert found["unstated_left_out"] == unstated
        found = api.get(f"/detectors/door/weeks?version={version}").json
        assert [found[name] for name in KEYS] == ["live", "input"]
    assert api.get("/detectors/door/labelers").json["unit"] == "input"
