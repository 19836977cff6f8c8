"""Tracker's own commands, started as their users start them."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tracker_client import ServerError
from tracker_client.server import Server, path_of

from tests.processes import Process, clean_environ, fetch, free_port, wait_until

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tracker")
# A machine that does other work takes its time to start a process.
_START_SECONDS = 240


@dataclass
class Service:
    """A server, and a key for it."""

    url: str
    key: str
    settings: dict[str, str]
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def new_name(self) -> str:
        """A name that no detector has."""
        return f"door {next(self.numbers)}"

    def environ(self, spool: Path) -> dict[str, str]:
        """The environment of a program that logs."""
        return clean_environ(
            TRACKER_URL=self.url,
            TRACKER_KEY=self.key,
            TRACKER_SPOOL=str(spool),
            PYTHONPATH=str(ROOT / "client"),
        )

    def run(self, *words: str) -> str:
        """Run a command of the server's, and return what it said."""
        done = subprocess.run(
            [*COMMAND, *words],
            env=self.settings,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    @cached_property
    def server(self) -> Server:
        return Server(self.url, self.key)

    def queries(self, detector: str) -> dict[str, dict]:
        """Every query of a detector by its key; fails where one is there twice."""
        server = self.server
        found: dict[str, dict] = {}
        path = f"{path_of(detector)}/queries?limit=1000"
        while path:
            page = server.get(path).json
            for item in page["items"]:
                assert item["key"] not in found
                found[item["key"]] = item
            path = page["next"] and page["next"].partition("/api/v1")[2]
        return found

    def labels(self, detector: str, key: str) -> list[str]:
        """Every label ever given to a query, the oldest first."""
        query = self.queries(detector)[key]
        found = self.server.get(f"/queries/{query['id']}/labels").json["items"]
        return [one["label"] for one in found][::-1]

    def answers(self) -> bool:
        try:
            return fetch(f"{self.url}/healthz") != b""
        except (OSError, ServerError):
            return False


@contextmanager
def started(folder: Path) -> Iterator[Service]:
    """Run a server on a new SQLite in *folder*."""
    port = free_port()
    settings = clean_environ(
        TRACKER_DATABASE_URL=f"sqlite:///{folder / 'tracker.db'}",
        TRACKER_DATA_DIR=str(folder / "data"),
    )
    service = Service(f"http://127.0.0.1:{port}", "", settings)
    service.run("db", "upgrade")
    service.key = service.run("keys", "create", "client", "--role", "editor")
    command = [*COMMAND, "web", "--port", str(port)]
    process = Process(command, settings, ROOT, folder / "web.log")
    try:
        wait_until(service.answers, _START_SECONDS)
        yield service
    finally:
        service.server.close()
        process.kill()
