"""Files that were read without a word, and wrongly; and those refused with a reason."""

import io
import json
from typing import Any

import pytest

from tests.services.test_file_kinds import DOOR, read
from tests.services.test_guessing import lines
from tests.services.test_shapes import INSPECT_HEADER, PROMPTFOO, inspect_sample
from tracker.errors import InvalidInputError
from tracker.services.imports.inspecting import inspect
from tracker.services.imports.reading.choices import read_choices
from tracker.services.imports.reading.files import open_named
from tracker.storage.detectors import Detector

NUMBERS = range(12)
TIDYMODELS = ".pred_YES,.pred_NO,id,.row,.pred_class,truth,.config\n" + "".join(
    f"0.9,0.1,train/test split,{one},YES,NO,Preprocessor1_Model1\n" for one in NUMBERS
)
WEKA = "inst#,actual,predicted,error,prediction\n1,2:NO,1:YES,+,0.9\n"
TIMM: dict[str, Any] = {
    "top1.csv": "filename,label,prob\na.png,YES,0.9\n",
    "top2.csv": "filename,index_0,index_1,label_0,label_1,prob_0,prob_1\n"
    "a.png,1,0,YES,NO,0.9,0.1\n",
    "top1.json": json.dumps({"a.png": {"label": "YES", "prob": 0.9}}),
    "top2.json": json.dumps(
        {
            one: {"label": ["YES", "NO"], "prob": [0.9, 0.1]}
            for one in ("a.png", "b.png")
        }
    ),
    "columns.json": json.dumps(
        {"a.png": {"label_0": "YES", "label_1": "NO", "prob_0": 0.9, "prob_1": 0.1}}
    ),
    "top2.jsonl": lines(
        {"filename": "a.png", "label": ["YES", "NO"], "prob": [0.9, 0.1]}
    ),
    "split.json": json.dumps(
        {"columns": ["filename", "label", "prob"], "data": [["a.png", "YES", 0.9]]}
    ),
    "zero-shot.json": json.dumps(
        [{"sequence": "a.png", "labels": ["YES", "NO"], "scores": [0.9, 0.1]}]
    ),
}


@pytest.mark.parametrize("name", TIMM)
def test_the_likeliest_answer_about_an_image_is_the_prediction(name: str) -> None:
    [row, *_], report = read(TIMM[name], name)
    assert not report.errors
    said = (row["input"], row["predicted"], row["confidence"])
    assert said == ("a.png", "YES", 0.9)
    assert "label" not in row


def test_an_id_that_is_the_same_in_all_rows_is_no_key() -> None:
    rows, _ = read(TIDYMODELS)
    assert [row["key"] for row in rows] == list(map(str, NUMBERS))
    content = "".join(f"fold {one // 20},YES,NO\n" for one in range(60))
    rows, report = read(f"id,pred,label\n{content}")
    assert all("key" not in row for row in rows)
    assert [row["metadata"] for row in rows[::20]] == [
        {"id": f"fold {one}"} for one in range(3)
    ]
    assert report.warnings == [
        "the column 'id' hardly ever differs and is not read as the key"
    ]


def test_an_item_that_many_people_label_keeps_its_key() -> None:
    content = "".join(f"a,ann {one},YES,NO\n" for one in NUMBERS)
    rows, report = read(f"item_id,annotator,pred,label\n{content}")
    assert {row["key"] for row in rows} == {"a"}
    assert not report.warnings


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "model,top1,top1_err,top5\nresnet50,80.4,19.6,94.6\n"),
        ("x.csv", ",precision,recall,f1-score,support\nNO,0.9,0.9,0.9,8\n"),
        ("x.txt", "      precision    recall  f1-score   support\n\n NO 0.9 0.9 0.9\n"),
        ("x.csv", "epoch,accuracy,loss,val_loss\n0,0.9,0.3,0.4\n"),
        (
            "x.json",
            json.dumps({"NO": {"precision": 0.9, "recall": 0.9}, "accuracy": 0.9}),
        ),
    ],
)
def test_scores_of_an_evaluation_are_no_rows(name: str, content: str) -> None:
    with pytest.raises(InvalidInputError, match="scores of an evaluation, not its"):
        read(content, name)


