"""Authentication and authorisation, before every request."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from flask import Blueprint, Flask, Response, current_app, g, request  # noqa: TID251 - keeps the actor.
from flask import session as cookie
from sqlalchemy.orm import Session

from tracker.errors import ForbiddenError, TrackerError, UnavailableError
from tracker.http.limits import REFUSED, count_in_minute, limit_rate, refuse
from tracker.http.requests import (
    DEVICE_API,
    by,
    context,
    is_api_request,
    now,
)
from tracker.services.by import Actor
from tracker.services.detectors import get_detector
from tracker.services.imports.background import get_import
from tracker.services.labelling.auditing.audit_lifecycle import get_schedule
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.labelling.predictions import find_any
from tracker.services.labelling.studies import get_study
from tracker.services.people.accounts import actor_of_account
from tracker.services.people.keys import KEY_USED_EVERY, find_valid_key
from tracker.services.people.sign_ins import LONGEST, SEEN_EVERY, find_signed_in
from tracker.services.telling.badges import get_badge
from tracker.services.telling.webhooks import get_webhook
from tracker.services.wording import missing
from tracker.settings import Settings
from tracker.storage.base import change_rows
from tracker.storage.detectors import Detector
from tracker.storage.people import SignIn, has_second_factor, touch_key
from tracker.words import EDITOR, KEY_ROLES, LOGGER

# How the objects of the first noun in a path are found.
_FIND: dict[str, tuple[str, Callable[[Session, str], Any]]] = {
    "detectors": ("detector", get_detector),
    "detector-reset": ("detector", get_detector),
    "queries": ("query", find_any),
    "image-queries": ("query", find_any),
    "studies": ("study", get_study),
    "audits": ("audit", get_audit),
    "audit-schedules": ("schedule", get_schedule),
    "badges": ("badge", get_badge),
    "imports": ("import", get_import),
}


def check_sees(session: Session, actor: Actor, noun: str, reference: str) -> None:
    """Raise NotFoundError unless *actor* sees the object *reference* of *noun*.

    A hidden object looks exactly like one that does not exist.
    """
    if noun in {"webhooks", "alerts"}:
        get_webhook(session, reference, actor)
        return
    if noun in {"by-snippet", "confirm", "browsers", "passkeys"}:
        # A part of the key itself, or what belongs to the account and no detector.
        return
    if noun not in _FIND:
        raise missing(noun, reference)
    name, find = _FIND[noun]
    found = find(session, reference)
    detector_id = found.id if isinstance(found, Detector) else found.detector_id
    if not actor.sees(detector_id):
        raise missing(name, reference)


# The entry that holds the token of a signed-in browser.
SIGN_IN = "sign_in"


def add_session_cookie(app: Flask, settings: Settings) -> None:
    """Let *app* keep sign-ins in a cookie for itself alone."""
    app.config.update(
        # A browser keeps a cookie of this prefix to one host, and to HTTPS.
        SESSION_COOKIE_NAME="__Host-tracker" if settings.is_https else "tracker",
        SESSION_COOKIE_SECURE=settings.is_https,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=LONGEST,
    )


def keep_sign_in(token: str) -> None:
    # Also removes the previous person's form token.
    cookie.clear()
    cookie[SIGN_IN] = token
    cookie.permanent = True


_View = TypeVar("_View", bound=Callable[..., Any])
PUBLIC = "public"
_MAX_PUBLIC_BYTES = 64 * 2**10
# Refusals of one account or key that the audit log takes each minute.
_MOST_REFUSALS = 10


class UnauthorizedError(TrackerError):
    """Nobody is signed in, or there is no valid API key."""


class SecondFactorError(TrackerError):
    """The account must set up a second step before it may sign in."""


def requires(role: str, *, is_for_setup: bool = False) -> Callable[[_View], _View]:
    """Declare the role that a view requires, or PUBLIC.

    A view that *is_for_setup* is open before a required second step is set up.  A view
    without a declaration is refused to all.
    """
    if role != PUBLIC and role not in KEY_ROLES:
        raise ValueError(f"no such role: {role}")

    def declare(view: _View) -> _View:
        view.required_role = role  # type: ignore[attr-defined]
        view.is_for_setup = is_for_setup  # type: ignore[attr-defined]
        return view

    return declare


def route(
    blueprint: Blueprint, address: str, role: str, *, is_for_setup: bool = False
) -> Callable[[_View], _View]:
    """Return the decorator of a view: its method and path, and who may use it."""
    method, _, path = address.partition(" ")
    declared = requires(role, is_for_setup=is_for_setup)
    return lambda view: blueprint.route(path, methods=[method])(declared(view))


def required_role(app: Flask, endpoint: str) -> str | None:
    """Return the role that the view of *endpoint* declares, if any."""
    return getattr(app.view_functions.get(endpoint), "required_role", None)


def admit() -> Response | None:
    """Authenticate and authorise a request, unless a limit refuses it."""
    refused, endpoint = request.environ.get(REFUSED), request.endpoint
    if refused is not None and request.path != "/healthz":
        return refuse(refused)
    if endpoint is None:
        return None
    role = required_role(current_app, endpoint)
    if role == PUBLIC:
        # The body is from anybody: forms to sign in are small.
        request.max_content_length = _MAX_PUBLIC_BYTES
        return None
    # Prometheus reads metrics with a key; people read them signed in.
    is_collected = request.path == "/metrics" and "Authorization" in request.headers
    shows_a_key = is_api_request() or is_collected
    g.account = asking = _find_key() if shows_a_key else _find_signed_in()
    most = context().settings.requests_per_minute
    if most and asking.kind == "key":
        # Requests without the right role count towards the rate limit too.
        limited = limit_rate(most)
        if limited is not None:
            return limited
    if role is None:
        raise ForbiddenError("this route has no access rule (a bug in Tracker)")
    if not asking.may(role):
        _forbid(asking, role)
    if asking.detectors is not None and request.view_args:
        # The first noun and name in the path, such as "detectors" and "door".
        path = str(request.url_rule).partition("<")[0].rstrip("/")
        reference = str(next(iter(request.view_args.values())))
        with context().database.read() as session:
            check_sees(session, asking, path.rpartition("/")[2], reference)
    g.is_authorized = True
    return None


def _forbid(asking: Actor, role: str) -> NoReturn:
    if count_in_minute("refusals") <= _MOST_REFUSALS:
        with context().database.write() as session:
            what = f"{request.method} {request.path}"[:200]
            by().record(session, "refused", what)
    wanted = f"{LOGGER} or {EDITOR}" if role == LOGGER else role
    message = f"the role {asking.role} may not do this; it takes {wanted}"
    raise ForbiddenError(message)


def _find_key() -> Actor:
    if request.path.startswith(f"{DEVICE_API}/"):
        text = request.headers.get("x-api-token", "").strip()
        if not text:
            raise UnauthorizedError("send the key in the header x-api-token")
    else:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise UnauthorizedError("send the header Authorization: Bearer KEY")
    at = now()
    with context().database.look() as connection:
        found = find_valid_key(connection, text, at=at)
    if found is None:
        raise UnauthorizedError("the API key is unknown, revoked or expired")
    actor, last_used_at = found
    if last_used_at is None or at - last_used_at >= KEY_USED_EVERY:
        # If the database is busy, the next request notes it.
        with suppress(UnavailableError), context().database.write_if_free() as session:
            touch_key(session, actor.row, used_at=at)
    return actor


def _find_signed_in() -> Actor:
    token = cookie.get(SIGN_IN)
    if not isinstance(token, str):
        raise UnauthorizedError("sign in first")
    with context().database.read() as session:
        found = find_signed_in(session, token, at=now())
        if found is None:
            raise UnauthorizedError("sign in again")
        browser, signed_in = found
        actor = actor_of_account(session, signed_in)
        is_wanted = signed_in.role in context().settings.second_factor_roles
        view = current_app.view_functions.get(str(request.endpoint))
        is_for_setup = getattr(view, "is_for_setup", False)
        # An identity provider asks for the second step itself.
        is_needed = is_wanted and signed_in.identity is None and not is_for_setup
        if is_needed and not has_second_factor(session, signed_in.id):
            raise SecondFactorError("set up a second step to sign in first")
    if now() - browser.seen_at > SEEN_EVERY:
        with suppress(UnavailableError), context().database.write_if_free() as session:
            older = SignIn.id == browser.id, SignIn.seen_at < now()
            change_rows(session, SignIn, *older, seen_at=now())
    return actor


def authenticate_if_signed_in() -> None:
    with suppress(TrackerError):
        g.account = _find_signed_in()
