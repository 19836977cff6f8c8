"""Files as people have them: columns, values and shapes, read as they are meant."""

import gzip
import io
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tracker.errors import InvalidInputError
from tracker.services.imports.checking import RowReader
from tracker.services.imports.reading import mapping
from tracker.services.imports.reading.choices import Choices, read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reading.rows import PIECE_ROWS, Row, cut_rows
from tracker.services.imports.reports import Outcome
from tracker.storage.detectors import Detector

TUMOUR = Detector(id=1, name="tumour", classes=["malignant", "benign"])
DOOR = Detector(id=2, name="door", classes=["YES", "NO"])
DIGIT = Detector(id=3, name="digit", classes=[str(digit) for digit in range(10)])
LENIENT = Choices(extra="metadata")


def read(
    content: bytes | str,
    name: str = "rows.csv",
    detector: Detector = DOOR,
    choices: Choices = LENIENT,
) -> tuple[list[dict[str, Any]], Outcome]:
    """The rows that are right, and what is said of the file."""
    raw = content.encode() if isinstance(content, str) else content
    rows = open_named(io.BytesIO(raw), name).read_by(choices).rows(detector)
    report = Outcome()
    reader = RowReader(detector, [], report)
    found: list[dict[str, Any]] = []
    with rows.pieces() as pieces:
        for piece in pieces:
            good = reader.read(piece)
            report.note_values(piece.noted)
            found += [row.values for row in good.rows()]
    report.note_file(rows.plan.renamed(), rows.notes, rows.plan.warnings())
    return found, report


GZIP = gzip.compress(b"predicted\nYES\n" * 9, mtime=0)
FRAME = pd.DataFrame(
    {
        "id": ["a", "b", "c"],
        "y_pred": ["YES", "NO", "YES"],
        "y_true": ["YES", "YES", None],
        "proba": [0.75, 1.0, 0.5],
    }
)


def as_bytes(write: Any, *args: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *args, **options)
    return buffer.getvalue()


def as_excel(lines: list[list[Any]]) -> bytes:
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    return as_bytes(book.save)


def task(number: int, predicted: str, label: str | None, score: float) -> Any:
    def said(choice: str) -> list[Any]:
        value = {"choices": [choice]}
        return [{"type": "choices", "from_name": "choice", "value": value}]

    annotations = [{"was_cancelled": True, "result": said("NO")}]
    if label is not None:
        annotations.append({"completed_by": 1, "result": said(label)})
    return {
        "id": number,
        "data": {"key": "abc"[number - 1]},
        "annotations": annotations,
        "predictions": [{"score": score, "result": said(predicted)}],
    }


