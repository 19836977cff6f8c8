"""Importing files by API."""

import json
import threading

import pytest

from tests.api.problems import assert_problem
from tests.conftest import START
from tracker.jobs.imports import Importer
from tracker.services.keys import create_key

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


def report(added=0, labels=0, unchanged=0):
    counts = {"queries_added": added, "labels_added": labels, "unchanged": unchanged}
    return {**counts, "bad_rows": 0, "errors": []}


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
    lines[4_000] = "k4000,YES,yes"
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
            for field in ("database", "images", "recompute", "clock")
        },
        settings=small,
    )
    before = tables()
    text = "predicted\n" + "YES\n" * 1_000
    for media_type in FILES:
        assert_problem(api.send_file(PATH, text, media_type), 413)
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


LATER = {"Prefer": "respond-async"}


@pytest.fixture
def work(database, clock):
    return Importer(database, "w", clock).run


@pytest.mark.parametrize("media_type", FILES)
def test_each_format_is_imported_by_and_by_with_the_same_report(
    api, door, work, media_type
):
    sent = api.send_file(PATH, FILES[media_type], media_type, headers=LATER)
    assert sent.status_code == 202, sent.text
    assert sent.headers["Preference-Applied"] == "respond-async"
    assert sent.headers["Location"] == "/api/v1/imports/imp_1"
    assert sent.headers["Retry-After"] == "1"
    assert sent.json == {
        "id": "imp_1",
        "detector": door["id"],
        "state": "waiting",
        "on_error": "reject",
        "rows_read": 0,
        "bytes": len(FILES[media_type]),
        "bytes_read": 0,
        "created_at": sent.json["created_at"],
        "started_at": None,
        "finished_at": None,
        "report": None,
        "error": None,
    }
    assert api.walk("/detectors/door/queries") == []
    waiting = api.get(sent.headers["Location"])
    assert waiting.json == sent.json
    assert waiting.headers["Retry-After"] == "1"

    assert work() == 1

    done = api.get(sent.headers["Location"])
    assert done.json["state"] == "done"
    assert done.json["report"] == report(added=3, labels=2)
    assert done.json["rows_read"] == 3
    assert done.json["started_at"] < done.json["finished_at"]
    assert "Retry-After" not in done.headers
    # What is sent again at once finds it all.
    again = api.send_file(PATH, FILES[media_type], media_type)
    assert again.json == report(unchanged=3)


def test_a_later_import_writes_what_one_at_once_does(api, door, work, tables):
    api.post("/detectors", {"name": "gate", "question": "?"})
    api.send_file(PATH, CSV, headers=LATER, role="editor")
    work()
    api.send_file("/detectors/gate/import", CSV, role="editor")
    rows = tables()
    events = [row for row in rows["audit_events"] if "'imported'" in row]
    assert len(events) == 2
    assert all("editor-key" in row and "127.0.0.1" in row for row in events)
    there, here = (
        [
            {
                **query,
                **dict.fromkeys(("id", "detector", "created_at", "asked_at")),
                "labels": [
                    {**label, **dict.fromkeys(("id", "query"))}
                    | dict.fromkeys(("labelled_at", "created_at"))
                    for label in api.walk(f"/queries/{query['id']}/labels")
                ],
            }
            for query in api.walk(f"/detectors/{name}/queries")
        ]
        for name in ("door", "gate")
    )
    assert there == here


def test_what_is_wrong_with_a_later_file_is_in_its_report(api, door, work, tables):
    text = "key,predicted,label\na,YES,YES\nb,MAYBE,NO\n"
    sent = api.send_file(PATH, text, headers=LATER)
    work()
    found = api.get(sent.headers["Location"]).json
    assert found["state"] == "rejected"
    assert found["error"] == "1 of 2 rows are wrong; nothing written"
    assert found["report"]["queries_added"] == 0
    assert [(e["row"], e["field"]) for e in found["report"]["errors"]] == [
        (2, "predicted")
    ]
    assert tables()["queries"] == []

    sent = api.send_file(f"{PATH}?on_error=skip", text, headers=LATER)
    work()
    found = api.get(sent.headers["Location"]).json
    assert (found["state"], found["on_error"]) == ("done", "skip")
    assert (found["report"]["queries_added"], found["report"]["bad_rows"]) == (1, 1)


