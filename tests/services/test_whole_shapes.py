"""Tables of tools that are known only as a whole, and files that were read wrongly."""

import io
import json
from collections import Counter
from typing import Any

import pytest

from tests.services.test_file_kinds import read
from tests.services.test_shapes import INSPECT_HEADER, PROMPTFOO, inspect_sample
from tracker.errors import InvalidInputError
from tracker.services.imports.inspecting import Inspection, inspect
from tracker.services.imports.reading.choices import read_choices
from tracker.services.imports.reading.files import open_named
from tracker.storage.detectors import Detector

# By label and prediction.
PAIRS = [("YES", "YES"), ("NO", "YES"), ("NO", "NO"), ("YES", "NO")] * 3


def table(header: str, *cells: str) -> str:
    """Rows of PAIRS: L, P, N and R are label, prediction, number and if it is right."""
    lines = [header]
    for number, (label, predicted) in enumerate(PAIRS):
        said = {"L": label, "P": predicted, "N": str(number)}
        said["N.jpg"] = f"{number}.jpg"
        said["R"] = str(label == predicted)
        lines.append(",".join(said.get(one, one) for one in cells))
    return "\n".join([*lines, ""])


TIDYMODELS = ".pred_class,.pred_NO,.pred_YES,id,.row,{},.config"
TIMM = ("NO", "0.9", "0.1")
# Of each table what is read, by the name of the column.
WHOLE: dict[str, tuple[str, dict[str, str]]] = {
    "tidymodels": (
        table(
            TIDYMODELS.format("truth"),
            *("P", "0.4", "0.6", "train/test split", "N", "L", "M1"),
        ),
        {".row": "key", ".pred_class": "predicted", "truth": "label"},
    ),
    "an outcome with a name of its own": (
        table(
            TIDYMODELS.format("species"), *("P", "0.4", "0.6", "Fold1", "N", "L", "M1")
        ),
        {".row": "key", ".pred_class": "predicted", "species": "label"},
    ),
    "timm": (
        table("filename,label_0,label_1,prob_0,prob_1", "N.jpg", "P", *TIMM),
        {"filename": "input", "label_0": "predicted", "prob_0": "confidence"},
    ),
    "timm without labels": (
        table("filename,index_0,index_1,prob_0,prob_1", "N.jpg", "P", *TIMM),
        {"filename": "input", "index_0": "predicted", "prob_0": "confidence"},
    ),
    "logits of timm": (
        table(
            "filename,index_0,index_1,label_0,label_1,logit_0,logit_1",
            *("N.jpg", "1", "0", "P", "NO", "7.1", "2.2"),
        ),
        {"filename": "input", "label_0": "predicted"},
    ),
    "CatBoost": (
        table("SampleId,Probability,Class,Label", "N", "0.9", "P", "L"),
        {"SampleId": "key", "Class": "predicted", "Label": "label"},
    ),
    "CatBoost with a class for each probability": (
        table(
            "DocId,Probability:Class=NO,Probability:Class=YES,Class,Label,GroupId",
            *("N", "0.1", "0.9", "P", "L", "g"),
        ),
        {"DocId": "key", "Class": "predicted", "Label": "label", "GroupId": "group"},
    ),
    "deepeval": (
        table(
            "name,success,input,actual_output,expected_output,context",
            *("N", "R", "N", "P", "L", ""),
        ),
        {"input": "input", "actual_output": "predicted", "expected_output": "label"},
    ),
}
ULTRALYTICS = table("name,class,confidence", "P", "0", "0.9")


def look(content: str, name: str = "x.csv", **how: Any) -> Inspection:
    choices = read_choices(usual_extra="metadata", **how)
    file = open_named(io.BytesIO(content.encode()), name)
    return inspect(file.read_by(choices))


def widen(content: str, name: str) -> str:
    header, *lines = content.splitlines()
    more = [f"{line},{number}.5" for number, line in enumerate(lines)]
    return "\n".join([f"{header},{name}", *more, ""])