SPLIT = {
    "columns": ["id", "pred", "label", "score"],
    "data": [["a", "YES", "YES", 0.75], ["b", "NO", "YES", 1], ["c", "YES", None, 0.5]],
}
FILES: dict[str, tuple[str, Any]] = {
    "pandas CSV": ("x.csv", FRAME.to_csv(index=False)),
    "pandas CSV with its index": ("x.csv", FRAME.to_csv()),
    "tabs": ("x.tsv", FRAME.to_csv(sep="\t")),
    "semicolons, decimal commas": ("x.csv", FRAME.to_csv(sep=";", decimal=",")),
    "byte-order mark": ("x.csv", FRAME.to_csv().encode("utf-8-sig")),
    "gzip": ("x.csv.gz", gzip.compress(FRAME.to_csv().encode())),
    "gzip by its bytes": ("", gzip.compress(FRAME.to_csv().encode())),
    "NaN in words": ("x.csv", FRAME.to_csv(na_rep="NaN")),
    "None in words": ("x.csv", FRAME.to_csv(na_rep="None")),
    "names in capitals": ("x.csv", FRAME.rename(columns=str.upper).to_csv()),
    "names with blanks": (
        "x.csv",
        FRAME.rename(columns={"y_true": "Ground Truth", "proba": " Score "}).to_csv(),
    ),
    "percentages": (
        "x.csv",
        "key,guess,target,probability\na,YES,YES,75%\nb,NO,YES,100 %\nc,YES,,50%\n",
    ),
    "beyond one": (
        "x.csv",
        "key,guess,truth,prob\na,yes,Yes ,0.75\nb,no,yes,1.0000001\nc,YES,null,.5\n",
    ),
    "truth values": (
        "x.csv",
        "key,pred,actual,prob\na,True,1,0.75\nb,False,true,1.0\nc,1.0,nan,0.5\n",
    ),
    "JSON records": ("x.json", FRAME.to_json(orient="records")),
    "JSON columns": ("x.json", FRAME.to_json(orient="columns")),
    "JSON index": ("x.json", FRAME.to_json(orient="index")),
    "JSON split": ("x.json", FRAME.to_json(orient="split")),
    "JSON table": ("x.json", FRAME.to_json(orient="table")),
    "JSON lists": (
        "x.json",
        json.dumps(FRAME.astype(object).where(FRAME.notna(), None).to_dict("list")),
    ),
    "JSON Lines": ("x.jsonl", FRAME.to_json(orient="records", lines=True)),
    "JSON Lines called JSON": ("x.json", FRAME.to_json(orient="records", lines=True)),
    "JSON Lines by their bytes": ("", FRAME.to_json(orient="records", lines=True)),
    "JSON of texts": (
        "x.json",
        json.dumps(
            [
                {"id": "a", "pred": "YES", "truth": "YES", "proba": "0.75"},
                {"id": "b", "pred": "NO", "truth": "YES", "proba": "100%"},
                {"id": "c", "pred": "YES", "truth": "", "proba": "0.5"},
            ]
        ),
    ),
    "Parquet": ("x.parquet", as_bytes(FRAME.to_parquet)),
    "Parquet with an index": ("x.parquet", as_bytes(FRAME[1:].to_parquet)),
    "Parquet by its bytes": ("", as_bytes(FRAME.to_parquet)),
    "Excel of pandas": ("x.xlsx", as_bytes(FRAME.to_excel)),
    "Excel by its bytes": ("", as_bytes(FRAME.to_excel, index=False)),
    "Excel with empty rows and columns": (
        "x.xlsx",
        as_excel(
            [
                [],
                [None, "ID", "Output", "Choice", "Score"],
                [None, "a", "YES", "YES", 0.75],
                [],
                [None, "b", "NO", "YES", 1],
                [None, "c", "YES", None, 0.5],
            ]
        ),
    ),
    "MLflow": ("eval_results_table.json", json.dumps(SPLIT).replace("/", r"\/")),
    "Weights & Biases": ("t.table.json", json.dumps(SPLIT)),
    "Label Studio JSON": (
        "x.json",
        json.dumps(
            [
                task(1, "YES", "YES", 0.75),
                task(2, "NO", "YES", 1.0),
                task(3, "YES", None, 0.5),
            ]
        ),
    ),
    "Label Studio CSV": (
        "x.csv",
        "annotation_id,annotator,choice,created_at,id,key,lead_time,updated_at,guess,score\n"
        "1,1,YES,2026-01-31T12:00:00Z,1,a,3.2,2026-01-31T12:00:00Z,YES,0.75\n"
        "2,1,YES,2026-01-31T12:00:00Z,2,b,3.2,2026-01-31T12:00:00Z,NO,1\n"
        ",,,,3,c,,,YES,0.5\n",
    ),
}
EXPECTED = [
    ("a", "YES", "YES", 0.75),
    ("b", "NO", "YES", 1.0),
    ("c", "YES", None, 0.5),
]


