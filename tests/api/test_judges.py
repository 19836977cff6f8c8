"""Judges by API: their verdicts, and audits that go by them."""

from datetime import timedelta

import pytest

from tests.api.problems import assert_problem
from tests.web.conftest import Visitor

QUERIES = 400
_WAYS = "", "/grid"


def fails(number):
    return number % 10 == 3


def verdict_of(number):
    """A judge that overlooks one failure in eight, and fails one pass in fifty."""
    is_off = number % 80 == 43 if fails(number) else number % 50 == 11
    return "NO" if fails(number) != is_off else "YES"


def judge(api, query, verdict, **more):
    body = {"judge": "llm-3", "verdict": verdict, **more}
    return api.post(f"/queries/{query}/judgements", body, role="editor")


@pytest.fixture
def answers(api, door):
    """Four hundred answers, all said to pass, of which a tenth fail."""
    rows = [{"key": f"q{n}", "predicted": "YES"} for n in range(QUERIES)]
    assert api.post("/detectors/door/import", {"items": rows}).status_code == 200
    return {one["key"]: one["id"] for one in api.walk("/detectors/door/queries")}


def begin(api, **more):
    body = {"name": "November", "seed": "s", "aim": "overall", "half_width": 0.03}
    made = api.post("/detectors/door/audits", body | more, role="editor")
    assert made.status_code == 201, made.text
    return made.json


def label(api, audit, count):
    for _ in range(count // 20):
        for one in api.get(f"/audits/{audit['id']}/next?count=20").json["items"]:
            assert "verdict" not in one
            body = {"label": "NO" if fails(int(one["key"][1:])) else "YES"}
            assert api.post(f"/queries/{one['id']}/labels", body).status_code == 201


def test_a_verdict_is_kept_beside_the_labels_and_a_later_one_replaces_it(
    api, door, clock
):
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json["id"]
    given = judge(api, query, "NO", score=0.2, explanation="A gap is seen.")
    assert given.status_code == 201
    assert given.json == {
        "judge": "llm-3",
        "kind": "model",
        "verdict": "NO",
        "score": 0.2,
        "explanation": "A gap is seen.",
        "judged_at": given.json["judged_at"],
    }
    clock.at += timedelta(seconds=1)
    assert judge(api, query, "YES").json["verdict"] == "YES"
    (kept,) = api.get(f"/queries/{query}/judgements").json["items"]
    assert (kept["verdict"], kept["score"]) == ("YES", None)
    assert api.get(f"/queries/{query}").json["label"] is None
    assert api.get("/detectors/door/estimate").json["labels"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"judge": "llm-3", "verdict": "MAYBE"}, "verdict"),
        ({"judge": "llm-3", "verdict": "UNCLEAR"}, "verdict"),
        ({"judge": "", "verdict": "YES"}, "judge"),
        ({"verdict": "YES"}, "judge"),
        ({"judge": "llm-3", "verdict": "YES", "kind": "oracle"}, "kind"),
        ({"judge": "llm-3", "verdict": "YES", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_verdict_is_refused(api, door, body, field):
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json["id"]
    assert_problem(api.post(f"/queries/{query}/judgements", body), 422, field=field)


def test_verdicts_are_for_editors_and_for_queries_that_are_there(api, door):
    assert_problem(judge(api, "iq_1", "YES"), 404)
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json["id"]
    body = {"judge": "llm-3", "verdict": "YES"}
    answer = api.post(f"/queries/{query}/judgements", body, role="labeler")
    assert_problem(answer, 403)


def test_an_audit_freezes_what_judges_have_said_when_it_begins(api, answers):
    for number in range(0, QUERIES, 4):
        judge(api, answers[f"q{number}"], verdict_of(number))
    audit = begin(api)
    assert (audit["aim"], audit["uses"]) == ("overall", ["confidence", "judge:llm-3"])
    first = api.get(f"/audits/{audit['id']}/next?count=20").json["items"]
    for number in range(QUERIES):
        judge(api, answers[f"q{number}"], "NO")
        judge(api, answers[f"q{number}"], "NO", judge="other")
    again = begin(api, name="Again", uses=["judge:llm-3"])
    assert again["uses"] == ["judge:llm-3"]
    assert api.get(f"/audits/{audit['id']}").json == audit
    label(api, audit, 60)
    drawn = api.get(f"/audits/{audit['id']}/next?count=20").json["items"]
    assert not {one["key"] for one in first} & {one["key"] for one in drawn}
    assert begin(api, name="Later")["uses"][1:] == ["judge:llm-3", "judge:other"]
    assert begin(api, name="Alone", uses=[])["uses"] == []


def test_who_labels_sees_no_verdict_and_draws_go_by_nobody_who_answers(
    api, app, answers
):
    for number in range(QUERIES):
        said = {"explanation": "said so because", "score": 0.815}
        judge(api, answers[f"q{number}"], verdict_of(number), **said)
    audit = begin(api)
    asked = f"/audits/{audit['id']}/next?count=20&labeler="
    anna = api.get(f"{asked}anna", role="labeler")
    shown = [anna.text, api.get("/detectors/door/next", role="labeler").text]
    visitor = Visitor(app, "bob", "labeler")
    pages = "label", "label/grid", *(f"label{of}?audit={audit['id']}" for of in _WAYS)
    shown += [visitor.get(f"/detectors/door/{page}").html for page in pages]
    for one in shown:
        assert "q" in one
        assert not {word for word in ("llm-3", "because", "0.815") if word in one}
    # The same key draws the same queries, in whatever order people ask.
    same = begin(api, name="Again")
    keys = [one["key"] for one in anna.json["items"]]
    path = asked.replace(audit["id"], same["id"])
    for name, place in (("zoe", 0), ("anna", 7)):
        items = api.get(f"{path}{name}".replace("20", "7"), role="labeler").json
        assert [one["key"] for one in items["items"]] == keys[place : place + 7]


@pytest.mark.parametrize(
    ("uses", "field"),
    [
        (["judge:nobody"], "uses"),
        (["judge:"], "uses"),
        (["confidence", "score"], "uses.1"),
        ("judge:llm-3", "uses"),
    ],
)
def test_an_audit_by_what_is_not_there_is_refused(api, answers, uses, field):
    body = {"name": "November", "uses": uses}
    assert_problem(api.post("/detectors/door/audits", body), 422, field=field)


@pytest.mark.slow
def test_a_judge_saves_labels_and_the_audit_says_how_many(api, answers):
    for number in range(QUERIES):
        assert judge(api, answers[f"q{number}"], verdict_of(number)).status_code == 201
    audit = begin(api)
    path = f"/audits/{audit['id']}"
    nothing = {"labels": 0, "labels_at_random": None, "labels_without_judges": None}
    assert api.get(f"{path}/savings").json == nothing
    label(api, audit, 120)
    found = api.get(f"{path}/estimate").json
    overall = found["overall"]
    assert overall["low"] <= 0.9 <= overall["high"]
    assert found["half_width"] == (overall["high"] - overall["low"]) / 2
    # The same digits on both databases.
    assert [int(overall[end] * 2**17) for end in ("low", "high")] == LOOK
    assert api.get(f"{path}/history").json["items"][-1]["overall"] == overall
    saved = api.get(f"{path}/savings").json
    assert saved["labels"] == 120
    assert saved["labels_without_judges"] > 1.15 * 120
    unjudged = begin(api, name="Unjudged", uses=["confidence"])
    assert unjudged["uses"] == ["confidence"]
    assert unjudged["labels_expected"] > audit["labels_expected"]


# In units of the grid that bounds lie on.
LOOK = [109_761, 122_879]
