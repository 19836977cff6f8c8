"""Concurrency limits: in all and of one account or address, in this process."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Flask, Response, current_app, request
from werkzeug.wsgi import ClosingIterator

from tracker.errors import TooManyError
from tracker.http.request_context import account
from tracker.http.requests import is_api_request
from tracker.http.responses import problem
from tracker.services.by import network_of

# The error of a refused request, in its WSGI environment.
_REFUSED = "tracker.refused"


class ConcurrencyLimit:
    """At most *total* at once, and *each* of one name; *what* is a plural noun."""

    def __init__(self, what: str, *, total: int, each: int) -> None:
        """Start with none in progress."""
        self._what, self._total, self._each = what, total, each
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Count one more of *name* while the block runs; raises TooManyError."""
        with self._lock:
            if self._running[name] >= self._each:
                raise TooManyError(
                    f"your limit of simultaneous {self._what} ({self._each}) is "
                    "reached; try again when one ends"
                )
            if self._running.total() >= self._total:
                raise TooManyError(
                    f"the limit of simultaneous {self._what} ({self._total}) is "
                    "reached; try again when one ends"
                )
            self._running[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[name] -= 1
                if not self._running[name]:
                    # Else the counter would grow with every name ever seen.
                    del self._running[name]


@contextmanager
def limit_exact_sums() -> Iterator[None]:
    """Limit sums over all outcomes while the block runs; raises TooManyError.

    Each keeps a processor busy for a second or two.  More than two at once would wait
    in a queue that nobody sees.
    """
    limit = current_app.extensions.setdefault(
        "tracker-sums", ConcurrencyLimit("sums over all outcomes", total=2, each=1)
    )
    with limit.hold(account().name):
        yield


def limit_open_requests(app: Flask, *, total: int) -> None:
    """Allow *total* open requests, and half as many from one address.

    A request is open from its header to the end of its answer, however slow the client
    is.  A client that opens many and sends nothing more leaves half to the others.
    """
    limit = ConcurrencyLimit("requests", total=total, each=max(total // 2, 1))
    application = app.wsgi_app

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        with ExitStack() as stack:
            try:
                address = network_of(environ.get("REMOTE_ADDR", ""))
                stack.enter_context(limit.hold(address))
            except TooManyError as error:
                environ[_REFUSED] = error
            pieces = application(environ, start)
            held = stack.pop_all()
        # The server closes it, also when the client has hung up.
        return ClosingIterator(pieces, held.close)

    app.wsgi_app = answer  # type: ignore[method-assign,assignment]
    app.before_request(_refuse)


def _refuse() -> Response | None:
    """Answer a refused request before a byte of its body is read."""
    refused = request.environ.get(_REFUSED)
    if refused is None or request.path == "/healthz":
        return None
    # A connection that stays open would need the rest of the body read.
    headers = {"Retry-After": "10", "Connection": "close"}
    if is_api_request():
        return problem(429, "Too many requests", str(refused), headers=headers)
    # Drawing a thousand error pages would keep other requests waiting.
    return Response(f"{refused}\n", 429, headers, mimetype="text/plain")