@pytest.mark.parametrize("kind", FILES)
def test_each_file_says_the_same(kind: str) -> None:
    name, content = FILES[kind]
    rows, report = read(content, name)
    expected = EXPECTED[1:] if kind == "Parquet with an index" else EXPECTED
    names = ("key", "predicted", "label", "confidence")
    assert report.errors == []
    assert [tuple(map(row.get, names)) for row in rows] == expected
    assert not any("metadata" in row for row in rows)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"classes": ["NO", "YES"], "labels": {"a": 1, "b": 0, "c": None}},
            [{"key": "a", "label": "YES"}, {"key": "b", "label": "NO"}],
        ),
        (
            {
                "classes": None,
                "labels": {"a": [{"label": "YES", "confidence": 0.5}]},
            },
            [{"key": "a", "predicted": "YES", "confidence": 0.5}],
        ),
    ],
)
def test_classifications_of_fiftyone_are_read(document: Any, expected: Any) -> None:
    rows, _ = read(json.dumps(document), "labels.json")
    assert rows == expected


def test_what_was_read_as_what_is_said_with_how_often() -> None:
    content = "id,Guess\n" + "1,MALIGNANT \n2,malignant\n3,Benign\n" * 8
    rows, report = read(content, detector=TUMOUR)
    assert {row["predicted"] for row in rows} == {"malignant", "benign"}
    assert report.columns == {"key": "id", "predicted": "Guess"}
    assert sorted(report.values) == [
        ["predicted", "Benign", "benign", 8],
        ["predicted", "MALIGNANT ", "malignant", 8],
    ]


def test_latin_1_is_read_and_said() -> None:
    content = "key;pred;note\nä;YES;grün \u2013 fertig\n".encode("cp1252")
    rows, report = read(content)
    assert rows == [{"key": "ä", "predicted": "YES", "note": "grün \u2013 fertig"}]
    assert report.notes == ["the file is not UTF-8 and was read as Latin-1"]


def test_numbers_are_read_as_the_class_they_are() -> None:
    rows, _ = read("pred,label\n7.0,07\n1e0,3\n", detector=DIGIT)
    assert [row["predicted"] for row in rows] == ["7", "1"]
    # Among ten classes a 1 is no truth value.
    _, report = read("pred\ntrue\n", detector=DIGIT)
    assert [error.field for error in report.errors] == ["predicted"]


def test_a_value_that_fits_two_classes_is_an_error_that_names_both() -> None:
    detector = Detector(id=4, name="x", classes=["a", "A", "b"])
    rows, report = read("pred\na\nA\nB\n a\n", detector=detector)
    assert [row["predicted"] for row in rows] == ["a", "A", "b", "a"]
    detector = Detector(id=4, name="x", classes=["ab", "AB", "1", "1.0"])
    _, report = read("pred\nAb\n1.00\n", detector=detector)
    assert [error.row for error in report.errors] == [1, 2]
    assert "'ab' and 'AB'" in report.errors[0].message
    chosen = read_choices(classes=["Ab=AB", "1.00=1"], extra="refuse")
    rows, _ = read("pred\nAb\n1.00\n", detector=detector, choices=chosen)
    assert [row["predicted"] for row in rows] == ["AB", "1"]


def test_all_that_is_wrong_with_the_columns_is_said_at_once() -> None:
    content = "y_pred,guess,id,Key,colour,size\nYES,NO,1,2,red,3\n"
    with pytest.raises(InvalidInputError) as raised:
        read(content, choices=Choices())
    fields = {error.field: error.message for error in raised.value.errors}
    assert list(fields) == ["key", "predicted", "colour", "size"]
    assert "'y_pred' and 'guess'" in fields["predicted"]
    assert "'id' and 'Key'" in fields["key"]


def test_a_map_goes_before_well_known_names() -> None:
    chosen = read_choices(columns=["predicted=B", "key=name"], extra="ignore")
    rows, report = read("guess,b,NAME\nNO,YES,x\n", choices=chosen)
    # What is left of the guess is another column.
    assert rows == [{"predicted": "YES", "key": "x"}]
    assert report.columns == {"predicted": "b", "key": "NAME"}
    with pytest.raises(InvalidInputError, match="no column 'C'; there are: 'guess'"):
        read("guess\nNO\n", choices=read_choices(columns=["key=C"], extra="ignore"))
    with pytest.raises(InvalidInputError, match="'colour' is not a field"):
        read_choices(columns=["colour=C"], extra="ignore")