def test_columns_between_blanks_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be separated by commas"):
        read("a.png YES\nb.png NO\n")


def test_labels_by_key_are_said_and_may_be_predictions() -> None:
    rows, report = read("id,label\n1,YES\n2,NO\n")
    assert [row["label"] for row in rows] == ["YES", "NO"]
    assert report.notes == [
        "the file was read as labels by key; for predictions add --map "
        "predicted=label, for labels of inputs --map input=id"
    ]
    rows, report = read("id,label,score\n1,YES,0.9\n2,NO,0.8\n")
    assert [row["predicted"] for row in rows] == ["YES", "NO"]


def test_a_column_that_may_be_the_key_is_named() -> None:
    _, report = read("PassengerId,Survived\n892,YES\n893,NO\n894,NO\n")
    assert report.warnings == [
        "labels need a key or an input; if 'PassengerId' holds keys, add --map "
        "key=PassengerId"
    ]


def test_three_columns_of_classes_are_asked_about() -> None:
    rest = "YES,NO,YES\nNO,NO,YES\n" * 2
    _, report = read(f"Forest,Logistic Regression,iris\n{rest}")
    assert report.warnings[0].startswith(
        "nothing says which of the columns Forest and Logistic Regression and iris is"
    )


@pytest.mark.parametrize("title", ["", "=== Predictions on test data ===\n\n"])
def test_weka_numbers_its_classes(title: str) -> None:
    [row], _ = read(title + WEKA)
    assert (row["label"], row["predicted"], row["confidence"]) == ("NO", "YES", 0.9)


def test_only_what_an_answer_must_equal_is_the_truth_of_promptfoo() -> None:
    def labels(asserted: list[dict[str, str]], **more: str) -> list[str | None]:
        case = {"vars": {"text": "t", **more}, "testCase": {"assert": asserted}}
        found = {"results": {"results": [{**PROMPTFOO, **case}]}}
        [row], _ = read(json.dumps(found), "x.json")
        return [row.get("label"), row["input"]]

    contains = {"type": "contains", "value": "NO"}
    assert labels([contains]) == [None, "t"]
    assert labels([contains, {"type": "equals", "value": "YES"}]) == ["YES", "t"]
    variable = {"type": "equals", "value": "{{ class }}"}
    assert labels([variable], **{"class": "YES"}) == ["YES", "t"]


def test_scorers_that_read_other_answers_are_asked_about() -> None:
    sample = inspect_sample(1, 1, "Yes")
    sample["scores"]["model"] = {"value": "I", "answer": "No"}
    same = inspect_sample(2, 1, "Yes")
    same["scores"]["model"] = {"value": "I", "answer": "Yes"}
    content = json.dumps({**INSPECT_HEADER, "samples": [sample, same]})
    rows, report = read(content, "x.json")
    assert [row["predicted"] for row in rows] == ["YES"]
    assert "map predicted=scores.match.answer" in report.errors[0].message
    choices = read_choices(columns=["predicted=scores.model.answer"])
    rows, report = read(content, "x.json", choices=choices)
    assert not report.errors
    assert [row["predicted"] for row in rows] == ["NO", "YES"]
    assert [row["label"] for row in rows] == ["YES", "YES"]


def test_a_table_of_two_numbers_a_class_is_no_prediction() -> None:
    with pytest.raises(InvalidInputError, match="its classes above it and before it"):
        read("7,1\n1,3\n", detector=Detector(id=4, name="x", classes=DOOR.classes))


