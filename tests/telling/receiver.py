"""A receiver of webhooks on loopback, which behaves as it is told."""

import contextlib
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Behaviour = Callable[[socketserver.StreamRequestHandler], None]


@dataclass(frozen=True)
class Message:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Where it listens, what it got, and what it answers next."""

    port: int
    messages: list[Message] = field(default_factory=list)
    behaviour: Behaviour | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=1"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


def answer(status: int, *more: str) -> Behaviour:
    """Answer with this status and these header lines."""
    lines = [f"HTTP/1.1 {status} X", *more, "Content-Length: 0", "", ""]
    return lambda handler: write(handler, "\r\n".join(lines).encode())


def write(handler: socketserver.StreamRequestHandler, content: bytes) -> None:
    handler.wfile.write(content)
    handler.wfile.flush()


def stay_silent(handler: socketserver.StreamRequestHandler) -> None:
    """Take the request and never answer; end when the other side does."""
    with contextlib.suppress(OSError):
        handler.rfile.read(1)


def drip(handler: socketserver.StreamRequestHandler) -> None:
    """Answer a byte at a time, so that no single wait is long."""
    with contextlib.suppress(OSError):
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10_000:
            write(handler, bytes([byte]))
            time.sleep(0.05)


def stream(handler: socketserver.StreamRequestHandler) -> None:
    """Answer with a gigabyte."""
    write(handler, b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(1024):
            write(handler, b"x" * 2**20)


def endless_head(handler: socketserver.StreamRequestHandler) -> None:
    """Never come to the end of the headers."""
    write(handler, b"HTTP/1.1 200 OK\r\n")
    with contextlib.suppress(OSError):
        for number in range(10**7):
            write(handler, b"X-%d: y\r\n" % number)


def reset(handler: socketserver.StreamRequestHandler) -> None:
    """Close without a word."""
    handler.connection.close()


@contextmanager
def receiving(
    behaviour: Behaviour | None = None, *, tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """Listen on loopback, and note each request before it is answered."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().split()
            headers = {}
            while (header := self.rfile.readline().decode().strip()) != "":
                name, _, value = header.partition(": ")
                headers[name.lower()] = value
            body = self.rfile.read(int(headers["content-length"]))
            self.message = Message(line[1], headers, body)
            receiver.messages.append(self.message)
            with contextlib.suppress(OSError):
                (receiver.behaviour or answer(204))(self)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """A client that went away is none."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver = Receiver(server.server_address[1], behaviour=behaviour)
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
