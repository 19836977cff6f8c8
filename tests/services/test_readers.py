"""Every reader has a fixture, a line in the guide and a test of what it refuses.

The readers are walked from their registries, so that a new one cannot be forgotten.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.processes import ROOT
from tests.services.test_file_kinds import as_excel, read
from tests.services.test_shapes import (
    ARGILLA,
    CHOICE,
    COCO,
    DATUMARO,
    FILES,
    INSPECT_HEADER,
    LANGFUSE_SCORE,
    OPIK,
    PRODIGY,
    PROMPTFOO,
    SAGEMAKER,
    SAMPLES,
    TRACE,
    XML,
    lines,
    lm_sample,
)
from tracker.errors import InvalidInputError
from tracker.services.imports.reading.documents import DOCUMENTS
from tracker.services.imports.reading.files import BY_SUFFIX
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.storage.detectors import Detector

GUIDE = Path(ROOT / "docs" / "importing.md").read_text()
FOLDER = ROOT / "tests" / "files"
WORDS = Detector(id=9, name="words", classes=["yes", "no"])
# Two answers where there must be one, and what is said of them.
TWO = ["YES", "NO"]
TWO_SAID = {"response": {"output": TWO}}
NO_TEXT = "it must be text or a number"
REFERENCE = {"output": {"text": "YES"}, "tags": ["correct"]}
INSTANCE = {"input": {"text": "q"}, "references": [REFERENCE], "id": "id1"}
STATE = {"instance": INSTANCE, "result": {"completions": [{"text": "YES"}]}}
PREDICTION = {"instance_id": "id1", "predicted_text": "YES", "stats": {}}
VERTEX = {
    "instance": {"content": "gs://a"},
    "prediction": {"displayNames": ["NO", "YES"], "confidences": [0.1, 0.9]},
}
EVALS = {"spec": {"eval_name": "t", "run_config": {}, "completion_fns": ["m"]}}
SPAN = {"context.span_id": "sp0", "attributes.output.value": "YES", "label": "NO"}


def helm(**more: Any) -> str:
    instance = INSTANCE | more
    states = [STATE | {"instance": instance}]
    return json.dumps({"adapter_spec": {"model": "m"}, "request_states": states})


class Reader(NamedTuple):
    """What one reader is tried with."""

    # A file of the tool or of its documentation, or what such a file holds.
    fixture: Path | str
    # What the guide calls it.
    said: str
    wrong: str | bytes
    message: str


def tool(name: str) -> str:
    return FILES[name][1]


READERS = {
    # Kinds of files.
    "csv": Reader(FOLDER / "pandas.csv", "CSV", "pred\nYES,NO\n", "has 2 cells"),
    "jsonl": Reader(FOLDER / "pandas.jsonl", "JSON Lines", "{}\n{,\n{}", "not right"),
    "json": Reader(FOLDER / "pandas-records.json", "JSON", '[{"a": 1}', "not JSON"),
    "parquet": Reader(FOLDER / "pandas.parquet", "Parquet", b"PAR1", "not Parquet"),
    "arrow": Reader(FOLDER / "datasets.arrow", "Arrow", b"ARROW1\0\0", "not Arrow"),
    "xlsx": Reader(FOLDER / "pandas.xlsx", "Excel", as_excel([]), "is empty"),
    "xml": Reader(tool("CVAT"), "CVAT", XML.replace("annotations", "a"), "of CVAT"),
    # Documents.
    "tasks of Label Studio": Reader(
        FOLDER / "label-studio.json",
        "Label Studio",
        json.dumps(
            [
                {
                    "data": {"key": "a"},
                    "annotations": [{"result": [{"value": {"choices": TWO}}]}],
                }
            ]
        ),
        "there must be one choice",
    ),
    "a list of rows": Reader(
        FOLDER / "mlflow-table.json", "JSON", '["YES"]', "it must be a JSON object"
    ),
    "rows of the API": Reader(
        '{"items": [{"key": "a", "predicted": "YES"}]}',
        "POST /api/v1/detectors/{id}/import",
        '{"items": [], "more": 1}',
        "not a known field beside items",
    ),
    "a table of pandas": Reader(
        FOLDER / "pandas-table.json",
        "`to_json` in any orientation",
        '{"schema": {}, "data": [1]}',
        "it must be a JSON object",
    ),
    "a table of MLflow or Weights & Biases": Reader(
        FOLDER / "wandb.table.json",
        "Weights & Biases",
        '{"columns": ["a"], "data": [[1, 2]]}',
        "a list of 1 values",
    ),
    "labels of FiftyOne": Reader(
        FOLDER / "fiftyone-labels.json",
        "FiftyOne",
        '{"classes": ["YES"], "labels": {"a": 1}}',
        "less than 1",
    ),
    "rows inside a document": Reader(
        '{"run": {"cases": [{"pred": "YES", "label": "NO"}]}}',
        "the only list of objects in a document",
        '{"run": {"cases": [{"pred": ["YES", "NO"]}]}}',
        NO_TEXT,
    ),
    "columns or labels by key": Reader(
        FOLDER / "pandas-columns.json",
        "A JSON object such as",
        '{"pred": ["YES"], "label": []}',
        "equally long",
    ),
    # Records.
    "a log of inspect_ai": Reader(
        FOLDER / "inspect_ai.eval",
        "inspect_ai",
        json.dumps({**INSPECT_HEADER, "samples": [SAMPLES[0] | {"target": TWO}]}),
        NO_TEXT,
    ),
    "samples of lm-evaluation-harness": Reader(
        FOLDER / "lm_eval-choice.jsonl",
        "lm-evaluation-harness",
        lines(lm_sample([["nan", "False"], ["-1", "True"]])),
        "a likelihood is not a number",
    ),
    "a scenario state of HELM": Reader(
        helm(), "HELM", helm(references=[REFERENCE] * 2), "2 correct references"
    ),
    "instances of HELM": Reader(
        json.dumps([INSTANCE]),
        "`instances.json`",
        json.dumps([INSTANCE | {"references": [REFERENCE] * 2}]),
        "2 correct references",
    ),
    "predictions of HELM": Reader(
        json.dumps([PREDICTION]),
        "`display_predictions.json`",
        json.dumps([PREDICTION | {"predicted_text": TWO}]),
        NO_TEXT,
    ),
    "results of promptfoo": Reader(
        FOLDER / "promptfoo.json",
        "promptfoo",
        json.dumps(
            {"results": {"results": [PROMPTFOO | {"response": {"output": TWO}}]}}
        ),
        NO_TEXT,
    ),
    "a log of OpenAI evals": Reader(
        FOLDER / "samples" / "openai_evals.jsonl",
        "OpenAI evals",
        lines(EVALS, {"type": "match", "sample_id": "a", "data": {"picked": TWO}}),
        NO_TEXT,
    ),
    "a test run of deepeval": Reader(
        FOLDER / "deepeval.json",
        "deepeval",
        json.dumps({"testCases": [{"input": "q", "expectedOutput": TWO}]}),
        NO_TEXT,
    ),
    "scores of Langfuse": Reader(
        FOLDER / "samples" / "langfuse_scores.jsonl",
        "Langfuse",
        lines(LANGFUSE_SCORE, LANGFUSE_SCORE | {"name": "tone"}),
        "'right' and 'tone'",
    ),
    "items with an expected output, such as those of Langfuse": Reader(
        tool("items of Langfuse"),
        "dataset items",
        lines({"input": "q", "expectedOutput": TWO}),
        NO_TEXT,
    ),
    "items of an experiment of Opik": Reader(
        tool("Opik"),
        "Opik",
        lines(OPIK | {"evaluation_task_output": {"a": "YES", "b": "NO"}}),
        NO_TEXT,
    ),
    "rows of a LangSmith experiment": Reader(
        tool("LangSmith"),
        "LangSmith",
        lines({"inputs": "q", "outputs": TWO, "reference_outputs": "YES"}),
        NO_TEXT,
    ),
    "an evaluation of MLflow": Reader(
        tool("an evaluation of MLflow"),
        "MLflow",
        lines({"inputs": "q", "outputs": TWO, "expectations": "YES"}),
        NO_TEXT,
    ),
    "traces of MLflow": Reader(
        FOLDER / "mlflow-traces.jsonl",
        "traces",
        lines(TRACE | {"response": TWO}),
        NO_TEXT,
    ),
    "spans of Phoenix": Reader(
        FOLDER / "phoenix.csv",
        "Phoenix",
        lines(SPAN | {"label": TWO}),
        NO_TEXT,
    ),
    "an evaluation of Ragas": Reader(
        FOLDER / "ragas.csv",
        "Ragas",
        lines({"user_input": "q", "response": TWO, "reference": "YES"}),
        NO_TEXT,
    ),
    "an output manifest of SageMaker Ground Truth": Reader(
        FOLDER / "samples" / "sagemaker_output.manifest",
        "SageMaker",
        lines(SAGEMAKER | {"other-metadata": {"class-name": "YES"}}),
        "there are several jobs",
    ),
    "a data set of Vertex AI": Reader(
        tool("Vertex AI"),
        "Vertex AI",
        lines({"textContent": "a", "classificationAnnotation": {"displayName": TWO}}),
        NO_TEXT,
    ),
    "batch predictions of Vertex AI": Reader(
        lines(VERTEX),
        "Vertex AI batch predictions",
        lines(VERTEX | {"prediction": {"displayNames": [TWO], "confidences": [1]}}),
        NO_TEXT,
    ),
    "results of COCO": Reader(
        json.dumps([{"image_id": 7, "category_id": "YES", "score": 0.9}]),
        "results of COCO",
        json.dumps([{"image_id": 7, "category_id": "YES", "score": 9}]),
        "a number from 0 to 1",
    ),
    "predictions of tidymodels": Reader(
        ".pred_class,.pred_YES,id,.row,truth,.config\nYES,0.9,Fold1,1,NO,M1\n",
        "tidymodels",
        ".pred_class,.pred_YES,id,.row,truth,.config\nYES,0.9,Fold1,1,[],M1\n",
        "'[]' is not right",
    ),
    "predictions of timm": Reader(
        "filename,label_0,label_1,prob_0,prob_1\na.png,YES,NO,0.9,0.1\n",
        "timm",
        "filename,label_0,label_1,prob_0,prob_1\na.png,YES,NO,9,1\n",
        "a number from 0 to 1",
    ),
    "predictions of CatBoost": Reader(
        "SampleId\tProbability\tClass\tLabel\n0\t0.9\tYES\tNO\n",
        "CatBoost",
        json.dumps([{"SampleId": 0, "Class": TWO, "Label": "NO"}]),
        NO_TEXT,
    ),
    "results of deepeval": Reader(
        "input,success,actual_output,expected_output\nq,False,YES,NO\n",
        "`TestResult`",
        json.dumps([{"input": "q", "actual_output": TWO, "expected_output": "NO"}]),
        NO_TEXT,
    ),
    "annotations of Prodigy": Reader(
        FOLDER / "samples" / "prodigy_choice.jsonl",
        "Prodigy",
        lines(PRODIGY | {"accept": TWO}),
        "must be one",
    ),
    "texts labelled in doccano": Reader(
        FOLDER / "samples" / "doccano.jsonl",
        "doccano",
        lines({"id": 0, "text": "t", "label": TWO, "Comments": []}),
        NO_TEXT,
    ),
    "records of Argilla": Reader(
        FOLDER / "argilla.json",
        "Argilla",
        json.dumps([ARGILLA | {"responses": {"a": [], "b": []}}]),
        "several questions",
    ),
    "a data set of Datumaro": Reader(
        FOLDER / "datumaro.json",
        "Datumaro",
        json.dumps(
            DATUMARO | {"items": [{"id": "f", "annotations": [{"type": "label"}] * 2}]}
        ),
        "it has 2 labels",
    ),
    "a data set of COCO": Reader(
        tool("COCO"),
        "COCO",
        json.dumps(COCO | {"annotations": COCO["annotations"] * 2}),
        "it has 2 objects",
    ),
}


# They are read by the names of their columns.
TABLES = {"spans of Phoenix", "an evaluation of Ragas"} | {
    shape.name for shape in SHAPES if shape.others
}


def test_every_reader_is_tried_here() -> None:
    shapes = [shape.name for shape in SHAPES if not shape.unclear]
    assert {*shapes, *DOCUMENTS, *BY_SUFFIX.values()} == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_finds_the_labels_and_predictions_of_its_fixture(name: str) -> None:
    fixture = READERS[name].fixture
    detector = CHOICE if "lm-eval" in name else WORDS
    if isinstance(fixture, str):
        rows, report = read(fixture, "x", detector)
    else:
        rows, report = read(fixture.read_bytes(), fixture.name, detector)
    assert rows
    assert not report.errors
    assert all(row.keys() & {"predicted", "label"} for row in rows)
    if name in {shape.name for shape in SHAPES} and name not in TABLES:
        assert f"the file was read as {name}" in report.notes


@pytest.mark.parametrize("name", READERS)
def test_the_guide_names_what_a_reader_reads(name: str) -> None:
    assert READERS[name].said in GUIDE


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_what_is_not_clear(name: str) -> None:
    _, _, wrong, message = READERS[name]
    try:
        problems = str(read(wrong, "x")[1].errors)
    except InvalidInputError as error:
        problems = str(error)
    assert message in problems
