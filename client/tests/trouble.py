"""A proxy before the server that fails as networks and servers do."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FINE, LOST, CUT = "fine", "the answer is lost", "half of the request is read"


class Proxy(ThreadingHTTPServer):
    """Passes requests on; ``modes`` says what becomes of the next ones."""

    daemon_threads = True
    # The client may have gone before it is answered.
    block_on_close = False

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname, parts.port)
        # Each is a status, FINE, LOST, CUT or seconds of silence; the last one stays.
        self.modes: list = [FINE]
        self.retry_after: str | None = None
        self.seen: list[tuple[float, str, str]] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Say nothing: connections break here on purpose."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with server.lock:
            mode = server.modes.pop(0) if len(server.modes) > 1 else server.modes[0]
            key = self.headers.get("Idempotency-Key", "")
            server.seen.append((time.monotonic(), self.path, key))
        if isinstance(mode, float):
            time.sleep(mode)
            mode = LOST
        if isinstance(mode, int):
            self.send_response(mode)
            if server.retry_after is not None:
                self.send_header("Retry-After", server.retry_after)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"busy")
            return
        if mode == CUT:
            self.close_connection = True
            self.connection.close()
            return
        connection = http.client.HTTPConnection(*server.target, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if mode == LOST:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(answer.status)
        for name in ("Content-Type", "Retry-After"):
            if answer.headers.get(name):
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the base class looks for it.


@contextmanager
def before(url: str) -> Iterator[Proxy]:
    """Run a proxy before the server at *url*."""
    with Proxy(url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
