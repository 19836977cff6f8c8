"""Patroni promotes the standby by itself when the machine of the primary is gone."""

import time
from pathlib import Path

from tests.chaos.load import Ledger, Profile, run
from tests.chaos.patroni import patroni_cluster
from tests.chaos.service import Service
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG
from tests.processes import wait_until

PROFILE = Profile(labels=5_000 if IS_LONG else 300, clients=8, kills=1, batch=1)


def test_no_label_is_lost_when_patroni_promotes_the_standby(
    tmp_path: Path, record_figure
) -> None:
    ledger = Ledger()
    seconds: list[float] = []
    with (
        patroni_cluster() as cluster,
        Service(cluster.create_database(), tmp_path) as service,
    ):
        watcher = Watcher(service)
        before = dict(service.running)

        def fail_over() -> None:
            gone = cluster.kill_leader()
            begun = time.monotonic()
            # Nobody but Patroni does anything.
            body = {"predicted": "YES"}
            path = "/detectors/plain/queries"
            wait_until(lambda: service.ask("POST", path, body).is_acknowledgement, 60)
            seconds.append(time.monotonic() - begun)
            assert cluster.leader != gone

        run(service, ledger, PROFILE, kill=fail_over, after_kill=watcher.look)
        problems = find_problems(service, ledger, watcher)
    record_figure(f"{ledger.describe()}; back after {max(seconds):.1f} s")
    assert problems == []
    assert len(ledger.labels) == PROFILE.labels
    assert service.running == before
