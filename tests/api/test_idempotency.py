"""A request under an idempotency key is carried out once, however often it is sent."""

import re
import threading
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from tests.api.problems import assert_problem
from tests.conftest import by
from tracker.services.idempotency import KEPT_FOR, answer_once
from tracker.storage.idempotency import StoredAnswer
from tracker.storage.labels import Label

KEY = {"Idempotency-Key": "one"}
LABEL = {"label": "NO"}
STUDY = {
    "name": "tree",
    "kind": "seeds",
    "rounds": [{"accuracy": 0.8}, {"accuracy": 0.9}],
}


ELSEWHERE = re.compile("attribution|audit|badges|rechecks?$|resume$|undo$|webhooks")
# OTLP knows no such key; the same records again change nothing (see test_otlp.py).
WITHOUT = "/api/v1/otlp/v1/logs"
# They only ask.
QUESTIONS = {"/api/v1/detectors/{id}/gate", "/api/v1/inspect"}


@pytest.fixture
def query(api, door):
    return api.post("/detectors/door/queries", {"predicted": "YES"}).json["id"]


@pytest.fixture
def posts(query):
    """Every call that changes something, with what makes it another request."""
    return {
        "/detectors": (
            {"name": "gate", "question": "?"},
            {"name": "fence", "question": "?"},
        ),
        "/detectors/door/queries": ({"predicted": "YES"}, {"predicted": "NO"}),
        f"/queries/{query}/labels": (LABEL, {"label": "YES"}),
        f"/queries/{query}/judgements": (
            {"judge": "llm-3", "verdict": "YES"},
            {"judge": "llm-3", "verdict": "NO"},
        ),
        "/detectors/door/import": (
            {"items": [{"predicted": "YES", "label": "NO"}]},
            {"items": [{"predicted": "NO", "label": "NO"}]},
        ),
        "/detectors/door/recompute": (None, None),
        "/detectors/door/studies": (STUDY, {**STUDY, "name": "another"}),
    }


def test_every_post_of_the_api_is_among_them(api, posts):
    paths = api.get("/openapi.json").json["paths"]
    documented = {path for path, calls in paths.items() if "post" in calls}
    for path in documented:
        call = paths[path]["post"]
        if any(one["name"] == "Idempotency-Key" for one in call.get("parameters", [])):
            assert "422" in call["responses"], path
    # These have tests of their own.
    elsewhere = {path for path in documented if ELSEWHERE.search(path)}
    for path in {WITHOUT} | QUESTIONS:
        parameters = paths[path]["post"].get("parameters", [])
        assert "Idempotency-Key" not in {one["name"] for one in parameters}
    keyed = documented - elsewhere - {WITHOUT} - QUESTIONS
    assert len(keyed) == len(posts)
    for path in keyed:
        call = paths[path]["post"]
        names = {parameter["name"] for parameter in call["parameters"]}
        assert "Idempotency-Key" in names
        assert {"400", "409", "422"} <= set(call["responses"])


def test_the_same_request_gets_the_same_answer_and_is_done_once(api, posts, tables):
    for number, (path, (body, _)) in enumerate(posts.items()):
        headers = {"Idempotency-Key": f"key-{number}"}
        first = api.post(path, body, headers=headers)
        assert first.status_code in {200, 201}, first.text
        before = tables()
        again = api.post(path, body, headers=headers)
        assert (again.status_code, again.data) == (first.status_code, first.data)
        assert again.content_type == first.content_type
        # The job notes that it ran.
        changed = {name for name, rows in tables().items() if rows != before[name]}
        assert changed <= {"job_runs"}


def test_without_a_key_each_request_is_one_of_its_own(api, query):
    path = f"/queries/{query}/labels"
    assert api.post(path, LABEL).json["id"] != api.post(path, LABEL).json["id"]


def test_a_key_that_was_given_to_another_request_is_refused(api, posts, query, tables):
    for number, (path, (body, other)) in enumerate(posts.items()):
        if body is not None:
            headers = {"Idempotency-Key": f"key-{number}"}
            api.post(path, body, headers=headers)
            before = tables()
            wrong = api.post(path, other, headers=headers)
            assert_problem(wrong, 422, field="Idempotency-Key")
            assert tables() == before
    api.post("/detectors/door/queries", {"predicted": "YES"}, headers=KEY)
    for path in (f"/queries/{query}/labels", "/detectors/door/recompute"):
        body = LABEL if "labels" in path else None
        wrong = api.post(path, body, headers=KEY)
        assert_problem(wrong, 422, field="Idempotency-Key")


