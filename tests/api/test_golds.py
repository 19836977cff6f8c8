"""Gold queries: mixed in, told to nobody, scored nowhere, and what they tell."""

import json
from datetime import timedelta

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.conftest import START, Clock
from tracker.stats import clopper_pearson, is_careless

NEXT = "/detectors/door/next"
QUERIES = 36
GOLDS = 12


@pytest.fixture
def queries(api: Api, door) -> dict[str, str]:
    """Queries without a label, of which the first twelve are gold: NO."""
    rows = [
        {"key": f"q{i}", "predicted": "YES", "version": "v1"} for i in range(QUERIES)
    ]
    assert api.post("/detectors/door/import", {"items": rows}).status_code == 200
    found = {row["key"]: row["id"] for row in api.walk("/detectors/door/queries")}
    for i in range(GOLDS):
        marked = api.put(f"/queries/{found[f'q{i}']}/gold", {"label": "NO"})
        assert marked.status_code == 200, marked.text
    return found


def mix(api: Api, rate: float) -> None:
    answer = api.patch("/detectors/door", {"gold_rate": rate})
    assert answer.json["gold_rate"] == rate


def answer_next(api: Api, label: str = "YES", **options) -> tuple[dict, dict] | None:
    found = api.get(NEXT, role="labeler", **options)
    if found.status_code == 204:
        return None
    path = f"/queries/{found.json['id']}/labels"
    body = {"label": label, "sampling": found.json["sampling"]}
    given = api.post(path, body, role="labeler")
    assert given.status_code == 201, given.text
    return found.json, given.json


def is_gold(query: dict) -> bool:
    return int(query["key"][1:]) < GOLDS


def label_all(api: Api) -> list[tuple[dict, dict]]:
    return list(iter(lambda: answer_next(api), None))


def test_gold_queries_wait_in_no_queue(api, queries):
    given = [query["key"] for query, _ in label_all(api)]
    assert sorted(given) == sorted(f"q{i}" for i in range(GOLDS, QUERIES))
    assert (
        api.get("/detectors/door/estimate?version=v1").json["labels"] == QUERIES - GOLDS
    )


@pytest.mark.thorough
def test_how_many_come_and_where_is_up_to_chance(api, queries):
    mix(api, 0.4)
    given = [is_gold(query) for query, _ in label_all(api)]
    assert given.count(False) == QUERIES - GOLDS
    # Most come; none has a chance below 1 in 100,000.
    assert 1 <= given.count(True) <= GOLDS
    runs = "".join("g" if one else "q" for one in given)
    assert "qg" in runs.strip("g")
    assert "gq" in runs
    estimate = api.get("/detectors/door/estimate?version=v1").json
    assert estimate["labels"] == QUERIES - GOLDS
    rows = api.walk("/detectors/door/labels")
    assert len(rows) == QUERIES - GOLDS
    assert not any(is_gold(row) for row in rows)
    # Another person is given them too.
    assert api.get("/detectors/door/gold").json["items"][-1]["key"] == "q0"
    assert api.get(NEXT, role="editor").status_code == 204


@pytest.mark.thorough
def test_no_answer_of_the_api_tells_a_labeler_which_are_gold(api, queries):
    mix(api, 0.5)
    shapes = {True: set(), False: set()}
    for _ in range(16):
        found = api.get(NEXT, role="labeler").json
        before = api.get(f"/queries/{found['id']}", role="labeler").json
        assert (before["label"], before["sampling"]) == (None, "unstated")
        assert before["key"] == found["key"]
        labels = api.get(f"/queries/{found['id']}/labels", role="labeler").json
        assert labels == {"items": [], "next": None}
        _, label = answer_next(api)
        path = f"/queries/{found['id']}"
        assert label["query"] == found["id"]
        after = api.get(path, role="labeler").json
        assert (after["label"], after["sampling"]) == ("YES", "random")
        tagged = api.put(f"{path}/tags", {"tags": ["a"]}, role="labeler").json
        assert tagged["label"] == "YES"
        assert api.get(f"{path}/labels", role="labeler").json["items"] == [label]
        # A change is one more label, as of any other query.
        again = api.post(f"{path}/labels", {"label": "UNCLEAR"}, role="labeler").json
        history = api.get(f"{path}/labels", role="labeler").json["items"]
        assert history == [again, label | {"is_current": False}]
        told = json.dumps([found, before, label, after])
        assert "gold" not in told
        shapes[is_gold(found)].add(
            json.dumps([sorted(found), sorted(before), sorted(label), sorted(after)])
        )
    assert shapes[True] == shapes[False] != set()
    for method, path in (
        ("get", "/detectors/door/gold"),
        ("get", f"/queries/{queries['q1']}/gold"),
        ("delete", f"/queries/{queries['q1']}/gold"),
    ):
        assert_problem(getattr(api, method)(path, role="labeler"), 403)