def test_what_can_be_refused_at_once_is(api, door, tables, app):
    api.post("/detectors", {"name": "old", "question": "?"})
    api.delete("/detectors/old")
    old = api.get("/detectors?name=old").json["items"]
    assert old == []
    before = tables()
    for path, media_type, content, status in (
        ("/detectors/nothing/import", "text/csv", CSV, 404),
        ("/detectors/det_2/import", "text/csv", CSV, 409),
        (f"{PATH}?on_error=ignore", "text/csv", CSV, 400),
        (PATH, "text/plain", CSV, 415),
        (PATH, "application/json", "{", 400),
        (PATH, "application/json", "{}", 422),
        (f"{PATH}?on_error=skip", "application/json", '{"items": 1}', 422),
        (PATH, "application/json", '{"items": [{"predicted": "MAYBE"}]}', 422),
        (PATH, "text/csv", "colour\nred\n", 422),
        (PATH, "text/csv", "", 422),
    ):
        wrong = api.send_file(path, content, media_type, headers=LATER)
        assert_problem(wrong, status)
    assert tables() == before


@pytest.mark.parametrize(
    ("prefer", "status"),
    [
        ("respond-async", 202),
        ("Respond-Async; x=1", 202),
        ("return=minimal, respond-async, wait=10", 202),
        ("", 200),
        ("wait=10", 200),
        ('note="respond-async"', 200),
        ("respond-asynchronously", 200),
    ],
)
def test_only_who_prefers_it_is_answered_before_it_is_done(api, door, prefer, status):
    sent = api.send_file(PATH, CSV, headers={"Prefer": prefer})
    assert sent.status_code == status
    assert ("Preference-Applied" in sent.headers) == (status == 202)


def test_a_later_import_under_an_idempotency_key_is_one(api, door, work, tables):
    headers = {**LATER, "Idempotency-Key": "one"}
    first = api.send_file(PATH, CSV, headers=headers)
    work()
    before = tables()
    again = api.send_file(PATH, CSV, headers=headers)
    assert (again.status_code, again.data) == (202, first.data)
    for name in ("Location", "Preference-Applied"):
        assert again.headers[name] == first.headers[name]
    assert tables() == before
    assert work() == 0


def test_imports_are_listed_newest_first_in_pages(api, door, work):
    api.post("/detectors", {"name": "gate", "question": "?"})
    api.send_file("/detectors/gate/import", CSV, headers=LATER)
    for _ in range(3):
        api.send_file(PATH, CSV, headers=LATER)
    work()
    found = api.walk("/detectors/door/imports?limit=2")
    assert [each["id"] for each in found] == ["imp_4", "imp_3", "imp_2"]
    assert found[0] == api.get("/imports/imp_4").json
    wrong = api.get("/detectors/door/imports?after=det_1")
    assert_problem(wrong, 400, field="after")


def test_an_import_into_a_detector_that_one_does_not_see_is_not_there(
    api, door, database
):
    api.post("/detectors", {"name": "gate", "question": "?"})
    sent = api.send_file(PATH, CSV, headers=LATER)
    with database.write() as session:
        key = create_key(
            session, "gate only", "editor", created_at=START, detectors=["gate"]
        )
    mine = {"Authorization": f"Bearer {key}"}
    hidden = api.get(sent.headers["Location"], role=None, headers=mine)
    never = api.get("/imports/imp_9", role=None, headers=mine)
    assert_problem(hidden, 404)
    assert hidden.json["detail"].replace("imp_1", "imp_9") == never.json["detail"]
    assert_problem(api.get("/imports/iq_1"), 404)
