"""Columns judge:NAME of an import are verdicts of judges, and never labels."""

import pytest

PATH = "/detectors/door/import"
FILE = (
    "key,predicted,label,judge:llm-3,Judge: rules\n"
    "a,YES,YES,YES,no\nb,NO,,NO,\nc,NO,NO,,YES\n"
)


@pytest.fixture
def send(api, door):
    def run(content: str, kind: str = "text/csv", query: str = "") -> dict:
        sent = api.send_file(f"{PATH}?{query}", content, kind, role="editor")
        assert sent.status_code == 200, sent.text
        return sent.json

    return run


@pytest.fixture
def judged(api, door):
    """What is said of each query, by key and judge."""

    def run() -> dict[str, dict[str, str]]:
        found = {}
        for query in api.walk("/detectors/door/queries"):
            items = api.get(f"/queries/{query['id']}/judgements").json["items"]
            found[query["key"]] = {one["judge"]: one["verdict"] for one in items}
        return found

    return run


SAID = {
    "a": {"llm-3": "YES", "rules": "NO"},
    "b": {"llm-3": "NO"},
    "c": {"rules": "YES"},
}


def test_verdicts_of_new_queries_are_stored_once(api, send, judged) -> None:
    report = send(FILE)
    assert (report["queries_added"], report["labels_added"]) == (3, 2)
    assert report["verdicts_added"] == 4
    assert judged() == SAID
    judges = api.get("/detectors/door/judges").json["items"]
    assert [(j["name"], j["judgements"], j["labelled"]) for j in judges] == [
        ("llm-3", 2, 1),
        ("rules", 2, 2),
    ]
    again = send(FILE)
    assert "verdicts_added" not in again
    assert again["unchanged"] == 3


def test_a_judge_speaks_of_known_queries_and_changes_its_word(send, judged) -> None:
    send("key,predicted\na,YES\nb,NO\nc,NO\n")
    rows = "key,judge:llm-3\na,YES\nb,NO\n"
    assert send(rows)["verdicts_added"] == 2
    changed = send(rows.replace("b,NO", "b,YES"))
    assert (changed["verdicts_added"], changed["unchanged"]) == (1, 1)
    lines = '{"key": "c", "judge:llm-3": "NO"}\n{"key": "a", "judge:llm-3": null,'
    report = send(lines + ' "label": "YES"}\n', "application/x-ndjson")
    assert (report["verdicts_added"], report["labels_added"]) == (1, 1)
    assert judged() == {
        "a": {"llm-3": "YES"},
        "b": {"llm-3": "YES"},
        "c": {"llm-3": "NO"},
    }


def test_a_column_is_named_as_that_of_a_judge(send, judged) -> None:
    send("key,predicted,gpt\na,YES,NO\n", query="map=judge:llm=gpt")
    assert judged() == {"a": {"llm": "NO"}}


def test_rows_without_a_key_get_verdicts_later(send, judged) -> None:
    send("input,predicted\n1,YES\n2,NO\n")
    report = send("input,predicted,judge:llm\n1,YES,NO\n2,NO,NO\n3,NO,\n")
    assert (report["queries_added"], report["verdicts_added"]) == (1, 2)
    assert sorted(map(str, judged().values())) == ["{'llm': 'NO'}"] * 2 + ["{}"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("key,predicted,judge:llm\na,YES,MAYBE\nb,NO,MAYBE\n", "judge:llm"),
        ("key,predicted,judge:llm\na,YES,UNCLEAR\n", "judge:llm"),
        ("input,label,judge:llm\n1,YES,NO\n", "judge:llm"),
        ("key,predicted,judge:\na,YES,NO\n", "judge:"),
        ("key,judge:llm\nnobody,YES\n", "key"),
    ],
)
def test_what_is_no_verdict_is_refused_once_for_all_rows(
    api, door, judged, content, field
) -> None:
    sent = api.send_file(PATH, content, "text/csv", role="editor")
    assert sent.status_code == 422
    errors = sent.json["errors"]
    assert {error["field"] for error in errors} == {field}
    assert [error.get("rows", 1) for error in errors][:1] == [
        content.count("MAYBE") or 1
    ]
    assert judged() == {}


def test_an_undo_takes_verdicts_back(api, send, judged) -> None:
    send("key,predicted\na,YES\nb,NO\n")
    report = send(FILE)
    (query,) = (q for q in api.walk("/detectors/door/queries") if q["key"] == "b")
    said = {"judge": "llm-3", "verdict": "YES"}
    api.post(f"/queries/{query['id']}/judgements", said, role="editor")
    done = api.post(f"/imports/{report['id']}/undo", role="editor").json["report"]
    assert done["verdicts_taken_back"] == 3
    assert judged() == {"a": {}, "b": {"llm-3": "YES"}}
