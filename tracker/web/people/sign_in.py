"""Pages to sign in by password or link, and to sign out."""

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from flask import flash, redirect, render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker import http
from tracker.errors import NotFoundError
from tracker.services.fields import is_storable
from tracker.services.people import sign_ins
from tracker.services.people.accounts import is_right
from tracker.services.people.second_factors import begin_step
from tracker.storage.people import Account, find_account, has_second_factor
from tracker.web.blueprint import lead_to, page

# A path on this server.  Two slashes or a backslash would lead to another one, and
# browsers drop control characters first.
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
_MOST_CHARACTERS = 2_000
# The cookie's entry for the token of the first step.
STEP = "step"
_NO_LINK = "this link is already used or too old; ask for a new one"


@page("GET /sign-in", http.PUBLIC)
def show_sign_in() -> ResponseReturnValue:
    """Ask for name and password, or to confirm the sign-in by a link.

    Opening a link changes nothing: mail scanners open links, and somebody else's link
    would change who is signed in.
    """
    token = request.args.get("token")
    if token is None:
        return _render(wrong=None)
    with http.database().read() as session:
        account = sign_ins.find_link(session, token, at=http.now())
        if account is None:
            raise NotFoundError(_NO_LINK)
        before = sign_ins.find_signed_in(
            session, cookie.get(http.SIGN_IN, ""), at=http.now()
        )
        return render_template(
            "accounts/link.html",
            token=token,
            name=account.name,
            before=None if before is None else before[1].name,
            next_path=request.args.get("next", ""),
        )


@page("POST /sign-in", http.PUBLIC)
def sign_in_by_password() -> ResponseReturnValue:
    name = request.form.get("name", "").strip()
    if error := count_try(name):
        answer = _render(wrong=f"{str(error).capitalize()}.")
        return answer, 429, {"Retry-After": str(error.seconds)}
    with http.database().read() as session:
        found = find_account(session, name) if is_storable(name) else None
        stored = found.password_hash if found and found.disabled_at is None else None
    # Outside the transactions, because the hash is slow on purpose.
    if not is_right(request.form.get("password", ""), stored):
        with http.database().write() as session:
            sign_ins.fail_try(session, name, http.by(), is_known=found is not None)
        return _render(wrong="Name or password is wrong."), 401
    with http.database().write() as session:
        person = find_account(session, name)
        # During the hash the account may have been disabled or its password changed.
        is_same = person is not None and person.password_hash == stored
        if person is None or person.disabled_at is not None or not is_same:
            sign_ins.fail_try(session, name, http.by(), is_known=True)
            person = None
        else:
            enter = _enter(session, person, how="signed in")
    if person is None:
        return _render(wrong="Name or password is wrong."), 401
    return enter()


def _enter(
    session: Session, person: Account, *, how: str
) -> Callable[[], ResponseReturnValue]:
    """Sign *person* in, or ask for the second step if the account has one.

    The browser's previous session ends, so that a copy of its cookie is worthless.
    Returns the response to send after the commit.
    """
    onward = own_path(request.form.get("next"))
    if not has_second_factor(session, person.id):
        return partial(go_on, replace_sign_in(session, person, how), onward)
    sign_ins.end_sign_in(session, cookie.get(http.SIGN_IN, ""))
    step = begin_step(session, person, http.by(), how=how)

    def ask_for_code() -> ResponseReturnValue:
        cookie.clear()
        cookie[STEP] = step
        return lead_to("show_code", next=onward)

    return ask_for_code


def count_try(name: str) -> sign_ins.TooManyTriesError | None:
    """Count a try to sign in as *name*; return the error of one too many."""
    try:
        with http.database().write() as session:
            sign_ins.begin_try(session, name, http.by())
    except sign_ins.TooManyTriesError as error:
        return error
    return None


def replace_sign_in(session: Session, person: Account, how: str) -> str:
    """Sign *person* in and end the browser's previous session; return the token."""
    sign_ins.end_sign_in(session, cookie.get(http.SIGN_IN, ""))
    return sign_ins.sign_in(
        session, person, http.by(), browser=request.user_agent.string, how=how
    )


def go_on(token: str, onward: str) -> ResponseReturnValue:
    http.keep_sign_in(token)
    return redirect(onward, 303)


@page("POST /sign-in/link", http.PUBLIC)
def sign_in_by_link() -> ResponseReturnValue:
    """Sign in by a link, once, and end the previous session."""
    with http.database().write() as session:
        found = sign_ins.use_link(
            session, request.form.get("token", ""), used_at=http.now()
        )
        if found is None:
            raise NotFoundError(_NO_LINK)
        enter = _enter(session, found, how="signed in by a link")
        name, has_password = found.name, found.password_hash is not None
    answer = enter()
    if not has_password and http.SIGN_IN in cookie:
        flash(
            f"You are signed in as {name}. The link works only once: choose a "
            "password under your name above to sign in again later."
        )
    return answer


@page("POST /sign-out", "viewer", is_for_setup=True)
def sign_out_here() -> ResponseReturnValue:
    """Sign this browser out; its cookie becomes worthless."""
    with http.database().write() as session:
        sign_ins.sign_out(session, cookie[http.SIGN_IN], http.by())
    return forget()


def forget() -> ResponseReturnValue:
    """Clear the cookie and the browser's cache."""
    cookie.clear()
    # The next person at this browser may not see the cached images.
    # Not "cookies": those of every other program on this host would go too.
    headers = {"Clear-Site-Data": '"cache"'}
    return redirect(url_for("pages.show_sign_in")), 303, headers


def own_path(path: str | None) -> str:
    """Return *path* if it is on this server, else that of the first page."""
    is_own = path and len(path) <= _MOST_CHARACTERS and _OWN_PATH.fullmatch(path)
    return path if path and is_own else url_for("pages.show_detectors")


def _render(*, wrong: str | None) -> str:
    typed = request.values
    return render_template(
        "accounts/sign_in.html",
        wrong=wrong,
        name=typed.get("name", ""),
        next_path=typed.get("next", ""),
        lost=typed.get("lost", ""),
        provider=urlsplit(http.context().settings.oidc_issuer).hostname,
    )