def table(header: str, *cells: str) -> str:
    """Rows of PAIRS twice, in which L and P stand for label and prediction."""
    rows = [
        ",".join({"L": label, "P": predicted}.get(one, one) for one in cells)
        for label, predicted in PAIRS * 2
    ]
    return "\n".join([header, *rows, ""])


PAIRS = [("YES", "YES"), ("NO", "YES")]
RIGHT = {"label": "NO", "predicted": "YES"}
TOOLS: dict[str, tuple[str, dict[str, str | None]]] = {
    "deepeval.csv": (
        table("input,success,actual_output,expected_output", "t", "true", "P", "L"),
        RIGHT,
    ),
    "h2o.csv": (table("predict,NO,YES,actual", "P", "0.6", "0.4", "L"), RIGHT),
    "catboost.tsv": (
        "SampleId\tProbability\tClass\tLabel\n0\t0.9\tYES\tNO\n",
        {**RIGHT, "confidence": None, "key": "0"},
    ),
    "langsmith.csv": (
        table("outputs.label,reference.label,feedback.correct", "P", "L", "1"),
        RIGHT,
    ),
    "vertex.csv": (
        table("reference,response,exact_match/score", "L", "P", "1"),
        {**RIGHT, "confidence": None},
    ),
    "ultralytics.csv": (
        "image,name,class,confidence\na.png,YES,0,0.9\n",
        {"input": "a.png", "predicted": "YES", "label": None},
    ),
    "openimages.csv": (
        table("ImageID,LabelName,Confidence", "a", "P", "0.9"),
        {"predicted": "YES", "label": None},
    ),
    "right.csv": (table("pred,correct", "P", "YES"), {"label": None}),
    "appen.csv": (
        table("text,_golden,sentiment", "t", "NO", "P"),
        {"label": "YES", "input": "t"},
    ),
    "toloka.tsv": (
        "INPUT:image\tOUTPUT:result\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\n"
        "a.png\tYES\tt1\tw1\n",
        {"label": "YES", "key": "t1", "labeler": "w1", "predicted": None},
    ),
    "scale.json": (
        json.dumps(
            [
                {
                    "task_id": "t",
                    "params": {"attachment": "a.png"},
                    "response": {"category": "YES"},
                }
            ]
        ),
        {"label": "YES", "input": "a.png", "predicted": None},
    ),
    "batch.jsonl": (
        lines(
            {
                "custom_id": "q1",
                "response": {
                    "body": {"model": "m", "choices": [{"message": {"content": "YES"}}]}
                },
            }
        ),
        {"input": "q1", "predicted": "YES", "version": "m"},
    ),
    "promptfoo.jsonl": (
        lines({**PROMPTFOO, "promptIdx": 0, "score": 1}),
        {"label": "YES", "predicted": "NO", "confidence": None},
    ),
    "columns.json": (
        json.dumps(
            {"y_true": ["NO"], "y_pred": ["YES"], "accuracy": 0.0, "model": "m"}
        ),
        RIGHT,
    ),
    "argilla.json": (
        json.dumps(
            [{"id": str(n), "status": "YES", "label.suggestion": n} for n in NUMBERS]
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", TOOLS)
def test_columns_are_what_the_tool_means(name: str) -> None:
    content, expected = TOOLS[name]
    rows, report = read(content, name)
    assert bool(rows) == bool(expected)
    if rows:
        assert not report.errors
        assert {one: rows[-1].get(one) for one in expected} == expected


def test_a_key_with_two_predictions_is_said_before_it_is_refused() -> None:
    content = b"id,model,pred,label\na,m,YES,YES\nb,m,NO,NO\na,n,NO,YES\n"
    choices = read_choices(usual_extra="metadata")
    file = open_named(io.BytesIO(content), "x.csv").read_by(choices)
    report = inspect(file, detector=DOOR).report
    assert report.bad_rows == 1
    assert "the key 'a' occurs twice" in report.errors[0].message
    _, report = read(content, choices=choices)
    assert "add --map version=model" in report.warnings[0]
