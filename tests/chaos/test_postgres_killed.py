"""PostgreSQL itself is killed: 503 while it is away, and back without a restart."""

import time
from pathlib import Path

from tests.chaos.load import Ledger, Profile, run
from tests.chaos.postgres import Postgres
from tests.chaos.service import Service
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG
from tests.processes import wait_until

PROFILE = (
    Profile(labels=5_000, clients=8, kills=5, batch=1)
    if IS_LONG
    else Profile(labels=300, clients=8, kills=2, batch=1)
)


def test_nothing_is_lost_when_postgresql_is_killed(
    postgres: Postgres, tmp_path: Path, record_figure
) -> None:
    ledger = Ledger()
    with Service(postgres.create_database(), tmp_path) as service:
        watcher = Watcher(service)
        before = dict(service.running)
        seconds: list[float] = []

        def kill() -> None:
            postgres.kill()
            seen = ledger.statuses[503]
            wait_until(lambda: ledger.statuses[503] > seen)
            assert service.ask("GET", "/detectors").status == 503
            assert service.answers("/healthz")
            postgres.start()
            begun = time.monotonic()
            wait_until(lambda: service.answers("/detectors"), 10)
            seconds.append(time.monotonic() - begun)

        run(service, ledger, PROFILE, kill=kill, after_kill=watcher.look)
        problems = find_problems(service, ledger, watcher)
        alive = {name for name, one in before.items() if one.popen.poll() is None}

    record_figure(f"{ledger.describe()}; back after {max(seconds):.1f} s at most")
    assert problems == []
    assert len(ledger.labels) == PROFILE.labels
    assert service.running == before
    assert alive == before.keys()
