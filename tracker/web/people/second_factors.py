"""Pages of the second step: setting it up, removing it and signing in with it."""

from typing import Any

import segno
from flask import Response, flash, jsonify, render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker import http
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.people import accounts
from tracker.services.people import second_factors as services
from tracker.services.people.sign_ins import (
    fail_try,
    find_signed_in,
    forget_tries,
)
from tracker.storage.base import count_rows, list_rows
from tracker.storage.people import Account, Passkey, RecoveryCode, Totp
from tracker.web.blueprint import lead_to, page
from tracker.web.forms import Form, failed_form
from tracker.web.people.sign_in import STEP, count_try, go_on, own_path, replace_sign_in

_CHALLENGE = "challenge"
_CHALLENGE_SECONDS = 300


@page("GET /account/second-step", "viewer", is_for_setup=True)
def show_second_factor() -> ResponseReturnValue:
    return _render(Form({}))


@page("POST /account/second-step/app", "viewer", is_for_setup=True)
def begin_app() -> ResponseReturnValue:
    with http.database().write() as session:
        own = _own_fresh(session)
        secret = services.begin_totp(session, own)
    return _render(Form({}), secret=secret)


@page("POST /account/second-step/app/confirm", "viewer", is_for_setup=True)
def confirm_app() -> ResponseReturnValue:
    if error := count_try(http.account().name):
        form = Form({}, {"code": [str(error)]})
        return _render(form, secret=_find_secret()), 429
    try:
        with http.database().write() as session:
            own = _own_fresh(session)
            services.confirm_totp(session, own, request.form.get("code", ""), http.by())
            codes = services.make_recovery_codes(session, own, http.by())
            forget_tries(session, own.name)
    except InvalidInputError as wrong:
        return _render(failed_form({}, wrong), secret=_find_secret()), 422
    return _render(Form({}), codes=codes)


def _find_secret() -> str:
    with http.database().write() as session:
        return services.find_begun_totp(session, _own_fresh(session))


@page("POST /account/second-step/app/remove", "viewer", is_for_setup=True)
def remove_app() -> ResponseReturnValue:
    with http.database().write() as session:
        services.remove_totp(session, _own_fresh(session), http.by())
    return lead_to("show_second_factor", says="The app is removed.")


@page("POST /account/second-step/codes", "viewer", is_for_setup=True)
def make_codes() -> ResponseReturnValue:
    with http.database().write() as session:
        codes = services.make_recovery_codes(session, _own_fresh(session), http.by())
    return _render(Form({}), codes=codes)


@page("POST /account/second-step/passkeys/options", "viewer", is_for_setup=True)
def offer_passkey() -> ResponseReturnValue:
    with http.database().read() as session:
        own = _own_fresh(session)
        options, challenge = services.offer_passkey(session, own, _site())
    return _challenge(options, challenge)


@page("POST /account/second-step/passkeys", "viewer", is_for_setup=True)
def add_passkey() -> ResponseReturnValue:
    said = _read_json()
    try:
        with http.database().write() as session:
            own = _own_fresh(session)
            name = str(said.get("name") or "Passkey").strip()
            credential, challenge = said.get("credential"), _take_challenge()
            services.add_passkey(
                session, own, _site(), credential, challenge, name, http.by()
            )
    except (InvalidInputError, ConflictError) as error:
        return http.problem(422, "The passkey was not added", str(error))
    flash("The passkey is added.")
    return jsonify(next=url_for("pages.show_second_factor"))


@page(
    "POST /account/second-step/passkeys/<int:passkey_id>/remove",
    "viewer",
    is_for_setup=True,
)
def remove_passkey(passkey_id: int) -> ResponseReturnValue:
    with http.database().write() as session:
        services.remove_passkey(session, _own_fresh(session), passkey_id, http.by())
    return lead_to("show_second_factor", says="The passkey is removed.")


@page("GET /sign-in/code", http.PUBLIC)
def show_code() -> ResponseReturnValue:
    return _render_code(wrong=None)


