"""Concurrency limits: in all, and of one account or address."""

import threading

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tracker.app import create_app
from tracker.errors import TooManyError
from tracker.http.limits import ConcurrencyLimit
from tracker.settings import Settings
from tracker.storage.database import Database

MOST = 16


@pytest.fixture
def app(settings: Settings, database: Database) -> Flask:
    few = settings.model_copy(update={"web_connections": MOST, "proxies": 1})
    return create_app(few, database)


def ask(
    app: Flask, address: str, path: str = "/sign-in", method: str = "GET"
) -> TestResponse:
    """Ask behind one proxy, and leave the answer unread."""
    return app.test_client().open(
        path,
        method=method,
        headers={"X-Forwarded-For": f"198.51.100.1, {address}"},
        environ_base={"REMOTE_ADDR": "127.0.0.1"},
        buffered=False,
    )


def test_one_name_may_hold_fewer_than_all_together() -> None:
    limit = ConcurrencyLimit("exports", total=3, each=2)
    with limit.hold("a"), limit.hold("a"):
        with pytest.raises(TooManyError, match=r"of simultaneous exports \(2\)"):
            limit.hold("a").__enter__()
        with (
            limit.hold("b"),
            pytest.raises(TooManyError, match=r"simultaneous exports \(3\)"),
        ):
            limit.hold("c").__enter__()
    with limit.hold("a"), limit.hold("a"):
        pass


def test_many_threads_at_once_are_counted() -> None:
    limit = ConcurrencyLimit("exports", total=8, each=8)

    def work() -> None:
        for _ in range(500):
            with limit.hold("a"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [limit.hold("a") for _ in range(8)]
    for one in held:
        one.__enter__()
    with pytest.raises(TooManyError):
        limit.hold("a").__enter__()


def test_one_address_may_have_half_of_the_requests_open(app: Flask) -> None:
    held = [ask(app, "203.0.113.7") for _ in range(MOST // 2)]
    assert {answer.status_code for answer in held} == {200}

    refused = ask(app, "203.0.113.7")
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "10"
    # The rest of its body is not waited for.
    assert refused.headers["Connection"] == "close"
    assert "your limit of simultaneous requests (8)" in refused.text
    assert ask(app, "203.0.113.7", "/healthz").status_code == 200
    assert ask(app, "203.0.113.8").status_code == 200

    held.pop().close()
    assert ask(app, "203.0.113.7").status_code == 200


def test_the_api_answers_an_address_with_a_problem(app: Flask) -> None:
    held = [ask(app, "203.0.113.7") for _ in range(MOST // 2)]
    refused = ask(app, "203.0.113.7", "/api/v1/detectors", "POST")
    assert refused.status_code == 429
    assert refused.content_type == "application/problem+json"
    assert len(held) == MOST // 2


def test_an_ipv6_network_counts_as_one_address(app: Flask) -> None:
    held = [ask(app, f"2001:db8::{number:x}") for number in range(1, MOST // 2 + 1)]
    assert ask(app, "2001:db8::ffff:1").status_code == 429
    assert ask(app, "2001:db8:0:1::1").status_code == 200
    assert len(held) == MOST // 2


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/sign-in"),
        ("HEAD", "/sign-in"),
        ("POST", "/sign-in"),
        ("GET", "/static/icon.svg"),
        ("GET", "/nowhere"),
        ("GET", "/api/v1/detectors"),
    ],
)
def test_every_answer_ends_its_request(app: Flask, method: str, path: str) -> None:
    statuses = set()
    for _ in range(MOST):
        answer = ask(app, "203.0.113.7", path, method)
        statuses.add(answer.status_code)
        answer.close()
    assert len(statuses) == 1
    assert 429 not in statuses


def test_a_crash_ends_its_request(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(app, "full_dispatch_request", fail)
        patched.setattr(app, "handle_exception", fail)
        for _ in range(MOST):
            with pytest.raises(RuntimeError):
                ask(app, "203.0.113.7")
    assert ask(app, "203.0.113.7").status_code == 200
