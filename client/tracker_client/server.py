"""One connection to a server: a request, and what came back."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

_PROBLEM = "application/problem+json"


class ServerError(Exception):
    """The server refused a request, in its own words."""

    def __init__(self, status: int, detail: str, problem: Mapping[str, Any]) -> None:
        """Carry the *status*, and the problem document where one came."""
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.problem = problem


class UnreachableError(Exception):
    """No whole answer came."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    media_type: str
    retry_after: str | None
    content: bytes

    @property
    def is_problem(self) -> bool:
        """Whether Tracker itself refused, and no proxy before it."""
        return self.media_type == _PROBLEM

    @property
    def json(self) -> Any:
        """The content, parsed; UnreachableError if it is no JSON."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise UnreachableError(f"the answer is no JSON: {error}") from error

    @property
    def detail(self) -> str:
        """Why it was refused."""
        if self.is_problem:
            found = self.json
            return f"{found.get('title', '')}: {found.get('detail', '')}"
        return self.content[:200].decode(errors="replace")

    @property
    def wait_seconds(self) -> float | None:
        """How long the server asks to wait, where it does."""
        text = self.retry_after
        if text is None:
            return None
        try:
            return max(float(int(text)), 0.0)
        except ValueError:
            pass
        try:
            left = parsedate_to_datetime(text) - datetime.now(timezone.utc)
        except (TypeError, ValueError):
            return None
        return max(left.total_seconds(), 0.0)


class Server:
    """A server at *url*; one request at a time, on a connection that is kept."""

    def __init__(self, url: str, key: str, *, timeout: float = 30.0) -> None:
        """Connect with the first request; *timeout* is in seconds of silence."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is no address such as http://127.0.0.1:8000")
        if not key.isascii() or not key.isprintable():
            raise ValueError("an API key has only visible ASCII characters")
        self.url = url.rstrip("/")
        self._parts = parts
        self._base = parts.path.rstrip("/") + "/api/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request below ``/api/v1``; UnreachableError without an answer."""
        headers = {**self._headers, **(headers or {})}
        with self._lock:
            is_kept = self._connection is not None
            try:
                return self._send(method, path, body, headers)
            except (OSError, HTTPException) as error:
                self._close()
                # The server may have closed a connection that nobody used.
                if not is_kept or not isinstance(
                    error, (ConnectionError, HTTPException)
                ):
                    raise UnreachableError(f"{self.url}: {_describe(error)}") from error
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
            try:
                return self._send(method, path, body, headers)
            except (OSError, HTTPException) as error:
                self._close()
                raise UnreachableError(f"{self.url}: {_describe(error)}") from error

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        headers: Mapping[str, str],
    ) -> Answer:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._base + path, body, dict(headers))
        response = self._connection.getresponse()
        content = response.read()
        return Answer(
            response.status,
            response.headers.get_content_type(),
            response.headers.get("Retry-After"),
            content,
        )

    def _connect(self) -> HTTPConnection:
        host = self._parts.hostname or ""
        if self._parts.scheme == "http":
            return HTTPConnection(host, self._parts.port, timeout=self._timeout)
        return HTTPSConnection(
            host,
            self._parts.port,
            timeout=self._timeout,
            context=ssl.create_default_context(),
        )

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._lock:
            self._close()

    def forget(self) -> None:
        """In a child of a fork: leave the parent's connection to it."""
        self._lock = threading.Lock()
        self._connection = None

    def get(self, path: str, **parameters: Any) -> Answer:
        """Return what is at *path*; ServerError if it is refused."""
        chosen = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in parameters.items()
            if value is not None
        }
        asked = f"{path}?{urlencode(chosen)}" if chosen else path
        return checked(self.ask("GET", asked))

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return what *body*, sent as JSON, is answered; ServerError if refused."""
        headers = {"Content-Type": "application/json"}
        return checked(self.ask("POST", path, json.dumps(body).encode(), headers))


def checked(answer: Answer) -> Answer:
    """Return *answer* unless it is an error; then raise ServerError."""
    if 200 <= answer.status < 300:
        return answer
    problem = answer.json if answer.is_problem else {}
    raise ServerError(answer.status, answer.detail, problem)


def path_of(detector: str) -> str:
    """Return the path of a detector, by its name or id."""
    return f"/detectors/{quote(detector, safe='')}"


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
