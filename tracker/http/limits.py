"""The rate limit and the limits of concurrent requests."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import ceil
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Flask, Response, after_this_request, current_app
from werkzeug.wsgi import ClosingIterator

from tracker.errors import TooManyError
from tracker.http.requests import account, is_api_request, now
from tracker.http.responses import problem
from tracker.services.by import network_of

_WINDOW_SECONDS = 60
# The name of the limit in the fields of draft-ietf-httpapi-ratelimit-headers-11.
_POLICY = "requests"


class MinuteCounter:
    """Counts by key in the current minute, in this process.

    Counting in the database would cost every request a write, and the limit is there to
    spare the database.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: dict[str, int] = {}

    def add(self, key: str, *, minute: int) -> int:
        """Count one more of *key* and return the count of this minute."""
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._counts.clear()
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key]


def count_in_minute(what: str) -> int:
    """Count one more *what* of this account or key; return the count of this minute."""
    known = current_app.extensions
    counter: MinuteCounter = known.setdefault(f"tracker-{what}", MinuteCounter())
    minute = int(now().timestamp() // _WINDOW_SECONDS)
    return counter.add(account().name, minute=minute)


def limit_rate(most: int) -> Response | None:
    """Refuse requests of a key beyond *most* a minute."""
    sent = count_in_minute("requests")
    wait = max(ceil(_WINDOW_SECONDS - now().timestamp() % _WINDOW_SECONDS), 1)

    # Errors carry the fields too.
    @after_this_request
    def add_fields(response: Response) -> Response:
        response.headers["RateLimit-Policy"] = (
            f'"{_POLICY}";q={most};w={_WINDOW_SECONDS}'
        )
        left = max(most - sent, 0)
        response.headers["RateLimit"] = f'"{_POLICY}";r={left};t={wait}'
        return response

    if sent <= most:
        return None
    return problem(
        429,
        "Too many requests",
        f"this key may send {most:,} requests a minute; try again in {wait} seconds",
        headers={"Retry-After": str(wait)},
    )


# The error of a refused request, in its WSGI environment.
REFUSED = "tracker.refused"


class ConcurrencyLimit:
    """At most *total* at once, and *each* under one name; *what* is a plural noun."""

    def __init__(self, what: str, *, total: int, each: int) -> None:
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
    """Limit sums over all outcomes during the block; raises TooManyError.

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
        # A name is the same in any case (RFC 9110, 4.2.3), and the list of trusted
        # hosts compares letters.
        if "HTTP_HOST" in environ:
            environ["HTTP_HOST"] = environ["HTTP_HOST"].lower()
        with ExitStack() as stack:
            try:
                address = network_of(environ.get("REMOTE_ADDR", ""))
                stack.enter_context(limit.hold(address))
            except TooManyError as error:
                environ[REFUSED] = error
            pieces = application(environ, start)
            held = stack.pop_all()
        # The server closes it even if the client has hung up.
        return ClosingIterator(pieces, held.close)

    app.wsgi_app = answer  # type: ignore[method-assign,assignment]


def refuse(refused: TooManyError) -> Response:
    """Answer a refused request before a byte of its body is read."""
    # A connection that stays open would need the rest of the body read.
    headers = {"Retry-After": "10", "Connection": "close"}
    if is_api_request():
        return problem(429, "Too many requests", str(refused), headers=headers)
    # Drawing a thousand error pages would keep other requests waiting.
    return Response(f"{refused}\n", 429, headers, mimetype="text/plain")
