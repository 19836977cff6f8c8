"""The whole product as processes: started, used, stopped and killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SECONDS = 60


class Server:
    """``tracker serve`` as a process, and an API key for it."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TRACKER_")},  # noqa: TID251
            "TRACKER_DATABASE_URL": database_url,
            "TRACKER_DATA_DIR": str(folder / "data"),
            "TRACKER_RECOMPUTE_SECONDS": "0.5",
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.key = self.run(
            "keys", "create", f"k{self.port}", "--role", "admin"
        ).strip()
        self.start()

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "tracker", *words]
        done = subprocess.run(
            command, env=self.environ, check=True, capture_output=True, text=True
        )
        return done.stdout

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracker", "serve", "--port", str(self.port)],
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert (
            self.process.stdout.readline()
            == f"Tracker is at http://127.0.0.1:{self.port}\n"
        )

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            data=data,
            method=method,
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)

    def kill_all(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    started = Server(database_url, tmp_path)
    yield started
    if started.process.poll() is None:
        started.kill_all()


def wait_until(condition: Any, seconds: float = SECONDS) -> float:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds
        time.sleep(0.1)
    return time.monotonic() - begun


def big_csv(rows: int) -> bytes:
    lines = "".join(f"k{i},YES,{('YES', 'NO')[i % 2]}\n" for i in range(rows))
    return f"key,predicted,label\n{lines}".encode()


def test_posted_labels_are_in_the_history_within_ten_seconds(server: Server) -> None:
    server.call("POST", "/detectors", {"name": "door", "question": "Closed?"})
    server.call("POST", "/detectors/door/queries", {"predicted": "YES", "label": "YES"})

    def is_there() -> bool:
        return len(server.call("GET", "/detectors/door/history")["items"]) == 3

    assert wait_until(is_there) < 10
    assert server.stop() == 0


def test_a_server_killed_in_the_middle_of_an_import_keeps_all_of_it_or_nothing(
    server: Server,
) -> None:
    server.call("POST", "/detectors", {"name": "door", "question": "Closed?"})
    body = big_csv(30_000)
    outcomes = set()
    # The moments span the whole import, whatever the speed of the machine.
    for tenth in (1, 3, 5, 7):
        detector = f"door{tenth}"
        server.call("POST", "/detectors", {"name": detector, "question": "Closed?"})
        request = subprocess.Popen(
            [sys.executable, "-c", _POST, str(server.port), server.key, detector],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert request.stdin is not None
        request.stdin.write(body)
        request.stdin.close()
        time.sleep(0.3 * tenth)
        server.kill_all()
        request.wait()
        server.start()
        exported = server.run("export", detector, "--what", "labels").count("\n") - 1
        outcomes.add(exported)
        assert exported in {0, 30_000}
        report = server.call("POST", f"/detectors/{detector}/import", body, "text/csv")
        assert report["labels_added"] + exported == 30_000
        assert report["unchanged"] == exported
    assert 0 in outcomes
    assert "no difference" in server.run("recompute", "--all")


_POST = """
import sys, urllib.request
port, key, detector = sys.argv[1:]
urllib.request.urlopen(urllib.request.Request(
    f"http://127.0.0.1:{port}/api/v1/detectors/{detector}/import",
    data=sys.stdin.buffer.read(),
    headers={"Authorization": f"Bearer {key}", "Content-Type": "text/csv"},
))
"""


def test_what_was_acknowledged_before_a_kill_is_there_after_it(server: Server) -> None:
    server.call("POST", "/detectors", {"name": "door", "question": "Closed?"})
    for number in range(40):
        body = {"predicted": "YES", "label": "YES", "key": f"k{number}"}
        server.call("POST", "/detectors/door/queries", body)
        if number % 20 == 10:
            server.kill_all()
            server.start()

    estimate = server.call("GET", "/detectors/door/estimate")

    assert estimate["labels"] == 40
    wait_until(
        lambda: (
            server.call("GET", "/detectors/door/history")["items"][-1]["labels"] == 40
        )
    )


def test_a_web_process_that_dies_is_started_anew(server: Server) -> None:
    children = subprocess.run(
        ["pgrep", "-P", str(server.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for child in children:
        # One that dies at once never worked and is not started again.
        time.sleep(5.5 / len(children))
        os.kill(int(child), signal.SIGKILL)

    def answers() -> bool:
        try:
            return bool(server.call("GET", "/detectors")["items"] == [])
        except (urllib.error.URLError, OSError):
            return False

    wait_until(answers)
    assert server.process.poll() is None


def test_children_end_when_the_one_that_started_them_is_killed(server: Server) -> None:
    server.process.kill()
    server.process.wait()

    def is_refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", server.port)) != 0

    wait_until(is_refused)
    assert server.process.stdout is not None
    server.process.stdout.close()


def test_a_port_that_is_taken_ends_the_command_with_the_reason(server: Server) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "tracker", "serve", "--port", str(server.port)],
        env=server.environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert second.returncode == 1
    assert f"--port {server.port} cannot be had" in second.stderr
