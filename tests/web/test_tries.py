"""Passwords that are tried too often, by one visitor or by many at once."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
import requests
from flask import Flask
from sqlalchemy import func, select

from tests.conftest import Clock
from tests.processes import SECONDS, serving
from tests.web.conftest import PASSWORD, try_password
from tests.web.reading import read
from tracker.storage.database import Database
from tracker.storage.people import AuditEvent, SignInTry

pytestmark = pytest.mark.slow


def test_five_wrong_passwords_close_an_account_for_a_while(
    app: Flask, database: Database, clock: Clock, maria: str
) -> None:
    clients = [app.test_client() for _ in range(7)]
    found = [try_password(client, "wrong").status for client in clients]
    assert found == [401] * 5 + [429] * 2
    closed = try_password(clients[0], PASSWORD)
    assert closed.status == 429
    assert 0 < int(closed.headers["Retry-After"]) <= 15 * 60
    assert "Too many tries; wait up to 15 minutes, or ask for a link." in closed.text
    # What was refused is not counted, so nobody is kept out for ever.
    with database.read() as session:
        assert len(session.scalars(select(SignInTry)).all()) == 5
    clock.at += timedelta(minutes=15)
    assert try_password(clients[0], PASSWORD).status == 303
    with database.read() as session:
        assert session.scalars(select(SignInTry)).all() == []


def test_twenty_wrong_passwords_close_an_address(
    app: Flask, database: Database, maria: str
) -> None:
    client = app.test_client()
    found = [try_password(client, "wrong", f"n{number}").status for number in range(21)]
    assert found == [401] * 20 + [429]
    # An address that somebody claims to come from is not believed.
    form = read(client.get("/sign-in")).form("/sign-in")
    fields = {"name": "maria", "password": PASSWORD, "csrf_token": form["csrf_token"]}
    claimed = client.post(
        "/sign-in", data=fields, headers={"X-Forwarded-For": "203.0.113.9"}
    )
    assert claimed.status_code == 429
    elsewhere = client.post(
        "/sign-in", data=fields, environ_base={"REMOTE_ADDR": "203.0.113.9"}
    )
    assert elsewhere.status_code == 303


@pytest.fixture
def servers(database_url: str, maria: str, tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of two servers over one database, each of two processes."""
    settings = {
        "TRACKER_DATABASE_URL": database_url,
        "TRACKER_DATA_DIR": str(tmp_path / "data"),
        "TRACKER_WEB_PROCESSES": "2",
    }
    with serving(**settings) as first, serving(**settings) as second:
        yield [first, second]


@pytest.mark.chaos_on("sqlite")
def test_tries_are_counted_by_all_processes_as_one(
    servers: list[str], database: Database
) -> None:
    together = Barrier(8)

    def attempt(number: int, name: str) -> int:
        url = f"{servers[number % len(servers)]}/sign-in"
        with requests.Session() as browser:
            form = browser.get(url, timeout=SECONDS).text
            [token] = re.findall('name="csrf_token" value="(.+?)"', form)
            fields = {"name": name, "password": "wrong", "csrf_token": token}
            together.wait(SECONDS)
            return browser.post(url, fields, timeout=SECONDS).status_code

    def attempt_all(names: Sequence[str]) -> dict[int, int]:
        with ThreadPoolExecutor(together.parties) as pool:
            return dict(Counter(pool.map(attempt, range(len(names)), names)))

    def looked_at() -> int:
        failed = AuditEvent.action == "sign-in failed"
        statement = select(func.count()).select_from(AuditEvent).where(failed)
        with database.read() as session:
            return session.execute(statement).scalar_one()

    assert attempt_all(["maria"] * 16) == {401: 5, 429: 11}
    assert looked_at() == 5
    # Others from the same address: 20 in all.
    names = [f"person {number}" for number in range(24)]
    assert attempt_all(names) == {401: 15, 429: 9}
    assert looked_at() == 20