def test_other_columns_go_into_the_metadata() -> None:
    content = 'pred,camera,metadata,empty\nYES,north,"{""a"": 1}",\nNO,,,\n'
    rows, _ = read(content)
    assert rows == [
        {"predicted": "YES", "metadata": {"camera": "north", "a": 1}},
        {"predicted": "NO"},
    ]
    rows, _ = read(content, choices=Choices(extra="ignore"))
    assert rows[0]["metadata"] == {"a": 1}


def test_the_same_thing_wrong_in_many_rows_is_said_once() -> None:
    _, report = read("pred\n" + "MAYBE\nYES\n" * 50)
    assert report.bad_rows == 50
    [error] = report.errors
    assert (error.row, error.rows) == (1, 50)


def test_unknown_fields_of_objects_are_all_said() -> None:
    lines = '{"pred":"YES","x":1}\n{"pred":"YES","y":1,"x":2}\n'
    _, report = read(lines, "x.jsonl", choices=Choices())
    assert [(e.field, e.row, e.rows) for e in report.errors] == [
        *[("x", 1, 2), ("y", 2, 1)]
    ]


BERLIN = Choices(extra="metadata", time_zone="Europe/Berlin")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cell", "choices"),
    [
        ("2026-01-31 12:00:00+00:00", LENIENT),
        ("2026-01-31T13:00", BERLIN),
        ("2026-01-31 13:00:00", BERLIN),
        ("2026-01-31T12:00:00Z", BERLIN),
        (str(int(NOON.timestamp())), LENIENT),
        (f"{NOON.timestamp():.3f}", LENIENT),
        (str(int(NOON.timestamp() * 1000)), LENIENT),
        (
            "31.01.26 13 Uhr",
            BERLIN.model_copy(update={"time_format": "%d.%m.%y %H Uhr"}),
        ),
        (
            "31/Jan/2026 12:00 +0000",
            Choices(time_format="%d/%b/%Y %H:%M %z"),
        ),
    ],
)
def test_times_are_read(cell: str, choices: Choices) -> None:
    rows, report = read(f"pred,time\nYES,{cell}\n", choices=choices)
    assert report.errors == []
    assert rows[0]["asked_at"] == NOON


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("2026-02-30T02:30:00", "it must be an instant such as"),
        ("yesterday", "it must be an instant such as"),
    ],
)
def test_times_that_are_none_are_said(cell: str, said: str) -> None:
    _, report = read(f"pred,time\nYES,{cell}\n", choices=BERLIN)
    assert said in report.errors[0].message


@pytest.mark.parametrize(
    ("cell", "instant", "said"),
    [
        # The clocks repeat the one hour and skip the other.
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z", "Europe/Berlin"),
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z", "Europe/Berlin"),
        (
            "2026-01-31T12:00:00.123456789Z",
            "2026-01-31T12:00:00.123456Z",
            "nanoseconds",
        ),
    ],
)
def test_what_becomes_of_a_time_is_said(cell: str, instant: str, said: str) -> None:
    rows, report = read(f"pred,time\nYES,{cell}\n", choices=BERLIN)
    assert rows[0]["asked_at"] == datetime.fromisoformat(instant)
    assert said in str(report.values)


