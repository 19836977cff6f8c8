"""The whole product as processes: started, used, stopped and killed."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import func, select

from tests.conftest import START, by
from tests.processes import (
    SECONDS,
    TRACKER,
    Process,
    clean_environ,
    fetch,
    free_port,
    wait_until,
)
from tracker.jobs.recompute import recompute_all
from tracker.services.estimates.recount import recount
from tracker.services.imports.writing import most_rows
from tracker.services.people.keys import create_key
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

pytestmark = pytest.mark.slow


class Server:
    """``tracker serve`` as a process, and an API key for it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        url = database.engine.url.render_as_string(hide_password=False)
        self.environ = clean_environ(
            TRACKER_DATABASE_URL=url,
            TRACKER_DATA_DIR=str(folder / "data"),
            TRACKER_RECOMPUTE_SECONDS="0.5",
            # So that it is known which one has a request.
            TRACKER_WEB_PROCESSES="1",
        )
        self.port = free_port()
        with database.write() as session:
            self.key = create_key(session, "test", "admin", by(at=START))
        self.start()

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*TRACKER, *words],
            env=self.environ,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def start(self) -> None:
        command = [*TRACKER, "serve", "--port", str(self.port)]
        self.process = Process(command, self.environ)
        assert self.process.line() == f"Tracker is at http://127.0.0.1:{self.port}\n"

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1{path}"
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": kind}
        return json.loads(fetch(url, method=method, body=body, headers=headers))

    def create_detector(self, name: str) -> None:
        self.call("POST", "/detectors", {"name": name, "question": "Closed?"})

    def answers(self) -> bool:
        try:
            return isinstance(self.call("GET", "/detectors")["items"], list)
        except (urllib.error.URLError, OSError):
            return False

    def children(self, *, recursive: bool = False) -> list[psutil.Process]:
        """The web server and the worker, and with *recursive* those that they began."""
        return psutil.Process(self.process.popen.pid).children(recursive)

    def web_process(self) -> psutil.Process:
        """The one that answers requests, which the web server has started."""
        [web] = [found for found in self.children() if "web" in found.cmdline()]
        # Where it is spawned it has a helper, which does nothing.
        [busiest] = sorted(web.children(), key=seconds_used)[-1:]
        return busiest


def seconds_used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.fixture
def server(database: Database, tmp_path: Path) -> Iterator[Server]:
    started = Server(database, tmp_path)
    yield started
    started.process.kill()


ROWS = 20_000


def rows_of(first: int) -> str:
    lines = (f"k{i},YES,{('YES', 'NO')[(first + i) % 2]}\n" for i in range(ROWS))
    return "key,predicted,label\n" + "".join(lines)


CSV, TURNED = rows_of(0), rows_of(1)


def narrow_counts(database: Database, detector: str) -> int:
    statement = (
        select(func.count())
        .select_from(Label)
        .join(Query, Query.id == Label.query_id)
        .join(Detector, Detector.id == Query.detector_id)
        .where(Detector.name == detector)
    )
    with database.read() as session:
        return session.execute(statement).scalar_one()


def assert_counted(database: Database) -> None:
    """Fold in what is pending; the running counts are then those of a recount."""
    recompute_all(database, worker="test")
    with database.read() as session:
        for detector in list_detectors(session):
            assert recount(session, detector) == []


class Import:
    """An import under way, and how far it has come."""

    def __init__(self, server: Server, detector: str, rows: str = CSV) -> None:
        self.process = server.web_process()
        self.begun = seconds_used(self.process)
        self.report: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._post, args=[server, detector, rows])
        self.thread.start()

    def _post(self, server: Server, detector: str, rows: str) -> None:
        try:
            self.report = server.call(
                "POST", f"/detectors/{detector}/import", rows.encode(), "text/csv"
            )
        except (OSError, http.client.HTTPException):
            # It was killed; a test that expects an answer finds no report.
            return

    def used(self) -> float:
        """Seconds of processor time since it began, whatever else the machine does."""
        return seconds_used(self.process) - self.begun

    def has_used(self, seconds: float) -> bool:
        """Whether it has come so far, or to its end, which it may reach with less."""
        return self.used() > seconds or not self.thread.is_alive()

    def wait(self) -> None:
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


