"""Places: how many there are at once in this process, and fewer of one who asks."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Flask, Response, current_app, request
from werkzeug.wsgi import ClosingIterator

from tracker.errors import TooManyError
from tracker.http import account, is_api_request, problem
from tracker.services.people.sign_ins import network_of

# What is refused, in the environment of a request.
_REFUSED = "tracker.refused"


class Places:
    """Bounds how many there are at once in this process, and of one who asks."""

    def __init__(self, what: str, *, most: int, most_of_one: int) -> None:
        """Bound what is called *what*, in the plural."""
        self._what, self._most, self._most_of_one = what, most, most_of_one
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, name: str) -> Iterator[None]:
        """Hold a place of *name*; raises TooManyError."""
        with self._lock:
            if self._taken[name] >= self._most_of_one:
                raise TooManyError(
                    f"you have as many {self._what} in progress as you may, which is "
                    f"{self._most_of_one}; try again when one ends"
                )
            if self._taken.total() >= self._most:
                raise TooManyError(
                    f"{self._most} {self._what} are in progress; try again"
                )
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                if not self._taken[name]:
                    # Names that are not in use take no room.
                    del self._taken[name]


@contextmanager
def place_for_sums() -> Iterator[None]:
    """Hold a place for sums over all outcomes, or raise TooManyError.

    They keep a processor busy for a second or two, which a few may do, and the others
    would wait for in a queue that nobody sees.
    """
    places = current_app.extensions.setdefault(
        "tracker-sums", Places("sums over all outcomes", most=2, most_of_one=1)
    )
    with places.take(account().name):
        yield


def share_connections(app: Flask, *, most: int) -> None:
    """Have one address hold at most half of the *most* requests that may be open.

    A request is open from its header to the end of its answer, however slowly its body
    comes or its answer is read.  A client that opens many and sends nothing more leaves
    half of them to the others.
    """
    places = Places("requests", most=most, most_of_one=max(most // 2, 1))
    application = app.wsgi_app

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        with ExitStack() as stack:
            try:
                address = network_of(environ.get("REMOTE_ADDR", ""))
                stack.enter_context(places.take(address))
            except TooManyError as error:
                environ[_REFUSED] = error
            pieces = application(environ, start)
            held = stack.pop_all()
        # Closed by the server, also where the client is gone.
        return ClosingIterator(pieces, held.close)

    app.wsgi_app = answer  # type: ignore[method-assign,assignment]
    app.before_request(_refuse)


def _refuse() -> Response | None:
    """Refuse a request before a byte of its body is read, where it must be."""
    refused = request.environ.get(_REFUSED)
    if refused is None or request.path == "/healthz":
        return None
    # Else the rest of the body would have to be read before the next request.
    headers = {"Retry-After": "10", "Connection": "close"}
    if is_api_request():
        return problem(429, "Too many requests", str(refused), headers=headers)
    # Drawing a page for each of a thousand would keep the others waiting.
    return Response(f"{refused}\n", 429, headers, mimetype="text/plain")
