"""Web server and workers as processes that are killed, and restarted each time."""

import http.client
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.conftest import START, by
from tests.processes import (
    ROOT,
    TRACKER,
    Process,
    clean_environ,
    free_port,
    wait_until,
)
from tracker.clock import utc_now
from tracker.services.people.keys import create_key
from tracker.storage.database import open_database

MUTATION = Path(__file__).parent / "mutation"
WEB, ANSWERING = "web", "answering"
# A machine that does other work takes its time to start a process.
_START_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    # By their names in small letters.
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_acknowledgement(self) -> bool:
        return self.status in {200, 201}

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Service:
    """``tracker web`` and some ``tracker worker``, supervised by nobody but the test.

    With *mutant* the processes run with one guarantee taken out of them; see
    ``mutation/sitecustomize.py``.
    """

    def __init__(
        self,
        database_url: str,
        folder: Path,
        *,
        workers: int = 2,
        mutant: str = "",
        **settings: str,
    ) -> None:
        self.database_url = database_url
        self.folder = folder
        self.port = free_port()
        self.mutant = mutant
        self.workers = [f"worker{number}" for number in range(1, workers + 1)]
        self.environ = clean_environ(
            TRACKER_DATABASE_URL=database_url,
            TRACKER_DATA_DIR=str(folder / "data"),
            TRACKER_RECOMPUTE_SECONDS="0.3",
            **settings,
        )
        if mutant:
            self.environ |= {
                "TRACKER_TEST_MUTANT": mutant,
                # What one process leaves open holds up the other on SQLite.
                "TRACKER_WEB_PROCESSES": "1",
                "PYTHONPATH": f"{MUTATION}:{ROOT}",
            }
        self.running: dict[str, Process] = {}
        self._logged: dict[str, int] = {}
        self._lock = threading.Lock()
        database = open_database(database_url)
        with database.write() as session:
            key = create_key(session, f"chaos {utc_now()}", "editor", by(at=START))
        database.close()
        self.headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
        }

    def __enter__(self) -> Self:
        for name in [WEB, *self.workers]:
            self.start(name)
        for name in [WEB, *self.workers]:
            self.wait_for(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self, name: str) -> None:
        words = ["web", "--port", str(self.port)] if name == WEB else ["worker"]
        log = self.log_of(name)
        self._logged[name] = log.stat().st_size if log.exists() else 0
        command = [*TRACKER, *words]
        self.running[name] = Process(command, self.environ, log=log)

    def wait_for(self, name: str) -> None:
        """Wait until a process that was started has begun to work."""
        if name in {WEB, ANSWERING}:
            wait_until(lambda: self.answers("/healthz"), _START_SECONDS)
            return

        def has_started() -> bool:
            content = self.log_of(name).read_bytes()[self._logged[name] :]
            return b"worker started" in content

        wait_until(has_started, _START_SECONDS)

    def kill(self, name: str) -> None:
        """SIGKILL, and restart it as any supervisor would."""
        if name == ANSWERING:
            # The web server itself restarts this one. With what checks, before there is
            # one, that serving is possible, it would end.
            for child in psutil.Process(self.running[WEB].popen.pid).children():
                if "prepare" not in child.cmdline():
                    child.kill()
            return
        self.running[name].kill()
        self.start(name)

    def answers(self, path: str) -> bool:
        try:
            return self.ask("GET", path).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        source: str = "127.0.0.1",
        key: str = "",
    ) -> Answer:
        """Ask once, with the editor's key unless another is given.

        Raises OSError or HTTPException where no whole answer comes.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=90, source_address=(source, 0)
        )
        try:
            where = path if path.startswith("/healthz") else f"/api/v1{path}"
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, where, data, self.headers | headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        answered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, answered, content)

    def mistakes(self) -> list[str]:
        """Lines of the logs that report an internal error."""
        return [
            line[:2000]
            for name in [WEB, *self.workers]
            for line in self.log_of(name).read_text().splitlines()
            if '"unexpected error"' in line
            or '"recompute failed"' in line
            or '"a task failed"' in line
            or '"the loop failed' in line
        ]