@pytest.mark.thorough
def test_the_errors_of_each_person_are_counted_by_the_true_class(api, queries):
    mix(api, 0.5)
    label_all(api)
    (one,) = (report := api.get("/detectors/door/labelers").json)["gold"]
    assert report["items"] == []
    assert one["name"] == "labeler-key"
    known = one["known"]
    assert known > 2
    assert one["wrong"] == known
    assert one["careless"] is True
    low, high = clopper_pearson(known, known, 0.95)
    assert (one["low"], one["high"]) == (float(low), float(high))
    assert [part["known"] for part in one["classes"]] == [0, known]
    # A known answer that was wrong itself is corrected for all who answered.
    answered = [gold for gold in api.walk("/detectors/door/gold") if gold["answers"]]
    assert len(answered) == known
    for gold in answered:
        assert (gold["wrong"], gold["active"]) == (1, True)
        api.put(f"/queries/{gold['query']}/gold", {"label": "YES"})
    (one,) = api.get("/detectors/door/labelers").json["gold"]
    assert (one["known"], one["wrong"], one["careless"]) == (known, 0, False)


@pytest.mark.thorough
def test_the_flag_is_a_function_of_the_answers_in_order(api, queries):
    mix(api, 0.5)
    wrong = sum(is_gold(query) for query, _ in label_all(api))
    (one,) = api.get("/detectors/door/labelers").json["gold"]
    counts = range(1, wrong + 1)
    assert one["careless"] == bool(is_careless(counts, counts).any())


@pytest.mark.thorough
def test_what_is_answered_later_than_a_slip_of_a_finger_changes_nothing(
    api, queries, clock: Clock
):
    path = f"/queries/{queries['q0']}"
    for minutes, label, wrong in ((0, "YES", 1), (4, "NO", 0), (9, "YES", 0)):
        clock.at = START + timedelta(minutes=minutes)
        given = api.post(f"{path}/labels", {"label": label}, role="labeler")
        assert given.status_code == 201
        (one,) = api.get("/detectors/door/labelers").json["gold"]
        assert (one["known"], one["wrong"]) == (1, wrong)
        # The person sees what they said last.
        assert api.get(path, role="labeler").json["label"] == label
        assert api.get(path).json["label"] is None


def test_a_label_from_elsewhere_ends_a_gold_query(api, queries):
    items = [{"key": "q0", "label": "NO"}]
    assert api.post("/detectors/door/import", {"items": items}).json["labels_added"]
    assert api.get(f"/queries/{queries['q0']}/gold").json["active"] is False
    # What is picked on purpose is still drawn by chance, as any other query is.
    items = [{"key": "q1", "label": "NO", "sampling": "targeted"}]
    assert api.post("/detectors/door/import", {"items": items}).json["labels_added"]
    assert [query for query, _ in label_all(api) if query["key"] == "q1"]
    estimate = api.get("/detectors/door/estimate?version=v1").json
    assert estimate["labels"] == QUERIES - GOLDS + 2


@pytest.mark.thorough
def test_a_gold_query_goes_back_to_where_it_was(api, queries):
    for i in range(GOLDS):
        ended = api.delete(f"/queries/{queries[f'q{i}']}/gold")
        assert ended.status_code == 204
    assert_problem(api.delete(f"/queries/{queries['q0']}/gold"), 404)
    order = [query["key"] for query, _ in label_all(api)]
    assert len(order) == QUERIES
    ranks = [api.get(f"/queries/{queries[key]}").json["label"] for key in order]
    assert ranks == ["YES"] * QUERIES


def test_only_a_query_that_nobody_can_look_up_is_gold(api, queries):
    labelled = queries["q20"]
    api.post(f"/queries/{labelled}/labels", {"label": "YES"})
    refused = assert_problem(api.put(f"/queries/{labelled}/gold", {"label": "NO"}), 409)
    assert "look up" in refused["detail"]
    wrong = api.put(f"/queries/{queries['q31']}/gold", {"label": "MAYBE"})
    assert_problem(wrong, 422, field="label")
    body = {"name": "a", "half_width": 0.1, "version": "v1"}
    assert api.post("/detectors/door/audits", body).status_code == 201
    refused = api.put(f"/queries/{queries['q31']}/gold", {"label": "NO"})
    assert "audit" in assert_problem(refused, 409)["detail"]
    for queue in ("targeted", "random"):
        found = api.get(f"{NEXT}?queue={queue}").json
        assert not is_gold(found)


def test_what_an_open_audit_asks_for_is_a_label(api, queries):
    body = {"name": "a", "half_width": 0.1, "version": "v1"}
    made = api.post("/detectors/door/audits", body)
    assert made.status_code == 201
    given = api.post(
        f"/queries/{queries['q0']}/labels", {"label": "YES"}, role="labeler"
    )
    assert given.status_code == 201
    assert api.get(f"/queries/{queries['q0']}").json["label"] == "YES"
    assert api.get(f"/queries/{queries['q0']}/gold").json["active"] is False


def test_an_erased_gold_query_keeps_the_counts_and_no_note(api, queries, tables):
    body = {"label": "YES", "note": "secret"}
    path = f"/queries/{queries['q0']}"
    assert api.post(f"{path}/labels", body, role="labeler").status_code == 201
    assert api.get(f"{path}/labels", role="labeler").json["items"][0]["note"]
    assert api.delete(path).status_code == 204
    (one,) = api.get("/detectors/door/labelers").json["gold"]
    assert (one["known"], one["wrong"]) == (1, 1)
    assert_problem(api.get(f"{path}/gold"), 410)
    assert "secret" not in str(tables())


@pytest.mark.parametrize("rate", [-0.01, 0.51, None, "5"])
def test_a_rate_is_at_most_a_half(api, door, rate):
    wrong = api.patch("/detectors/door", {"gold_rate": rate})
    assert_problem(wrong, 422, field="gold_rate")