@pytest.mark.chaos_on("postgresql")
def test_an_import_killed_in_the_middle_is_completed_by_sending_it_again(
    server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(CSV)
    server.create_detector("whole")
    whole = Import(server, "whole")
    whole.wait()
    needed = whole.used()
    assert whole.report["labels_added"] == ROWS
    outcomes = []
    # Only what answers requests is killed, and at last everything.
    for part in (0.3, 0.6, 0.9):
        detector = f"killed-at-{part}"
        server.create_detector(detector)
        killed = Import(server, detector)
        wait_until(partial(killed.has_used, part * needed))
        if part < 0.9:
            killed.process.kill()
            killed.wait()
            wait_until(server.answers)
        else:
            server.process.kill()
            killed.wait()
        outcomes.append(narrow_counts(server.database, detector))
        assert outcomes[-1] == ROWS or not killed.report
        # Sent again it adds what is missing, and nothing twice.
        missing, there = ROWS - outcomes[-1], outcomes[-1]
        if part < 0.9:
            again = Import(server, detector)
            again.wait()
            assert again.report["labels_added"] == missing
            assert again.report["unchanged"] == there
        else:
            said = server.run("import", detector, str(file))
            assert f"{missing:,} queries and {missing:,} labels added" in said
            assert f"{there:,} rows unchanged" in said
    # What was written by then stays, in whole pieces.
    assert all(each % most_rows(server.database) == 0 for each in outcomes)
    assert any(0 < each < ROWS for each in outcomes)
    assert_counted(server.database)


@pytest.mark.chaos_on("postgresql")
def test_labels_of_known_queries_are_changed_piece_by_piece_and_all_in_the_end(
    server: Server,
) -> None:
    server.create_detector("whole")
    first = Import(server, "whole")
    first.wait()
    needed = first.used()
    # To change a query takes more than to add it.
    for part, rows, label in ((0.4, TURNED, "NO"), (0.8, CSV, "YES")):
        killed = Import(server, "whole", rows)
        wait_until(partial(killed.has_used, part * needed))
        killed.process.kill()
        killed.wait()
        wait_until(server.answers)
        changed = 2 * count_evens(server.database, label)
        assert changed % most_rows(server.database) == 0
        assert changed == ROWS or not killed.report
        again = Import(server, "whole", rows)
        again.wait()
        assert again.report["labels_added"] == ROWS - changed
        assert 2 * count_evens(server.database, label) == ROWS
    assert_counted(server.database)


def count_evens(database: Database, label: str) -> int:
    with database.read() as session:
        found = session.execute(select(Query.key, Query.label)).all()
    even = [row.label for row in found if int(row.key[1:]) % 2 == 0]
    odd = [row.label for row in found if int(row.key[1:]) % 2]
    # Whole pieces were changed, and in them each row.
    assert even.count(label) == len(odd) - odd.count(label)
    return even.count(label)


@pytest.mark.chaos_on("postgresql")
def test_what_was_acknowledged_before_a_kill_is_there_once_and_soon_in_the_history(
    server: Server,
) -> None:
    server.create_detector("door")
    acknowledged: set[str] = set()
    has_ended = threading.Event()

    def post(number: int) -> None:
        key = f"k{number}"
        query = {"predicted": "YES", "label": "YES", "key": key}
        try:
            server.call("POST", "/detectors/door/queries", query)
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            # There was no answer, or half of one.
            has_ended.set()
        else:
            acknowledged.add(key)

    def post_until_the_end(poster: int) -> None:
        for number in range(poster, 100_000, 4):
            if has_ended.is_set():
                break
            post(number)

    with ThreadPoolExecutor(4) as pool:
        posters = [pool.submit(post_until_the_end, poster) for poster in range(4)]
        wait_until(lambda: len(acknowledged) > 60)
        server.process.kill()
    assert [poster.exception() for poster in posters] == [None] * 4
    before = set(acknowledged)
    with server.database.read() as session:
        stored = session.scalars(select(Query.key)).all()

    assert before <= set(stored)
    assert len(stored) == len(set(stored))
    # Of the four that had no answer some were stored; all may be sent again.
    assert len(stored) <= len(before) + 4
    server.start()
    for key in sorted(set(stored) | before):
        post(int(key.removeprefix("k")))
    assert server.call("GET", "/detectors/door/estimate")["labels"] == len(stored)

    def newest() -> Any:
        items = server.call("GET", "/detectors/door/history?method=exact")["items"]
        return items[-1]["labels"] if items else None

    server.call("POST", "/detectors/door/queries", {"predicted": "YES", "label": "NO"})
    wait_until(lambda: newest() == len(stored) + 1)
    assert server.process.stop() == 0


@pytest.mark.chaos_on("postgresql")
def test_what_dies_is_started_anew_and_nothing_outlives_the_server(
    server: Server,
) -> None:
    # The second and third time they are still starting.
    for kind in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        first = server.children()
        assert len(first) == 2
        for child in first:
            child.send_signal(kind)

        def has_revived(before: frozenset[psutil.Process] = frozenset(first)) -> bool:
            now = server.children()
            return len(now) == 2 and not {*now} & before

        wait_until(has_revived)
    # The one that answered before notices within a second that it is an orphan.
    wait_until(lambda: len(server.children(recursive=True)) > 2 and server.answers())
    assert server.process.popen.poll() is None
    family = server.children(recursive=True)

    server.process.popen.kill()
    server.process.popen.wait()

    wait_until(lambda: not any(child.is_running() for child in family))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


@pytest.mark.chaos_on("postgresql")
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_that_is_taken_ends_the_command_with_the_reason(
    database_url: str, tmp_path: Path, command: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*TRACKER, command, "--port", str(port)],
            env=clean_environ(
                TRACKER_DATABASE_URL=database_url, TRACKER_DATA_DIR=str(tmp_path)
            ),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    assert done.returncode == 1
    assert f"--port {port} is not available" in done.stderr
    # The demo is silent for half a minute, and says so first.
    assert done.stderr.startswith("Making the demo ready") == (command == "demo")
    # It is said before anything is made.
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["serve", "web"])
def test_a_kill_before_there_is_a_server_ends_the_command_with_the_reason(
    command: str, tmp_path: Path
) -> None:
    settings = clean_environ(
        TRACKER_DATABASE_URL=f"sqlite:///{tmp_path / 'none.db'}",
        TRACKER_DATA_DIR=str(tmp_path),
    )
    log = tmp_path / "log"
    process = Process(
        [*TRACKER, command, "--port", str(free_port())], settings, log=log
    )
    started = psutil.Process(process.popen.pid)

    def checks() -> list[psutil.Process]:
        return [one for one in started.children() if "prepare" in one.cmdline()]

    wait_until(lambda: checks() != [])
    checks()[0].kill()

    assert process.popen.wait(SECONDS) == 1
    process.kill()
    assert "signal 9" in log.read_text()