def fields(found: Inspection) -> dict[str, str]:
    return {column: field for column, field in found.columns.items() if field}


@pytest.mark.parametrize("name", WHOLE)
def test_a_table_of_a_tool_is_read_as_the_tool_means_it(name: str) -> None:
    content, expected = WHOLE[name]
    found = look(content)
    assert fields(found) == expected
    assert found.predictions == len(PAIRS)
    assert not found.proposed
    assert not found.report.bad_rows
    if "label" in expected.values() and "group" not in expected.values():
        assert found.counts == {"NO": [3, 6], "YES": [3, 6]}
    # An index without a name says nothing.
    header, *lines = content.splitlines()
    indexed = "\n".join([f",{header}", *(f"{n},{one}" for n, one in enumerate(lines))])
    assert fields(look(indexed)) == expected


@pytest.mark.parametrize("name", WHOLE)
def test_a_table_with_another_column_is_read_by_its_names(name: str) -> None:
    content, expected = WHOLE[name]
    found = look(widen(content, "mtry"))
    assert fields(found) != expected
    # As they were before any of these tables was known.
    others = {
        "tidymodels": {"id": "key", ".pred_class": "predicted", "truth": "label"},
        "CatBoost": {
            "Probability": "confidence",
            "Class": "label",
            "Label": "predicted",
        },
        "timm": {},
        "deepeval": {"input": "input", "success": "label"},
    }
    assert fields(found) == others.get(name, fields(found))


def test_a_list_of_results_is_read_as_their_table() -> None:
    rows = [
        {"input": f"q{n}", "actual_output": p, "expected_output": e, "success": e == p}
        for n, (e, p) in enumerate(PAIRS)
    ]
    expected = WHOLE["deepeval"][1]
    assert fields(look(json.dumps(rows), "x.json")) == expected
    # One further name in one record is enough.
    rows[-1]["reviewer"] = "Ann"
    assert fields(look(json.dumps(rows), "x.json")) != expected


def test_named_columns_go_before_those_of_a_shape() -> None:
    content = WHOLE["CatBoost"][0]
    named = ["predicted=Label", "label=Class"]
    assert fields(look(content, columns=named)) == {
        "SampleId": "key",
        "Class": "label",
        "Label": "predicted",
    }


def test_classes_that_are_numbers_are_no_columns_of_timm() -> None:
    content = table(
        "filename,index_0,index_1,prob_0,prob_1", "N.jpg", "1", "0", "0.9", "0.1"
    )
    bits = Detector(id=4, name="bits", classes=["0", "1"])
    rows, _ = read(content, detector=bits)
    assert Counter(row["predicted"] for row in rows) == {"1": len(PAIRS)}
    assert all(row["confidence"] == 0.9 for row in rows)


def test_the_rows_of_a_run_are_its_inputs() -> None:
    content = WHOLE["tidymodels"][0]
    rows, _ = read(content, choices=read_choices(version="v2", usual_extra="metadata"))
    assert [row["input"] for row in rows] == [str(n) for n in range(len(PAIRS))]
    assert all("key" not in row for row in rows)


def test_answers_without_what_they_are_of_are_asked_about() -> None:
    records = [{"name": "YES", "class": 0, "confidence": 0.9, "box": {"x1": 1}}]
    for content, name in ((ULTRALYTICS, "x.csv"), (json.dumps(records), "x.json")):
        with pytest.raises(InvalidInputError, match="as in map predicted=name"):
            look(content, name)
    found = look(ULTRALYTICS, columns=["predicted=name"])
    assert fields(found) == {"name": "predicted", "confidence": "confidence"}
    assert not found.labels
    content = widen(ULTRALYTICS, "file")
    read_before = {"file": "input", "class": "label", "confidence": "confidence"}
    assert fields(look(content)) == read_before


