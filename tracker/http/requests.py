"""The request: its files, its body, and the host that it names."""

import json
from typing import IO, Any

from flask import Request, request
from flask.json.provider import JSONProvider
from werkzeug.sansio.utils import get_host

from tracker.errors import InvalidInputError, TrackerError
from tracker.files import Parts
from tracker.services.strict_json import load_json

DEVICE_API = "/device-api"
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class BadRequestError(TrackerError):
    """The request cannot be parsed."""


class BadParametersError(InvalidInputError):
    """A query parameter is invalid."""


class UnsupportedMediaTypeError(TrackerError):
    """The body is of a media type that this address does not read."""


def is_api_request() -> bool:
    """Return whether this request is for the API, which answers in JSON."""
    return request.path.startswith("/api/") or is_device_request()


def is_device_request() -> bool:
    """Return whether this request is for the API of the Groundlight SDK."""
    return request.path.startswith(f"{DEVICE_API}/")


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
        """Delete the files."""
        super().close()
        if self._parts is not None:
            self._parts.close()


class StrictJSONProvider(JSONProvider):
    """JSON without NaN and Infinity, which Flask's own provider reads and writes."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return *obj* as compact JSON."""
        options = {"separators": (",", ":"), **kwargs}
        return json.dumps(obj, allow_nan=False, ensure_ascii=False, **options)

    def loads(self, s: str | bytes, **_kwargs: Any) -> Any:
        """Parse the JSON text *s*; raises ValueError unless it is strict JSON."""
        return load_json(s)


def read_json_body() -> None:
    """Parse a JSON body strictly, for ``request.get_json`` to return."""
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
    # Flask keeps what it parsed for (silent, not silent); the validation asks
    # silently and must not parse a second time in its own lenient way.
    request._cached_json = (value, value)