def test_a_time_without_a_zone_is_read_as_utc_and_said() -> None:
    rows, report = read("pred,time\nYES,2026-01-31 12:00\n")
    assert rows[0]["asked_at"] == NOON
    assert report.values == [["asked_at", "a time without a zone", "one in UTC", 1]]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_of_pandas_are_rounded_down(zone: str | None) -> None:
    at = pd.Timestamp("2026-01-31 12:00:00.000000999", tz=zone)
    frame = pd.DataFrame({"pred": ["YES"], "time": [at]})
    rows, report = read(as_bytes(frame.to_parquet), "x.parquet")
    assert rows[0]["asked_at"] == NOON
    assert "nanoseconds" in str(report.values)


def test_cells_of_excel_keep_what_they_are() -> None:
    content = as_excel(
        [
            ["key", "prediction", "timestamp", "size", "day"],
            [12, True, datetime(2026, 1, 31, 13), 3, date(2026, 1, 1)],  # noqa: DTZ001
            ["0012", 0, datetime(2026, 1, 31), 2.5, None],  # noqa: DTZ001
        ]
    )
    rows, report = read(content, "x.xlsx", choices=BERLIN)
    assert report.errors == []
    assert [row["key"] for row in rows] == ["12", "0012"]
    assert [row["predicted"] for row in rows] == ["YES", "NO"]
    assert rows[0]["asked_at"] == NOON
    assert [row["metadata"]["size"] for row in rows] == [3, 2.5]


def test_each_annotator_is_a_labeler_and_the_ground_truth_comes_last() -> None:
    one = task(1, "YES", "NO", 0.5)
    others = [task(1, "YES", said, 0.5)["annotations"][1] for said in ("NO", "YES")]
    others[0] |= {"completed_by": {"id": 2, "email": "b@c"}, "ground_truth": True}
    # The last word of the first annotator.
    one["annotations"] += others
    rows, report = read(json.dumps([one, task(2, "NO", "NO", 0.5)]), "x.json")
    assert report.errors == []
    assert [(row["key"], row["labeler"], row["label"]) for row in rows] == [
        ("a", "1", "YES"),
        ("a", "b@c", "NO"),
        ("b", "1", "NO"),
    ]
    assert ["predicted" in row for row in rows] == [True, False, True]


def test_annotations_that_disagree_must_say_whose_they_are() -> None:
    one = task(1, "YES", "NO", 0.5)
    one["annotations"].append(task(1, "YES", "YES", 0.5)["annotations"][1])
    for annotation in one["annotations"]:
        annotation.pop("completed_by", None)
    _, report = read(json.dumps([one]), "x.json")
    assert "'NO' and 'YES'" in report.errors[0].message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.xlsx", b"PK\x03\x04", "it is not an Excel file"),
        ("x.csv.gz", b"\x1f\x8b\x08\x00abc", "it is not gzip"),
        (
            "x.csv.gz",
            GZIP[:-4],
            "it is not gzip",
        ),
        ("x.json", b"[]", "is required"),
        ("x.json", b'{"a": [1], "b": []}', "must be equally long"),
        (
            "x.json",
            b'{"columns": ["a"], "data": [[1, 2]]}',
            "row 1 must be a list of 1 values",
        ),
        (
            "x.json",
            b'{"classes": ["a"], "labels": {"k": 1}}',
            "at least 0 and less than 1",
        ),
        ("x.doc", b"", "the file is empty"),
    ],
)
def test_what_is_no_such_file_is_said(name: str, content: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read(content, name)


def test_a_file_on_disk_is_read_as_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    FRAME.to_csv(path)
    assert read(path.read_bytes(), path.name)[0] == read(FRAME.to_csv())[0]


def with_names(names: list[str]) -> pa.Table:
    """A table as ``datasets`` writes one: its classes are numbers with names."""
    feature = {"names": names, "_type": "ClassLabel"}
    features = {"label": feature, "prediction": feature, "n": {"_type": "Value"}}
    told = json.dumps({"info": {"features": features}})
    table = pa.table({"label": [0, 1, -1], "prediction": [0, 0, 1], "n": [1, 2, 3]})
    return table.replace_schema_metadata({"huggingface": told})


def as_parquet(table: pa.Table) -> bytes:
    return as_bytes(lambda buffer: pq.write_table(table, buffer))


def as_arrow_stream(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def as_feather(table: pa.Table) -> bytes:
    return as_bytes(lambda buffer: feather.write_feather(table, buffer))


@pytest.mark.parametrize("write", [as_parquet, as_arrow_stream, as_feather])
@pytest.mark.parametrize("name", ["x.arrow", "x.parquet", ""])
def test_the_schema_says_which_number_is_which_class(write, name) -> None:
    content = write(with_names(["YES", "NO"]))
    if name == "x.parquet" and write is not as_parquet:
        name = "x.feather"
    if name == "x.arrow" and write is as_parquet:
        name = "x.parquet"
    rows, report = read(content, name)
    assert [(row["predicted"], row.get("label")) for row in rows] == [
        ("YES", "YES"),
        ("YES", "NO"),
        ("NO", None),
    ]
    assert not report.errors


def test_a_number_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="class 1, of 1 classes"):
        read(as_parquet(with_names(["YES"])), "x.parquet")


def test_what_is_no_arrow_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="it is not Arrow"):
        read(b"ARROW1 or so", "x.arrow")


