"""One request: its context, who asks, what they may do, and how it is answered."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

# This module alone keeps things for the length of a request.
from flask import Flask, Response, current_app, g, request  # noqa: TID251
from flask import session as cookie
from flask.json.provider import JSONProvider
from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError, TrackerError
from tracker.services.access import Actor, actor_of_account, actor_of_key, check_sees
from tracker.services.audit import NOBODY, record
from tracker.services.fields import ROLES
from tracker.services.keys import find_valid_key
from tracker.services.rows import load_json
from tracker.services.sign_ins import Origin, find_signed_in, is_to_be_noted
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import ImageStore
from tracker.storage.sign_ins import touch_sign_in

_View = TypeVar("_View", bound=Callable[..., Any])
PUBLIC = "public"
# Where a signed cookie keeps what shows that its browser is signed in.
SIGN_IN = "sign_in"
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class UnauthorizedError(TrackerError):
    """Nobody is signed in, or there is no valid API key."""


class ForbiddenError(TrackerError):
    """Whoever asks may not do this."""


class BadRequestError(TrackerError):
    """The request cannot be read at all."""


class BadParametersError(InvalidInputError):
    """What stands behind the question mark of an address is wrong."""


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
    if "now" not in g:
        g.now = context().clock()
    instant = g.now
    assert isinstance(instant, datetime)
    return instant


def requires(role: str) -> Callable[[_View], _View]:
    """Declare who may use a view: a role, or PUBLIC for everybody.

    A view without a declaration is refused to all, and a test over the route
    table fails where one is missing.
    """
    if role != PUBLIC and role not in ROLES:
        raise ValueError(f"no such role: {role}")

    def declare(view: _View) -> _View:
        view.required_role = role  # type: ignore[attr-defined]
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


def origin() -> Origin:
    """Return where this request came from."""
    return Origin(request.remote_addr or "", request.headers.get("User-Agent", ""))


def audit(
    session: Session,
    action: str,
    subject: str,
    *,
    actor: Actor | None = None,
    **details: Any,
) -> None:
    """Log what is being done by whoever asks, in the same transaction.

    *actor* is who turned out to be asking, where they have only just signed in.
    """
    record(
        session,
        actor or find_visitor() or NOBODY,
        action,
        subject,
        happened_at=now(),
        address=origin().address,
        **details,
    )


def is_api_request() -> bool:
    """Return whether this request is for the API, which answers in JSON."""
    return request.path.startswith("/api/")


def authorize() -> None:
    """Find out who asks, and refuse what they may not do; before every request."""
    if request.endpoint is None:
        return
    role = required_role(current_app, request.endpoint)
    if role == PUBLIC:
        return
    g.account = _find_key() if _shows_a_key() else _find_signed_in()
    if role is None:
        raise ForbiddenError("this address declares nobody who may use it")
    if not g.account.may(role):
        with database().write() as session:
            audit(session, "refused", f"{request.method} {request.path}"[:200])
        raise ForbiddenError(
            f"the role {g.account.role} may not do this; it takes {role}"
        )
    if g.account.detectors is not None and request.view_args:
        with database().read() as session:
            check_sees(session, g.account, *_first_of_path())


def _shows_a_key() -> bool:
    # A program that collects metrics has a key; people may look at them too.
    is_collected = request.path == "/metrics" and "Authorization" in request.headers
    return is_api_request() or is_collected


def _find_key() -> Actor:
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise UnauthorizedError("send the header Authorization: Bearer KEY")
    with database().read() as session:
        key = find_valid_key(session, text.strip())
        if key is None:
            raise UnauthorizedError("the API key is unknown or revoked")
        return actor_of_key(session, key)


def _find_signed_in() -> Actor:
    token = cookie.get(SIGN_IN)
    if not isinstance(token, str):
        raise UnauthorizedError("sign in first")
    with database().read() as session:
        found = find_signed_in(session, token, at=now())
        if found is None:
            raise UnauthorizedError("sign in again")
        browser, signed_in = found
        actor = actor_of_account(session, signed_in)
    if is_to_be_noted(browser, at=now()):
        with database().write() as session:
            touch_sign_in(session, browser.id, seen_at=now())
    return actor


def _first_of_path() -> tuple[str, str]:
    """Return the first noun of the path and what it names: "detectors", "door"."""
    rule = request.url_rule
    assert rule is not None
    assert request.view_args
    noun = rule.rule.partition("<")[0].rstrip("/").rpartition("/")[2]
    return noun, str(next(iter(request.view_args.values())))


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
        }
        for error in errors
    ]
