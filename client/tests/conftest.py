"""A real Tracker server as processes, and the client in processes of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracker_client import Tracker

from client.tests.service import Service, started


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One server for all tests of this process; each has detectors of its own."""
    with started(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def tracker(service: Service, tmp_path: Path) -> Iterator[Tracker]:
    """A client of the server with a spool of its own."""
    with Tracker(service.url, service.key, spool=tmp_path / "spool") as made:
        yield made


@pytest.fixture
def run_program(service: Service, tmp_path: Path):
    """Run Python code in a process that knows server, key and spool."""

    def run(code: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", code],
            env=service.environ(tmp_path / "spool") | settings,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
