"""The shipped proxy bounds slow and large requests before Tracker hears of them."""

import http.client
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.processes import ROOT, Process, free_port, wait_until

pytestmark = pytest.mark.slow

CADDY = shutil.which("caddy")
# Before 2.6.3 what is held was said in other words.
_OLD_WORDS = (
    ("request_buffers 1MiB", "buffer_requests\n\t\tmax_buffer_size 1MiB"),
    ("response_buffers 1MiB", "buffer_responses"),
)


def version() -> tuple[int, ...]:
    said = subprocess.run(
        [str(CADDY), "version"], check=True, capture_output=True, text=True
    ).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:3]))


@dataclass
class Upstream:
    """Notes how much comes through of the body of each request."""

    port: int
    seen: list[int] = field(default_factory=list)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    noted: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            noted.append(len(self.rfile.read(size)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Upstream(server.server_address[1], noted)
        server.shutdown()


@pytest.fixture
def proxy(upstream: Upstream, tmp_path: Path) -> Iterator[int]:
    """Caddy as it is shipped, without TLS and with small limits."""
    if CADDY is None:
        pytest.skip("there is no caddy on this machine")
    written = (ROOT / "Caddyfile").read_text()
    if version() < (2, 6, 3):
        for new, old in _OLD_WORDS:
            assert new in written
            written = written.replace(new, old)
    (tmp_path / "Caddyfile").write_text(written)
    port = free_port()
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "DOMAIN": f"http://127.0.0.1:{port}",
        "UPSTREAM": f"127.0.0.1:{upstream.port}",
        "MAX_BODY": "10KiB",
    }
    command = [CADDY, "run", "--config", str(tmp_path / "Caddyfile")]
    process = Process(command, environ, log=tmp_path / "caddy.log")
    try:
        wait_until(lambda: answers(port))
        yield port
    finally:
        process.kill()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def post(port: int, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/", body)
    status = connection.getresponse().status
    connection.close()
    return status


def test_half_a_body_does_not_pass_and_a_whole_one_does(
    proxy: int, upstream: Upstream
) -> None:
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{proxy}\r\nContent-Length: 50\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy)) as slow:
        slow.sendall(head.encode() + b"x" * 20)
        # It came first, and what came after it is answered.
        assert post(proxy, b"y" * 30) == 200
        assert upstream.seen == [30]
        slow.sendall(b"x" * 30)
        assert b" 200 " in slow.recv(1000)
    assert upstream.seen == [30, 50]


def test_a_body_above_the_limit_is_refused(proxy: int, upstream: Upstream) -> None:
    assert post(proxy, b"x" * 9_000) == 200
    assert post(proxy, b"x" * 11_000) in {413, 502}
    assert [size for size in upstream.seen if size > 10_240] == []