def test_a_parameter_makes_another_request(api, door):
    path, text = "/detectors/door/import", "predicted\nYES\n"
    assert api.send_file(path, text, headers=KEY).status_code == 200
    wrong = api.send_file(f"{path}?on_error=skip", text, headers=KEY)
    assert_problem(wrong, 422, field="Idempotency-Key")


def test_another_api_key_may_use_the_same_words(api, query):
    path = f"/queries/{query}/labels"
    first = api.post(path, LABEL, headers=KEY, role="editor")
    second = api.post(path, LABEL, headers=KEY, role="labeler")
    assert first.json["id"] != second.json["id"]


def test_what_went_wrong_is_not_kept(api, door, tables):
    before = tables()
    path = "/detectors/door/import"
    assert_problem(api.send_file(path, "predicted\nMAYBE\n", headers=KEY), 422)
    assert tables() == before
    assert api.send_file(path, "predicted\nYES\n", headers=KEY).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "\u00e9", "a\tb"])
def test_a_key_of_another_kind_is_refused(api, door, tables, key):
    before = tables()
    headers = {"Idempotency-Key": key}
    wrong = api.post("/detectors/door/queries", {"predicted": "YES"}, headers=headers)
    assert_problem(wrong, 400, field="Idempotency-Key")
    assert tables() == before


@pytest.mark.parametrize(
    "key", ["!", "~" * 200, "8e03978e-40d5-43dd-bc93-6894a57f9324"]
)
def test_a_key_is_any_visible_word(api, door, key):
    headers = {"Idempotency-Key": key}
    body = {"predicted": "YES"}
    assert api.post("/detectors/door/queries", body, headers=headers).status_code == 201


def test_an_answer_is_kept_for_a_day_and_then_deleted(api, query, clock, database):
    path = f"/queries/{query}/labels"
    first = api.post(path, LABEL, headers=KEY)
    clock.at += KEPT_FOR - timedelta(seconds=1)
    assert api.post(path, LABEL, headers=KEY).json == first.json
    clock.at += timedelta(seconds=1)
    second = api.post(path, LABEL, headers=KEY)
    assert second.json["id"] != first.json["id"]
    clock.at += KEPT_FOR
    api.post(path, LABEL, headers={"Idempotency-Key": "two"})
    with database.read() as session:
        assert session.scalars(select(StoredAnswer.key)).all() == ["two"]


def test_of_many_at_once_one_is_done_and_the_others_hear_of_it(api, query, database):
    path, answers = f"/queries/{query}/labels", []
    start = threading.Barrier(8)

    def send():
        start.wait()
        answers.append(api.post(path, LABEL, headers=KEY))

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    done = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.data for answer in done}) == 1
    for answer in answers:
        if answer not in done:
            assert_problem(answer, 409)
            assert answer.headers["Retry-After"] == "1"
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Label)) == 1
    assert api.post(path, LABEL, headers=KEY).data == done[0].data


def test_while_the_first_is_under_way_the_second_is_told_to_come_again(
    api, query, app, database, clock
):
    path = f"/queries/{query}/labels"
    if database.is_sqlite:
        # Another thread of this process; of another process one would wait.
        app.extensions["tracker-idempotency-keys"] = {("admin-key", "one"): None}
        assert_problem(api.post(path, LABEL, headers=KEY), 409)
        app.extensions["tracker-idempotency-keys"].clear()
    else:
        with database.write() as session:
            who = by("admin-key", clock.at)
            answer_once(session, "one", who, lambda: ("", 200), digest="")
            wrong = api.post(path, LABEL, headers=KEY)
            assert_problem(wrong, 409)
            assert wrong.headers["Retry-After"] == "1"
            other = {"Idempotency-Key": "two"}
            assert api.post(path, LABEL, headers=other).status_code == 201
            session.rollback()
    assert api.post(path, LABEL, headers=KEY).status_code == 201


@pytest.mark.slow
def test_an_answer_and_its_effect_are_there_both_or_neither(api, query, database):
    """Something fails behind the label, as if the process had been killed."""
    path = f"/queries/{query}/labels"
    with database.write() as session:
        session.connection().exec_driver_sql(
            "ALTER TABLE stored_answers RENAME TO moved"
        )
    try:
        assert api.post(path, LABEL, headers=KEY).status_code >= 500
    finally:
        with database.write() as session:
            session.connection().exec_driver_sql(
                "ALTER TABLE moved RENAME TO stored_answers"
            )
    assert api.get(f"/queries/{query}/labels").json["items"] == []
    assert api.post(path, LABEL, headers=KEY).status_code == 201
