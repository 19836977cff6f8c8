"""Signing in by a password or a link, and out."""

import re
from urllib.parse import urlsplit

from flask import flash, redirect, render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue

from tracker.errors import NotFoundError
from tracker.http import (
    PUBLIC,
    SIGN_IN,
    account,
    audit,
    context,
    database,
    now,
    origin,
    requires,
)
from tracker.services.access import actor_of_account
from tracker.services.fields import is_storable
from tracker.services.passwords import is_right
from tracker.services.sign_ins import (
    TooManyTriesError,
    begin_try,
    sign_in,
    sign_out,
    use_link,
)
from tracker.storage.accounts import find_account
from tracker.web.blueprint import pages

# A path on this server.  Two slashes or a backslash would name another one, and
# browsers drop control characters before they look.
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
_MOST_CHARACTERS = 2_000


@pages.get("/sign-in")
@requires(PUBLIC)
def show_sign_in() -> ResponseReturnValue:
    """Ask for name and password, or sign in by the link that was opened."""
    token = request.args.get("token")
    if token is not None:
        return _use_link(token)
    return _render(wrong=None)


@pages.post("/sign-in")
@requires(PUBLIC)
def sign_in_by_password() -> ResponseReturnValue:
    """Sign in, unless the password is wrong or was tried too often."""
    name = request.form.get("name", "").strip()
    try:
        with database().write() as session:
            begin_try(session, name, origin(), tried_at=now())
    except TooManyTriesError as error:
        answer = _render(wrong=f"{str(error).capitalize()}.")
        return answer, 429, {"Retry-After": str(error.seconds)}
    with database().read() as session:
        found = find_account(session, name) if is_storable(name) else None
        stored = found.password_hash if found and found.disabled_at is None else None
    # Between the two transactions, because it takes long on purpose.
    if not is_right(request.form.get("password", ""), stored):
        with database().write() as session:
            audit(session, "sign-in failed", name[:100] if found else "unknown name")
        return _render(wrong="Name or password is wrong."), 401
    with database().write() as session:
        signed_in = find_account(session, name)
        assert signed_in is not None
        token = sign_in(session, signed_in, origin(), signed_in_at=now())
        actor = actor_of_account(session, signed_in)
        audit(session, "signed in", name, actor=actor)
    keep(token)
    return redirect(own_path(request.form.get("next")), 303)


def _use_link(token: str) -> ResponseReturnValue:
    with database().write() as session:
        found = use_link(session, token, used_at=now())
        if found is None:
            raise NotFoundError(
                "this link was used already, or it is too old; ask for another one"
            )
        kept = sign_in(session, found, origin(), signed_in_at=now())
        actor = actor_of_account(session, found)
        audit(session, "signed in by a link", found.name, actor=actor)
        name, has_password = found.name, found.password_hash is not None
    keep(kept)
    if not has_password:
        flash(
            f"You are signed in as {name}. The link works only once: choose a "
            "password under your name above to sign in again later."
        )
    return redirect(own_path(request.args.get("next")), 303)


@pages.post("/sign-out")
@requires("viewer")
def sign_out_here() -> ResponseReturnValue:
    """Sign this browser out; what its cookie said is worth nothing from now on."""
    with database().write() as session:
        sign_out(session, cookie[SIGN_IN])
        audit(session, "signed out", account().name)
    return forget()


def forget() -> ResponseReturnValue:
    """Let the browser, which is signed out, forget whom it showed what."""
    cookie.clear()
    # Pictures that the browser keeps, which whoever sits there next has no right to.
    # Not "cookies": those of every other program on this machine would go too.
    headers = {"Clear-Site-Data": '"cache"'}
    return redirect(url_for("pages.show_sign_in")), 303, headers


def keep(token: str) -> None:
    """Let the browser show *token* from now on."""
    # Nothing of whoever sat here before stays, the token of the forms included.
    cookie.clear()
    cookie[SIGN_IN] = token
    cookie.permanent = True


def own_path(path: str | None) -> str:
    """Return *path* if it is one of this server, and that of the first page if not."""
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
        provider=urlsplit(context().settings.oidc_issuer).hostname,
    )
