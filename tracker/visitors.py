"""Who asks, how often, and whether they may: before every request."""

from contextlib import suppress

from flask import Flask, current_app, g, request  # noqa: TID251 - it notes who asks.
from flask import session as cookie
from sqlalchemy.orm import Session

from tracker.errors import ForbiddenError, TrackerError, UnavailableError
from tracker.http import (
    PUBLIC,
    SIGN_IN,
    SecondFactorError,
    UnauthorizedError,
    by,
    context,
    database,
    find_visitor,
    is_api_request,
    is_device_request,
    now,
    required_role,
)
from tracker.rates import count_in_minute, limit_rate
from tracker.services.by import Actor
from tracker.services.people.access import check_sees
from tracker.services.people.actors import actor_of_account, actor_of_key
from tracker.services.people.keys import find_valid_key, is_use_to_be_noted
from tracker.services.people.sign_ins import find_signed_in, is_to_be_noted
from tracker.storage.people.api_keys import touch_key
from tracker.storage.people.second_factors import has_second_factor
from tracker.storage.people.sign_ins import touch_sign_in

_MAX_PUBLIC_BYTES = 64 * 2**10
# So many refusals of one who asks are noted each minute.
_MOST_REFUSALS = 10


def register(app: Flask) -> None:
    """Have all this done before each request to *app*."""
    # What is refused counts too.
    for step in (identify, limit_rate, authorize):
        app.before_request(step)


def identify() -> None:
    """Find out who asks, unless everybody may."""
    if request.endpoint is None:
        return
    if required_role(current_app, request.endpoint) == PUBLIC:
        # Nobody has been asked who they are yet: forms to sign in are small.
        request.max_content_length = _MAX_PUBLIC_BYTES
        return
    g.account = _find_key() if _shows_a_key() else _find_signed_in()


def authorize() -> None:
    """Refuse what the one who asks may not do."""
    visitor = find_visitor()
    if visitor is None:
        return
    role = required_role(current_app, str(request.endpoint))
    if role is None:
        raise ForbiddenError("this address declares nobody who may use it")
    if not visitor.may(role):
        if count_in_minute("refusals") <= _MOST_REFUSALS:
            with database().write() as session:
                what = f"{request.method} {request.path}"[:200]
                by().record(session, "refused", what)
        raise ForbiddenError(
            f"the role {visitor.role} may not do this; it takes {role}"
        )
    if visitor.detectors is not None and request.view_args:
        with database().read() as session:
            check_sees(session, visitor, *_first_of_path())


def _shows_a_key() -> bool:
    # A program that collects metrics has a key; people may look at them too.
    is_collected = request.path == "/metrics" and "Authorization" in request.headers
    return is_api_request() or is_collected


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
        # What cannot be noted now is noted by the next request.
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
        # People of a provider do their second step there.
        if is_wanted and signed_in.identity is None and not _is_for_setup():
            check_second_factor(session, signed_in.id)
    if is_to_be_noted(browser, at=now()):
        with suppress(UnavailableError), database().write_if_free() as session:
            touch_sign_in(session, browser.id, seen_at=now())
    return actor


def _is_for_setup() -> bool:
    view = current_app.view_functions.get(str(request.endpoint))
    return bool(getattr(view, "is_for_setup", False))


def see_who_asks() -> None:
    """Note who is signed in, if anybody, where everybody may look."""
    with suppress(TrackerError):
        g.account = _find_signed_in()


def check_second_factor(session: Session, account_id: int) -> None:
    """Raise SecondFactorError unless an account has a second step to sign in."""
    if not has_second_factor(session, account_id):
        raise SecondFactorError("set up a second step to sign in first")


def _first_of_path() -> tuple[str, str]:
    """Return the first noun of the path and what it names: "detectors", "door"."""
    rule = request.url_rule
    assert rule is not None
    assert request.view_args
    noun = rule.rule.partition("<")[0].rstrip("/").rpartition("/")[2]
    return noun, str(next(iter(request.view_args.values())))
