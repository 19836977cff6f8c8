"""Rate limits: requests of one API key in a minute."""

import threading
from math import ceil

from flask import Response, after_this_request, current_app

from tracker.http.request_context import account, context, find_account, now
from tracker.http.responses import problem

_WINDOW_SECONDS = 60
# The name of the limit in the fields of draft-ietf-httpapi-ratelimit-headers-11.
_POLICY = "requests"


class MinuteCounter:
    """Counts by key in the current minute and in this process.

    Counting in the database would cost every request a write, and the limit is there
    to spare the database.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: dict[str, int] = {}

    def add(self, key: str, *, minute: int) -> int:
        """Count one more of *key*, and return its number this minute."""
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._counts.clear()
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key]


def count_in_minute(what: str) -> int:
    """Count one more *what* of this account or key; return its number this minute."""
    known = current_app.extensions
    counter: MinuteCounter = known.setdefault(f"tracker-{what}", MinuteCounter())
    minute = int(now().timestamp() // _WINDOW_SECONDS)
    return counter.add(account().name, minute=minute)


def limit_rate() -> Response | None:
    """Refuse a request of a key that has used up this minute."""
    most, asking = context().settings.requests_per_minute, find_account()
    if most == 0 or asking is None or asking.kind != "key":
        return None
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
