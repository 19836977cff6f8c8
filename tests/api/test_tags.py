"""Tags of queries: put on, found by and exported."""

import csv

import pytest

from tests.api.problems import assert_problem

PATH = "/detectors/door/queries"


@pytest.fixture
def tagged(api, door):
    """The ids of three queries, of which the first two are tagged."""
    ids = [
        api.post(PATH, {"key": key, "predicted": "YES", "label": "NO"}).json["id"]
        for key in "abc"
    ]
    for number, tags in (
        (0, ["night", "\"'%_ é🚪"]),
        (1, ["night", "blurry", "night"]),
    ):
        answer = api.put(f"/queries/{ids[number]}/tags", {"tags": tags}, role="labeler")
        assert answer.status_code == 200
        assert answer.json["tags"] == sorted(set(tags))
    return ids


def find(api, **asked):
    page = api.get(PATH, query_string=asked).json
    assert page["total"] == len(page["items"])
    return "".join(sorted(one["key"] for one in page["items"]))


def test_a_query_is_found_by_its_tag(api, tagged):
    assert find(api, tag="night") == "ab"
    assert find(api, tag="blurry") == "b"
    assert find(api, tag="\"'%_ é🚪") == "a"
    assert find(api, tag="blur") == ""
    assert find(api, tag="night", wrong="true", sort="key") == "ab"
    assert find(api, tag="night", wrong="false") == ""


def test_tags_replace_those_before(api, tagged):
    path = f"/queries/{tagged[0]}/tags"
    assert api.put(path, {"tags": ["day"]}).json["tags"] == ["day"]
    assert find(api, tag="night") == "b"
    assert api.put(path, {"tags": []}).json["tags"] == []
    assert api.get(f"/queries/{tagged[0]}").json["tags"] == []
    assert find(api, tag="day") == ""


def test_labels_are_exported_with_the_tags_of_their_queries(api, tagged):
    rows = api.get("/detectors/door/labels").json["items"]
    assert [row["tags"] for row in rows[1:]] == [["blurry", "night"], []]
    text = api.get("/detectors/door/labels?format=csv").text
    [_, second, third] = csv.DictReader(text.splitlines())
    assert (second["tags"], third["tags"]) == ('["blurry", "night"]', "[]")
    for name in ("parquet", "xlsx"):
        file = api.get(f"/detectors/door/labels?format={name}")
        assert file.status_code == 200
        assert len(file.data) > 1_000


def test_what_is_no_tag_is_refused(api, door, tagged):
    path = f"/queries/{tagged[0]}/tags"
    for wrong in ([""], [" a"], ["a\nb"], ["x" * 101], [7], ["a"] * 21, "a", None):
        problem = assert_problem(api.put(path, {"tags": wrong}), 422)
        assert problem["errors"][0]["field"].startswith("tags")
    assert_problem(api.put(path, {}), 422, field="tags")
    assert_problem(api.put("/queries/iq_404/tags", {"tags": []}), 404)
    api.delete("/detectors/door")
    assert_problem(api.put(path, {"tags": []}), 409)
