"""Confusion matrices and other counts, as tools write them; each is of twelve rows."""

import io
import json
from collections import Counter

import openpyxl
import pytest

from tests.services.test_file_kinds import DOOR, read
from tracker.errors import InvalidInputError
from tracker.services.imports.reading.answers import find_class_columns
from tracker.services.imports.reading.rows import Piece
from tracker.storage.detectors import Detector

# By label and prediction.
COUNTS = {("NO", "NO"): 7, ("NO", "YES"): 1, ("YES", "NO"): 2, ("YES", "YES"): 2}
BITS = Detector(id=4, name="bits", classes=["0", "1"])
H2O = ",NO,YES,Error,Rate\nNO,7,1,0.125, (1.0/8.0)\nYES,2,2,0.5, (2.0/4.0)\n"
RAPID_MINER = (
    ",true NO,true YES,class precision\npred. NO,7,2,77.78%\npred. YES,1,2,66.67%\n"
    "class recall,87.50%,50.00%,\n"
)


def split() -> str:
    names = ["NO", "YES"]
    return json.dumps({"columns": names, "index": names, "data": [[7, 1], [2, 2]]})


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for line in ([None, "NO", "YES"], ["NO", 7, 1], ["YES", 2, 2]):
        book.active.append(line)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


FILES: dict[str, str | bytes] = {
    "crosstab.csv": "Actual,NO,YES\nNO,7,1\nYES,2,2\n",
    "margins.csv": "Actual,NO,YES,All\nNO,7,1,8\nYES,2,2,4\nAll,9,3,12\n",
    "named-margins.csv": ",NO,YES,N\nNO,7,1,8\nYES,2,2,4\nN,9,3,12\n",
    "sums-of-rows.csv": "Actual,NO,YES,Total\nNO,7,1,8\nYES,2,2,4\n",
    "another-order.csv": "Actual,YES,NO\nNO,1,7\nYES,2,2\n",
    "prefixes.csv": ",pred_NO,pred_YES\ntrue_NO,7,1\ntrue_YES,2,2\n",
    "words.csv": ",Actual NO,Actual YES\nPredicted NO,7,2\nPredicted YES,1,2\n",
    "corner.csv": "Predicted vs Actual,NO,YES\nNO,7,2\nYES,1,2\n",
    "bigquery.csv": "expected_label,NO,YES\nNO,7,1\nYES,2,2\n",
    "h2o.csv": f"{H2O}Total,9,3,0.25, (3.0/12.0)\n",
    "rapidminer.csv": RAPID_MINER,
    "caret.csv": '"","Prediction","Reference","Freq"\n"1","NO","NO",7\n'
    '"2","YES","NO",1\n"3","NO","YES",2\n"4","YES","YES",2\n',
    "snowflake.csv": "dataset_type,actual_class,predicted_class,count\n"
    "EVAL,NO,NO,7\nEVAL,NO,YES,1\nEVAL,YES,NO,2\nEVAL,YES,YES,2\n",
    "wandb.table.json": json.dumps(
        {
            "columns": ["Actual", "Predicted", "nPredictions"],
            "data": [[*pair, times] for pair, times in COUNTS.items()],
        }
    ),
    "comprehend.json": json.dumps(
        {
            "type": "multi_class",
            "confusion_matrix": [[7, 1], [2, 2]],
            "labels": ["NO", "YES"],
            "all_labels": ["NO", "YES"],
        }
    ),
    "metrics.json": json.dumps(
        {"test": {"accuracy": 0.75, "cm": [[7, 1], [2, 2]], "classes": ["NO", "YES"]}}
    ),
    "split.json": split(),
    "sheet.xlsx": workbook(),
}


@pytest.mark.parametrize("name", FILES)
def test_counts_become_as_many_rows(name: str) -> None:
    rows, report = read(FILES[name], name)
    assert not report.errors
    assert Counter((row["label"], row["predicted"]) for row in rows) == COUNTS


@pytest.mark.parametrize("more", ["", "2,0,0,0\n"])
def test_classes_that_are_numbers_are_no_rows(more: str) -> None:
    last = ",2" if more else ""
    zero = ",0" if more else ""
    detector = Detector(id=4, name="bits", classes=["0", "1", "2"]) if more else BITS
    content = f",0,1{last}\n0,7,1{zero}\n1,2,2{zero}\n{more}"
    rows, report = read(content, detector=detector)
    assert not report.errors
    assert Counter((row["label"], row["predicted"]) for row in rows) == {
        ("0", "0"): 7,
        ("0", "1"): 1,
        ("1", "0"): 2,
        ("1", "1"): 2,
    }


def test_a_class_without_a_prediction_has_no_column() -> None:
    three = Detector(id=4, name="three", classes=["a", "b", "c"])
    rows, _ = read("truth,a,b\na,2,0\nb,0,1\nc,1,0\n", detector=three)
    assert Counter((row["label"], row["predicted"]) for row in rows) == {
        ("a", "a"): 2,
        ("b", "b"): 1,
        ("c", "a"): 1,
    }


def test_a_matrix_of_many_classes_is_counted_to_its_end() -> None:
    names = [f"class {number}" for number in range(400)]
    many = Detector(id=4, name="many", classes=names)
    matrix = [
        ",".join([one, *("1" if one == other else "0" for other in names)])
        for one in names
    ]
    rows, _ = read("\n".join([",".join(["truth", *names]), *matrix]), detector=many)
    assert [row["predicted"] for row in rows] == names
    pairs = "".join(f"{one},{two},0\n" for one in names[:60] for two in names[:60])
    rows, _ = read(f"actual,predicted,n\n{pairs}class 70,class 71,3\n", detector=many)
    assert [row["predicted"] for row in rows] == ["class 71"] * 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", ",NO,YES\nNO,0.875,0.125\nYES,0.5,0.5\n", "of shares; send one of"),
        ("x.json", "[[7, 1], [2, 2]]", "without the names of the classes; send CSV"),
        (
            "x.json",
            '{"NO": {"NO": 7, "YES": 2}, "YES": {"NO": 1, "YES": 2}}',
            "whose outer names may be labels or predictions; send CSV",
        ),
    ],
)
def test_a_matrix_that_does_not_say_all_is_refused(
    name: str, content: str, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read(content, name)


def test_the_number_of_a_row_is_no_count() -> None:
    rows, _ = read("n,label,pred\n1,YES,YES\n2,NO,YES\n3,YES,YES\n")
    assert len(rows) == 3


def test_counts_without_the_classes_of_the_rows_are_no_scores() -> None:
    rows, report = read("NO,YES\n7,1\n2,2\n")
    assert rows == []
    assert report.bad_rows == 2
    piece = Piece(1, ["p_NO", "p_YES"], [[0.5], [0.5]])
    assert find_class_columns(piece, [], has_label=False) is None
    assert find_class_columns(piece, DOOR.classes, has_label=False) is not None
