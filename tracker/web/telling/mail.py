"""Pages of mail: address, events, confirmation and unsubscribing."""

from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError, NotFoundError
from tracker.http import PUBLIC, account, by, context, database, now
from tracker.services.fields import parse_input
from tracker.services.people.accounts import get_account
from tracker.services.telling import mail as services
from tracker.services.telling.mail import MailChoice
from tracker.storage.base import list_detector_ids
from tracker.storage.detectors import list_detectors
from tracker.storage.people import Account
from tracker.storage.telling import MailMute, find_address_check
from tracker.web.blueprint import lead_to, page
from tracker.web.forms import Form, failed_form
from tracker.words import EVENTS


@page("GET /account/mail", "viewer")
def show_mail() -> ResponseReturnValue:
    with database().read() as session:
        own = get_account(session, account().name)
        chosen = list(EVENTS) if own.mail_events is None else own.mail_events
        asked = find_address_check(session, own.id)
        email = own.email if asked is None else asked.email
        return _render(session, own, Form({"email": email or ""}), chosen)


def _render(session: Session, own: Account, form: Form, chosen: list[str]) -> str:
    muted = list_detector_ids(session, MailMute, account_id=own.id)
    asked = find_address_check(session, own.id)
    return render_template(
        "mail/choice.html",
        own=own,
        form=form,
        asked=asked,
        is_being_asked=services.is_being_asked(session, own.id),
        events=list(EVENTS),
        chosen=chosen,
        muted=list_detectors(session, among=muted),
        is_sent=bool(context().settings.smtp_host),
    )


@page("POST /account/mail", "viewer")
def choose_mail() -> ResponseReturnValue:
    chosen = request.form.getlist("events")
    given: dict[str, Any] = {"events": chosen}
    email = request.form.get("email", "").strip()
    if email:
        given["email"] = email
    try:
        choice = parse_input(MailChoice, given)
    except InvalidInputError as error:
        with database().read() as session:
            own = get_account(session, account().name)
            form = failed_form(request.form, error)
            return _render(session, own, form, chosen), 422
    with database().write() as session:
        own = get_account(session, account().name)
        services.choose_mail(session, own, choice, by())
        is_asked = services.is_being_asked(session, own.id)
    says = "Saved. Open the link in the mail we send you." if is_asked else "Saved."
    return lead_to("show_mail", says=says)


@page("POST /account/mail/ask", "viewer")
def ask_address_again() -> ResponseReturnValue:
    with database().write() as session:
        services.ask_again(session, get_account(session, account().name), by())
    return lead_to("show_mail", says="Another mail will be sent within ten minutes.")


@page("GET /account/mail/confirm/<token>", "viewer")
def show_confirm(token: str) -> ResponseReturnValue:
    """Ask to confirm an address; opening the link confirms nothing."""
    key = context().settings.load_secret_key()
    with database().read() as session:
        own = get_account(session, account().name)
        email = services.find_asked_address(session, own, key, token, now())
    return render_template("mail/confirm.html", email=email, token=token)


@page("POST /account/mail/confirm/<token>", "viewer")
def confirm_address(token: str) -> ResponseReturnValue:
    key = context().settings.load_secret_key()
    with database().write() as session:
        own = get_account(session, account().name)
        services.confirm_address(session, own, key, token, by())
    return lead_to("show_mail", says="The address is confirmed.")


@page("POST /account/mail/again", "viewer")
def want_mail_again() -> ResponseReturnValue:
    number = request.form.get("detector", "")
    with database().write() as session:
        own = get_account(session, account().name)
        muted = list_detectors(
            session, among=list_detector_ids(session, MailMute, account_id=own.id)
        )
        found = [one for one in muted if str(one.id) == number]
        if not found:
            raise NotFoundError("mail about this detector is not turned off")
        services.mute(session, own, found[0], by(), is_muted=False)
    return lead_to("show_mail", says="Mail about this detector is turned on again.")


@page("GET /mail/unsubscribe/<token>", PUBLIC)
def show_unsubscribe(token: str) -> ResponseReturnValue:
    """Ask to confirm unsubscribing; opening the link ends nothing."""
    return _render_unsubscribe(token, has_ended=False)


# Mail programs post here by themselves (RFC 8058), with the token in the path but no
# page or cookie.  So it is exempt from the form token: see web/__init__.py.
@page("POST /mail/unsubscribe/<token>", PUBLIC)
def unsubscribe(token: str) -> ResponseReturnValue:
    key = context().settings.load_secret_key()
    with database().write() as session:
        own, detector = services.read_unsubscribe(session, key, token)
        services.mute(session, own, detector, by(), is_muted=True)
    return _render_unsubscribe(token, has_ended=True)


def _render_unsubscribe(token: str, *, has_ended: bool) -> str:
    key = context().settings.load_secret_key()
    with database().read() as session:
        _, detector = services.read_unsubscribe(session, key, token)
        return render_template(
            "mail/unsubscribe.html", detector=detector, token=token, has_ended=has_ended
        )
