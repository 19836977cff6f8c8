"""Files of which nobody said how they are read: by words of names and by content."""

import io
import json
import zipfile
from collections import Counter

import openpyxl
import pytest

from tests.services.test_file_kinds import DOOR, read
from tracker.errors import InvalidInputError
from tracker.services.imports.inspecting import inspect
from tracker.services.imports.reading.choices import Choices, read_choices
from tracker.services.imports.reading.files import open_named


def lines(*items: object) -> str:
    return "\n".join(map(json.dumps, items))


PAIRS = [("YES", "YES"), ("NO", "YES")]
ROWS = [dict(zip(("l", "p"), pair, strict=True)) for pair in PAIRS]


def table(header: str, *rest: str) -> str:
    rows = [",".join([pair["p"], pair["l"], *rest]) for pair in ROWS]
    return "\n".join([header, *rows, ""])


# What a file says, each with the predictions and the labels of PAIRS.
FILES = {
    "arize.csv": table("prediction_label,actual_label,prediction_score", "0.7"),
    "azure.csv": table("Scored Labels,Class,Scored Probabilities", "0.8"),
    "answers.csv": table("model_answer,correct_answer"),
    "completions.csv": table("completion,ideal"),
    "camel.csv": table("predictedLabel,trueLabel,prediction_id", "7"),
    "hypotheses.csv": table("hypothesis,reference"),
    "expected.csv": table("actual,expected"),
    "german.csv": table("Vorhersage,Wahrheit"),
    "tatsächlich.csv": table("Prognose,Tatsächlich"),
    "ist-zustand.csv": table("Prognose,Ist-Zustand"),
    "soll.csv": table("Ist,Soll"),
    "people.csv": table("Model Prediction,Human Label"),
    "annotated.csv": table("predicted_class,annotated_class"),
    "automatic.csv": table("Label (auto),Label (manual)"),
    "lists.jsonl": lines(*({"preds": [o["p"]], "labels": [o["l"]]} for o in ROWS)),
    "deep.json": json.dumps(
        {
            "meta": {"model": "m", "rows": 2},
            "run": {"cases": [{"pred": o["p"], "gold": o["l"]} for o in ROWS]},
        }
    ),
    "columns.json": json.dumps(
        {
            "results": {
                "predictions": [one["p"] for one in ROWS],
                "targets": [one["l"] for one in ROWS],
            }
        }
    ),
    "langsmith.csv": table("outputs.output,reference_outputs.answer,error", ""),
    "statsmodels.csv": table("y_hat,y"),
    "titles.csv": "Report of May\nby Ann\n" + table("pred,gt"),
    "nested.jsonl": lines(
        *(
            {
                "prediction": {"label": one["p"], "score": 0.8},
                "ground_truth": {"label": one["l"]},
            }
            for one in ROWS
        )
    ),
    "pipeline.jsonl": lines(
        *(
            {
                "prediction": [
                    {"label": "no", "score": 0.2},
                    {"label": one["p"], "score": 0.8},
                ],
                "target": [one["l"]],
            }
            for one in ROWS
        )
    ),
    "softmax.jsonl": lines(
        *({"probabilities": {"YES": 0.9, "NO": 0.1}, "label": one["l"]} for one in ROWS)
    ),
    "braintrust.json": json.dumps(
        [
            {
                "id": str(number),
                "input": {"a": 1, "b": number},
                "output": one["p"],
                "expected": one["l"],
                "scores": {"Exact": 0.4},
            }
            for number, one in enumerate(ROWS)
        ]
    ),
    "results.json": json.dumps(
        {"of": "m", "results": [{"prediction": o["p"], "gold": o["l"]} for o in ROWS]}
    ),
    "counts.csv": "actual,predicted,count\nYES,YES,1\nYES,NO,0\nNO,YES,1\nNO,NO,0\n",
    "matrix.csv": ",YES,NO\nYES,1,0\nNO,1,0\n",
    "turned.csv": "predicted,YES,NO\nYES,1,1\nNO,0,0\n",
    "helm.json": json.dumps(
        {
            "adapter_spec": {"model": "m"},
            "request_states": [
                {
                    "instance": {
                        "id": f"id{number}",
                        "references": [
                            {"output": {"text": one["l"]}, "tags": ["correct"]},
                            {"output": {"text": "other"}, "tags": []},
                        ],
                    },
                    "output_mapping": {"A": one["p"], "B": "other"},
                    "result": {"completions": [{"text": " A"}]},
                }
                for number, one in enumerate(ROWS)
            ],
        }
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_predictions_and_labels_are_found(name: str) -> None:
    rows, report = read(FILES[name], name)
    assert not report.errors
    assert [(row.get("label"), row.get("predicted")) for row in rows] == PAIRS
    if name in {"nested.jsonl", "pipeline.jsonl"}:
        assert {row["confidence"] for row in rows} == {0.8}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", json.dumps([{"label": "YES", "score": 0.9}])),
        ("x.json", json.dumps([[{"label": "YES", "score": 0.9}]])),
        ("x.csv", "filename,label,prob\na.png,YES,0.9\n"),
        (
            "x.jsonl",
            lines(
                {
                    "instance": {"content": "gs://a"},
                    "prediction": {
                        "displayNames": ["NO", "YES"],
                        "confidences": [0.1, 0.9],
                    },
                }
            ),
        ),
        (
            "x.json",
            json.dumps([{"image_id": 7, "category_id": "YES", "score": 0.9}]),
        ),
    ],
)
def test_answers_without_a_truth_are_predictions(name: str, content: str) -> None:
    [row], report = read(content, name)
    assert not report.errors
    assert (row["predicted"], row["confidence"]) == ("YES", 0.9)
    assert "label" not in row


