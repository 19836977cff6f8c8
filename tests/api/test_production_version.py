"""Which version is shown where none is asked for."""

import pytest

from tests.api.problems import assert_problem


def log(api, version, **said):
    answer = api.post(
        "/detectors/door/queries", {"predicted": "YES", "version": version, **said}
    )
    assert answer.status_code == 201
    return answer.json["id"]


def shown(api):
    return api.get("/detectors/door/estimate").json["version"]


def told(api):
    door = api.get("/detectors/door").json
    return door["shown_version"], door["shown_since"]


def test_a_version_takes_over_with_most_of_the_new_queries(api, door, recompute):
    assert (shown(api), told(api)) == (None, (None, None))
    for number in range(3):
        log(api, "v1", input=f"old {number}", asked_at="2026-01-01T10:10:00Z")
    assert told(api) == ("v1", None)
    recompute()
    # Two of five are no majority of the hour, and three of six neither.
    for number in range(3):
        log(api, "v2", input=f"new {number}", asked_at="2026-01-01T10:20:00Z")
    recompute()
    assert told(api) == ("v1", None)
    log(api, "v2", asked_at="2026-01-01T11:50:00Z")
    recompute()
    assert told(api) == ("v2", "2026-01-01T11:00:00Z")
    assert shown(api) == "v2"
    # A day later one query is most of what came.
    log(api, "v1", asked_at="2026-01-02T11:59:00Z")
    recompute()
    assert told(api) == ("v1", "2026-01-02T11:00:00Z")


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_version_on_inputs_of_another_does_not_take_over(
    api, door, recompute, is_folded
):
    api.patch("/detectors/door", {"target": 0.5})
    for number in range(30):
        said = {"input": f"frame-{number}", "label": "YES", "sampling": "random"}
        log(api, "v1", **said)
    if is_folded:
        recompute()
    for number in range(30):
        log(api, "v2", input=f"frame-{number}")
    for _ in range(2):
        assert shown(api) == "v1"
        assert api.get("/detectors/door/estimate").json["labels"] == 30
        assert api.get("/detectors/door/plan").json["version"] == "v1"
        assert told(api) == ("v1", None)
        recompute()


def test_the_version_in_production_is_shown_until_it_is_unset(api, door):
    log(api, "v1", label="YES")
    log(api, "v2", label="YES")
    assert (door["production_version"], shown(api)) == (None, "v2")
    changed = api.patch("/detectors/door", {"production_version": "v1"})
    assert changed.json["production_version"] == "v1"
    assert shown(api) == "v1"
    assert api.get("/detectors/door/estimate?version=v2").json["version"] == "v2"
    api.patch("/detectors/door", {"production_version": None})
    assert shown(api) == "v2"


@pytest.mark.parametrize("name", ["v9", "*", ""])
def test_only_a_version_there_is_can_be_in_production(api, door, name):
    log(api, "v1")
    assert_problem(api.patch("/detectors/door", {"production_version": name}), 422)


def test_the_queue_serves_the_shown_version_unless_told_otherwise(api, door):
    old, new = log(api, "v1"), log(api, "v2")
    api.patch("/detectors/door", {"production_version": "v1"})
    for labeler, address, expected in (
        ("ann", "", old),
        ("bob", "&version=v2", new),
        ("bob", "&version=*", new),
    ):
        answer = api.get(f"/detectors/door/next?labeler={labeler}{address}")
        assert answer.json["id"] == expected
    api.post(f"/queries/{old}/labels", {"label": "YES", "sampling": "random"})
    assert api.get("/detectors/door/next?labeler=cat").status_code == 204