def test_a_web_server_that_is_killed_while_others_check_is_started_again(
    tmp_path: Path,
) -> None:
    settings = clean_environ(TRACKER_DATA_DIR=str(tmp_path))
    port = free_port()
    process = Process([*TRACKER, "serve", "--port", str(port)], settings)
    started = psutil.Process(process.popen.pid)

    def waiting() -> list[psutil.Process]:
        return [one for one in started.children() if "web" in one.cmdline()]

    wait_until(lambda: waiting() != [])
    waiting()[0].kill()

    assert process.line() == f"Tracker is at http://127.0.0.1:{port}\n"
    assert process.stop() == 0


def test_processes_that_answer_are_copies_where_that_is_safe(server: Server) -> None:
    """So that one that is killed is back at once, and still draws charts."""
    server.create_detector("door")
    server.call("POST", "/detectors/door/queries", {"predicted": "YES", "label": "NO"})
    before = server.web_process()
    before.kill()
    wait_until(lambda: not before.is_running() and server.answers())
    after = server.web_process()
    assert after.pid != before.pid
    if sys.platform == "linux":
        assert after.cmdline() == psutil.Process(after.ppid()).cmdline()
    url = f"http://127.0.0.1:{server.port}/api/v1/detectors/door/chart.png"
    for _ in range(2):
        picture = fetch(url, headers={"Authorization": f"Bearer {server.key}"})
        assert picture.startswith(b"\x89PNG")