def annotated(*given: tuple[str, str, int], control: str = "door") -> dict[str, Any]:
    def result(choice: str, name: str) -> dict[str, Any]:
        value = {"choices": [choice]}
        return {"type": "choices", "from_name": name, "value": value}

    return {
        "id": 1,
        "data": {"text": "t"},
        "annotations": [
            {"created_at": at, "completed_by": who, "result": [result(choice, control)]}
            for choice, at, who in given
        ],
        "predictions": [{"result": [result("YES", control)]}],
    }


@pytest.mark.parametrize("annotators", [(1, 1), (1, 2)])
def test_the_newest_annotation_counts_wherever_it_stands(annotators) -> None:
    first, second = annotators
    newest_first = annotated(
        ("NO", "2026-03-05T10:00:00Z", first), ("YES", "2026-03-01T10:00:00Z", second)
    )
    rows, _ = read(json.dumps([newest_first]), "x.json")
    assert rows[-1]["label"] == "NO"
    assert len(rows) == len(set(annotators))


def test_of_several_controls_one_is_named() -> None:
    task = annotated(("YES", "2026-03-01T10:00:00Z", 1))
    task["annotations"][0]["result"].append(
        {"type": "choices", "from_name": "quality", "value": {"choices": ["good"]}}
    )
    _, report = read(json.dumps([task]), "x.json")
    (error,) = report.errors
    assert "'door' and 'quality'" in error.message
    assert "map label=door" in error.message
    choices = read_choices(columns=["label=door"], extra="metadata")
    ((row,), report) = read(json.dumps([task]), "x.json", choices=choices)
    assert (row["label"], row["predicted"]) == ("YES", "YES")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("expectedOutput", "looks like the truth"),
        ("gold_answer", "looks like the truth"),
        ("sample_weight", "looks like weights"),
    ],
)
def test_what_may_make_figures_wrong_is_said(column, words) -> None:
    _, report = read(f"key,predicted,{column}\na,YES,3\n")
    (warning,) = report.warnings
    assert words in warning
    assert column in warning


def test_what_is_read_is_not_warned_of() -> None:
    _, report = read("key,predicted,expected,lamp\na,YES,NO,on\n")
    assert not report.warnings


TABLE = "key,predicted,label\na,,YES\nb,YES,YES\nc,nan,NO\n"
LINES = (
    '{"key": "a", "predicted": null, "label": "YES"}\n'
    '{"key": "b", "predicted": "YES", "label": "YES"}\n'
    '{"key": "c", "predicted": "nan", "label": "NO"}\n'
)


