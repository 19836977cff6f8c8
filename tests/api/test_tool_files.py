"""Files of tools sent to the API, which reads them as the command does."""

import io
import json
import zipfile

import pytest

from tests.services.test_shapes import FILES, INSPECT_HEADER, SAMPLES

PATH = "/detectors/door/import"
MEDIA_TYPES = {
    "promptfoo": "application/json",
    "Datumaro": "application/json",
    "Argilla": "application/json",
    "doccano": "application/x-ndjson",
    "traces of MLflow": "application/x-ndjson",
    "Phoenix": "text/csv",
    "one-hot": "text/csv",
    "CVAT": "application/octet-stream",
}
REFERENCES = {"Datumaro": 1, "doccano": 1, "one-hot": 2, "CVAT": 1}


@pytest.mark.parametrize("tool", MEDIA_TYPES)
def test_a_file_of_a_tool_is_read_without_any_option(api, door, tool) -> None:
    _, content, expected = FILES[tool]
    sent = api.send_file(PATH, content, MEDIA_TYPES[tool], role="editor")
    assert sent.status_code == 200, sent.text
    references = REFERENCES.get(tool, 0)
    assert sent.json["references_added"] == references
    queries = api.walk("/detectors/door/queries")
    assert len(queries) == (0 if references else 1)
    for query in queries:
        for name in expected.keys() & {"key", "input", "predicted", "label", "version"}:
            assert query[name] == expected[name]
    again = api.send_file(PATH, content, MEDIA_TYPES[tool], role="editor").json
    assert (again["queries_added"], again["labels_added"]) == (0, 0)
    assert again["references_added"] == 0


def test_a_log_in_a_zip_file_is_told_by_its_bytes(api, door) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", json.dumps(INSPECT_HEADER))
        for sample in SAMPLES:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
    content = buffer.getvalue()
    sent = api.send_file(PATH, content, "application/octet-stream", role="editor")
    assert sent.status_code == 200, sent.text
    assert sent.json["labels_added"] == 2
    assert {query["group"] for query in api.walk("/detectors/door/queries")} == {"1"}


def test_a_file_that_grew_and_one_that_was_corrected(api, door) -> None:
    def send(*rows: str, **query: str):
        content = "\n".join(["y_true,y_pred", *rows])
        options = "&".join(f"{name}={value}" for name, value in query.items())
        return api.send_file(f"{PATH}?{options}", content, "text/csv", role="editor")

    assert send("YES,YES", "NO,NO").json["labels_added"] == 2
    assert send("YES,YES", "NO,NO", "YES,NO").json["labels_added"] == 1
    refused = send("YES,YES", "NO,NO", "NO,NO")
    assert refused.status_code == 422
    assert "--same-rows" in refused.text
    assert send("YES,YES", "NO,NO", "NO,NO", same_rows="true").json["labels_added"] == 1
    assert send("YES,YES", "NO,NO", "YES,NO", new_rows="true").json["labels_added"] == 3


def test_what_is_not_read_as_the_truth_is_warned_of(api, door) -> None:
    content = json.dumps({"predicted": "YES", "goldAnswer": "It was shut."}) + "\n"
    sent = api.send_file(f"{PATH}?extra=metadata", content, "application/x-ndjson")
    (warning,) = sent.json["warnings"]
    assert "goldAnswer" in warning


def test_every_row_has_the_version_that_is_said(api, door) -> None:
    content = "id,pred\n1,YES\n2,I cannot say\n"
    options = "version=run-7&no_answer=I+cannot+say&set=sampling%3Drandom"
    sent = api.send_file(f"{PATH}?{options}", content, "text/csv")
    assert sent.status_code == 200, sent.text
    queries = api.walk("/detectors/door/queries")
    assert {query["version"] for query in queries} == {"run-7"}
    assert {query["input"] for query in queries} == {"1", "2"}
    assert {query["predicted"] for query in queries} == {"YES", None}


def test_labels_by_key_in_one_object(api, door) -> None:
    def send(content: object, query: str = "") -> dict:
        sent = api.send_file(
            f"{PATH}?{query}",
            json.dumps(content),
            "application/octet-stream",
            role="editor",
        )
        assert sent.status_code == 200, sent.text
        return sent.json

    said = {"a": "YES", "b": "NO"}
    assert send(said, "map=predicted=label")["queries_added"] == 2
    assert send({**said, "b": None})["labels_added"] == 1
    assert send({"c": "YES"}, "map=input=key")["references_added"] == 1
    assert send({"id": "d", "pred": "NO", "label": "NO"})["labels_added"] == 1


@pytest.mark.parametrize("content", ["a,YES,YES\nb,NO,YES\n", "7,YES,NO\n"])
def test_columns_without_names_are_asked_for(api, door, content) -> None:
    sent = api.send_file(PATH, content, "text/csv", role="editor")
    assert sent.status_code == 422
    assert "map predicted=column 2 and map label=column 3" in sent.text
    chosen = "map=key=column 1&map=predicted=column 2&map=label=column 3"
    sent = api.send_file(f"{PATH}?{chosen}", content, "text/csv", role="editor")
    assert sent.json["labels_added"] == content.count("\n")


def test_unlabelled_rows_of_a_file_of_labels_are_left_out(api, door) -> None:
    content = "input,label\na,YES\nb,\nc,NO\nd,\n"
    sent = api.send_file(PATH, content, "text/csv", role="editor")
    assert sent.json["references_added"] == 2
    (said,) = sent.json["values"]
    assert (said["read_as"], said["rows"]) == ("no label; left out", 2)
    sent = api.send_file(PATH, "key,label\n,YES\n", "text/csv", role="editor")
    assert sent.status_code == 422


def test_a_file_is_inspected_before_there_is_a_detector(api) -> None:
    content = "id,guess,truth,camera\n1,YES,YES,north\n2,NO,YES,south\n,,,\n"
    sent = api.send_file("/inspect", content, "text/csv", role="viewer")
    assert sent.status_code == 200, sent.text
    found = sent.json
    assert (found["format"], found["rows"], found["bad_rows"]) == ("csv", 3, 1)
    assert found["columns"] == {
        "id": "key",
        "guess": "predicted",
        "truth": "label",
        "camera": None,
    }
    assert (found["classes"], found["labels"]) == (["NO", "YES"], 2)
    assert any(said.startswith("row 3, predicted") for said in found["says"])
    _, content, _ = FILES["promptfoo"]
    found = api.send_file("/inspect", content, "application/json").json
    assert found["predictions"] == found["labels"] > 0
    refused = api.send_file("/inspect?map=label=none", content, "application/json")
    assert refused.status_code == 422


def test_an_empty_prediction_is_no_answer_unless_its_query_has_one(api, door) -> None:
    def send(content: str):
        return api.send_file(PATH, content, "text/csv", role="editor")

    assert send("key,predicted,label\na,YES,YES\nb,,NO\n").json["labels_added"] == 2
    (none,) = [q for q in api.walk("/detectors/door/queries") if q["key"] == "b"]
    assert (none["predicted"], none["label"]) == (None, "NO")
    refused = send("key,predicted,label\na,,NO\nc,NO,NO\n")
    assert refused.status_code == 422
    assert "without the column of predictions" in refused.text
    assert send("key,label\na,NO\nb,NO\n").json["labels_added"] == 1
