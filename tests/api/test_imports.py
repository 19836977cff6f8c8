"""Importing files by API."""

import json
import threading
from typing import Any

import pytest

from tests.api.problems import assert_problem

PATH = "/detectors/door/import"
ROWS = [
    {
        "key": "a",
        "predicted": "YES",
        "confidence": 0.9,
        "sampling": "random",
        "label": "YES",
    },
    {"key": "b", "input": "=1.jpg", "predicted": "NO", "version": "v2"},
    {"predicted": "NO", "label": "UNCLEAR", "note": "dark", "metadata": {"x": 1}},
]
CSV = (
    "key,input,predicted,confidence,version,sampling,label,note,metadata\n"
    "a,,YES,0.9,,random,YES,,\n"
    "b,'=1.jpg,NO,,v2,,,,\n"
    ',,NO,,,,UNCLEAR,dark,"{""x"": 1}"\n'
)
FILES = {
    "text/csv": CSV,
    "application/x-ndjson": "".join(json.dumps(row) + "\n" for row in ROWS),
    "application/json": json.dumps({"items": ROWS}),
}


class Report(dict[str, Any]):
    """A report, whatever the number of its import is."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, dict)
        return dict.__eq__(self, {k: v for k, v in other.items() if k != "id"})


def report(added=0, labels=0, unchanged=0):
    counts = {"queries_added": added, "labels_added": labels, "unchanged": unchanged}
    return Report({**counts, "references_added": 0, "bad_rows": 0, "errors": []})


@pytest.mark.parametrize("media_type", FILES)
def test_each_format_adds_the_same_queries(api, door, media_type):
    sent = api.send_file(PATH, FILES[media_type], media_type, role="editor")
    assert sent.status_code == 200, sent.text
    assert sent.json == report(added=3, labels=2)
    queries = api.walk("/detectors/door/queries")[::-1]
    for query, row in zip(queries, ROWS, strict=True):
        expected = {"version": "default", "sampling": "unstated", "label": None, **row}
        expected.pop("note", None)
        assert {name: query[name] for name in expected} == expected
    labels = api.get(f"/queries/{queries[2]['id']}/labels").json["items"]
    assert [(label["note"], label["labeler"]) for label in labels] == [
        ("dark", "editor-key")
    ]


@pytest.mark.parametrize("media_type", FILES)
def test_sending_a_file_again_adds_nothing(api, door, tables, media_type):
    api.send_file(PATH, FILES[media_type], media_type)
    before = tables()
    assert api.send_file(PATH, FILES[media_type], media_type).json == report(
        unchanged=3
    )
    assert tables() == before


def test_labels_for_known_keys_need_no_prediction(api, door):
    api.send_file(PATH, "key,predicted\na,YES\nb,NO\n")
    sent = api.send_file(PATH, "key,label\na,YES\nb,YES\n")
    assert sent.json == report(labels=2)
    assert api.get("/detectors/door/estimate").json["labels"] == 2


def test_another_label_is_a_correction_and_another_prediction_an_error(
    api, door, tables
):
    api.send_file(PATH, "key,predicted,label\na,YES,YES\n")
    assert api.send_file(PATH, "key,label\na,NO\n").json == report(labels=1)
    query = api.walk("/detectors/door/queries")[0]
    history = api.walk(f"/queries/{query['id']}/labels")
    assert [label["label"] for label in history] == ["NO", "YES"]
    before = tables()
    wrong = api.send_file(PATH, "key,predicted,label\na,NO,NO\n")
    assert_problem(wrong, 422, field="predicted", row=1)
    assert tables() == before


def test_another_input_of_a_known_key_is_an_error_and_none_is_not(api, door, tables):
    api.send_file(PATH, "key,predicted,input\na,YES,1.jpg\n")
    before = tables()
    wrong = api.send_file(PATH, "key,predicted,input\na,YES,2.jpg\n")
    problem = assert_problem(wrong, 422, field="input", row=1)
    assert "'1.jpg'" in str(problem["errors"])
    assert api.send_file(PATH, "key,predicted\na,YES\n").json == report(unchanged=1)
    assert tables() == before


def test_one_bad_row_and_nothing_is_written(api, door, tables):
    before = tables()
    lines = [f"k{number},YES,YES" for number in range(5_000)]
    lines[2_499] = "k2499,MAYBE,YES"
    lines[4_000] = "k4000,YES,yep"
    text = "\n".join(["key,predicted,label", *lines])
    problem = assert_problem(
        api.send_file(PATH, text), 422, field="predicted", row=2_500
    )
    assert [error["row"] for error in problem["errors"]] == [2_500, 4_001]
    assert "2 of 5,000" in problem["detail"]
    assert tables() == before


def test_with_skip_all_other_rows_are_written(api, door):
    text = "key,predicted,label\na,YES,YES\nb,MAYBE,NO\nc,NO,NO\nd,NO\na,YES,NO\n"
    sent = api.send_file(f"{PATH}?on_error=skip", text)
    assert sent.status_code == 200
    assert (sent.json["queries_added"], sent.json["labels_added"]) == (2, 2)
    assert sent.json["bad_rows"] == 3
    assert [(error["row"], error["field"]) for error in sent.json["errors"]] == [
        *[(2, "predicted"), (4, "row"), (5, "label")]
    ]
    keys = {query["key"] for query in api.walk("/detectors/door/queries")}
    assert keys == {"a", "c"}


def test_a_key_of_another_detector_is_not_known(api, door, tables):
    api.post("/detectors", {"name": "gate", "question": "?"})
    api.send_file("/detectors/gate/import", "key,predicted\na,YES\n")
    before = tables()
    assert_problem(api.send_file(PATH, "key,label\na,YES\n"), 422, field="key", row=1)
    assert tables() == before


def test_the_label_alone_names_no_query(api, door):
    wrong = api.send_file(PATH, "label\nYES\n")
    assert_problem(wrong, 422, field="predicted", row=1)


def test_what_is_not_there_is_not_imported_into(api, door, tables):
    before = tables()
    assert_problem(api.send_file("/detectors/nothing/import", CSV), 404)
    assert_problem(api.send_file(f"{PATH}?on_error=ignore", CSV), 400, field="on_error")
    assert_problem(api.send_file(f"{PATH}?on_eror=skip", CSV), 400, field="on_eror")
    for media_type in ("text/plain", "application/xml", ""):
        assert_problem(api.send_file(PATH, CSV, media_type), 415)
    assert tables() == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b'{"items": [NaN]}', 400, None),
        (b'{"items": [], "items": []}', 400, None),
        (b'{"items": [{"key": "\\ud800"}]}', 400, None),
        (b"\xff\xfe{\x00}\x00", 400, None),
        (b"[" * 2_000 + b"]" * 2_000, 400, None),
        (b"[]", 422, "items"),
        (b"{}", 422, "items"),
        (b'{"items": {}}', 422, "items"),
        (b'{"items": [], "more": 1}', 422, "more"),
        (b'{"items": [1]}', 422, "row"),
        (b'{"items": [{"predicted": 1}]}', 422, "predicted"),
        (b'{"items": [{"predicted": "YES", "x": 1}]}', 422, "x"),
        (b'{"items": [{"predicted": "YES", "confidence": "0.5"}]}', 422, "confidence"),
        (b'{"items": [{"predicted": "YES", "confidence": true}]}', 422, "confidence"),
        (b'{"items": [{"predicted": "YES", "asked_at": 0}]}', 422, "asked_at"),
    ],
)
def test_wrong_json_is_named(api, door, tables, body, status, field):
    before = tables()
    wrong = api.send_file(PATH, body, "application/json")
    assert_problem(wrong, status, field=field)
    assert tables() == before


@pytest.mark.parametrize(
    ("lines", "row", "field"),
    [
        (b'{"predicted":"YES"}\n{', 2, "row"),
        (b'{"predicted":"YES"}\n\n[]\n', 2, "row"),
        (b'{"predicted":"YES","confidence":1e999}\n', 1, "row"),
        (b'{"predicted":"YES","note":"\\ud800"}\n', 1, "row"),
        (b'{"predicted":"YES","note":"\\u0000"}\n', 1, "note"),
        (b'{"predicted":"YES"}\n\xff\n', 2, "row"),
        (b'{"predicted":"YES","metadata":{"a":NaN}}\n', 1, "row"),
        (b'{"predicted":"YES"} {"predicted":"YES"}\n', 1, "row"),
    ],
)
def test_wrong_json_lines_are_named(api, door, tables, lines, row, field):
    before = tables()
    wrong = api.send_file(PATH, lines, "application/x-ndjson")
    assert_problem(wrong, 422, field=field, row=row)
    assert tables() == before


def test_a_line_without_end_is_refused(api, door, tables):
    before = tables()
    line = b'{"predicted":"YES","note":"' + b"x" * 2**24
    wrong = api.send_file(PATH, line, "application/x-ndjson")
    assert_problem(wrong, 422, field="body")
    assert tables() == before


def test_a_null_means_the_same_as_a_field_left_out(api, door):
    row = dict.fromkeys(("key", "confidence", "label", "metadata", "version"))
    body = {"items": [{"predicted": "YES", **row}]}
    assert api.post(PATH, body).json == report(added=1)


def test_a_file_over_the_limit_is_refused(api, door, tables, settings, app):
    context = app.extensions["tracker"]
    small = settings.model_copy(update={"max_body_bytes": 2_000})
    app.extensions["tracker"] = type(context)(
        **{
            field: getattr(context, field)
            for field in ("database", "replica", "images", "recompute", "clock")
        },
        settings=small,
    )
    before = tables()
    text = "predicted\n" + "YES\n" * 1_000
    for media_type in FILES:
        answer = api.send_file(PATH, text, media_type)
        assert_problem(answer, 413)
        said = "the body may have 2,000 bytes here, which TRACKER_MAX_BODY_BYTES sets"
        assert answer.json["detail"] == said
    assert tables() == before


def test_the_same_key_from_two_files_at_once_is_kept_once(api, door):
    start = threading.Barrier(4)
    answers = []

    def send(number):
        text = "key,predicted,version\n" + "".join(
            f"k{row},YES,v{row % 3}\n" for row in range(50)
        )
        start.wait()
        answers.append(api.send_file(PATH, text + f"own{number},NO,v9\n"))

    senders = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert {answer.status_code for answer in answers} == {200}
    assert sum(answer.json["queries_added"] for answer in answers) == 54
    assert len(api.walk("/detectors/door/queries")) == 54
    assert len(api.get("/detectors/door").json["versions"]) == 4


def test_a_file_is_read_as_the_address_says(api, door):
    address = (
        f"{PATH}?map=predicted%3Dsaid&map=key%3Dn&class=yep%3DYES&extra=metadata"
        "&time_zone=Europe/Berlin&labeler=ann"
    )
    text = "n,said,truth,time,shade\n1,yep,NaN,2026-01-31 13:00,red\n2,No,yes,,\n"
    sent = api.send_file(address, text, role="editor")
    assert sent.status_code == 200, sent.text
    assert sent.json["columns"] == {
        "key": "n",
        "predicted": "said",
        "label": "truth",
        "asked_at": "time",
    }
    readings = {(one["field"], one["value"]): one for one in sent.json["values"]}
    assert readings["predicted", "yep"]["read_as"] == "YES"
    assert readings["label", "NaN"]["read_as"] == "no label"
    second, first = api.walk("/detectors/door/queries")
    assert first["asked_at"] == "2026-01-31T12:00:00Z"
    assert first["metadata"] == {"shade": "red"}
    assert (first["label"], second["predicted"], second["label"]) == (None, "NO", "YES")
    [label] = api.walk(f"/queries/{second['id']}/labels")
    assert label["labeler"] == "ann"


def test_wrong_choices_are_named(api, door, tables):
    before = tables()
    for choice, field in (
        ("map=colour%3Dx", "map"),
        ("map=key", "map"),
        ("extra=keep", "extra"),
        ("time_zone=Nowhere", "time_zone"),
    ):
        assert_problem(api.send_file(f"{PATH}?{choice}", CSV), 400, field=field)
    assert_problem(api.send_file(f"{PATH}?map=key%3Dx", CSV), 422, field="map")
    assert tables() == before


def test_an_editor_names_the_labeler_of_a_label(api, door):
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json
    path = f"/queries/{query['id']}/labels"
    body = {"label": "YES", "labeler": "ann"}
    assert_problem(api.post(path, body, role="labeler"), 403)
    assert api.post(path, body, role="editor").json["labeler"] == "ann"


@pytest.mark.parametrize("on_error", ["reject", "skip"])
def test_every_bad_row_is_told_in_its_order(api, door, on_error):
    rows = [
        {"key": "p1", "predicted": "YES", "label": "YES"},
        {"key": "p1", "predicted": "NO", "label": "YES"},
        {"key": "unknown", "label": "YES"},
        {"key": "p3", "predicted": "BAD"},
        {"key": "p4", "predicted": "BAD"},
        {"key": "p1", "predicted": "NO", "label": "YES"},
    ]
    sent = api.post(f"{PATH}?on_error={on_error}", {"items": rows})
    assert sent.status_code == (422 if on_error == "reject" else 200)
    errors = [(error["row"], error.get("also", [])) for error in sent.json["errors"]]
    assert errors == [(2, [6]), (3, []), (4, [5])]
    stored = api.get("/detectors/door/queries").json["total"]
    assert stored == (0 if on_error == "reject" else 1)
