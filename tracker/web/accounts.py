"""Accounts: one's own, and for admins those of everybody."""

from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import SIGN_IN, account, audit, database, now, origin, requires
from tracker.services import accounts as services
from tracker.services.fields import ROLES
from tracker.services.passwords import is_right
from tracker.services.sign_ins import (
    INVITATION_LASTS,
    TooManyTriesError,
    begin_try,
    create_link,
    digest_of,
)
from tracker.storage import accounts as storage
from tracker.storage import sign_ins
from tracker.storage.accounts import Account
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, list_detectors
from tracker.web.blueprint import pages
from tracker.web.forms import Form, failed_form
from tracker.web.sign_in import forget


@pages.get("/account")
@requires("viewer")
def show_account() -> ResponseReturnValue:
    """Show who one is here, where one is signed in, and how to change the password."""
    return _render_own(Form({}))


@pages.post("/account/password")
@requires("viewer")
def change_password() -> ResponseReturnValue:
    """Change one's own password, and sign out everywhere else."""
    try:
        _check_old_password()
        if request.form.get("password") != request.form.get("again"):
            raise InvalidInputError.of("again", "is not what stands above")
        with database().write() as session:
            own = services.get_account(session, account().name)
            services.set_password(
                session,
                own,
                request.form.get("password", ""),
                but=digest_of(cookie[SIGN_IN]),
            )
            audit(session, "password changed", own.name)
    except InvalidInputError as error:
        # What was typed is not sent back, for it is a secret.
        return _render_own(failed_form({}, error)), 422
    flash("The new password holds. Other browsers are signed out.")
    return redirect(url_for("pages.show_account"), 303)


def _check_old_password() -> None:
    with database().read() as session:
        stored = services.get_account(session, account().name).password_hash
    if stored is None:
        return
    try:
        with database().write() as session:
            begin_try(session, account().name, origin(), tried_at=now())
    except TooManyTriesError as error:
        raise InvalidInputError.of("old", str(error)) from error
    if not is_right(request.form.get("old", ""), stored):
        raise InvalidInputError.of("old", "is not the password you have now")
    with database().write() as session:
        sign_ins.delete_tries_of(session, digest_of(account().name))


@pages.post("/account/sign-out-everywhere")
@requires("viewer")
def sign_out_everywhere() -> ResponseReturnValue:
    """Sign every browser out, this one too."""
    with database().write() as session:
        own = services.get_account(session, account().name)
        sign_ins.delete_sign_ins(session, own.id)
        audit(session, "signed out everywhere", own.name)
    return forget()


def _render_own(form: Form) -> str:
    with database().read() as session:
        own = services.get_account(session, account().name)
        return render_template(
            "accounts/own.html",
            own=own,
            form=form,
            browsers=sign_ins.list_sign_ins(session, own.id),
            here=digest_of(cookie[SIGN_IN]),
            detectors=_seen(session, own),
        )


def _seen(session: Session, shown: Account) -> list[Detector] | None:
    """Return the detectors that an account was given, None for all there are."""
    if shown.role == "admin" or shown.has_all_detectors:
        return None
    ids = storage.list_detector_ids(session, shown.id)
    return list(list_detectors(session, among=ids, has_archived=True))


@pages.get("/settings/accounts")
@requires("admin")
def show_accounts() -> ResponseReturnValue:
    """Show every account."""
    return _render_list(Form({"role": "labeler"}))


@pages.post("/settings/accounts")
@requires("admin")
def make_account() -> ResponseReturnValue:
    """Make an account, and show the link to sign in by, this once."""
    typed = request.form
    name = typed.get("name", "").strip()
    try:
        with database().write() as session:
            made = services.create_account(
                session, name, typed.get("role", ""), created_at=now()
            )
            _set_detectors(session, made)
            link = _make_link(session, made)
            audit(session, "account made", name, role=made.role)
    except (InvalidInputError, ConflictError) as error:
        return _render_list(failed_form(typed, error)), 422
    # Not a redirect: the link would have to be kept somewhere on the way.
    return _render_list(Form({"role": "labeler"}), link=link, name=name)


