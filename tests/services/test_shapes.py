"""Files of tools, each read as it is; known_shapes.py says what documents them."""

import io
import json
import zipfile
from typing import Any

import pytest

from tests.processes import ROOT
from tests.services.test_file_kinds import DOOR, read
from tracker.errors import InvalidInputError
from tracker.services.imports.reading.choices import read_choices
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.shapes import as_name, find
from tracker.storage.detectors import Detector

CHOICE = Detector(id=4, name="choice", classes=["0", "1"])


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def lm_sample(resps: list[Any], **more: Any) -> dict[str, Any]:
    sample = {"doc_id": 0, "doc": {}, "target": "1", "arguments": {}, "doc_hash": "h"}
    return sample | {"filtered_resps": resps, "filter": "none", "acc": 0.0, **more}


def inspect_sample(number: int, epoch: int, answer: str) -> dict[str, Any]:
    scores = {"match": {"value": "C", "answer": answer}}
    found = {"id": number, "epoch": epoch, "input": "Is it?", "target": " Yes"}
    return found | {"uuid": f"u{number}{epoch}", "scores": scores, "metadata": {"a": 1}}


INSPECT_HEADER = {"version": 2, "eval": {"model": "vendor/m", "task": "t"}}
SAMPLES = [inspect_sample(1, 1, "Yes"), inspect_sample(1, 2, "No")]
PROMPTFOO = {
    "provider": {"id": "vendor:m"},
    "response": {"output": "NO"},
    "vars": {"text": "t0"},
    "testCase": {"assert": [{"type": "equals", "value": "YES"}]},
}
COCO = {
    "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
    "annotations": [{"image_id": 7, "category_id": 2}],
    "categories": [{"id": 1, "name": "YES"}, {"id": 2, "name": "NO"}],
}
DATUMARO = {
    "categories": {"label": {"labels": [{"name": "YES"}, {"name": "NO"}]}},
    "items": [
        {"id": "f0", "annotations": [{"type": "label", "label_id": 1}]},
        {"id": "f1", "annotations": []},
    ],
}
LANGFUSE_SCORE = {
    "traceId": "tr0",
    "name": "right",
    "source": "ANNOTATION",
    "dataType": "CATEGORICAL",
    "stringValue": "NO",
    "timestamp": "2026-03-01 13:46:19.963000",
}
TRACE = {
    "trace_id": "tr-0",
    "request": "text 0",
    "response": "YES",
    "request_time": 1764000000000,
    "assessments": [
        {"source": {"source_type": "HUMAN"}, "expectation": {"value": "NO"}},
        {"source": {"source_type": "LLM_JUDGE"}, "feedback": {"value": "YES"}},
    ],
}
ARGILLA = {
    "id": "r0",
    "fields": {"text": "t"},
    "suggestions": {"door": {"value": "YES", "score": 0.9, "agent": "m-1"}},
    "responses": {
        "door": [
            {"value": "NO", "status": "submitted"},
            {"value": "YES", "status": "draft"},
        ]
    },
}
SAGEMAKER = {
    "source-ref": "s3://b/i.png",
    "door": 1,
    "door-metadata": {"class-name": "NO", "type": "groundtruth/image-classification"},
}
PRODIGY = {"text": "t", "_input_hash": 1, "accept": ["NO"], "answer": "accept"}
XML = '<?xml version="1.0"?>\n<annotations>%s</annotations>'
IMAGE = '<image id="0" name="f0.png"><tag label="NO"></tag>%s</image>'

