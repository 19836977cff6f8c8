"""A standby answers what is read, and takes over when the primary is gone."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.load import Ledger, Profile, run
from tests.chaos.postgres import Postgres, Standby
from tests.chaos.service import Service
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG
from tests.processes import wait_until

PROFILE = Profile(labels=5_000 if IS_LONG else 300, clients=8, kills=1, batch=1)


@pytest.fixture
def primary() -> Iterator[Postgres]:
    """Not that of the other tests: it does not come back."""
    server = Postgres()
    yield server
    server.stop()


def test_a_standby_is_read_and_takes_over_without_a_restart(
    primary: Postgres, tmp_path: Path, record_figure
) -> None:
    url = primary.create_database()
    standby = Standby(primary)
    hosts = [primary.url.query["host"], standby.url_of(url).query["host"]]
    both = (
        primary.url.set(database=standby.url_of(url).database)
        .set(query={"host": hosts, "target_session_attrs": "read-write"})
        .render_as_string(hide_password=False)
    )
    ledger = Ledger()
    seconds: list[float] = []
    try:
        with Service(both, tmp_path) as service:
            watcher = Watcher(service)

            def fail_over() -> None:
                primary.kill()
                begun = time.monotonic()
                standby.promote()
                wait_until(lambda: service.answers("/detectors"), 30)
                seconds.append(time.monotonic() - begun)

            run(service, ledger, PROFILE, kill=fail_over, after_kill=watcher.look)
            problems = find_problems(service, ledger, watcher)
    finally:
        standby.stop()
    record_figure(f"{ledger.describe()}; back after {max(seconds):.1f} s")
    assert problems == []
    assert len(ledger.labels) == PROFILE.labels


def test_a_web_server_on_a_standby_answers_reads(
    primary: Postgres, tmp_path: Path
) -> None:
    url = primary.create_database()
    with Service(url, tmp_path, workers=0) as service:
        made = service.ask("POST", "/detectors", {"name": "door", "question": "Is it?"})
        assert made.status == 201
    standby = Standby(primary)
    try:
        there = standby.url_of(url).render_as_string(hide_password=False)
        service.environ["TRACKER_DATABASE_URL"] = there
        with service:
            assert service.ask("GET", "/detectors").status == 200
            assert service.ask("GET", "/detectors/door/estimate").status == 200
            body = {"predicted": "YES", "label": "NO"}
            refused = service.ask("POST", "/detectors/door/queries", body)
            assert refused.status == 503
            assert "retry-after" in refused.headers
            assert service.mistakes() == []
    finally:
        standby.stop()
