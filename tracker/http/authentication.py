"""Authentication and authorisation, before every request."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from flask import Flask, current_app, g, request  # noqa: TID251 - keeps the actor.
from flask import session as cookie
from sqlalchemy.orm import Session

from tracker.errors import ForbiddenError, TrackerError, UnavailableError
from tracker.http.limits import count_in_minute, limit_rate
from tracker.http.requests import (
    by,
    context,
    database,
    find_account,
    is_api_request,
    is_device_request,
    now,
)
from tracker.http.session_cookie import SIGN_IN
from tracker.services.by import Actor
from tracker.services.operations.access import check_sees
from tracker.services.people.accounts import actor_of_account, actor_of_key
from tracker.services.people.keys import find_valid_key, is_use_to_be_noted
from tracker.services.people.sign_ins import find_signed_in, is_to_be_noted
from tracker.storage.people import has_second_factor, touch_key, touch_sign_in
from tracker.words import EDITOR, KEY_ROLES, LOGGER

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


def required_role(app: Flask, endpoint: str) -> str | None:
    """Return the role that the view of *endpoint* declares, if any."""
    if endpoint in app.extensions["tracker-public-endpoints"]:
        return PUBLIC
    role = getattr(app.view_functions.get(endpoint), "required_role", None)
    return role if isinstance(role, str) else None


def authenticate_requests(app: Flask) -> None:
    # Requests without the right role count towards the rate limit too.
    for step in (_authenticate, limit_rate, _authorize):
        app.before_request(step)


def _authenticate() -> None:
    """Find the account or key of the request, unless the view is public."""
    if request.endpoint is None:
        return
    if required_role(current_app, request.endpoint) == PUBLIC:
        # The body is from anybody: forms to sign in are small.
        request.max_content_length = _MAX_PUBLIC_BYTES
        return
    # Prometheus reads metrics with a key; people read them signed in.
    is_collected = request.path == "/metrics" and "Authorization" in request.headers
    shows_a_key = is_api_request() or is_collected
    g.account = _find_key() if shows_a_key else _find_signed_in()


def _authorize() -> None:
    """Refuse a request whose account or key lacks the role or the detector."""
    asking = find_account()
    if asking is None:
        return
    role = required_role(current_app, str(request.endpoint))
    if role is None:
        raise ForbiddenError("this route has no access rule (a bug in Tracker)")
    if not asking.may(role):
        if count_in_minute("refusals") <= _MOST_REFUSALS:
            with database().write() as session:
                what = f"{request.method} {request.path}"[:200]
                by().record(session, "refused", what)
        wanted = f"{LOGGER} or {EDITOR}" if role == LOGGER else role
        message = f"the role {asking.role} may not do this; it takes {wanted}"
        raise ForbiddenError(message)
    if asking.detectors is not None and request.view_args:
        with database().read() as session:
            check_sees(session, asking, *_first_of_path())
    g.is_authorized = True


def _read_key() -> str:
    if is_device_request():
        text = request.headers.get("x-api-token", "").strip()
        if not text:
            raise UnauthorizedError("send the key in the header x-api-token")
        return text
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise UnauthorizedError("send the header Authorization: Bearer KEY")
    return text.strip()


def _find_key() -> Actor:
    text = _read_key()
    with database().look() as connection:
        key = find_valid_key(connection, text, at=now())
        if key is None:
            raise UnauthorizedError("the API key is unknown, revoked or expired")
        actor = actor_of_key(connection, key)
    if is_use_to_be_noted(key, at=now()):
        # If the database is busy, the next request notes it.
        with suppress(UnavailableError), database().write_if_free() as session:
            touch_key(session, key.id, used_at=now())
    return actor


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
        is_wanted = signed_in.role in context().settings.second_factor_roles
        view = current_app.view_functions.get(str(request.endpoint))
        is_for_setup = getattr(view, "is_for_setup", False)
        # An identity provider asks for the second step itself.
        if is_wanted and signed_in.identity is None and not is_for_setup:
            check_second_factor(session, signed_in.id)
    if is_to_be_noted(browser, at=now()):
        with suppress(UnavailableError), database().write_if_free() as session:
            touch_sign_in(session, browser.id, seen_at=now())
    return actor


def authenticate_if_signed_in() -> None:
    with suppress(TrackerError):
        g.account = _find_signed_in()


def check_second_factor(session: Session, account_id: int) -> None:
    if not has_second_factor(session, account_id):
        raise SecondFactorError("set up a second step to sign in first")


def _first_of_path() -> tuple[str, str]:
    """Return the first noun and name in the path, such as "detectors" and "door"."""
    rule = request.url_rule
    assert rule is not None
    assert request.view_args
    noun = rule.rule.partition("<")[0].rstrip("/").rpartition("/")[2]
    return noun, str(next(iter(request.view_args.values())))
