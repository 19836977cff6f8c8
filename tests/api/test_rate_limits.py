"""A key that sends too much is told to wait, and others are not."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.api.problems import assert_problem
from tracker.http.limits import MinuteCounter

PATH = "/detectors"


@pytest.fixture
def limited(app, settings):
    """The application lets each key send three requests a minute."""
    context = app.extensions["tracker"]
    app.extensions["tracker"] = replace(
        context, settings=settings.model_copy(update={"requests_per_minute": 3})
    )


def test_a_request_too_many_is_refused_until_the_minute_is_over(api, limited, clock):
    clock.at = clock.at.replace(second=20, microsecond=0)
    for _ in range(3):
        assert api.get(PATH).status_code == 200
    wrong = api.get(PATH)
    assert_problem(wrong, 429)
    assert wrong.headers["Retry-After"] == "40"
    clock.at += timedelta(seconds=39)
    assert api.get(PATH).headers["Retry-After"] == "1"
    clock.at += timedelta(seconds=1)
    assert api.get(PATH).status_code == 200


def test_nothing_is_done_for_a_request_too_many(api, door, limited, tables):
    for _ in range(3):
        api.get(PATH)
    before = tables()
    body = {"predicted": "YES"}
    assert_problem(api.post("/detectors/door/queries", body), 429)
    assert tables() == before


def test_each_key_has_its_own_count(api, limited):
    for _ in range(4):
        api.get(PATH)
    assert_problem(api.get(PATH), 429)
    assert api.get(PATH, role="viewer").status_code == 200


def test_what_needs_no_key_is_not_counted(api, limited):
    for _ in range(5):
        assert api.get("/openapi.json", role=None).status_code == 200
    assert api.get(PATH).status_code == 200


def test_without_the_setting_there_is_no_limit(api, settings):
    assert settings.requests_per_minute == 0
    assert {api.get(PATH).status_code for _ in range(50)} == {200}


def test_what_is_refused_counts_too(api, limited):
    for _ in range(3):
        answer = api.post(PATH, {"name": "door"}, role="viewer")
        assert_problem(answer, 403)
        assert "RateLimit" in answer.headers
    assert_problem(api.post(PATH, {"name": "door"}, role="viewer"), 429)


def test_ten_refusals_a_minute_are_noted(api, tables, clock):
    clock.at = clock.at.replace(second=20, microsecond=0)
    before = len(tables()["audit_events"])
    for _ in range(15):
        assert_problem(api.post(PATH, {"name": "door"}, role="viewer"), 403)
    assert len(tables()["audit_events"]) == before + 10
    clock.at += timedelta(minutes=1)
    assert_problem(api.post(PATH, {"name": "door"}, role="viewer"), 403)
    assert len(tables()["audit_events"]) == before + 11


def test_threads_lose_no_request():
    counter, start = MinuteCounter(), threading.Barrier(8)

    def send():
        start.wait()
        for _ in range(500):
            counter.add("camera", minute=1)

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert counter.add("camera", minute=1) == 4_001
    assert counter.add("camera", minute=2) == 1
