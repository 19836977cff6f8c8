"""An import is undone: what it added is gone, and what counted is counted again."""

import pytest

from tests.api.problems import assert_problem
from tracker.services.detectors import get_detector
from tracker.services.estimates.recount import recount

PATH = "/detectors/door/import"
FIRST = "key,predicted,label\na,YES,YES\nb,NO,YES\nc,NO,\n"


@pytest.fixture
def send(api, door, database):
    """Send CSV, let the job count it, and give the report."""

    def run(content: str, query: str = "") -> dict:
        sent = api.send_file(f"{PATH}?{query}", content, "text/csv", role="editor")
        assert sent.status_code == 200, sent.text
        api.post("/detectors/door/recompute", role="editor")
        return sent.json

    return run


@pytest.fixture
def undo(api, door, database):
    """Undo an import, see that all counts are right, and give its report."""

    def run(report: dict) -> dict:
        done = api.post(f"/imports/{report['id']}/undo", role="editor")
        assert done.status_code == 200, done.text
        assert done.json["state"] == "undone"
        for _ in range(2):
            with database.read() as session:
                assert recount(session, get_detector(session, "door")) == []
            api.post("/detectors/door/recompute", role="editor")
        return done.json["report"]

    return run


def counted(api) -> list[tuple[int, int]]:
    found = api.get("/detectors/door/estimate").json
    return [(one["correct"], one["labelled"]) for one in found["classes"]]


def test_what_an_import_added_is_taken_back(api, send, undo) -> None:
    send(FIRST)
    before = counted(api)
    history = len(api.get("/detectors/door/history").json["items"])
    report = send("key,predicted,label\nd,NO,NO\ne,YES,NO\nc,NO,NO\na,YES,NO\n")
    assert counted(api) != before
    taken = undo(report)
    assert counted(api) == before
    assert (taken["queries_taken_back"], taken["labels_taken_back"]) == (2, 4)
    assert "kept" not in taken
    queries = {q["key"]: q["label"] for q in api.walk("/detectors/door/queries")}
    assert queries == {"a": "YES", "b": "YES", "c": None}
    assert len(api.get("/detectors/door/history").json["items"]) >= history
    again = send("key,predicted,label\nd,YES,NO\n")
    assert again["queries_added"] == 1


def test_what_others_labelled_since_stays_and_is_counted(api, send, undo) -> None:
    report = send(FIRST)
    labels = {"b": "NO", "c": "NO"}
    send("key,label\n" + "".join(f"{key},{label}\n" for key, label in labels.items()))
    taken = undo(report)
    assert (taken["queries_taken_back"], taken["kept"]) == (1, 2)
    queries = {q["key"]: q["label"] for q in api.walk("/detectors/door/queries")}
    assert queries == labels


def test_references_and_what_took_them_over(api, send, undo) -> None:
    truths = send("input,label\n1,YES\n2,NO\n")
    assert undo(truths)["references_taken_back"] == 2
    report = send("input,predicted\n1,YES\n2,NO\n", "version=v1")
    assert all(q["label"] is None for q in api.walk("/detectors/door/queries"))
    undo(report)
    assert api.walk("/detectors/door/queries") == []


def test_runs_over_one_test_set(api, send, undo) -> None:
    send("id,pred,label\n1,YES,YES\n2,NO,NO\n", "version=v1")
    before = counted(api)
    report = send("id,pred\n1,NO\n2,NO\n", "version=v2")
    taken = undo(report)
    assert (taken["queries_taken_back"], taken["labels_taken_back"]) == (2, 2)
    assert counted(api) == before
    # The labels of the first run are those of the second one.
    send("id,pred\n1,NO\n2,NO\n", "version=v2")
    first = api.walk("/detectors/door/imports")[-1]
    assert undo(first)["kept"] == 2


def test_rows_without_a_key_that_grew(api, send, undo) -> None:
    one = "pred,label\nYES,YES\nNO,NO\n"
    send(one)
    report = send(one + "YES,NO\n")
    assert report["labels_added"] == 1
    assert undo(report)["labels_taken_back"] == 1
    assert send(one)["unchanged"] == 2
    assert send(one + "NO,NO\n")["labels_added"] == 1


def test_groups_have_another_unit(api, send, undo) -> None:
    send("key,predicted,label,group\na,YES,YES,g\n")
    before = counted(api)
    report = send("key,predicted,label,group\nb,NO,YES,g\nc,NO,YES,h\n")
    undo(report)
    assert counted(api) == before


def test_an_import_is_undone_once(api, send, undo) -> None:
    report = send(FIRST)
    undo(report)
    again = api.post(f"/imports/{report['id']}/undo", role="editor")
    assert_problem(again, 409)
    assert "id" not in send("key,label\n") or send("key,label\n")["id"] is None
    assert api.post(f"/imports/{report['id']}/undo", role="viewer").status_code == 403
    assert api.post("/imports/imp_99/undo", role="editor").status_code == 404