def _set_detectors(session: Session, changed: Account) -> None:
    services.change_detectors(
        session,
        changed,
        request.form.getlist("detectors"),
        has_all=request.form.get("sees") == "all",
    )


def _make_link(session: Session, account: Account) -> str:
    token = create_link(session, account, created_at=now(), lasts=INVITATION_LASTS)
    return url_for("pages.show_sign_in", token=token, _external=True)


def _render_list(form: Form, *, link: str | None = None, name: str = "") -> str:
    with database().read() as session:
        accounts = storage.list_accounts(session)
        return render_template(
            "accounts/list.html",
            accounts=accounts,
            seen={row.id: _seen(session, row) for row in accounts},
            browsers=sign_ins.count_sign_ins(session),
            detectors=list_detectors(session),
            chosen=request.form.getlist("detectors"),
            roles=ROLES,
            form=form,
            new_link=link,
            new_name=name,
        )


@pages.get("/settings/accounts/<int:account_id>")
@requires("admin")
def edit_account(account_id: int) -> ResponseReturnValue:
    """Show what can be changed about an account."""
    return _render_one(account_id, Form({}))


@pages.post("/settings/accounts/<int:account_id>")
@requires("admin")
def change_account(account_id: int) -> ResponseReturnValue:
    """Change the role of an account and what it sees."""
    try:
        with database().write() as session:
            changed = services.get_account_by_id(session, account_id)
            services.change_role(session, changed, request.form.get("role", ""))
            _set_detectors(session, changed)
            audit(session, "account changed", changed.name, **_describe(changed))
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="role")
        return _render_one(account_id, form), 422
    flash("Saved.")
    return redirect(url_for("pages.edit_account", account_id=account_id), 303)


def _describe(changed: Account) -> dict[str, Any]:
    return {
        "role": changed.role,
        "sees": "all" if changed.has_all_detectors else "some",
        "detectors": request.form.getlist("detectors"),
    }


@pages.post("/settings/accounts/<int:account_id>/link")
@requires("admin")
def make_link(account_id: int) -> ResponseReturnValue:
    """Make a link by which the owner of an account signs in once."""
    with database().write() as session:
        invited = services.get_account_by_id(session, account_id)
        if invited.disabled_at is not None:
            raise ConflictError("the account is disabled; enable it first")
        link = _make_link(session, invited)
        audit(session, "link made", invited.name)
    return _render_one(account_id, Form({}), link=link)


@pages.post("/settings/accounts/<int:account_id>/disable")
@requires("admin")
def disable(account_id: int) -> ResponseReturnValue:
    """Let nobody in by an account, from now on."""
    with database().write() as session:
        disabled = services.get_account_by_id(session, account_id)
        services.disable_account(session, disabled, disabled_at=now())
        audit(session, "account disabled", disabled.name)
    flash("The account is disabled, and signed out everywhere.")
    return redirect(url_for("pages.edit_account", account_id=account_id), 303)


@pages.post("/settings/accounts/<int:account_id>/enable")
@requires("admin")
def enable(account_id: int) -> ResponseReturnValue:
    """Let an account in again."""
    with database().write() as session:
        enabled = services.get_account_by_id(session, account_id)
        services.enable_account(session, enabled)
        audit(session, "account enabled", enabled.name)
    flash("The account is enabled.")
    return redirect(url_for("pages.edit_account", account_id=account_id), 303)


def _render_one(account_id: int, form: Form, *, link: str | None = None) -> str:
    with database().read() as session:
        shown = services.get_account_by_id(session, account_id)
        given = storage.list_detector_ids(session, shown.id)
        return render_template(
            "accounts/account.html",
            shown=shown,
            form=form if form.values else Form({"role": shown.role}),
            sees_all=shown.has_all_detectors,
            detectors=list_detectors(session),
            chosen=[dump_id("det", number) for number in given],
            browsers=sign_ins.list_sign_ins(session, shown.id),
            roles=ROLES,
            new_link=link,
        )