@page("POST /sign-in/code", http.PUBLIC)
def sign_in_by_code() -> ResponseReturnValue:
    """Sign in with a code of the app or a recovery code, after the first step."""
    with http.database().read() as session:
        found = services.find_step(session, cookie.get(STEP), at=http.now())
        if found is None:
            return _begin_again()
        name = found[1].name
    if error := count_try(name):
        answer = _render_code(wrong=f"{str(error).capitalize()}.", status=429)
        answer.headers["Retry-After"] = str(error.seconds)
        return answer
    with http.database().write() as session:
        found = services.find_step(session, cookie.get(STEP), at=http.now())
        if found is None:
            return _begin_again()
        step, person = found
        code = request.form.get("code", "").strip()
        what = services.take_code(session, person, code, at=http.now())
        if what is None:
            fail_try(session, person.name, http.by(), is_known=True)
        else:
            session.delete(step)
            token = replace_sign_in(session, person, f"{step.how} and {what}")
    if what is None:
        wrong = "The code is wrong or already used."
        return _render_code(wrong=wrong, status=401)
    return go_on(token, own_path(request.form.get("next")))


@page("POST /sign-in/passkey/options", http.PUBLIC)
def ask_for_passkey() -> ResponseReturnValue:
    return _challenge(*services.ask_for_passkey(_site()))


@page("POST /sign-in/passkey", http.PUBLIC)
def sign_in_by_passkey() -> ResponseReturnValue:
    """Sign in with a passkey; its device checks its owner."""
    said, challenge = _read_json(), _take_challenge()
    credential = said.get("credential")
    shown = credential.get("id") if isinstance(credential, dict) else ""
    if error := count_try(f"passkey {shown}"):
        wait = {"Retry-After": str(error.seconds)}
        return http.problem(429, "Too many tries", str(error), headers=wait)
    with http.database().write() as session:
        found = services.take_passkey(
            session, _site(), credential, challenge, http.by()
        )
        if found is None:
            fail_try(session, "", http.by(), is_known=False)
        else:
            token = replace_sign_in(session, found, "signed in with a passkey")
    if found is None:
        return http.problem(401, "Not signed in", "this passkey is not known here")
    http.keep_sign_in(token)
    return jsonify(next=own_path(str(said.get("next") or "")))


def _own_fresh(session: Session) -> Account:
    found = _find_fresh(session)
    if found is None:
        raise http.UnauthorizedError("sign in again to change how you sign in")
    return found


def _find_fresh(session: Session) -> Account | None:
    found = find_signed_in(session, cookie.get(http.SIGN_IN, ""), at=http.now())
    is_fresh = found is not None and http.now() - found[0].created_at <= services.FRESH
    return found[1] if found is not None and is_fresh else None


def _challenge(options: dict[str, Any], challenge: str) -> ResponseReturnValue:
    cookie[_CHALLENGE] = [challenge, int(http.now().timestamp()) + _CHALLENGE_SECONDS]
    return jsonify(options)


def _take_challenge() -> str:
    text, until = cookie.pop(_CHALLENGE, None) or ("", 0)
    return text if http.now().timestamp() <= until else ""


def _read_json() -> dict[str, Any]:
    said = request.get_json(silent=True)
    return said if isinstance(said, dict) else {}


def _site() -> str:
    public = http.context().settings.public_url
    return public.rstrip("/") or request.host_url.rstrip("/")


def _is_of(rows_of: Any, own: Account) -> Any:
    return rows_of.account_id == own.id


def _begin_again() -> Response:
    cookie.pop(STEP, None)
    said = "That took too long. Sign in again."
    return lead_to("show_sign_in", says=said, next=request.values.get("next"))


def _render_code(*, wrong: str | None, status: int = 200) -> Response:
    with http.database().read() as session:
        found = services.find_step(session, cookie.get(STEP), at=http.now())
        if found is None:
            return _begin_again()
        page = render_template(
            "accounts/code.html",
            wrong=wrong,
            name=found[1].name,
            has_passkey=bool(list_rows(session, Passkey, _is_of(Passkey, found[1]))),
            next_path=request.values.get("next", ""),
        )
    return Response(page, status)


def _render(
    form: Form, *, secret: str | None = None, codes: list[str] | None = None
) -> str:
    with http.database().read() as session:
        own = accounts.get_account(session, http.account().name)
        totp = session.get(Totp, own.id)
        address = None if secret is None else services.describe_totp(own, secret)
        return render_template(
            "accounts/second_factor.html",
            own=own,
            form=form,
            secret=secret,
            picture=None
            if address is None
            else segno.make(address).svg_data_uri(scale=4, light="white"),
            codes=codes,
            app_since=None if totp is None else totp.confirmed_at,
            passkeys=list_rows(session, Passkey, _is_of(Passkey, own)),
            codes_left=count_rows(session, RecoveryCode, _is_of(RecoveryCode, own)),
            is_required=own.role in http.context().settings.second_factor_roles,
            is_fresh=_find_fresh(session) is not None,
        )