@pytest.mark.parametrize(
    "name",
    ["y_true", "true", "ground_truth", "target", "actual", "gold", "truth", "expected"],
)
def test_the_truth_beside_a_confidence_is_no_prediction(name: str) -> None:
    found = look(table(f"image,{name},score", "N.jpg", "L", "0.9"))
    assert fields(found)[name] == "label"
    assert (found.predictions, found.references) == (0, len(PAIRS))
    content = table(f"file,name,class,confidence,{name}", "N", "P", "0", "0.9", "L")
    assert fields(look(content)).get(name, "label") == "label"


@pytest.mark.parametrize("name", ["true_class", "ground_truth", "target"])
def test_classes_beside_a_truth_and_a_confidence_are_proposed(name: str) -> None:
    found = look(table(f"image,{name},class,confidence", "N.jpg", "L", "P", "0.9"))
    assert found.proposed == {"predicted": "class"}
    assert found.counts == {"NO": [3, 6], "YES": [3, 6]}
    # Of two that could be it, none is taken, and both are named.
    content = table(f"image,{name},kind,sort,score", "N.jpg", "L", "P", "R", "0.9")
    found = look(content)
    assert not found.proposed
    assert "classes are also in kind and sort, not read" in found.report.warnings[0]


@pytest.mark.parametrize(
    "name", ["Gesamtergebnis", "\u03a3", "Marginal", "Grand Total"]
)
def test_sums_beside_a_matrix_are_no_class(name: str) -> None:
    matrix = f",YES,NO,{name}\nYES,2,2,4\nNO,1,7,8\n{name},3,9,{{}}\n"
    rows, report = read(matrix.format(12))
    assert len(rows) == 12
    assert not report.errors
    # A class may be called so, too.
    three = Detector(id=9, name="x", classes=["YES", "NO", name])
    rows, _ = read(matrix.format(11), detector=three)
    assert len(rows) == 47


CONTAINS = {"type": "contains", "value": "NO"}
VARIABLE = {"type": "equals", "value": "{{ class }}"}
RUBRIC = {"type": "llm-rubric", "value": "{{ text }}"}


def promptfoo(*tests: dict[str, str]) -> str:
    case = {"vars": {"text": "t", "class": "YES"}, "testCase": {"assert": tests}}
    return json.dumps({"results": {"results": [{**PROMPTFOO, **case}]}})


def test_only_what_an_answer_must_equal_is_the_truth_of_promptfoo() -> None:
    [row], _ = read(promptfoo(CONTAINS, RUBRIC, VARIABLE), "x.json")
    assert (row["label"], row["input"]) == ("YES", "t")
    [row], _ = read(promptfoo(RUBRIC), "x.json")
    assert "label" not in row
    rows, report = read(promptfoo(RUBRIC, CONTAINS), "x.json")
    assert not rows
    [error] = report.errors
    assert error.message.endswith("map label=testCase.assert[1].value")
    choices = read_choices(columns=["label=testCase.assert[1].value"])
    [row], _ = read(promptfoo(RUBRIC, CONTAINS), "x.json", choices=choices)
    assert (row["label"], row["predicted"]) == ("NO", "NO")


def test_scorers_that_read_other_answers_are_asked_about() -> None:
    sample = inspect_sample(1, 1, "Yes")
    sample["scores"]["model"] = {"value": "I", "answer": "No"}
    same = inspect_sample(2, 1, "Yes")
    same["scores"]["model"] = {"value": "I", "answer": "yes"}
    content = json.dumps({**INSPECT_HEADER, "samples": [sample, same]})
    rows, report = read(content, "x.json")
    assert [row["predicted"] for row in rows] == ["YES"]
    assert "map predicted=scores.match.answer" in report.errors[0].message
    choices = read_choices(columns=["predicted=scores.model.answer"])
    rows, report = read(content, "x.json", choices=choices)
    assert not report.errors
    assert [row["predicted"] for row in rows] == ["NO", "YES"]
    assert [row["label"] for row in rows] == ["YES", "YES"]