@pytest.mark.parametrize(
    "header",
    [
        "pred,reference_image",
        "pred,is_correct",
        "pred,correct_url",
        "pred,true_a,true_b",
    ],
)
def test_other_columns_are_no_labels(header: str) -> None:
    more = ",".join("c.png" for _ in header.split(",")[1:])
    rows, report = read(f"{header}\nYES,{more}\nNO,{more}\n")
    assert not report.errors
    assert all("label" not in row for row in rows)


def test_a_number_for_each_metric_is_no_prediction() -> None:
    content = lines({"pred": "YES", "scores": {"a": 0.1, "b": 0.9}})
    [row], report = read(content, "x.jsonl")
    assert not report.errors
    assert row["predicted"] == "YES"
    assert "confidence" not in row


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["Cover"])
    sheet = book.create_sheet("Data")
    for line in (
        ["Evaluation of May", None, None],
        [],
        ["ID", "Prediction", "Truth"],
        [1, "YES", "YES"],
        [],
        [2, "YES", "NO"],
    ):
        sheet.append(line)
    sheet.merge_cells("A1:C1")
    other = book.create_sheet("Other")
    for line in (["no", "table"], ["key", "pred"], ["z", "NO"]):
        other.append(line)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_titles_above_a_sheet_are_said_and_passed_over() -> None:
    rows, report = read(workbook(), "x.xlsx")
    assert [(row["key"], row["label"], row["predicted"]) for row in rows] == [
        ("1", "YES", "YES"),
        ("2", "NO", "YES"),
    ]
    assert "the sheet Data was read, one of 3" in report.notes
    assert any("'Evaluation of May' as a title" in note for note in report.notes)


def test_a_sheet_and_a_row_of_names_may_be_said() -> None:
    rows, _ = read(workbook(), "x.xlsx", choices=Choices(sheet="Other", header_row=2))
    assert [row["key"] for row in rows] == ["z"]
    rows, _ = read("a,b\npred,key\nYES,7\n", choices=Choices(header_row=2))
    assert [row["key"] for row in rows] == ["7"]


def test_percentages_without_a_sign() -> None:
    rows, _ = read("pred,Confidence (%)\nYES,97\n")
    assert rows[0]["confidence"] == 0.97
    rows, report = read("pred,confidence\nYES,97\nNO,60\nNO,61.5\n")
    report.put_in_order()
    [error] = report.errors
    assert error.rows == 3
    assert "97.0, 60.0, 61.5" in error.message.replace("'", "")
    assert "add --percent" in error.message
    rows, _ = read("pred,confidence\nYES,97\n", choices=Choices(percent=True))
    assert rows[0]["confidence"] == 0.97


def test_what_is_wrong_for_one_cause_is_said_once() -> None:
    _, report = read("pred\n" + "".join(f"maybe {n}\n" for n in range(12)))
    report.put_in_order()
    [error] = report.errors
    assert error.rows == 12
    assert error.message.startswith("'maybe 0', 'maybe 1'")
    assert "add --class VALUE=CLASS" in error.message


def as_zip(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return buffer.getvalue()


def test_a_zip_file_of_one_file_is_read_as_that() -> None:
    inner = table("pred,gt").encode()
    for name in ("rows.zip", "x"):
        rows, report = read(as_zip(a__rows=inner), name)
        assert [(row["label"], row["predicted"]) for row in rows] == PAIRS
        assert "the file a/rows in the zip file was read" in report.notes
    book = openpyxl.Workbook()
    for line in table("pred,gt").splitlines():
        book.active.append(line.split(","))
    buffer = io.BytesIO()
    book.save(buffer)
    assert len(read(as_zip(book=buffer.getvalue()), "x.zip")[0]) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (as_zip(a=b"x", b=b"x"), "a zip file and no workbook; send one table"),
        (as_zip(a=as_zip(b=b"pred\nYES\n")), "a zip file and no workbook; send one"),
        (as_zip(a=b"pred\n" + b"YES\n" * 99).replace(b"YES", b"NO!"), "unpacked"),
    ],
)
def test_other_zip_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read(content, "x.zip")


