"""Time single labels of eight clients, in turns with other checkouts.

Each turn starts the web server of a checkout on a database of its own.  The requests
are prepared beforehand and sent by one thread, so that the clients, who are elsewhere
in production, take little of the processors that the server works on.
"""

import argparse
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from rig import DETECTOR, describe_machine, fresh_databases, parse_options
from rig.servers import Client, environment, served

CLIENTS = 8
QUERIES = f"/api/v1/detectors/{DETECTOR}/queries"
HERE = Path(__file__).parent.parent


def rates(
    trees: Sequence[Path], kind: str, labels: int, turns: int
) -> Iterator[tuple[str, dict[Path, list[float]]]]:
    """Yield each way to send a label, with the labels a second in each turn."""
    for title, prepare in (
        ("label of a query", label_queries),
        ("query with its label", log_queries),
    ):
        found: dict[Path, list[float]] = {tree: [] for tree in trees}
        with fresh_databases(kind, is_empty=True) as make:
            for _ in range(turns):
                for tree in trees:
                    found[tree].append(labels / measure(tree, make(), prepare, labels))
        yield title, found


def measure(tree: Path, url: str, prepare: Any, labels: int) -> float:
    """Return how many seconds a checkout takes for so many labels."""
    with tempfile.TemporaryDirectory(prefix="tracker-bench-") as name:
        environ = environment(url, Path(name))

        def tracker(*words: str) -> str:
            command = [sys.executable, "-m", "tracker", *words]
            return subprocess.run(
                command, env=environ, cwd=tree, check=True, stdout=-1, text=True
            ).stdout.strip()

        tracker("db", "upgrade")
        tracker("detectors", "create", DETECTOR, "--question", "Is it?")
        key = tracker("keys", "create", "benchmark", "--role", "editor")
        with served(url, Path(name), tree=tree) as port:
            requests = [
                write(port, key, *request)
                for request in prepare(Client(port, key), labels)
            ]
            return seconds_of(port, [requests[one::CLIENTS] for one in range(CLIENTS)])


def label_queries(client: Client, labels: int) -> Iterator[tuple[str, Any]]:
    """Yield the requests that label queries which are there."""
    rows = [{"predicted": "YES", "version": "v1"}] * labels
    client.post(f"/api/v1/detectors/{DETECTOR}/import", {"items": rows})
    for name in islice(client.walk(f"{QUERIES}?labelled=false&limit=500"), labels):
        yield f"/api/v1/queries/{name}/labels", {"label": "YES"}


def log_queries(_client: Client, labels: int) -> Iterator[tuple[str, Any]]:
    """Yield the requests that log queries with their labels."""
    said = {"predicted": "YES", "confidence": 0.9, "version": "v1"}
    for number in range(labels):
        yield QUERIES, {"key": f"frame-{number}", **said, "label": "YES"}


def write(port: int, key: str, path: str, body: Any) -> bytes:
    """Return a request as it is sent."""
    content = json.dumps(body)
    head = (
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    )
    return "\r\n".join((*head, "", content)).encode()


class Sender:
    """One client, which sends its requests one after the other."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self.socket.makefile("rb")
        self._requests = iter(requests)

    def send(self) -> bool:
        """Send the next request; False if there is none left."""
        request = next(self._requests, None)
        if request is not None:
            self.socket.sendall(request)
        return request is not None

    def read(self) -> None:
        """Read an answer, whose first bytes have come."""
        status, length = self._answers.readline(), 0
        assert status.startswith(b"HTTP/1.1 201"), status
        while (line := self._answers.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self._answers.read(length)


def seconds_of(port: int, requests: Sequence[Sequence[bytes]]) -> float:
    """Return how long clients take that send those of each one after the other."""
    waiting = selectors.DefaultSelector()
    for mine in requests:
        sender = Sender(port, mine)
        waiting.register(sender.socket, selectors.EVENT_READ, sender)
    begun = time.perf_counter()
    for key in waiting.get_map().values():
        key.data.send()
    while waiting.get_map():
        for key, _ in waiting.select():
            key.data.read()
            if not key.data.send():
                waiting.unregister(key.data.socket)
                key.data.socket.close()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--labels", type=int, default=4_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parse_options(parser)
    labels, turns = options.labels, options.turns
    if options.quick:
        labels, turns = labels // 10, 1
    trees = [*(tree.resolve() for tree in options.beside), HERE]
    print(
        f"Labels a second of {CLIENTS} clients, {labels:,} in each of {turns} turns; "
        f"{describe_machine()}"
    )
    for kind in options.kinds:
        print(f"\n{kind:36}{'least':>8}{'median':>8}{'most':>8}{'times':>8}")
        for title, found in rates(trees, kind, labels, turns):
            for tree, some in found.items():
                name = f"{title}, {tree.name}" if len(trees) > 1 else title
                print(
                    f"{name:36}{min(some):>8,.0f}{median(some):>8,.0f}"
                    f"{max(some):>8,.0f}{median(some) / median(found[trees[0]]):>8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
