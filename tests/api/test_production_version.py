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


def test_the_newest_version_with_a_scored_label_is_shown(api, door, recompute):
    assert shown(api) is None
    log(api, "v1")
    assert shown(api) == "v1"
    newer = log(api, "v2")
    assert shown(api) == "v2"
    log(api, "v1", label="YES")
    assert shown(api) == "v1"
    recompute()
    assert shown(api) == "v1"
    for label, sampling in (("NO", "targeted"), ("UNCLEAR", "random")):
        said = {"label": label, "sampling": sampling}
        assert api.post(f"/queries/{newer}/labels", said).status_code == 201
        assert shown(api) == "v1"
    api.post(f"/queries/{newer}/labels", {"label": "NO", "sampling": "random"})
    assert shown(api) == "v2"
    recompute()
    assert shown(api) == "v2"
    # What is taken back counts no more, be it folded in or not.
    api.post(f"/queries/{newer}/labels", {"label": "UNCLEAR", "sampling": "random"})
    assert shown(api) == "v1"
    recompute()
    assert shown(api) == "v1"


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
