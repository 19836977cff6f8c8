"""The command worker says whether one of this machine is alive."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.filled import opened
from tests.cli.test_commands import Shell
from tracker.clock import utc_now
from tracker.storage.estimates.job_runs import beat


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    return Shell(database_url, tmp_path)


def test_a_check_of_one_worker_does_not_see_those_of_other_machines(
    shell: Shell,
) -> None:
    shell("db", "upgrade")
    refused = shell("worker", "--check", status=1)
    assert "no worker was ever seen on" in refused.stderr

    def beats(worker: str, seconds_ago: float) -> None:
        with opened(shell) as database, database.write() as session:
            seen_at = utc_now() - timedelta(seconds=seconds_ago)
            beat(session, worker, seen_at=seen_at)

    beats(f"{socket.gethostname()}.other-1", 0)
    assert shell("worker", "--check", status=1).stderr == refused.stderr
    beats(f"{socket.gethostname()}-1", 100)
    assert "seconds" in shell("worker", "--check", status=1).stderr
    beats(f"{socket.gethostname()}-2", 1)
    assert "A worker was seen" in shell("worker", "--check").stdout
