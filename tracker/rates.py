"""How many requests a key may send."""

import threading
from math import ceil

from flask import Response, after_this_request, current_app

from tracker.http import account, context, find_visitor, now, problem

_WINDOW_SECONDS = 60
# As draft-ietf-httpapi-ratelimit-headers-11 names a limit in its two fields.
_POLICY = "requests"


class Counter:
    """Counts what each key sent in the minute under way, in this process alone.

    Counted in the database it would cost every request a write, and the limit is
    there to spare the database.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: dict[str, int] = {}

    def add(self, key: str, *, minute: int) -> int:
        """Count one more request of *key*, and return how many there are."""
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._counts.clear()
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key]


def count_in_minute(what: str) -> int:
    """Count one more *what* of the one who asks, and return how many there are."""
    known = current_app.extensions
    counter: Counter = known.setdefault(f"tracker-{what}", Counter())
    minute = int(now().timestamp() // _WINDOW_SECONDS)
    return counter.add(account().name, minute=minute)


def limit_rate() -> Response | None:
    """Refuse a request of a key that has sent too many in this minute."""
    most, visitor = context().settings.requests_per_minute, find_visitor()
    if most == 0 or visitor is None or visitor.kind != "key":
        return None
    sent = count_in_minute("requests")
    wait = max(ceil(_WINDOW_SECONDS - now().timestamp() % _WINDOW_SECONDS), 1)

    # What every answer says of the limit, whatever becomes of the request.
    @after_this_request
    def say_limit(response: Response) -> Response:
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
        f"this key may send {most:,} requests a minute; go on in {wait} seconds",
        headers={"Retry-After": str(wait)},
    )
