"""Pages of the visitor's own account, all accounts, and the audit log."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import SIGN_IN, account, by, database
from tracker.services.fields import Input, LabelText, parse_input
from tracker.services.people import accounts as services
from tracker.services.people.accounts import COLUMNS, is_right, iter_rows
from tracker.services.people.second_factors import reset_second_factor as services_reset
from tracker.services.people.sign_ins import (
    INVITATION_LASTS,
    create_link,
    invite,
    sign_out_of,
)
from tracker.services.people.sign_ins import sign_out_everywhere as services_sign_out
from tracker.storage import people as storage
from tracker.storage.base import (
    delete_rows,
    dump_id,
    equal,
    list_detector_ids,
    list_newest,
    list_rows,
    parse_whole,
)
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.people import Account, AuditEvent, has_second_factor, list_doings
from tracker.web.blueprint import cut_page, lead_to, page
from tracker.web.downloads import download
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.people.sign_in import count_try, forget
from tracker.web.queries.filters import count_this_week
from tracker.words import ADMIN, ROLES


@page("GET /account", "viewer", is_for_setup=True)
def show_account() -> ResponseReturnValue:
    return _render_own(Form({}))


@page("POST /account/password", "viewer", is_for_setup=True)
def change_password() -> ResponseReturnValue:
    """Change the visitor's password, and sign out all other browsers."""
    try:
        before = _check_old_password()
        if request.form.get("password") != request.form.get("again"):
            raise InvalidInputError.of("again", "does not match the password above")
        with database().write() as session:
            own = services.get_account(session, account().name)
            if own.password_hash != before:
                raise InvalidInputError.of("old", "is not the password you have now")
            services.set_password(
                session,
                own,
                request.form.get("password", ""),
                by(),
                excluding=storage.digest_of(cookie[SIGN_IN]),
            )
    except InvalidInputError as error:
        # The entered passwords are secrets and not sent back.
        return _render_own(failed_form({}, error)), 422
    return lead_to(
        "show_account", says="The password is changed. Other browsers are signed out."
    )


def _check_old_password() -> str | None:
    """Return the hash of the entered old password, None if there is none yet."""
    with database().read() as session:
        stored = services.get_account(session, account().name).password_hash
    if stored is None:
        return None
    if error := count_try(account().name):
        raise InvalidInputError.of("old", str(error)) from error
    if not is_right(request.form.get("old", ""), stored):
        raise InvalidInputError.of("old", "is not the password you have now")
    with database().write() as session:
        tried = storage.digest_of(account().name)
        delete_rows(session, storage.SignInTry, account=tried)
    return stored


@page("POST /account/sign-out-everywhere", "viewer", is_for_setup=True)
def sign_out_everywhere() -> ResponseReturnValue:
    with database().write() as session:
        own = services.get_account(session, account().name)
        services_sign_out(session, own, by())
    return forget()


@page("POST /account/browsers/<int:sign_in_id>/sign-out", "viewer", is_for_setup=True)
def sign_out_of_browser(sign_in_id: int) -> ResponseReturnValue:
    with database().write() as session:
        own = services.get_account(session, account().name)
        sign_out_of(session, own, sign_in_id, by())
    return lead_to("show_account", says="That browser is signed out.")


def _render_own(form: Form) -> str:
    with database().read() as session:
        own = services.get_account(session, account().name)
        return render_template(
            "accounts/own.html",
            own=own,
            form=form,
            browsers=storage.list_sign_ins(session, own.id),
            here=storage.digest_of(cookie[SIGN_IN]),
            has_second_factor=has_second_factor(session, own.id),
            detectors=_seen(session, own),
        )


def _seen(session: Session, shown: Account) -> list[Detector] | None:
    if shown.role == ADMIN or shown.has_all_detectors:
        return None
    ids = list_detector_ids(session, storage.AccountDetector, account_id=shown.id)
    return list(list_detectors(session, among=ids, has_archived=True))


@page("GET /people", "admin")
def show_accounts() -> ResponseReturnValue:
    return _render_list(Form({"role": "labeler"}))


@page("POST /people", "admin")
def make_account() -> ResponseReturnValue:
    typed = request.form
    name = typed.get("name", "").strip()
    try:
        with database().write() as session:
            made = services.create_account(
                session, name, typed.get("role", ""), by(), **_parse_sight()
            )
            token = create_link(session, made, by(), lasts=INVITATION_LASTS)
    except (InvalidInputError, ConflictError) as error:
        return _render_list(failed_form(typed, error)), 422
    # Not a redirect: the link would have to be stored in between.
    return _render_list(Form({"role": "labeler"}), link=_address_of(token), name=name)


def _parse_sight() -> dict[str, Any]:
    return {
        "detectors": request.form.getlist("detectors"),
        "has_all_detectors": request.form.get("sees") == "all",
    }


def _address_of(token: str) -> str:
    return url_for("pages.show_sign_in", token=token, _external=True)


_SHOWN: Mapping[str, Callable[[Account], bool]] = {
    "": lambda _: True,
    "admins": lambda one: one.role == ADMIN and one.disabled_at is None,
    "disabled": lambda one: one.disabled_at is not None,
}


