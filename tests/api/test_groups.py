"""Groups by the API: sent, named by metadata, found, counted and exported."""

import csv
import io
from typing import Any

import pytest

from tests.api.conftest import Api


def log(api: Api, door: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = api.post(f"/detectors/{door['id']}/queries", {"predicted": "YES"} | fields)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json)


def test_a_query_is_sent_with_its_group(api: Api, door: dict[str, Any]) -> None:
    first = log(api, door, group="event-1", label="NO")
    second = log(api, door, group="event-1", label="YES")
    assert (first["group"], first["is_grouped"]) == ("event-1", False)
    assert (second["group"], second["is_grouped"]) == ("event-1", True)
    found = api.get(f"/detectors/{door['id']}/estimate").json
    assert (found["labels"], found["grouped_left_out"]) == (1, 1)
    assert found["confusion"] == {"YES": {}, "NO": {"YES": 1}}


def test_a_label_of_another_query_of_the_group_is_kept_and_not_counted(
    api: Api, door: dict[str, Any]
) -> None:
    frames = [log(api, door, group="e") for _ in range(3)]
    for frame in frames:
        answer = api.post(f"/queries/{frame['id']}/labels", {"label": "YES"})
        assert answer.status_code == 201
    shown = [api.get(f"/queries/{frame['id']}").json for frame in frames]
    assert [one["label"] for one in shown] == ["YES"] * 3
    assert [one["is_grouped"] for one in shown] == [False, True, True]


def test_the_same_key_in_another_group_is_a_conflict(
    api: Api, door: dict[str, Any]
) -> None:
    log(api, door, key="k", group="a")
    assert log(api, door, key="k", group="a")["group"] == "a"
    path = f"/detectors/{door['id']}/queries"
    for group in ("b", None):
        again = {"key": "k", "predicted": "YES", "group": group}
        answer = api.post(path, again)
        assert answer.status_code == 409
        assert "group" in answer.json["detail"]


def test_what_names_the_groups_can_be_set_and_taken_away(
    api: Api, door: dict[str, Any]
) -> None:
    path = f"/detectors/{door['id']}"
    assert api.get(path).json["group_by"] is None
    changed = api.patch(path, {"group_by": "metadata.session"})
    assert changed.json["group_by"] == "metadata.session"
    sent = {"key": "k", "metadata": {"session": 7}}
    assert log(api, door, **sent)["group"] == "7"
    # The same once more is the same query, though it does not name the group.
    assert log(api, door, **sent)["group"] == "7"
    assert api.patch(path, {"group_by": None}).json["group_by"] is None
    for wrong in ("session", "metadata."):
        answer = api.patch(path, {"group_by": wrong})
        assert (answer.status_code, answer.json["errors"][0]["field"]) == (
            422,
            "group_by",
        )


@pytest.mark.parametrize("column", ["group", "group_id", "event_id", "session_id"])
def test_a_file_has_a_column_of_groups(
    api: Api, door: dict[str, Any], column: str
) -> None:
    lines = [f"key,predicted,label,{column}"]
    lines += [f"k{number},YES,YES,g{number % 2}" for number in range(6)]
    answer = api.send_file(f"/detectors/{door['id']}/import", "\n".join(lines))
    assert answer.status_code == 200, answer.text
    found = api.get(f"/detectors/{door['id']}/estimate").json
    assert (found["labels"], found["grouped_left_out"]) == (2, 4)
    listed = api.get(f"/detectors/{door['id']}/queries?where=group:g1").json
    assert {one["key"] for one in listed["items"]} == {"k1", "k3", "k5"}
    narrowed = api.get(f"/detectors/{door['id']}/estimate?where=group:g1").json
    assert narrowed["labels"] == 1


def test_rows_of_json_are_one_batch(api: Api, door: dict[str, Any]) -> None:
    rows = [
        {"key": f"k{number}", "predicted": "YES", "label": "YES", "group": "g"}
        for number in range(9)
    ]
    path = f"/detectors/{door['id']}/import"
    assert api.post(path, {"items": rows}).status_code == 200
    found = api.get(f"/detectors/{door['id']}/estimate").json
    assert (found["labels"], found["grouped_left_out"]) == (1, 8)


def test_a_row_with_another_group_than_is_stored_is_wrong(
    api: Api, door: dict[str, Any]
) -> None:
    log(api, door, key="k", group="a")
    content = "key,group,label\nk,b,YES\n"
    answer = api.send_file(f"/detectors/{door['id']}/import", content)
    assert answer.status_code == 422
    assert answer.json["errors"][0]["field"] == "group"


def test_an_export_of_labels_says_what_each_counts_for(
    api: Api, door: dict[str, Any]
) -> None:
    for number in range(3):
        log(api, door, key=f"k{number}", group="g", label="YES")
    found = api.get(f"/detectors/{door['id']}/labels?format=csv")
    rows = list(csv.DictReader(io.StringIO(found.text)))
    assert [row["group"] for row in rows] == ["g"] * 3
    assert [row["is_grouped"] for row in rows] == ["false", "true", "true"]
    answer = api.send_file(f"/detectors/{door['id']}/import", found.text)
    assert answer.status_code == 200, answer.text
    assert (answer.json["queries_added"], answer.json["labels_added"]) == (0, 0)
