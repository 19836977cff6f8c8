"""Commands of the product as processes, and what every test of them needs."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRACKER = (sys.executable, "-m", "tracker")
# A machine that does other work takes its time.
SECONDS = 120


def clean_environ(**settings: str) -> dict[str, str]:
    """This process's environment without any setting but those given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACKER_")}  # noqa: TID251
    # Without compiled files each process compiles all of them again.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | settings


# Below those that connections get, which could take one from a server.
_FIRST_PORT, _PORTS = 20_000, 12_000
_GIVEN: set[int] = set()


def free_port() -> int:
    """A port that no test of this run was given before.

    Two web servers that begin to listen on one port together share its requests.
    """
    environ = os.environ  # noqa: TID251 - of pytest-xdist.
    worker = int(environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = _PORTS // int(environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while True:
        port = _FIRST_PORT + worker * each + secrets.randbelow(each)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of *project* into *folder* and return where it is."""
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(
        [sys.executable, *command, str(project)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


def wait_until(condition: Callable[[], bool], seconds: float = SECONDS) -> float:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds
        time.sleep(0.05)
    return time.monotonic() - begun


def fetch(
    url: str,
    *,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The body of the answer; urllib raises for 4xx and 5xx."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, method=method, headers=dict(headers or {})
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        content = response.read()
    assert isinstance(content, bytes)
    return content


class Process:
    """One command, ended with everything that it started."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path = ROOT,
        log: Path | None = None,
    ) -> None:
        # Without a file for its log it writes where the tests do.
        with nullcontext() if log is None else log.open("ab") as stderr:
            self.popen = subprocess.Popen(
                command,
                env=dict(environ),
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline()

    def stop(self) -> int:
        """The exit status after SIGTERM."""
        self.popen.terminate()
        status = self.popen.wait(SECONDS)
        self.kill()
        return status

    def kill(self) -> None:
        """SIGKILL to the command and all that it started; twice does no harm."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


@contextmanager
def serving(cwd: Path = ROOT, **settings: str) -> Iterator[str]:
    """Run the ``tracker web`` of a checkout with these settings; give its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [*TRACKER, "web", "--port", str(port)]
    process = Process(command, clean_environ(**settings), cwd)

    def answers() -> bool:
        assert process.popen.poll() is None
        with suppress(OSError):
            return fetch(f"{url}/healthz") != b""
        return False

    try:
        wait_until(answers)
        yield url
    finally:
        process.kill()