def _render_list(form: Form, *, link: str | None = None, name: str = "") -> str:
    asked = request.args.get("q", "").strip()
    text = asked.casefold()
    show = request.args.get("show", "")
    is_shown = _SHOWN.get(show, _SHOWN[""])
    with database().read() as session:
        steps = storage.list_second_factors(session)
        last = storage.find_last_seen(session)
        week = count_this_week(session, None)
        accounts: list[dict[str, Any]] = [
            {
                "account": one,
                "seen": _seen(session, one),
                "second_step": steps.get(one.id),
                "last_seen": last.get(one.id),
                "labels": sum(week.of(one.name).values()),
            }
            for one in list_rows(session, Account)
        ]
        return render_template(
            "accounts/list.html",
            accounts=accounts,
            week=week,
            shown=[
                one
                for one in accounts
                if is_shown(one["account"]) and text in one["account"].name.casefold()
            ],
            counts={
                key: sum(test(one["account"]) for one in accounts)
                for key, test in _SHOWN.items()
            },
            text=asked,
            show=show if show in _SHOWN else "",
            detectors=list_detectors(session),
            chosen=request.form.getlist("detectors"),
            roles=ROLES,
            form=form,
            new_link=link,
            new_name=name,
        )


@page("GET /people/<int:account_id>", "admin")
def edit_account(account_id: int) -> ResponseReturnValue:
    return _render_one(account_id, Form({}))


@page("POST /people/<int:account_id>", "admin")
def change_account(account_id: int) -> ResponseReturnValue:
    try:
        with database().write() as session:
            changed = services.get_account_by_id(session, account_id)
            role = request.form.get("role", "")
            services.change_account(session, changed, by(), role=role, **_parse_sight())
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="role")
        return _render_one(account_id, form), 422
    return lead_to("edit_account", says="Saved.", account_id=account_id)


@page("POST /people/<int:account_id>/link", "admin")
def make_link(account_id: int) -> ResponseReturnValue:
    with database().write() as session:
        invited = services.get_account_by_id(session, account_id)
        token = invite(session, invited, by())
    return _render_one(account_id, Form({}), link=_address_of(token))


@page("POST /people/<int:account_id>/second-step/reset", "admin")
def reset_second_factor(account_id: int) -> ResponseReturnValue:
    with database().write() as session:
        shown = services.get_account_by_id(session, account_id)
        services_reset(session, shown, by())
    return lead_to(
        "edit_account", says="The second step is reset.", account_id=account_id
    )


_CHANGES = {
    "disable": (services.disable_account, "disabled, and signed out everywhere"),
    "enable": (services.enable_account, "enabled"),
}


@page("POST /people/<int:account_id>/<any(disable, enable):change>", "admin")
def enable(account_id: int, change: str) -> ResponseReturnValue:
    do, said = _CHANGES[change]
    with database().write() as session:
        do(session, services.get_account_by_id(session, account_id), by())
    return lead_to(
        "edit_account", says=f"The account is {said}.", account_id=account_id
    )


def _render_one(account_id: int, form: Form, *, link: str | None = None) -> str:
    with database().read() as session:
        shown = services.get_account_by_id(session, account_id)
        given = list_detector_ids(session, storage.AccountDetector, account_id=shown.id)
        week, detectors = count_this_week(session, None), list_detectors(session)
        labels = week.of(shown.name)
        return render_template(
            "accounts/account.html",
            shown=shown,
            form=form if form.values else Form({"role": shown.role}),
            sees_all=shown.has_all_detectors,
            detectors=detectors,
            labels=[(one, labels[one.id]) for one in detectors if one.id in labels],
            week=week,
            chosen=[dump_id("det", number) for number in given],
            browsers=storage.list_sign_ins(session, shown.id),
            roles=ROLES,
            new_link=link,
            has_second_factor=has_second_factor(session, shown.id),
        )


_PAGE = 50


class _Asked(Input):
    """The filters of the audit log."""

    who: LabelText | None = None
    what: LabelText | None = None


@page("GET /activity", "admin")
def show_audit_log() -> ResponseReturnValue:
    before = parse_whole(request.args.get("before", ""))
    asked = parse_input(_Asked, filled_in(request.args, "who", "what"))
    with database().read() as session:
        such = equal(AuditEvent, actor=asked.who, action=asked.what)
        found = list_newest(session, AuditEvent, *such, before=before, limit=_PAGE + 1)
        events, last = cut_page(found, _PAGE)
        doings = list_doings(session)
        return render_template(
            "accounts/audit.html",
            events=events,
            last=last,
            is_first=before is None,
            asked=asked.model_dump(exclude_none=True),
            # The chosen filter stays in the list even if its events are old.
            people=sorted(filter(None, {asked.who, *(who for who, _ in doings)})),
            actions=sorted(filter(None, {asked.what, *(what for _, what in doings)})),
        )


@page("GET /activity.<suffix>", "admin")
def download_audit_log(suffix: str) -> ResponseReturnValue:
    return download("audit", "log", suffix, COLUMNS, iter_rows)
