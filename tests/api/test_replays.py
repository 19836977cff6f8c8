"""Replaying labelled inputs by a new version, over HTTP."""

from tests.api.problems import assert_problem

PATH = "/detectors/door"


def put(api, version, names, **said):
    rows = [
        {"version": version, "input": one, "predicted": "YES", **said} for one in names
    ]
    sent = api.post(f"{PATH}/import", {"items": rows})
    assert sent.status_code == 200, sent.text


def test_a_new_version_replays_a_random_part_and_passes_the_gate(api, door):
    api.patch(PATH, {"target": 0.3, "measure": "overall"})
    names = [f"frame {number}" for number in range(40)]
    put(api, "v1", names, label="YES", sampling="random")
    listed = api.get(f"{PATH}/replay?n=25").json
    assert listed["next"] is None
    order = [one["input"] for one in listed["items"]]
    assert len({*order}) == 25
    first = api.get(f"/queries/{listed['items'][0]['query']}").json
    assert (first["input"], first["version"]) == (order[0], "v1")
    assert (
        order
        == [one["input"] for one in api.get(f"{PATH}/replay?version=v1").json["items"]][
            :25
        ]
    )

    put(api, "v2", order)
    gate = {"version": "v2"}
    refused = assert_problem(api.post(f"{PATH}/gate", gate, role="viewer"), 409)
    assert "unseen" in refused["detail"]
    api.patch(f"{PATH}/versions/v2", {"unseen": True})
    found = api.post(f"{PATH}/gate", gate, role="viewer").json
    assert (found["verdict"], found["population"]) == ("met", "replayed")
    estimate = api.get(f"{PATH}/estimate?version=v2").json
    assert estimate["decision"]["labels"] == 25
    by_name = {one["name"]: one["unseen"] for one in api.get(PATH).json["versions"]}
    assert by_name == {"v1": False, "v2": True}


def test_one_label_of_its_own_makes_no_replay_of_mistakes_a_comparison(api, door):
    api.patch(PATH, {"label_sampling": "random", "measure": "overall"})
    names = [f"frame {number}" for number in range(80)]
    put(api, "v1", names[:40], label="YES")
    put(api, "v1", names[40:], label="NO")
    rows = [{"version": "v2", "input": one, "predicted": "NO"} for one in names[40:]]
    api.post(f"{PATH}/import", {"items": rows})
    compare = f"{PATH}/comparison?old=v1&new=v2"
    assert "unseen" in api.get(compare).json["no_decision_because"]

    put(api, "v2", ["own"], label="YES")
    found = api.get(compare).json
    assert (found["verdict"], found["decision"]) == ("undecided", None)
    assert "unseen" in found["no_decision_because"]
    gate = {"version": "v2", "target": 0.1, "not_worse_than": "v1"}
    assert_problem(api.post(f"{PATH}/gate", gate), 409)
    # Nor does saying that it was made without them: it was put to the mistakes only.
    api.patch(f"{PATH}/versions/v2", {"unseen": True})
    assert api.get(compare).json["decision"] is None
    put(api, "v2", names[:40])
    assert api.get(compare).json["verdict"] == "better"


def test_labels_that_come_after_both_versions_compare_them(api, door):
    api.patch(PATH, {"label_sampling": "random", "measure": "overall"})
    names = [f"frame {number}" for number in range(40)]
    put(api, "v1", names)
    put(api, "v1", ["elsewhere"], label="YES")
    # Half of the traffic only.
    rows = [{"version": "v2", "input": one, "predicted": "NO"} for one in names[20:]]
    api.post(f"{PATH}/import", {"items": rows})
    put(api, "v2", ["own"], label="YES")
    given = [{"input": one, "label": "NO"} for one in names]
    assert api.post(f"{PATH}/import", {"items": given}).status_code == 200
    found = api.get(f"{PATH}/comparison?old=v1&new=v2").json
    assert (found["verdict"], found["no_decision_because"]) == ("better", None)


def test_a_gate_is_asked_over_http_by_its_conditions(api, door):
    api.post(f"{PATH}/queries", {"predicted": "YES", "label": "YES"})
    assert_problem(api.post(f"{PATH}/gate", {}), 422, field="target")
    assert_problem(api.post(f"{PATH}/gate", {"version": "*"}), 422, field="version")
    found = api.post(f"{PATH}/gate", {"target": 0.9, "max_width": 0.1}).json
    assert found["verdict"] == "undecided"
    assert [one["name"] for one in found["checks"]] == ["target", "max-width"]
    said = {"target": 0.9, "unseen": True}
    assert_problem(api.post(f"{PATH}/gate", said, role="viewer"), 403)


def test_only_a_version_there_is_can_be_changed(api, door):
    assert_problem(api.patch(f"{PATH}/versions/v9", {"unseen": True}), 404)
    assert_problem(api.patch(f"{PATH}/versions/*", {"unseen": True}), 404)


def test_a_detector_says_that_labels_judge_its_answers(api):
    made = api.post(
        "/detectors", {"name": "bot", "question": "Right?", "label_of": "answer"}
    )
    assert made.json["label_of"] == "answer"
    other = {"name": "door", "question": "Closed?"}
    assert api.post("/detectors", other).json["label_of"] == "input"
    for name, taken in (("bot", None), ("door", "YES")):
        path = f"/detectors/{name}/queries"
        row = {"predicted": "YES", "input": "a"}
        api.post(path, row | {"version": "v1", "label": "YES"})
        assert api.post(path, row | {"version": "v2"}).json["label"] == taken
    # Labels that were shared are not taken back.
    assert_problem(api.patch("/detectors/door", {"label_of": "answer"}), 422)


def test_the_history_of_one_population(api, door, recompute):
    put(api, "v1", ["a", "b"], label="YES", sampling="random")
    put(api, "v2", ["a", "b"])
    recompute()
    put(api, "v2", ["c"], label="YES", sampling="random")
    recompute()
    path = f"{PATH}/history?version=v2"
    counts = {
        kind: {row["labels"] for row in api.walk(f"{path}&population={kind}")}
        for kind in ("replayed", "live", "unstated")
    }
    assert counts == {"replayed": {1, 2}, "live": {1}, "unstated": set()}
    table = api.get(f"{path}&population=replayed&format=csv").text.splitlines()
    assert {line.rpartition(",")[2] for line in table[1:]} == {"replayed"}
    assert_problem(api.get(f"{path}&population=all"), 400, field="population")