def test_columns_that_could_be_either_are_asked_for() -> None:
    _, report = read(table("classifier_says,reviewer_says"))
    assert report.warnings[0] == (
        "nothing says which of the columns reviewer_says and classifier_says is which; "
        "say it, as in map label=reviewer_says and map predicted=classifier_says"
    )


def test_the_sheet_with_the_most_columns_is_read_where_none_is_known() -> None:
    book = openpyxl.Workbook()
    book.active.append(["A report"])
    sheet = book.create_sheet("Rows")
    for line in (["Line 3"], [], ["Part", "Prognose", "Ist"], ["a", "YES", "NO"]):
        sheet.append(line)
    buffer = io.BytesIO()
    book.save(buffer)
    [row], _ = read(buffer.getvalue(), "x.xlsx")
    assert (row["predicted"], row["label"]) == ("YES", "NO")


def test_a_nested_answer_may_be_in_a_column_that_is_named() -> None:
    given = [
        {
            "model": {"name": one["p"], "p": 0.8},
            "human": {"verdict": {"name": one["l"]}},
        }
        for one in ROWS
    ]
    choices = read_choices(columns=["label=human"], extra="metadata")
    rows, _ = read(lines(*given), "x.jsonl", choices=choices)
    assert [(row["label"], row["predicted"]) for row in rows] == PAIRS
    assert rows[0]["confidence"] == 0.8


def test_people_who_label_the_same_items_are_labelers() -> None:
    rows, report = read(
        "item_id,model_output,annotator,annotation\na,YES,ann,YES\na,YES,bob,NO\n"
    )
    assert report.errors == []
    assert [(row["key"], row["labeler"], row["label"]) for row in rows] == [
        ("a", "ann", "YES"),
        ("a", "bob", "NO"),
    ]


def test_columns_without_names_that_hold_classes_are_named() -> None:
    with pytest.raises(InvalidInputError, match="predicted=column 2 and map label="):
        read("a-1,YES,NO,0.9\na-2,NO,NO,0.8\n")


@pytest.mark.parametrize("field", ["key", "input", "group", "version", "labeler"])
@pytest.mark.parametrize("is_alone", [True, False])
def test_ids_lose_the_blanks_around_them(field: str, is_alone: bool) -> None:
    # What is wrong beside it makes the rows be read one by one.
    others = "" if is_alone else "x,wrong,YES\n"
    rows, report = read(f"{field},pred,label\n a-1 ,YES,YES\na-2,NO,YES\n{others}")
    assert [row[field] for row in rows] == ["a-1", "a-2"]
    assert len(report.errors) == (0 if is_alone else 1)
    assert [field, "blanks around it", "left out", 1] in report.values


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_list_of_one_is_its_element_in_every_field(is_alone: bool) -> None:
    row = {"id": "a", "pred": "YES", "label": "NO", "confidence": 0.9, "group": "g"}
    row |= {"timestamp": "2026-01-01T00:00:00", "note": "dark"}
    others = () if is_alone else ({"id": "b", "pred": "MAYBE"},)
    plain, _ = read(lines(row, *others), "rows.jsonl")
    listed = {name: [value] for name, value in row.items()}
    assert read(lines(listed, *others), "rows.jsonl")[0] == plain
    assert plain[0]["confidence"] == 0.9


def test_a_run_over_a_test_set_is_known_by_what_was_put_in() -> None:
    long = "Is it shut? " * 40
    run = lines({"question": long, "pred": "YES"}, {"question": "b", "pred": "NO"})
    choices = read_choices(version="run-7", usual_extra="metadata")
    rows, _ = read(run, "run-7.jsonl", choices=choices)
    gold, _ = read(f"question,label\n{long},NO\nb,NO\n")
    assert [row["input"] for row in rows] == [row["input"] for row in gold]
    assert [row["metadata"]["question"] for row in rows] == [long, "b"]
    content = io.BytesIO(b"pred,question,b,a\nYES,q,1,2\n")
    found = inspect(open_named(content, "x.csv").read_by(choices), detector=DOOR)
    columns = {"pred": "predicted", "question": "input", "b": None, "a": None}
    assert [*found.columns.items()] == [*columns.items()]
    # A version that has the truth beside it, and any other file, is left as it is.
    for more, others in ((",gold", choices), ("", Choices(extra="metadata"))):
        content = (
            f"question,pred{more}\na,YES,NO\n" if more else "question,pred\na,YES\n"
        )
        [row], _ = read(content, choices=others)
        assert "input" not in row


def test_the_sums_of_a_confusion_matrix_are_no_class() -> None:
    counts = {("NO", "NO"): 7, ("NO", "YES"): 1, ("YES", "NO"): 2, ("YES", "YES"): 2}
    matrix = "label,NO,YES,All\nNO,7,1,8\nYES,2,2,4\nAll,9,3,12\n"
    found, _ = read(matrix)
    assert Counter((row["label"], row["predicted"]) for row in found) == counts