# By tool: the name of a file, what it holds, and what is read of its first row.
OPIK = {
    "id": "i",
    "dataset_item_id": "d",
    "trace_id": "t",
    "dataset_item_data": {"input": {"q": "t"}, "expected_model_output": {"a": "NO"}},
    "evaluation_task_output": {"output": "YES", "seconds": 2},
    "feedback_scores": [],
}
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "inspect_ai": (
        "log.json",
        json.dumps({**INSPECT_HEADER, "samples": SAMPLES}),
        {
            "key": "u11",
            "input": "1",
            "group": "1",
            "predicted": "YES",
            "label": "YES",
            "version": "vendor/m",
        },
    ),
    "promptfoo": (
        "x.json",
        json.dumps({"evalId": "e", "results": {"results": [PROMPTFOO]}}),
        {"input": "t0", "predicted": "NO", "label": "YES", "version": "vendor:m"},
    ),
    "OpenAI evals": (
        "x.jsonl",
        lines(
            {"spec": {"eval_name": "t", "run_config": {}, "completion_fns": ["m"]}},
            {"final_report": {"accuracy": 1}},
            {"type": "sampling", "sample_id": "t.0", "data": {"sampled": "YES"}},
            {
                "type": "match",
                "sample_id": "t.0",
                "data": {"picked": "YES", "expected": ["NO"]},
            },
        ),
        {"input": "t.0", "predicted": "YES", "label": "NO", "version": "m"},
    ),
    "deepeval": (
        "x.json",
        json.dumps(
            {
                "testCases": [
                    {"input": "q", "actualOutput": "NO", "expectedOutput": "YES"}
                ]
            }
        ),
        {"input": "q", "predicted": "NO", "label": "YES"},
    ),
    "scores of Langfuse": (
        "x.jsonl",
        lines(LANGFUSE_SCORE, {**LANGFUSE_SCORE, "traceId": "x", "source": "EVAL"}),
        {"input": "tr0", "label": "NO"},
    ),
    "items of Langfuse": (
        "x.jsonl",
        lines({"id": "i", "input": {"q": "t"}, "expectedOutput": {"answer": "NO"}}),
        {"input": '{"q": "t"}', "label": "NO"},
    ),
    "Opik": (
        "x.jsonl",
        lines(OPIK),
        {"key": "i", "input": "d", "predicted": "YES", "label": "NO"},
    ),
    "LangSmith": (
        "x.jsonl",
        lines(
            {
                "inputs": {"q": "t"},
                "outputs": {"answer": "YES"},
                "reference_outputs": {"answer": "NO"},
            }
        ),
        {"predicted": "YES", "label": "NO"},
    ),
    "traces of MLflow": (
        "x.jsonl",
        lines(TRACE),
        {"key": "tr-0", "input": "text 0", "predicted": "YES", "label": "NO"},
    ),
    "an evaluation of MLflow": (
        "x.jsonl",
        lines(
            {
                "inputs": {"q": 1},
                "outputs": "YES",
                "expectations": {"expected_response": "NO"},
            }
        ),
        {"predicted": "YES", "label": "NO"},
    ),
    "Phoenix": (
        "x.csv",
        "context.span_id,start_time,attributes.input.value,attributes.output.value,"
        "label,score\nsp0,2026-03-01T13:46:19+00:00,t,YES,NO,1.0\n",
        {
            "key": "sp0",
            "input": "t",
            "predicted": "YES",
            "label": "NO",
            "metadata": {"score": "1.0"},
        },
    ),
    "Ragas": (
        "x.csv",
        "user_input,retrieved_contexts,response,reference\nq,[],YES,NO\n",
        {"input": "q", "predicted": "YES", "label": "NO"},
    ),
    "SageMaker": (
        "output.manifest",
        lines(SAGEMAKER),
        {"input": "s3://b/i.png", "label": "NO"},
    ),
    "Vertex AI": (
        "x.jsonl",
        lines(
            {
                "imageGcsUri": "gs://b/i.png",
                "classificationAnnotation": {"displayName": "NO"},
            }
        ),
        {"input": "gs://b/i.png", "label": "NO"},
    ),
    "Prodigy": (
        "x.jsonl",
        lines(PRODIGY, {**PRODIGY, "answer": "ignore"}),
        {"input": "t", "label": "NO"},
    ),
    "doccano": (
        "x.jsonl",
        lines(
            {"id": 0, "text": "t", "label": ["NO"], "Comments": []},
            {"id": 1, "text": "u", "label": [], "Comments": []},
        ),
        {"input": "t", "label": "NO"},
    ),
    "Argilla": (
        "x.json",
        json.dumps([ARGILLA]),
        {
            "key": "r0",
            "predicted": "YES",
            "label": "NO",
            "confidence": 0.9,
            "version": "m-1",
        },
    ),
    "Datumaro": ("x.json", json.dumps(DATUMARO), {"input": "f0", "label": "NO"}),
    "COCO": ("x.json", json.dumps(COCO), {"input": "a.png", "label": "NO"}),
    "CVAT": ("x.xml", XML % (IMAGE % ""), {"input": "f0.png", "label": "NO"}),
    "one-hot": (
        "x.csv",
        "filename, YES, NO\na.jpg, 0, 1\nb.jpg, 1, 0\n",
        {"input": "a.jpg", "label": "NO"},
    ),
    "probabilities": (
        "x.csv",
        "target,prob_YES,prob_NO\nNO,0.75,0.25\n",
        {"predicted": "YES", "label": "NO", "confidence": 0.75},
    ),
}


