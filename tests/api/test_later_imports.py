"""Imports that are answered at once and carried out by a worker."""

import pytest

from tests.api.problems import assert_problem
from tests.api.test_imports import CSV, FILES, PATH, report
from tests.conftest import START, by
from tests.jobs.imports import importing
from tracker.services.people.keys import create_key

LATER = {"Prefer": "respond-async"}


@pytest.fixture
def work(database, clock):
    return importing(database, clock).run


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
    assert found["error"] == "1 of 2 rows are wrong; nothing was written"
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
            session, "gate only", "editor", by(at=START), detectors=["gate"]
        )
    mine = {"Authorization": f"Bearer {key}"}
    hidden = api.get(sent.headers["Location"], role=None, headers=mine)
    never = api.get("/imports/imp_9", role=None, headers=mine)
    assert_problem(hidden, 404)
    assert hidden.json["detail"].replace("imp_1", "imp_9") == never.json["detail"]
    assert_problem(api.get("/imports/iq_1"), 404)
