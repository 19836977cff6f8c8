"""One request: its context, who asks, what they may do, and how it is answered."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, TypeVar

# This module alone keeps things for the length of a request.
from flask import Flask, Request, Response, current_app, g, request  # noqa: TID251
from flask.json.provider import JSONProvider
from werkzeug.sansio.utils import get_host

from tracker.errors import (
    FieldError,
    InvalidInputError,
    TrackerError,
)
from tracker.files import Parts
from tracker.services.by import NOBODY, Actor, By
from tracker.services.strict_json import load_json
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import ImageStore
from tracker.words import ROLES

_View = TypeVar("_View", bound=Callable[..., Any])
PUBLIC = "public"
DEVICE_API = "/device-api"
# Where a signed cookie keeps what shows that its browser is signed in.
SIGN_IN = "sign_in"
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class UnauthorizedError(TrackerError):
    """Nobody is signed in, or there is no valid API key."""


class SecondFactorError(TrackerError):
    """The account needs a second step to sign in, and has none yet."""


class BadRequestError(TrackerError):
    """The request cannot be parsed."""


class BadParametersError(InvalidInputError):
    """A query parameter is invalid."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every request works with; made once by ``create_app``."""

    settings: Settings
    database: Database
    images: ImageStore
    recompute: Callable[[int], Any]
    clock: Callable[[], datetime]


def context() -> Context:
    """Return the context of the running application."""
    found = current_app.extensions["tracker"]
    assert isinstance(found, Context)
    return found


def database() -> Database:
    """Return the database of the running application."""
    return context().database


def now() -> datetime:
    """Return the instant of this request, the same however often it is asked."""
    instant = g.get("now")
    if instant is None:
        instant = g.now = context().clock()
    assert isinstance(instant, datetime)
    return instant


def requires(role: str, *, is_for_setup: bool = False) -> Callable[[_View], _View]:
    """Declare who may use a view: a role, or PUBLIC for everybody.

    One that *is_for_setup* is open before a second step that is asked for is set up.

    A view without a declaration is refused to all, and a test over the route
    table fails where one is missing.
    """
    if role != PUBLIC and role not in ROLES:
        raise ValueError(f"no such role: {role}")

    def declare(view: _View) -> _View:
        view.required_role = role  # type: ignore[attr-defined]
        view.is_for_setup = is_for_setup  # type: ignore[attr-defined]
        return view

    return declare


def required_role(app: Flask, endpoint: str) -> str | None:
    """Return the role that the view of *endpoint* declares, None if it does not."""
    if endpoint in app.extensions["tracker-public-endpoints"]:
        return PUBLIC
    role = getattr(app.view_functions.get(endpoint), "required_role", None)
    return role if isinstance(role, str) else None


def account() -> Actor:
    """Return who asks."""
    found = g.account
    assert isinstance(found, Actor)
    return found


def find_visitor() -> Actor | None:
    """Return who asks; None where everybody may, and it was not looked up."""
    found = g.get("account")
    assert found is None or isinstance(found, Actor)
    return found


def by() -> By:
    """Return who asks, when and from where, for every service that writes."""
    return By(find_visitor() or NOBODY, now(), request.remote_addr or "")


def is_api_request() -> bool:
    """Return whether this request is for the API, which answers in JSON."""
    return request.path.startswith("/api/") or is_device_request()


def is_device_request() -> bool:
    """Return whether it comes from the Groundlight SDK, or what speaks as it does."""
    return request.path.startswith(f"{DEVICE_API}/")


class AddressedRequest(Request):
    """A request that may address the server by an IPv6 address too."""

    _names: list[str] | None = None

    @property
    def trusted_hosts(self) -> list[str] | None:
        """The names of the server, or None where the host is one of its addresses."""
        # Werkzeug cuts each name at its first colon, so it finds no IPv6 address; None
        # leaves it only the characters and the port to check.
        host = get_host(self.scheme, self.headers.get("host"), self.server)
        address = host[: host.find("]") + 1]
        is_own = address and any(name.startswith(address) for name in self._names or ())
        return None if is_own else self._names

    @trusted_hosts.setter
    def trusted_hosts(self, names: list[str] | None) -> None:
        self._names = names


class UploadRequest(AddressedRequest):
    """A request whose files lie on the disk together, however many there are."""

    _parts: Parts | None = None

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        self._parts = self._parts or Parts()
        return self._parts.add()

    def close(self) -> None:
        """Delete the files."""
        super().close()
        if self._parts is not None:
            self._parts.close()


class StrictJSONProvider(JSONProvider):
    """JSON without NaN and Infinity, both ways; Flask's own takes and gives them."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return *obj* as compact JSON."""
        options = {"separators": (",", ":"), **kwargs}
        return json.dumps(obj, allow_nan=False, ensure_ascii=False, **options)

    def loads(self, s: str | bytes, **_kwargs: Any) -> Any:
        """Return what the JSON text *s* says; raises ValueError if it is not strict."""
        return load_json(s)


def read_json_body() -> None:
    """Parse a JSON body strictly, or raise; later readers find it parsed."""
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


class UnsupportedMediaTypeError(TrackerError):
    """The body is of a media type that this address does not read."""


def no_content() -> Response:
    """Return the answer 204, which has no body and so no type of one."""
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    errors: list[dict[str, Any]] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a problem document (RFC 9457)."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if errors is not None:
        body["errors"] = errors
    return Response(
        current_app.json.dumps(body),
        status=status,
        content_type="application/problem+json",
        headers=headers,
    )


def dump_errors(errors: Iterable[FieldError]) -> list[dict[str, Any]]:
    """Return *errors* as they stand in a problem document."""
    return [
        {
            **(
                {"row": row} if (row := getattr(error, "row", None)) is not None else {}
            ),
            "field": error.field,
            "message": error.message,
            # Of several rows in which it is wrong the first one is named.
            **({"rows": rows} if (rows := getattr(error, "rows", 1)) > 1 else {}),
            **({"also": also} if (also := getattr(error, "also", ())) else {}),
        }
        for error in errors
    ]
