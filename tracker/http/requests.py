"""The current request: its body, parameters, sender and instant."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from flask import Request, current_app, g, request  # noqa: TID251
from flask.json.provider import JSONProvider
from werkzeug.sansio.utils import get_host

from tracker.clock import Clock
from tracker.errors import InvalidInputError, TrackerError
from tracker.files import Parts
from tracker.services.by import NOBODY, Actor, By
from tracker.services.fields import load_json
from tracker.services.wording import invalid
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import ImageStore

DEVICE_API = "/device-api"
_OF_DETECTOR = "/api/v1/detectors/<"
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class BadRequestError(TrackerError):
    """The request cannot be parsed."""


class BadParametersError(InvalidInputError):
    """A query parameter is invalid."""


class UnsupportedMediaTypeError(TrackerError):
    """The route does not read this media type."""


def is_api_request() -> bool:
    return request.path.startswith(("/api/", f"{DEVICE_API}/"))


class ServerRequest(Request):
    """A request that may name the host by an IPv6 address, and keeps files on disk."""

    _names: list[str] | None = None
    _parts: Parts | None = None

    @property
    def trusted_hosts(self) -> list[str] | None:
        """The allowed hosts; None if the host is one of their IPv6 addresses."""
        # Werkzeug cuts each name at its first colon, so no IPv6 address matches; with
        # None it checks only the characters and the port.
        host = get_host(self.scheme, self.headers.get("host"), self.server)
        address = host[: host.find("]") + 1]
        is_own = address and any(name.startswith(address) for name in self._names or ())
        return None if is_own else self._names

    @trusted_hosts.setter
    def trusted_hosts(self, names: list[str] | None) -> None:
        self._names = names

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        self._parts = self._parts or Parts()
        return self._parts.add()

    def close(self) -> None:
        super().close()
        if self._parts is not None:
            self._parts.close()


class StrictJSONProvider(JSONProvider):
    """JSON without NaN and Infinity, which Flask's own provider reads and writes."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        options = {"separators": (",", ":"), **kwargs}
        return json.dumps(obj, allow_nan=False, ensure_ascii=False, **options)

    def loads(self, s: str | bytes, **_kwargs: Any) -> Any:
        return load_json(s)


def read_json_body(*, is_object: bool = False) -> Any:
    """Parse a JSON body strictly; ``request.get_json`` then returns it too."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no type'}; send application/json"
        )
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if charset not in _CHARSETS:
        raise BadRequestError(f"the body is declared to be {charset[:40]}; send UTF-8")
    raw = request.get_data(cache=True)
    try:
        value = load_json(raw)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    # Flask caches the parsed body for (silent, not silent); the validation asks
    # silently and must not parse again in its lenient way.
    request._cached_json = (value, value)
    if is_object and not isinstance(value, dict):
        raise invalid("body", value, "it must be a JSON object")
    return value


# This module and authentication keep things for the length of a request.


@dataclass(frozen=True, slots=True)
class Context:
    """Settings, database and clock of an application; built once by ``create_app``."""

    settings: Settings
    database: Database
    # The read replica, seconds behind, if the operator has one.
    replica: Database | None
    images: ImageStore
    recompute: Callable[[int], Any]
    clock: Clock


def context() -> Context:
    found = current_app.extensions["tracker"]
    assert isinstance(found, Context)
    return found


def database() -> Database:
    """Return the database of the running application.

    The API reads about a detector come from a replica, if there is one.  Access is
    checked on the database itself, and pages show what was just saved.
    """
    found = context()
    rule = request.url_rule.rule if request.url_rule else ""
    is_read = request.method in {"GET", "HEAD"} and rule.startswith(_OF_DETECTOR)
    if found.replica is not None and is_read and g.get("is_authorized"):
        return found.replica
    return found.database


def now() -> datetime:
    """Return the instant of this request, the same at every call."""
    instant = g.get("now")
    if instant is None:
        instant = g.now = context().clock()
    assert isinstance(instant, datetime)
    return instant


def account() -> Actor:
    found = g.account
    assert isinstance(found, Actor)
    return found


def find_account() -> Actor | None:
    found = g.get("account")
    assert found is None or isinstance(found, Actor)
    return found


def by() -> By:
    return By(g.get("account") or NOBODY, now(), request.remote_addr or "")