@pytest.mark.parametrize("tool", FILES)
def test_a_file_of_a_tool_is_read_as_it_is(tool) -> None:
    name, content, expected = FILES[tool]
    rows, report = read(content, name)
    assert not report.errors
    assert expected.items() <= rows[0].items()


@pytest.mark.parametrize("tool", FILES)
def test_the_name_of_a_file_does_not_matter(tool) -> None:
    name, content, _ = FILES[tool]
    assert read(content, "x.bin")[0] == read(content, name)[0]


def test_the_samples_of_a_log_may_be_in_a_zip_file() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", json.dumps(INSPECT_HEADER))
        for sample in SAMPLES:
            place = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(place, json.dumps(sample))
    rows, _ = read(buffer.getvalue(), "log.eval")
    assert rows == read(*FILES["inspect_ai"][1::-1])[0]
    assert [(row.get("input"), row["group"]) for row in rows] == [
        ("1", "1"),
        (None, "1"),
    ]


@pytest.mark.parametrize("damage", [0, 20, 60, 200])
def test_a_log_that_is_damaged_is_refused(damage: int) -> None:
    content = bytearray((ROOT / "tests/files/inspect_ai.eval").read_bytes())
    start = content.index(b"header.json") + len("header.json") + damage
    content[start : start + 40] = bytes(40)
    with pytest.raises(InvalidInputError, match="it is not a log of inspect_ai"):
        read(bytes(content), "log.eval")


def test_a_likelihood_for_each_choice_makes_the_likeliest_the_answer() -> None:
    sample = lm_sample([["-9.1", "False"], ["-0.4", "True"]])
    ((row,), _) = read(lines(sample), "x.jsonl", CHOICE)
    assert (row["predicted"], row["label"], row["input"]) == ("1", "1", "h")
    assert "version" not in row


def test_each_filter_is_a_version_and_what_it_did_not_find_is_no_answer() -> None:
    given = lm_sample(["[invalid]"], target="YES", filter="strict-match")
    ((row,), report) = read(lines(given), "x.jsonl")
    assert not report.errors
    assert (row["predicted"], row["version"]) == ("NO_ANSWER", "strict-match")


