"""Places: how many there are at once in this process, and fewer of one who asks."""

import threading

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tracker.app import create_app
from tracker.errors import TooManyError
from tracker.places import Places
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


def test_one_who_asks_has_fewer_places_than_there_are() -> None:
    places = Places("exports", most=3, most_of_one=2)
    with places.take("a"), places.take("a"):
        with pytest.raises(TooManyError, match="as you may, which is 2"):
            places.take("a").__enter__()
        with (
            places.take("b"),
            pytest.raises(TooManyError, match="3 exports are in progress"),
        ):
            places.take("c").__enter__()
    with places.take("a"), places.take("a"):
        pass


def test_places_are_counted_by_many_threads_at_once() -> None:
    places = Places("exports", most=8, most_of_one=8)

    def work() -> None:
        for _ in range(500):
            with places.take("a"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [places.take("a") for _ in range(8)]
    for place in held:
        place.__enter__()
    with pytest.raises(TooManyError):
        places.take("a").__enter__()


def test_one_address_may_have_half_of_the_requests_open(app: Flask) -> None:
    held = [ask(app, "203.0.113.7") for _ in range(MOST // 2)]
    assert {answer.status_code for answer in held} == {200}

    refused = ask(app, "203.0.113.7")
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "10"
    # The rest of its body is not waited for.
    assert refused.headers["Connection"] == "close"
    assert "in progress as you may, which is 8" in refused.text
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
def test_whatever_is_answered_gives_its_place_back(
    app: Flask, method: str, path: str
) -> None:
    statuses = set()
    for _ in range(MOST):
        answer = ask(app, "203.0.113.7", path, method)
        statuses.add(answer.status_code)
        answer.close()
    assert len(statuses) == 1
    assert 429 not in statuses


def test_a_fault_gives_its_place_back(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(app, "full_dispatch_request", fail)
        patched.setattr(app, "handle_exception", fail)
        for _ in range(MOST):
            with pytest.raises(RuntimeError):
                ask(app, "203.0.113.7")
    assert ask(app, "203.0.113.7").status_code == 200
