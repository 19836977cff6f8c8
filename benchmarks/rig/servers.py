"""Servers to be measured: our own, and MLflow's from an environment of its own."""

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MLFLOW = "3.17.2"


def environment(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of our own commands, with the database at *url*."""
    return {
        **_inherited(),
        "TRACKER_DATABASE_URL": url,
        "TRACKER_DATA_DIR": str(folder),
        "TRACKER_MAX_BODY_BYTES": str(2**32),
    }


def _inherited() -> dict[str, str]:
    inherited = os.environ.items()  # noqa: TID251 - handed on to other commands.
    return {name: value for name, value in inherited if "TRACKER_" not in name}


@contextmanager
def served(
    url: str, folder: Path, *, worker: bool = False, tree: Path | None = None
) -> Iterator[int]:
    """Run the web server, maybe with a worker, and give its port once it answers.

    It is that of this checkout, or of the one in *tree*.
    """
    port = _free_port()
    words = [sys.executable, "-m", "tracker", "serve" if worker else "web"]
    environ = environment(url, folder)
    with _running([*words, "--port", str(port)], environ, port, tree=tree):
        yield port


@contextmanager
def served_mlflow(folder: Path) -> Iterator[int]:
    """Run MLflow's tracking server on a new SQLite, and give its port."""
    port = _free_port()
    words = [
        str(install_mlflow()),
        "server",
        *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
        *("--default-artifact-root", str(folder / "artifacts")),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    environ = {**_inherited(), "MLFLOW_DISABLE_TELEMETRY": "true"}
    with _running(words, environ, port, path="/health"):
        yield port


def has_mlflow() -> bool:
    """Return whether MLflow is installed or can be; says so where it cannot."""
    try:
        install_mlflow()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"MLflow {MLFLOW} cannot be installed here and is left out: {error}")
        return False
    return True


def install_mlflow() -> Path:
    """Return MLflow's command, installed on its own, for we do not depend on it."""
    base = _inherited().get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "tracker-bench" / f"mlflow-{MLFLOW}"
    command = folder / "bin" / "mlflow"
    if not command.exists():
        print(f"installing MLflow {MLFLOW} into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        words = ["-m", "pip", "install", "--quiet", f"mlflow=={MLFLOW}"]
        subprocess.run([folder / "bin" / "python", *words], check=True)
    return command


@contextmanager
def _running(
    words: list[str],
    environ: dict[str, str],
    port: int,
    *,
    path: str = "/healthz",
    tree: Path | None = None,
) -> Iterator[None]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, env=environ, cwd=tree, **quiet)
    try:
        while not _answers(port, path):
            time.sleep(0.1)
            assert process.poll() is None, "the server has ended"
        yield
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    """Return a port below those that connections get, which could take it."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _answers(port: int, path: str) -> bool:
    try:
        return bool(call(port, "GET", path))
    except OSError:
        return False


def call(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> bytes:
    """Send one request on a connection of its own, and return the body it got."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, body, headers or {})
    content = connection.getresponse().read()
    connection.close()
    return content


class Client:
    """One client, on one connection that it keeps."""

    def __init__(self, port: int, key: str = "") -> None:
        """Connect, with the API key *key*."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def post(self, path: str, body: Any) -> Any:
        """Send JSON, and return the JSON that came back."""
        return self._call("POST", path, json.dumps(body))

    def walk(self, path: str) -> Iterator[str]:
        """Yield the ids of a list, page after page."""
        address: str | None = path
        while address is not None:
            page = self._call("GET", address)
            yield from (item["id"] for item in page["items"])
            address = page["next"]

    def _call(self, method: str, path: str, body: str | None = None) -> Any:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status in {200, 201}, (path, answer.status, content[:500])
        return json.loads(content or b"{}")


def seconds_of(clients: int, work: Callable[[int], Callable[[], Any]]) -> float:
    """Return how long so many clients at once take with what *work* gives each."""
    prepared = [work(number) for number in range(clients)]
    failed: list[BaseException] = []

    def run(task: Callable[[], Any]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised again below.
            failed.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in prepared]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    if failed:
        raise failed[0]
    return seconds