REFUSED = {
    "several jobs": (
        lines({**SAGEMAKER, "other-metadata": {"class-name": "YES"}}),
        "there are several jobs",
    ),
    "several questions": (
        json.dumps([{**ARGILLA, "responses": {"a": [], "b": []}}]),
        "several questions: 'a' and 'b'",
    ),
    "several outputs": (
        lines({**OPIK, "evaluation_task_output": {"a": "YES", "b": "NO"}}),
        "it must be text or a number",
    ),
    "several tags": (XML % (IMAGE % '<tag label="YES"/>'), "it has 2 tags"),
    "several objects": (
        json.dumps({**COCO, "annotations": COCO["annotations"] * 2}),
        "it has 2 objects",
    ),
    "several choices": (lines({**PRODIGY, "accept": ["YES", "NO"]}), "must be one"),
    "several marks": ("image,YES,NO\na,1,0\nb,1,1\n", "marked as of several classes"),
    "a class that is not known": (lines({**PRODIGY, "accept": ["x"]}), "one of YES"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_clear_is_refused_by_row(what) -> None:
    content, message = REFUSED[what]
    _, report = read(content, "x")
    assert message in report.errors[0].message


WHOLE = {
    "several scores": (
        lines(LANGFUSE_SCORE, {**LANGFUSE_SCORE, "name": "tone"}),
        "'right' and 'tone'",
    ),
    "other XML": ('<?xml version="1.0"?><a/>', "it is not of CVAT"),
    "an entity": (
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a/>',
        "entities",
    ),
    "broken XML": ('<?xml version="1.0"?><annotations>', "it is not XML"),
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_is_not_clear_at_all_is_refused(what) -> None:
    content, message = WHOLE[what]
    with pytest.raises(InvalidInputError) as refused:
        read(content, "x")
    assert message in str(refused.value)


def test_records_that_say_nothing_are_counted() -> None:
    rows, report = read(FILES["doccano"][1], "x.jsonl")
    assert len(rows) == 1
    assert report.notes == [
        "the file was read as texts labelled in doccano",
        "1 records have neither a prediction nor a label and were left out",
    ]


def test_a_column_that_is_named_says_that_the_file_is_read_as_it_stands() -> None:
    choices = read_choices(columns=["predicted=response"], extra="metadata")
    ((row,), _) = read(lines(TRACE), "x.jsonl", choices=choices)
    assert row["predicted"] == "YES"
    assert "label" not in row


def test_a_long_input_is_known_by_its_hash_and_kept_as_text() -> None:
    long = {**TRACE, "request": "word " * 100}
    ((row,), _) = read(lines(long), "x.jsonl")
    assert row["input"] == as_name(long["request"])
    assert row["input"].startswith("sha256:")
    assert row["metadata"]["text"] == long["request"]


def test_metadata_of_a_record_stay_nested() -> None:
    rows, _ = read(FILES["inspect_ai"][1], "x.json")
    assert rows[0]["metadata"] == {"a": 1, "epoch": 1, "input": "Is it?"}


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_column_called_source_makes_no_manifest(name) -> None:
    record = {"id": "a", "pred": "YES", "label": "NO", "source": "camera"}
    table = "\n".join([",".join(record), ",".join(record.values())])
    ((row,), _) = read(table if name == "x.csv" else lines(record), name)
    assert (row["key"], row["predicted"], row["label"]) == ("a", "YES", "NO")
    assert row["metadata"] == {"source": "camera"}


def test_a_path_goes_by_names_and_places() -> None:
    value = {"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 3}
    assert find(value, "a.b[1].c") == 2
    assert find(value, "a.b[-1].*") == 2
    assert find(value, "x.y") == 3
    assert not isinstance(find(value, "a.b[2].c"), int)


def test_every_shape_has_a_name_of_its_own_fields() -> None:
    for shape in SHAPES:
        if shape.unclear:
            continue
        assert shape.fields.keys() & {"predicted", "label"}, shape.name
        assert shape.fields.keys() & {"key", "input"}, shape.name
        assert shape.records or len(shape.has.split()) > 1, shape.name
    assert DOOR.classes == ["YES", "NO"]


def test_a_field_may_be_named_by_a_path() -> None:
    record = {"id": "a", "out": {"answer": ["YES"]}, "seen": [{"value": "NO"}]}
    choices = read_choices(columns=["predicted=out.answer", "label=seen[-1].value"])
    for content in (lines(record, record | {"id": "b"}), lines(record, {"id": "c"})):
        rows, _ = read(content, "x.jsonl", choices=choices)
        assert rows[0] == {"key": "a", "predicted": "YES", "label": "NO"}


def test_every_row_has_what_is_set() -> None:
    choices = read_choices(version="run-7", given=["sampling=random", "labeler=ann"])
    rows, report = read("id,pred,label\n1,YES,NO\n2,no,NO\n", choices=choices)
    assert not report.errors
    given = {"version": "run-7", "sampling": "random", "labeler": "ann"}
    assert [row["input"] for row in rows] == ["1", "2"]
    assert all(given.items() <= row.items() for row in rows)
    assert not any("key" in row for row in rows)


@pytest.mark.parametrize("given", ["key=a", "nothing", "version"])
def test_what_cannot_be_set_is_refused(given) -> None:
    with pytest.raises(InvalidInputError, match="set"):
        read_choices(given=[given])


def test_a_prediction_may_be_said_to_be_none() -> None:
    choices = read_choices(no_answer=["I am not sure"])
    rows, report = read("pred,label\nI am not sure,NO\nYES,YES\n", choices=choices)
    assert [row["predicted"] for row in rows] == ["NO_ANSWER", "YES"]
    assert ["predicted", "I am not sure", "NO_ANSWER", 1] in report.values


def test_a_question_that_is_asked_again_is_a_group() -> None:
    rows, _ = read("id,epoch,pred,label\n0,1,YES,YES\n0,2,NO,YES\n")
    assert [(row["group"], row["metadata"]["epoch"]) for row in rows] == [
        ("0", "1"),
        ("0", "2"),
    ]


def test_a_class_is_the_same_however_its_accents_are_encoded() -> None:
    detector = Detector(id=5, name="gate", classes=["ge\u00f6ffnet", "zu"])
    rows, _ = read("pred\ngeo\u0308ffnet\nZU\n", "x.csv", detector)
    assert [row["predicted"] for row in rows] == ["ge\u00f6ffnet", "zu"]


def test_a_long_prompt_fits_into_the_metadata() -> None:
    rows, report = read(lines({"pred": "YES", "prompt": "x" * 50_000}), "x.jsonl")
    assert not report.errors
    assert len(rows[0]["metadata"]["prompt"]) == 50_000