@pytest.mark.parametrize(("content", "name"), [(TABLE, "x.csv"), (LINES, "x.jsonl")])
def test_an_empty_prediction_beside_others_is_no_answer(content, name) -> None:
    rows, report = read(content, name)
    assert [row["predicted"] for row in rows] == ["NO_ANSWER", "YES", "NO_ANSWER"]
    assert ["predicted", "nothing", "no answer", 2] in report.values
    assert not report.errors


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("key,predicted,label\na,,YES\nb,nan,NO\n", "x.csv"),
        (
            '{"key": "a", "predicted": null, "label": "YES"}\n'
            '{"key": "b", "label": "NO"}\n',
            "x.jsonl",
        ),
    ],
)
def test_without_any_prediction_rows_are_labels(content, name) -> None:
    rows, _ = read(content, name)
    assert [row["label"] for row in rows] == ["YES", "NO"]
    assert not any("predicted" in row for row in rows)


def test_a_record_without_the_field_is_a_label_though_others_have_it() -> None:
    content = '{"key": "a", "predicted": "YES"}\n{"key": "a", "label": "NO"}\n'
    rows, _ = read(content, "x.jsonl")
    assert rows == [{"key": "a", "predicted": "YES"}, {"key": "a", "label": "NO"}]


SAID = {"key": ["a", "b"], "predicted": [{"label": "YES", "score": 0.9}, None]}
BY_ROW = [[*one] for one in zip(*SAID.values(), strict=True)]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (as_parquet(pa.table(SAID)), "x.parquet"),
        (json.dumps({"columns": [*SAID], "data": BY_ROW}), "x.json"),
        (json.dumps({name: dict(enumerate(v)) for name, v in SAID.items()}), "x.json"),
        (json.dumps([dict(zip(SAID, row, strict=True)) for row in BY_ROW]), "x.json"),
    ],
)
def test_an_empty_nested_prediction_is_no_answer(content, name) -> None:
    rows, _ = read(content, name)
    assert [row["predicted"] for row in rows] == ["YES", "NO_ANSWER"]


def test_rows_of_names_of_their_own_are_cut_into_pieces_that_are_not_empty() -> None:
    wide = [Row(n, {f"c{8 * n + k}": 1 for k in range(8)}) for n in range(2_000)]
    cells = sum(len(one.names) * one.size for one in cut_rows(wide))
    # All at once would be 32 million for 16,000 values.
    assert cells < 2_000_000
    assert [row for one in cut_rows(wide) for row in one.rows()] == wide


def test_a_row_of_nothing_is_no_query_without_an_answer() -> None:
    rows, report = read("key,predicted,label\na,YES,YES\n,,\n")
    assert (len(rows), [error.row for error in report.errors]) == (1, [2])


def test_no_answer_is_found_before_and_behind_the_first_prediction() -> None:
    empty = "".join(f"k{number},,YES\n" for number in range(2 * PIECE_ROWS))
    rows, _ = read(f"key,predicted,label\n{empty}a,YES,YES\nb,,NO\n")
    assert {row["predicted"] for row in rows[:-2]} == {"NO_ANSWER"}
    assert [row["predicted"] for row in rows[-2:]] == ["YES", "NO_ANSWER"]


def test_a_prediction_that_comes_too_late_to_know_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(mapping, "_MOST_HELD", 1)
    empty = "".join(f"k{number},,YES\n" for number in range(3 * PIECE_ROWS))
    assert len(read(f"key,predicted,label\n{empty}")[0]) == 3 * PIECE_ROWS
    with pytest.raises(InvalidInputError, match=r"before row 6,001 have none; sort"):
        read(f"key,predicted,label\n{empty}a,YES,YES\n")


def test_an_answer_that_a_tool_did_not_get_is_none() -> None:
    case = {"input": "a", "expectedOutput": "YES"}
    cases = [
        case | {"actualOutput": "YES"},
        case | {"input": "b", "actualOutput": None},
    ]
    rows, _ = read(json.dumps({"testCases": cases}), "x.json")
    assert [row["predicted"] for row in rows] == ["YES", "NO_ANSWER"]
